"""Several calls at once: fairness, bounds, cancellation, limits and the shutdown."""

import asyncio
import contextlib
import json
import random
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from engine.tiny import EOS, TOKENIZER

from suffixspec.engine.prompt import render_prompt
from suffixspec.server.call import Begun, Call
from suffixspec.server.errors import ApiError
from suffixspec.server.settings import Settings

from .harness import LONG, Gate, Running, until, user

CHAT = "/v1/chat/completions"


def body_of(text: str, **more) -> dict:
    return {"model": "m", "messages": [user(text)], "temperature": 0, "max_tokens": 8, **LONG, **more}


def plain(engine, text, **options):
    ids = TOKENIZER.encode(render_prompt(TOKENIZER, [user(text)], None))
    return engine.plain(ids, logit_bias={EOS: -100.0}, **options).text


def text_of(answer) -> str:
    return answer["choices"][0]["message"]["content"]


@pytest.fixture
def gate(monkeypatch):
    made = Gate(monkeypatch)
    yield made
    made.open()


@contextlib.contextmanager
def connection(running, body, path=CHAT):
    """A request over a bare socket, which can be left at any time."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", running.port), timeout=600) as made:
        made.sendall(head.encode() + data)
        yield made


# -- turns ----------------------------------------------------------------------------------------------------


def test_a_short_call_does_not_wait_for_a_long_one(tiny_target, gate):
    """Steps take turns: a call that comes later and needs fewer steps ends first, the chunks of its prompt included."""
    gate.hold(1)
    with (
        Running(tiny_target, Settings(drafting=False), prefill_chunk=8) as running,
        ThreadPoolExecutor(2) as pool,
    ):
        ended = []

        def ask(text, tokens):
            status, _, _ = running.ask(CHAT, body_of(text, max_tokens=tokens))
            ended.append(text)
            return status

        long = pool.submit(ask, "long", 80)
        until(gate.holds)
        short = pool.submit(ask, "s" * 100, 4)
        until(lambda: len(running.service.scheduler._waiting) == 1)
        gate.open()
        assert (short.result(600), long.result(600)) == (200, 200)
    assert ended == ["s" * 100, "long"]


def test_a_call_with_a_long_prompt_does_not_hold_up_another(tiny_target, monkeypatch):
    """A prompt goes through the model chunk by chunk, in turns with the steps of others."""
    settings = Settings(drafting=False)
    with Running(tiny_target, settings, prefill_chunk=8) as running, ThreadPoolExecutor(2) as pool:
        order: list[str] = []
        prefill, forward = tiny_target.prefill, tiny_target.forward_tree
        monkeypatch.setattr(tiny_target, "prefill", lambda *a, **m: order.append("chunk") or prefill(*a, **m))
        monkeypatch.setattr(tiny_target, "forward_tree", lambda *a: order.append("step") or forward(*a))
        gate = Gate(monkeypatch, after=2)
        first = pool.submit(running.ask, CHAT, body_of("x", max_tokens=12))
        until(gate.holds)
        second = pool.submit(running.ask, CHAT, body_of("p" * 300, max_tokens=1))
        until(lambda: len(running.service.scheduler._waiting) == 1)
        del order[:]
        gate.open()
        assert first.result(600)[0] == second.result(600)[0] == 200
    steps = order.index("chunk"), len(order) - 1 - order[::-1].index("chunk")
    assert "step" in order[slice(*steps)], order


def test_many_calls_at_once_with_random_cancels_are_as_alone(server, tiny_target):
    """64 calls of several loops at once, a quarter of them left midway: the others' outputs are plain decoding's."""
    seed = random.randrange(10**6)
    print("seed", seed)
    rng = random.Random(seed)
    starts = ["the abc the abc", "12 12 a", "f(x) f(x)", "xyz"]
    calls = []
    for number in range(64):
        sampled = rng.random() < 0.5
        calls.append(
            {
                "text": f"{rng.choice(starts)} {rng.randrange(6)}",
                "max_tokens": rng.randint(1, 24),
                "temperature": 0.8 if sampled else 0.0,
                "seed": rng.randrange(4),
                "stream": rng.random() < 0.5,
                "leave": rng.randint(0, 4) if rng.random() < 0.25 else None,
                "number": number,
            }
        )
    with Running(tiny_target, Settings(most_active=6, most_waiting=64, sessions=6)) as running:
        client = running.openai()

        def ask(call):
            options = {
                "model": "m",
                "messages": [user(call["text"])],
                "extra_body": LONG,
                **{name: call[name] for name in ("max_tokens", "temperature", "seed")},
            }
            if call["leave"] is not None:
                with client.chat.completions.create(stream=True, **options) as stream:
                    for _, _chunk in zip(range(call["leave"]), stream, strict=False):
                        pass
                return None
            if call["stream"]:
                chunks = client.chat.completions.create(stream=True, **options)
                return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            return client.chat.completions.create(**options).choices[0].message.content

        with ThreadPoolExecutor(64) as pool:
            texts = list(pool.map(ask, calls))
        until(lambda: running.service.scheduler.running == 0)
        assert running.service.scheduler.waiting == 0
        running.engine.branches.check()
        assert len(running.engine._sessions) <= 6
    memo = {}
    for call, text in zip(calls, texts, strict=True):
        if text is None:
            continue
        options = {name: call[name] for name in ("max_tokens", "temperature", "seed")}
        key = (call["text"], *options.values())
        if key not in memo:
            memo[key] = plain(server.engine, call["text"], **options)
        assert text == memo[key], f"seed {seed}, call {call}"


# -- bounds ---------------------------------------------------------------------------------------------------


def test_a_full_queue_refuses_with_a_time_to_come_back(tiny_target, gate):
    """429 with Retry-After in both APIs' shapes; those that were let in are served."""
    settings = Settings(most_active=1, most_waiting=2)
    with Running(tiny_target, settings) as running, ThreadPoolExecutor(3) as pool:
        scheduler = running.service.scheduler
        waiting = [pool.submit(running.ask, CHAT, body_of(f"call {i}")) for i in range(3)]
        until(lambda: (scheduler.running, scheduler.waiting) == (1, 2))
        status, headers, answer = running.ask(CHAT, body_of("one more"))
        assert status == 429
        assert 1 <= int(headers["retry-after"]) <= 60
        assert answer["error"]["type"] == "rate_limit_error"
        status, headers, answer = running.ask(
            "/v1/messages", {"model": "m", "messages": [user("x")], "max_tokens": 1}
        )
        assert status == 429
        assert "retry-after" in headers
        assert answer["error"]["type"] == "rate_limit_error"
        gate.open()
        assert [call.result(600)[0] for call in waiting] == [200] * 3
        assert running.ask(CHAT, body_of("one more"))[0] == 200


def test_a_call_without_room_for_its_kv_waits_for_the_others(server, tiny_target):
    """Two calls whose KV does not fit together: the second waits until the first has ended; both are right."""
    texts = ["a" * 150, "b" * 150]
    slots = 150 + 40 + 120
    with (
        Running(tiny_target, kv_bytes=int(1.5 * slots * tiny_target.slot_bytes)) as running,
        ThreadPoolExecutor(2) as pool,
    ):
        options = {"max_tokens": 60}
        got = list(pool.map(lambda text: running.ask(CHAT, body_of(text, **options)), texts))
        for text, (status, _, answer) in zip(texts, got, strict=True):
            assert status == 200, answer
            assert text_of(answer) == plain(server.engine, text, **options)
        status, _, answer = running.ask(CHAT, body_of("c" * 600))
        assert status == 400
        assert answer["error"]["code"] == "context_length_exceeded"


# -- cancellation ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_ends_its_call(tiny_target, gate, stream):
    """Streaming or not: the call ends with the step under way, and the next call is served."""
    gate.hold(3)
    with Running(tiny_target) as running:
        scheduler = running.service.scheduler
        with connection(running, body_of("go away", max_tokens=900, stream=stream)) as made:
            if stream:
                assert b"200 OK" in made.recv(100)
            until(gate.holds)
        until(lambda: scheduler._active[0].call.cancelled)
        gate.open()
        until(lambda: scheduler.running == 0)
        assert running.metric("suffixspec_generated_tokens_total") < 900
        assert running.ask(CHAT, body_of("next"))[0] == 200
        lines = running.service.metrics.exposition().decode()
        assert 'suffixspec_requests_total{api="chat",status="499"} 1.0' in lines


def test_a_waiting_call_whose_client_goes_away_is_forgotten(tiny_target, gate):
    """It leaves the queue at once, and never begins."""
    with Running(tiny_target, Settings(most_active=1)) as running, ThreadPoolExecutor(1) as pool:
        scheduler = running.service.scheduler
        first = pool.submit(running.ask, CHAT, body_of("first"))
        until(lambda: scheduler.running == 1)
        with connection(running, body_of("second")):
            until(lambda: len(scheduler._waiting) == 1)
        until(lambda: scheduler.waiting == 0)
        gate.open()
        assert first.result(600)[0] == 200
        assert running.metric("suffixspec_generated_tokens_total") == 8


# -- limits of time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_takes_too_long_ends_with_what_there_is(tiny_target, gate, stream):
    """The deadline passes midway: a shorter output and the reason "length"."""
    gate.hold(3)
    with Running(tiny_target) as running, ThreadPoolExecutor(1) as pool:
        options = {"model": "m", "messages": [user("slow")], "max_tokens": 900, "temperature": 0}

        def ask():
            got = running.openai().chat.completions.create(stream=stream, extra_body=LONG, **options)
            if not stream:
                return got.choices[0].message.content, got.choices[0].finish_reason
            chunks = [chunk.choices[0] for chunk in got]
            return "".join(chunk.delta.content or "" for chunk in chunks), chunks[-1].finish_reason

        call = pool.submit(ask)
        until(gate.holds)
        running.service.scheduler._active[0].call.deadline = 0.0
        gate.open()
        text, reason = call.result(600)
        assert reason == "length"
        tokens = int(running.metric("suffixspec_generated_tokens_total"))
        assert 4 <= tokens < 900
        assert text == plain(running.engine, "slow", max_tokens=tokens)


def test_calls_without_output_by_their_deadline_are_refused(tiny_target, gate):
    """503 and when to come back, for one that runs and for one that waits."""
    settings = Settings(most_active=1, request_seconds=0.02)
    with Running(tiny_target, settings) as running, ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(running.ask, CHAT, body_of(f"x{i}" * 99)) for i in range(2)]
        # Either no step begins in time, or the one that began is let go now, too late for the other one.
        until(lambda: any(call.done() for call in calls) or running.service.scheduler.waiting == 1)
        threading.Timer(0.1, gate.open).start()
        answers = [call.result(600) for call in calls]
    refused = [answer for answer in answers if answer[0] == 503]
    assert refused
    for _, headers, answer in refused:
        assert headers["retry-after"] == "10"
        assert answer["error"]["code"] == "request_timeout"


# -- the end --------------------------------------------------------------------------------------------------


def test_a_shutdown_lets_running_calls_finish_and_refuses_the_others(tiny_target, gate):
    """The call under way is complete, the one that waits gets a 503, and no new one is taken."""
    settings = Settings(most_active=1, shutdown_seconds=60)
    with Running(tiny_target, settings) as running, ThreadPoolExecutor(2) as pool:
        scheduler = running.service.scheduler
        first = pool.submit(running.ask, CHAT, body_of("first"))
        until(lambda: scheduler.running == 1)
        second = pool.submit(running.ask, CHAT, body_of("second"))
        until(lambda: len(scheduler._waiting) == 1)
        running.stop()
        until(lambda: scheduler.closing)
        with pytest.raises(ApiError, match="shutting down") as refused:
            scheduler.reserve()
        assert refused.value.status == 503
        gate.open()
        status, _, answer = first.result(600)
        assert status == 200
        assert text_of(answer) == plain(running.engine, "first", max_tokens=8)
        status, headers, answer = second.result(600)
        assert status == 503
        assert "retry-after" in headers
    assert scheduler.join(0)
    assert running.engine._sessions == {}


def test_a_shutdown_ends_calls_that_take_too_long(tiny_target, gate):
    """After ``shutdown_seconds`` a stream ends with an error in it, and the server stops."""
    gate.hold(3)
    with Running(tiny_target, Settings(shutdown_seconds=0.0)) as running:
        with connection(running, body_of("long", max_tokens=900, stream=True)) as made:
            received = made.recv(4096)
            until(gate.holds)
            running.stop()
            until(lambda: running.service.scheduler.closing)
            gate.open()
            while piece := made.recv(65536):
                received += piece
        assert b"the server is shutting down" in received
        assert received.rstrip().endswith(b"0")  # the last chunk of the response


@pytest.mark.parametrize(
    ("path", "sign"), [(CHAT, b": still working"), ("/v1/messages", b'event: ping\ndata: {"type":"ping"}')]
)
def test_a_stream_without_news_gives_signs_of_life(tiny_target, gate, path, sign):
    """While a step takes long: a comment, or Anthropic's event, so that no client or proxy gives up."""
    gate.hold(1)
    with Running(tiny_target, Settings(ping_seconds=0.01)) as running:
        body = {"model": "m", "messages": [user("x")], "max_tokens": 3, "stream": True}
        with connection(running, body, path) as made:
            received = b""
            while sign not in received:
                received += made.recv(4096)
            gate.open()
            while piece := made.recv(4096):
                received += piece
                if b"[DONE]" in received or b"message_stop" in received:
                    break


def test_a_streams_first_text_is_sent_before_the_next_forward(server, monkeypatch):
    """The scheduler lets it go out, once a stream; nobody waits for a whole answer, nor for text that is held back."""
    monkeypatch.setattr("suffixspec.server.scheduler._FIRST_TEXT_SECONDS", 20.0)
    wait, waits = Call.wait_until_sent, []

    def noted(call, seconds):
        waits.append(wait(call, seconds))
        return waits[-1]

    monkeypatch.setattr(Call, "wait_until_sent", noted)
    assert server.ask(CHAT, body_of("whole"))[0] == 200
    assert waits == []
    status, _, text = server.ask(CHAT, body_of("stream", stream=True))
    assert status == 200
    assert text.count("data: ") > 3
    assert waits == [True]


def test_no_first_text_is_waited_for_while_another_call_wants_its_step(tiny_target, gate, monkeypatch):
    """A stream's first text beside a longer call goes out while that one is served."""
    waits = []
    monkeypatch.setattr(Call, "wait_until_sent", lambda call, _: waits.append(call))
    gate.hold(1)
    with (
        Running(tiny_target, Settings(drafting=False), prefill_chunk=8) as running,
        ThreadPoolExecutor(2) as pool,
    ):
        long = pool.submit(running.ask, CHAT, body_of("long", max_tokens=80))
        until(gate.holds)
        short = pool.submit(running.ask, CHAT, body_of("short", max_tokens=4, stream=True))
        until(lambda: len(running.service.scheduler._waiting) == 1)
        gate.open()
        status, _, text = short.result(600)
        assert status == 200
        assert text.count("data: ") > 2
        assert long.result(600)[0] == 200
    assert waits == []


def test_events_come_in_order_whenever_one_begins_to_listen():
    """Those that were posted before, from another thread too, come first and none is lost."""

    async def listen() -> list[int]:
        call = Call("chat", "n", [])
        call.post(Begun(1, 0))
        poster = threading.Thread(target=lambda: [call.post(Begun(number, 0)) for number in range(2, 200)])
        poster.start()
        events = call.connect()
        await asyncio.to_thread(poster.join)
        got = [await asyncio.wait_for(events.get(), 60) for _ in range(199)]
        return [event.prompt_tokens for event in got if isinstance(event, Begun)]

    assert asyncio.run(listen()) == list(range(1, 200))
