"""``serve --record``: every call is written down, as the recorder's file has it."""

import json

from suffixspec.recorder.writer import Recorder

from .harness import LONG, Gate, Running, until, user

KEY = "a-key-that-nobody-may-read"


def test_calls_are_recorded_whole_streamed_and_left(tiny_target, tmp_path, monkeypatch):
    """Bodies as sent and as answered, a stream put together, times, status and session; no key anywhere."""
    path = tmp_path / "calls.jsonl"
    options = {
        "model": "m",
        "messages": [user("record")],
        "temperature": 0,
        "max_tokens": 6,
        "extra_body": LONG,
    }
    with Recorder(path) as recorder, Running(tiny_target, recorder=recorder) as running:
        client = running.openai(KEY, default_headers={"x-session-id": "mine"})
        whole = client.chat.completions.create(**options)
        list(client.chat.completions.create(stream=True, **options))
        running.anthropic(KEY).messages.create(model="m", messages=[user("record")], max_tokens=3)
        gate = Gate(monkeypatch, after=2)
        with client.chat.completions.create(stream=True, **{**options, "max_tokens": 900}) as stream:
            next(iter(stream))
            until(gate.holds)
        until(lambda: running.service.scheduler._active[0].call.cancelled)
        gate.open()
    text = path.read_text()
    assert KEY not in text
    calls = [json.loads(line) for line in text.splitlines()]
    assert [call["api"] for call in calls] == ["chat", "chat", "messages", "chat"]
    assert [call["status"] for call in calls] == [200, 200, 200, 499]
    assert [call["streamed"] for call in calls] == [False, True, False, True]
    assert [call["complete"] for call in calls] == [True, True, True, False]
    assert all(call["started"] <= call["ended"] for call in calls)
    assert calls[0]["request"]["messages"] == [user("record")]
    assert calls[0]["path"] == "/v1/chat/completions"
    assert calls[0]["session"] == "mine"
    assert calls[2]["session"]
    said = whole.choices[0].message.content
    assert [call["response"]["choices"][0]["message"]["content"] for call in calls[:2]] == [said, said]
    assert calls[1]["response"]["usage"] == calls[0]["response"]["usage"] | {
        "prompt_tokens_details": calls[1]["response"]["usage"]["prompt_tokens_details"]
    }
    assert calls[2]["response"]["content"][0]["type"] == "text"


def test_a_full_disk_does_not_end_the_service(tiny_target, tmp_path, monkeypatch, caplog):
    """The call is answered, and the log says that it could not be recorded."""
    with Recorder(tmp_path / "calls.jsonl") as recorder, Running(tiny_target, recorder=recorder) as running:

        def fails(_call):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(recorder, "write", fails)
        body = {"model": "m", "messages": [user("x")], "max_tokens": 1}
        assert running.ask("/v1/chat/completions", body)[0] == 200
    assert "could not be recorded" in caplog.text
