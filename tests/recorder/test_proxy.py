"""The recording proxy between a client and a server, all on loopback."""

import asyncio
import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

httpx = pytest.importorskip("httpx", reason="the proxy's tests need httpx: pip install 'suffixspec[serve]'")
pytest.importorskip("uvicorn", reason="the proxy's tests need uvicorn: pip install 'suffixspec[serve]'")

from suffixspec.errors import InputError  # noqa: E402
from suffixspec.recorder import Proxy, Recorder  # noqa: E402
from suffixspec.recorder import proxy as proxy_module  # noqa: E402
from suffixspec.trace import read_sessions  # noqa: E402

from .test_join import CHAT, MESSAGES, STREAMS, WHOLE  # noqa: E402
from .upstream import Upstream, serving  # noqa: E402

KEY = "sk-a-secret-key-of-the-user"
PATHS = {api: f"/v1/{'chat/completions' if api == 'chat' else api}" for api in STREAMS}


class Rig:
    """A server, the proxy in front of it, and a client."""

    def __init__(self, upstream: Upstream, url: str, path: Path) -> None:
        self.upstream = upstream
        self.url = url
        self.path = path
        self.client = httpx.Client(base_url=url, headers={"authorization": f"Bearer {KEY}"}, timeout=60)

    def calls(self) -> list[dict]:
        """What was recorded."""
        return [json.loads(line) for line in self.path.read_bytes().splitlines()]


@pytest.fixture
def rig(tmp_path):
    upstream = Upstream()
    path = tmp_path / "calls.jsonl"
    with Recorder(path) as recorder, serving(upstream) as behind:
        with serving(Proxy(f"{behind}/v1", recorder)) as url:
            made = Rig(upstream, url, path)
            yield made
            made.client.close()
        upstream.go_on.set()


def test_everything_passes(rig):
    """Any path, method, query, header and body goes through unchanged, both ways, and is not recorded."""
    rig.upstream.status, rig.upstream.body = 418, [b"\x00\xff", b"rest"]
    rig.upstream.headers = [("x-own", "yes"), ("set-cookie", "a=1"), ("set-cookie", "b=2")]
    for method, path, body in (
        ("GET", "/v1/models?limit=2&x=%2F", b""),
        ("DELETE", "/v1/files/a%20b", b""),
        ("PUT", "/other/thing/", b"\x01\x02" * 4000),
        ("POST", "/v1/embeddings", b"{}"),
    ):
        answer = rig.client.request(
            method, path, content=body, headers={"x-mine": "1", "connection": "x-mine-too"}
        )
        seen = rig.upstream.seen[-1]
        assert (answer.status_code, answer.content) == (418, b"\x00\xffrest")
        assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]
        expected = path if path.startswith("/v1/") else f"/v1{path}"
        assert f"{seen['path']}{'?' if seen['query'] else ''}{seen['query']}" == expected
        assert (seen["method"], seen["body"], seen["headers"]["x-mine"]) == (method, body, "1")
        assert seen["headers"]["authorization"] == f"Bearer {KEY}"
        assert seen["headers"]["host"] != httpx.URL(rig.url).netloc.decode()
    assert rig.calls() == []


@pytest.mark.parametrize("api", PATHS)
def test_streams_pass_as_they_come(rig, api):
    """The client has each piece before the server goes on; the recording has the whole, put together."""
    data = STREAMS[api]
    cut = len(data) // 2
    rig.upstream.streams(data[:cut], data[cut:])
    rig.upstream.go_on.clear()
    request = {"model": "m", "stream": True}
    with rig.client.stream("POST", PATHS[api], json=request, headers={"session_id": "loop"}) as answer:
        pieces = answer.iter_raw()
        got = b""
        while len(got) < cut:
            got += next(pieces)
        assert got == data[:cut]
        rig.upstream.go_on.set()
        assert got + b"".join(pieces) == data
    (call,) = rig.calls()
    assert call["response"] == WHOLE[api]
    assert (call["api"], call["path"], call["status"], call["streamed"]) == (api, PATHS[api], 200, True)
    assert (call["complete"], call["session"], call["model"]) == (True, "loop", "m")
    assert call["request"] == request
    assert call["started"] <= call["ended"]
    assert KEY not in rig.path.read_text()


def test_whole_answers_are_recorded(rig):
    """An answer in one piece is recorded as it is, a packed one too, and passes as the bytes that it was."""
    rig.upstream.says(WHOLE["chat"])
    rig.upstream.body = [gzip.compress(rig.upstream.body[0])]
    rig.upstream.headers.append(("content-encoding", "gzip"))
    answer = rig.client.post(PATHS["chat"], json={"messages": []})
    assert answer.json() == WHOLE["chat"]
    assert rig.upstream.seen[0]["headers"]["accept-encoding"] == "identity"
    (call,) = rig.calls()
    assert (call["response"], call["streamed"], call["complete"]) == (WHOLE["chat"], False, True)


def test_a_failed_call_keeps_no_key(rig):
    """A server's error passes and is recorded, without the key that it repeats."""
    rig.upstream.says({"error": {"message": f"wrong key {KEY}"}}, status=401)
    answer = rig.client.post(
        PATHS["chat"], json={"messages": [{"role": "user", "content": f"my key: {KEY}"}]}
    )
    assert (answer.status_code, KEY in answer.text) == (401, True)
    rig.upstream.says({"error": {"message": "wrong key, short"}}, status=401)
    rig.client.post(PATHS["chat"], json={"messages": []}, headers={"authorization": "Bearer short"})
    assert KEY not in rig.path.read_text()
    assert [call["status"] for call in rig.calls()] == [401, 401]
    assert rig.calls()[0]["request"]["messages"][0]["content"] == "my key: [redacted]"
    assert rig.calls()[1]["response"]["error"]["message"].endswith("key, [redacted]")


def test_a_client_that_leaves_frees_the_server(rig):
    """When the client closes, the request to the server ends; what came until then is recorded as cut off."""
    at = CHAT.index(b"other")
    rig.upstream.streams(CHAT[:at], CHAT[at:])
    rig.upstream.go_on.clear()
    with rig.client.stream("POST", PATHS["chat"], json={"messages": []}) as answer:
        next(answer.iter_raw())
    assert rig.upstream.client_gone.wait(60)
    assert _eventually(lambda: len(rig.calls()) == 1)
    (call,) = rig.calls()
    assert (call["complete"], call["error"]) == (False, "the client went away")
    assert call["response"]["choices"][0]["message"]["content"] == "grüß ⟂"


def test_a_client_that_leaves_at_the_end_is_recorded(rig, monkeypatch):
    """A client that closes while the last event is on its way leaves a whole call, however slow the disk."""
    begun, left, written = threading.Event(), threading.Event(), Proxy.record
    gone = proxy_module._Exchange._gone

    async def notices(exchange) -> None:
        await gone(exchange)
        left.set()

    async def slow(proxy, call) -> None:
        begun.set()
        await asyncio.to_thread(left.wait, 60)
        await asyncio.sleep(0.05)  # in which the exchange is cancelled
        await written(proxy, call)

    monkeypatch.setattr(proxy_module._Exchange, "_gone", notices)
    monkeypatch.setattr(Proxy, "record", slow)
    end = CHAT.index(b"data: [DONE]")
    rig.upstream.streams(CHAT[:end], CHAT[end:])
    with rig.client.stream("POST", PATHS["chat"], json={"messages": []}) as answer:
        next(answer.iter_raw())
        assert begun.wait(60)
    assert _eventually(lambda: len(rig.calls()) == 1)
    (call,) = rig.calls()
    assert (call["complete"], call["status"], call.get("error")) == (True, 200, None)
    assert call["response"] == WHOLE["chat"]


@pytest.mark.parametrize("api", PATHS)
def test_a_call_is_recorded_when_its_last_event_comes(rig, api):
    """Clients are done at the last event of a stream, before its end: the call is in the file by then."""
    rig.upstream.streams(STREAMS[api], b": the end is late\n\n")
    rig.upstream.go_on.clear()
    with rig.client.stream("POST", PATHS[api], json={}) as answer:
        pieces = answer.iter_raw()
        got = b""
        while len(got) < len(STREAMS[api]):
            got += next(pieces)
        (call,) = rig.calls()
        rig.upstream.go_on.set()
        assert got + b"".join(pieces) == STREAMS[api] + b": the end is late\n\n"
    assert call["response"] == WHOLE[api]
    assert len(rig.calls()) == 1


def test_keys_in_an_address_stay_out(rig):
    """A key in the query, as some servers have it, passes and is not written."""
    rig.upstream.says(WHOLE["chat"])
    rig.client.post(f"{PATHS['chat']}?api_key={KEY}&v=1", json={"messages": []})
    assert rig.upstream.seen[0]["query"] == f"api_key={KEY}&v=1"
    assert rig.calls()[0]["path"] == PATHS["chat"]
    assert KEY not in rig.path.read_text()


def test_a_server_that_breaks_off_is_not_taken_for_done(rig):
    """Half an answer reaches the client as a broken one, and is recorded as cut off."""
    rig.upstream.streams(MESSAGES[:300])
    rig.upstream.breaks_off = True
    with pytest.raises(httpx.HTTPError), rig.client.stream("POST", PATHS["messages"], json={}) as answer:
        answer.read()
    (call,) = rig.calls()
    assert call["complete"] is False
    assert "the server broke off" in call["error"]


def test_a_server_that_is_away_is_said(tmp_path):
    """Without a server the answer is 502 and a sentence, in the form of the client's API."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        behind = f"http://user:word@127.0.0.1:{closed.getsockname()[1]}"
    path = tmp_path / "calls.jsonl"
    with Recorder(path) as recorder, serving(Proxy(behind, recorder)) as url:
        for api, where in PATHS.items():
            answer = httpx.post(url + where, json={"messages": []})
            error = answer.json()["error"]
            assert answer.status_code == 502
            assert error["message"].startswith("expected a server at http://127.0.0.1:")
            assert "word" not in error["message"]
            assert (answer.json().get("type") == "error") == (api == "messages")
        assert httpx.get(f"{url}/v1/models").status_code == 502
    assert [json.loads(line)["status"] for line in path.read_bytes().splitlines()] == [502] * 4
    with pytest.raises(InputError, match="expected an upstream like"):
        Proxy("localhost:8000", recorder)


def test_calls_at_once_keep_apart(rig):
    """Many requests at a time are answered each, and each is a line."""
    rig.upstream.says(WHOLE["chat"])

    def ask(number: int) -> None:
        message = {"role": "user", "content": f"{number} {'x' * 5000}"}
        assert (
            httpx.post(rig.url + PATHS["chat"], json={"messages": [message]}, timeout=60).status_code == 200
        )

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = [int(call["request"]["messages"][0]["content"].split()[0]) for call in rig.calls()]
    assert sorted(numbers) == list(range(16))


def test_the_sdks_notice_nothing(rig):
    """The SDKs of OpenAI and Anthropic work through the proxy, and their calls are one loop each."""
    openai = pytest.importorskip("openai", reason="needs the openai SDK")
    client = openai.OpenAI(base_url=f"{rig.url}/v1", api_key=KEY, max_retries=0)
    messages = [{"role": "user", "content": "hi"}]
    rig.upstream.streams(CHAT)
    stream = client.chat.completions.create(model="m", messages=messages, stream=True, n=1)
    text = "".join(c.choices[0].delta.content or "" for c in stream if c.choices and c.choices[0].index == 0)
    assert text == "grüß ⟂"
    client.close()
    (first, *_) = read_sessions(rig.path)
    assert [call.arguments for call in first.messages[-1].tool_calls] == ['{"x": 1}', "{}"]

    anthropic = pytest.importorskip("anthropic", reason="needs the anthropic SDK")
    rig.upstream.streams(MESSAGES)
    with anthropic.Anthropic(base_url=rig.url, api_key=KEY, max_retries=0) as other:
        stream = other.messages.create(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}], stream=True
        )
        assert [event.type for event in stream][-1] == "message_stop"
    session = list(read_sessions(rig.path))[-1]
    assert session.messages[-1].tool_calls[0].arguments == '{"b":1 ,"a":2}'
    assert KEY not in rig.path.read_text()


def test_the_command_serves_until_it_is_told_to_stop(tmp_path):
    """``suffixspec record`` says where it listens, records, ends on Ctrl-C, and refuses a port that is taken."""
    upstream = Upstream()
    upstream.says(WHOLE["chat"])
    path = tmp_path / "calls.jsonl"
    command = [sys.executable, "-m", "suffixspec.cli", "record", "--output", str(path)]
    with serving(upstream) as behind:
        command += ["--upstream", behind]
        process = subprocess.Popen([*command, "--port", "0"], stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            url = said.split("point the agent at ")[1].split()[0]
            assert httpx.post(f"{url}/chat/completions", json={"messages": []}, timeout=60).status_code == 200
            port = url.split(":")[2].split("/")[0]
            second = subprocess.run([*command, "--port", port], capture_output=True, text=True, check=False)
            assert second.returncode == 2
            assert f"expected a free port {port}" in second.stderr
        finally:
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read() if process.stderr else ""
            assert process.wait(60) == (0 if os.name == "posix" else process.returncode)
    assert "1 call recorded" in rest
    assert len(path.read_bytes().splitlines()) == 1


def _eventually(condition) -> bool:
    waiting = threading.Event()
    for _ in range(600):
        if condition():
            return True
        waiting.wait(0.1)
    return False
