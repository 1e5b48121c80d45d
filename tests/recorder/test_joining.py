"""Recordings back to loops."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from suffixspec.cli import main
from suffixspec.errors import InputError
from suffixspec.recorder import Recorder, new_call
from suffixspec.trace import read_sessions
from suffixspec.trace.reader import TraceFile

from .loops import APIS, facts, interleaved, loop


def record(path: Path, calls) -> Path:
    with Recorder(path) as recorder:
        for call in calls:
            recorder.write(call)
    return path


def chat(messages: list[tuple[str, str]], answer: str | None, **more):
    request = {"messages": [{"role": role, "content": text} for role, text in messages]}
    response = None if answer is None else {"choices": [{"message": {"content": answer}}]}
    return new_call("chat", request, response, **more)


def texts(session) -> list[tuple[str, str, bool]]:
    return [(m.role, m.content, m.is_output) for m in session.messages]


@pytest.mark.parametrize("seed", range(16))
def test_interleaved_loops_come_back(seed, tmp_path):
    """Loops of all APIs, with failures, cuts and retries, recorded in any order, are the same loops again."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    loops = [loop(rng, rng.choice(APIS)) for _ in range(rng.randint(1, 12))]
    path = record(tmp_path / "calls.jsonl", interleaved(rng, loops))

    def comparable(api: str, messages) -> tuple:
        found = facts(messages)
        # An Anthropic system prompt is recorded with the client's line on top, as the first call had it.
        return (found[0][0], found[0][1].split("\n", 1)[-1] if api == "messages" else found[0][1], *found[1:])

    expected = Counter(comparable(each.api, each.messages) for each in loops)
    found = Counter(
        comparable("messages" if s.messages[0].content.startswith("x-anthropic") else "", s.messages)
        for s in read_sessions(path)
    )
    assert expected == found


def test_side_requests_are_sessions_of_their_own(tmp_path):
    """A title and a sub-agent that come in between leave the loop whole, though they carry its id."""
    main_loop = [("system", "s"), ("user", "u")]
    calls = [
        chat(main_loop, "one", session="x"),
        chat([("system", "title"), ("user", "u")], "a title", session="x"),
        chat([("system", "s"), ("user", "look")], "looked", session="x"),
        chat([*main_loop, ("assistant", "one"), ("user", "more")], "two", session="x"),
    ]
    sessions = list(read_sessions(record(tmp_path / "c.jsonl", calls)))
    assert [session.session_id for session in sessions] == ["x", "x#2", "x#3"]
    assert [m.content for m in sessions[0].messages if m.is_output] == ["one", "two"]


def test_a_hint_tells_equal_loops_apart(tmp_path):
    """Of two loops with the same first turn, each goes on under its own name."""
    first = [("user", "u")]
    calls = [
        chat(first, "one", session="a"),
        chat(first, "one", session="b"),
        chat([*first, ("assistant", "one"), ("user", "for b")], "b2", session="b"),
        chat([*first, ("assistant", "one"), ("user", "for a")], "a2", session="a"),
    ]
    sessions = {s.session_id: s for s in read_sessions(record(tmp_path / "c.jsonl", calls))}
    assert {name: s.messages[-1].content for name, s in sessions.items()} == {"a": "a2", "b": "b2"}


def test_a_compacted_conversation_starts_a_session(tmp_path):
    """What a rewritten context repeats of the model's words is context, counted as output once."""
    calls = [
        chat([("user", "u")], "one"),
        chat([("user", "summary"), ("assistant", "one"), ("user", "on")], "two"),
    ]
    one, two = read_sessions(record(tmp_path / "c.jsonl", calls))
    assert (one.turns, two.turns) == (1, 1)
    assert ("assistant", "one", False) in texts(two)


def test_a_cut_answer_counts_unless_it_is_asked_again(tmp_path):
    """A retry replaces what was cut off; a user who goes on with it keeps it."""
    cut = chat([("user", "u")], "ha", complete=False)
    retried = record(tmp_path / "retried.jsonl", [cut, chat([("user", "u")], "half")])
    (session,) = read_sessions(retried)
    assert texts(session) == [("user", "u", False), ("assistant", "half", True)]

    kept = record(
        tmp_path / "kept.jsonl", [cut, chat([("user", "u"), ("assistant", "ha"), ("user", "on")], "x")]
    )
    (session,) = read_sessions(kept)
    assert [m.content for m in session.messages if m.is_output] == ["ha", "x"]


def test_a_client_may_add_to_an_output(tmp_path):
    """A stop string that is put back, and a note behind an output, leave the loop one loop."""
    first = chat([("user", "u")], "one")
    first["request"]["stop"] = ["</code>", "x"]
    stopped = chat([("user", "u"), ("assistant", "one</code>"), ("user", "on")], "two")
    (session,) = read_sessions(record(tmp_path / "a.jsonl", [first, stopped]))
    assert [m.content for m in session.messages] == ["u", "one", "on", "two"]
    del first["request"]["stop"]
    assert len(list(read_sessions(record(tmp_path / "b.jsonl", [first, stopped])))) == 2

    text = "a longer answer that is certain"
    noted = chat([("user", "u"), ("assistant", f"{text}\nCalling tools"), ("user", "on")], "two")
    (session,) = read_sessions(record(tmp_path / "c.jsonl", [chat([("user", "u")], text), noted]))
    assert texts(session)[1:3] == [("assistant", text, True), ("assistant", "Calling tools", False)]
    assert session.turns == 2


def test_stored_responses_are_resolved(tmp_path):
    """``previous_response_id`` stands for what was said before, without the old instructions."""

    def answer(name: str, text: str):
        part = {"type": "output_text", "text": text}
        return {"id": name, "output": [{"type": "message", "role": "assistant", "content": [part]}]}

    calls = [
        new_call("responses", {"input": "hi", "instructions": "be brief"}, answer("r1", "hello")),
        new_call(
            "responses",
            {"input": "and?", "instructions": "be brief", "previous_response_id": "r1"},
            answer("r2", "more"),
        ),
    ]
    (session,) = read_sessions(record(tmp_path / "c.jsonl", calls))
    assert [m.content for m in session.messages] == ["be brief", "hi", "hello", "and?", "more"]
    assert session.turns == 2


def test_a_torn_end_is_a_note(tmp_path):
    """A file that is read while it is written, or after a crash, reads up to its last whole line."""
    path = record(tmp_path / "c.jsonl", [chat([("user", "a")], "b"), chat([("user", "c")], "d")])
    whole = path.read_bytes()
    for cut in (1, 2, 60):
        path.write_bytes(whole + whole.splitlines(keepends=True)[0][:-cut])
        notes = []
        sessions = list(TraceFile(str(path), on_note=notes.append).sessions())
        assert (len(sessions), [note.line for note in notes]) == ((3, []) if cut == 1 else (2, [3]))
    path.write_bytes(b'{"suffixspec_call": 1, "api"\n' + whole)
    with pytest.raises(InputError, match=r"c\.jsonl:1: expected valid JSON"):
        list(read_sessions(path))


def test_failed_calls_are_notes(tmp_path):
    """A recording of failures alone is an error that says so; among others they are left out."""
    path = record(tmp_path / "c.jsonl", [chat([("user", "a")], None, status=502)])
    with pytest.raises(InputError, match="expected at least one session with model output"):
        list(read_sessions(path))
    with pytest.raises(InputError, match="expected version 1 of a recording, got the number 2"):
        list(read_sessions(_with(tmp_path, {"suffixspec_call": 2})))
    with pytest.raises(InputError, match="expected api to be chat, completions, responses or messages"):
        list(
            read_sessions(_with(tmp_path, {"suffixspec_call": 1, "api": "x", "request": {}, "response": {}}))
        )


def test_the_commands_read_a_recording(tmp_path, capfd):
    """``suffixspec convert`` joins a recording, and what it writes reads as the recording does."""
    rng = random.Random(5)
    path = record(tmp_path / "c.jsonl", interleaved(rng, [loop(rng, "chat") for _ in range(4)]))
    assert main(["convert", str(path), "-o", str(tmp_path / "out.jsonl")]) == 0
    assert "suffixspec recording" in capfd.readouterr().err
    assert list(read_sessions(path)) == list(read_sessions(tmp_path / "out.jsonl"))


def test_replay_reads_a_recording(tmp_path, capsys):
    """``suffixspec replay`` takes the file of a recording: every answer of its loops is replayed, and nothing else."""
    path = record(
        tmp_path / "c.jsonl",
        [
            chat([("user", "count")], "one two three"),
            chat([("user", "other")], None, status=500),
            chat(
                [("user", "count"), ("assistant", "one two three"), ("user", "again")], "one two three four"
            ),
        ],
    )
    assert main(["replay", str(path), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["trace"]["sessions"], document["trace"]["turns"]) == (1, 2)
    first, second = document["drafters"][0]["per_turn"]
    assert first["accepted"] < second["accepted"]  # the second repeats the first
    assert document["drafters"][0]["tokens"] == document["trace"]["output_tokens"]


def _with(folder: Path, record_: dict) -> Path:
    path = folder / "one.jsonl"
    path.write_text(json.dumps(record_) + "\n")
    return path
