"""The file of a recording: whole lines, whatever happens, and no secrets in them."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from suffixspec.errors import InputError
from suffixspec.recorder import Recorder, new_call, session_hint
from suffixspec.trace import read_sessions

WRITER = """\
import os, sys
from suffixspec.recorder import Recorder, new_call
path, name, count, size, forks = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
recorder = Recorder(path)
child = os.fork() if forks else 1
if not child:
    name += "'"
for number in range(count):
    request = {"messages": [{"role": "user", "content": f"{name} {number}"}]}
    answer = {"choices": [{"message": {"content": "x" * size}}]}
    recorder.write(new_call("chat", request, answer))
    print(number, flush=True)
if child > 1:
    os.waitpid(child, 0)
"""


def call(text: str = "hi", **more):
    return new_call("chat", {"messages": [{"role": "user", "content": text}]}, _answer("hello"), **more)


def _answer(text: str):
    return {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def writer(path: Path, name: str, count: int, size: int, *, forks: bool = False) -> subprocess.Popen:
    arguments = [str(path), name, str(count), str(size), str(int(forks))]
    return subprocess.Popen([sys.executable, "-c", WRITER, *arguments], stdout=subprocess.PIPE)


def test_a_call_is_a_line(tmp_path):
    """Every call is one line, there as soon as it is written, in a file that only its owner can read."""
    path = tmp_path / "calls.jsonl"
    with Recorder(path, fsync=True) as recorder:
        for text in ("one", "two\nlines", "\ud83d half"):
            recorder.write(call(text, status=200, path="/v1/chat/completions"))
            assert lines(path)[-1]["request"]["messages"][0]["content"] == text
    assert path.read_bytes().startswith(b'{"suffixspec_call": 1, ')
    assert path.stat().st_mode & 0o777 == 0o600
    with Recorder(path) as recorder:
        recorder.write(call("later"))
    assert len(lines(path)) == 4
    with pytest.raises(ValueError, match="expected an open recorder"):
        recorder.write(call())


def test_credentials_stay_out(tmp_path):
    """Of the headers only session ids are kept, whatever the caller hands over, and no key of a body."""
    path = tmp_path / "calls.jsonl"
    request = {
        "model": "m",
        "api_key": "SECRET",
        "extra_headers": {"Authorization": "SECRET"},
        "tools": [
            {"type": "mcp", "server_url": "u", "authorization": "SECRET", "headers": {"X": "SECRET"}},
            {"type": "function", "function": {"name": "f", "parameters": {"headers": {"type": "object"}}}},
        ],
        "mcp_servers": [{"url": "u", "authorization_token": "SECRET"}],
        "messages": [],
    }
    headers = {
        "Authorization": "Bearer SECRET",
        "Cookie": "SECRET",
        "X-Session-ID": "loop",
        "X-Api-Key": "SECRET",
    }
    with Recorder(path) as recorder:
        recorder.write(new_call("chat", request, {}, headers=headers))
        recorder.write({"api": "chat", "headers": headers, "request": request, "response": None})
    assert b"SECRET" not in path.read_bytes()
    for line in lines(path):
        assert line["headers"] == {"x-session-id": "loop"}
        assert line["request"]["tools"][1]["function"]["parameters"] == {"headers": {"type": "object"}}


def test_keys_that_a_conversation_repeats_stay_out(tmp_path):
    """The key of a request is written nowhere: not where an agent has read it from a file, nor in an error."""
    key = "sk-a-key-of-some-length"
    path = tmp_path / "calls.jsonl"
    for header in ({"Authorization": f"Bearer {key}"}, {"X-Api-Key": key}, {"api-key": key}):
        request = {"messages": [{"role": "tool", "content": f"KEY={key}"}], "metadata": {"user_id": key}}
        with Recorder(path) as recorder:
            recorder.write(new_call("chat", request, _answer(f"it is {key}"), headers=header))
            refused = {"error": {"message": f"wrong key {key}"}}
            recorder.write(new_call("chat", request, refused, headers=header, status=401, error=f"not {key}"))
    assert key not in path.read_text()
    assert lines(path)[0]["request"]["messages"][0]["content"] == "KEY=[redacted]"


def test_redaction_takes_out_what_matches(tmp_path):
    """What an expression matches is written nowhere in a call; a wrong expression is an error."""
    path = tmp_path / "calls.jsonl"
    with Recorder(path, redact=[r"sk-\w+", r"\b\d{4}\b"]) as recorder:
        recorder.write(call("the key sk-abc and 1234, not 12345"))
    assert lines(path)[0]["request"]["messages"][0]["content"] == (
        "the key [redacted] and [redacted], not 12345"
    )
    with pytest.raises(InputError, match="expected a regular expression to redact"):
        Recorder(path, redact=["("])


def test_hints_have_an_order():
    """The most certain name of a loop wins; without one there is none."""
    body = {"metadata": {"user_id": "b"}, "session_id": "d", "prompt_cache_key": "f"}
    headers = {"x-claude-code-session-id": "a", "session-id": "c", "x-session-affinity": "e"}
    found = []
    while True:
        hint = session_hint(headers, body)
        if hint is None:
            break
        found.append(hint)
        headers = {name: value for name, value in headers.items() if value != hint}
        body = {name: value for name, value in body.items() if value not in (hint, {"user_id": hint})}
    assert found == list("abcdef")


def test_torn_ends_are_mended(tmp_path):
    """What a crash left of a last line is cut off, or completed where all of it but its end is there."""
    path = tmp_path / "calls.jsonl"
    with Recorder(path) as recorder:
        recorder.write(call("one"))
        recorder.write(call("two"))
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for end in (first + 1, first + 30, len(whole) - 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        with Recorder(path) as recorder:
            recorder.write(call("three"))
        kept = ["one", "two", "three"] if end == len(whole) - 1 else ["one", "three"]
        assert [line["request"]["messages"][0]["content"] for line in lines(path)] == kept


def test_other_files_are_left_alone(tmp_path):
    """A file that is no recording is refused and stays as it was; so is a folder that is not there."""
    path = tmp_path / "notes.txt"
    path.write_text("dear diary")
    with pytest.raises(InputError, match="expected a recording to append to"):
        Recorder(path)
    assert path.read_text() == "dear diary"
    with pytest.raises(InputError, match="create it first"):
        Recorder(tmp_path / "none" / "calls.jsonl")
    with pytest.raises(InputError, match="expected a file that can be written"):
        Recorder(tmp_path)


def test_a_full_disk_leaves_whole_lines(tmp_path, monkeypatch):
    """A line that could be written in part only is taken back."""
    path = tmp_path / "calls.jsonl"
    recorder = Recorder(path)
    recorder.write(call("one"))
    before = path.read_bytes()
    real, room = os.write, [100]

    def write(fd: int, data: bytes) -> int:
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data[: room.pop()])

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="No space left"):
        recorder.write(call("two"))
    monkeypatch.undo()
    assert path.read_bytes() == before
    recorder.write(call("three"))
    assert len(lines(path)) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_processes_share_a_file(tmp_path):
    """Lines of several processes, one of them forked, never mix, and each one's stay in order."""
    path = tmp_path / "calls.jsonl"
    writers = [
        writer(path, "a", 40, 30_000),
        writer(path, "b", 40, 30_000, forks=True),
    ]
    for process in writers:
        process.communicate(timeout=100)
        assert process.returncode == 0
    found: dict[str, list[int]] = {}
    for line in lines(path):
        name, number = line["request"]["messages"][0]["content"].split()
        found.setdefault(name, []).append(int(number))
    assert found == {name: list(range(40)) for name in ("a", "b", "b'")}


def test_a_writer_waits_for_the_other(tmp_path):
    """While another process holds the file's lock, nothing is written."""
    fcntl = pytest.importorskip("fcntl", reason="locks of this kind are POSIX's")
    path = tmp_path / "calls.jsonl"
    with Recorder(path) as recorder, path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        thread = threading.Thread(target=recorder.write, args=(call(),))
        thread.start()
        thread.join(0.2)
        assert path.read_bytes() == b""
        fcntl.flock(other, fcntl.LOCK_UN)
        thread.join()
        assert len(lines(path)) == 1


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_kill_loses_the_last_line_at_most(tmp_path):
    """After ``kill -9`` in the middle of writing, every call that was written is there, and writing goes on."""
    path = tmp_path / "calls.jsonl"
    process = writer(path, "a", 10_000, 4_000_000)
    assert process.stdout is not None
    done = [int(process.stdout.readline()) for _ in range(4)]
    process.send_signal(signal.SIGKILL)
    done += [int(line) for line in process.stdout.read().split()]
    process.wait()

    found = [int(s.messages[0].content.split()[1]) for s in read_sessions(path)]
    assert found[: len(done)] == done
    assert len(found) <= len(done) + 1
    with Recorder(path) as recorder:
        recorder.write(call("after"))
    assert [len(line["response"]["choices"][0]["message"]["content"]) for line in lines(path)] == [
        *([4_000_000] * len(found)),
        5,
    ]
