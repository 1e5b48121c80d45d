"""The native format: what is accepted, and what is refused with which words."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from suffixspec.errors import InputError
from suffixspec.trace import ToolCall, TraceSession, read_sessions

_REPLY = {"role": "assistant", "content": "Done."}
_ASK = {"role": "user", "content": "Fix it."}


def _read(folder: Path, record: Any) -> TraceSession:
    path = folder / "t.jsonl"
    path.write_text(record if isinstance(record, str) else json.dumps(record), encoding="utf-8")
    (session,) = read_sessions(path)
    return session


def _with(message: dict[str, Any]) -> dict[str, Any]:
    return {"session_id": "s", "messages": [_ASK, message, _REPLY]}


def test_every_field_arrives(tmp_path: Path) -> None:
    """All keys of a session and a message are read."""
    message = {
        "role": "assistant",
        "content": "Look.",
        "reasoning_content": "Hm.",
        "name": "bot",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        "token_ids": [0, 2**31 - 1],
        "model_output": False,
    }
    tool = {"role": "tool", "content": "ok", "tool_call_id": "c"}
    labels = {key: f"the {key}" for key in ("session_id", "model", "namespace", "task", "source")}
    session = _read(tmp_path, labels | {"tools": [{"x": 1}], "messages": [message, tool, _REPLY]})

    assert [f"the {key}" for key in labels] == [getattr(session, key) for key in labels]
    assert session.tools == ({"x": 1},)
    first, second, _ = session.messages
    assert (first.content, first.reasoning, first.name, first.model_output) == ("Look.", "Hm.", "bot", False)
    assert first.token_ids == (0, 2**31 - 1)
    assert (ToolCall("f", "{}", "c"),) == first.tool_calls
    assert (second.role, second.tool_call_id) == ("tool", "c")
    assert (str(tmp_path / "t.jsonl"), 1) == (session.path, session.line)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a\u0000b\u2028c\U0001f600", "a\u0000b\u2028c\U0001f600"),
        (None, ""),
        ([], ""),
        (
            [
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {}},
                {"type": "text", "text": " b"},
            ],
            "a b",
        ),
    ],
)
def test_content_forms(content: Any, text: str, tmp_path: Path) -> None:
    """Content is a string, null, or parts whose texts are joined as they are."""
    assert text == _read(tmp_path, _with({"role": "user", "content": content})).messages[1].content


def test_argument_strings_stay_verbatim_and_objects_keep_their_order(tmp_path: Path) -> None:
    """A string is never touched, not even when it is no JSON; an object is serialised in its own order."""
    for given, text in (
        ('{"b":1,  "a":\n2}', '{"b":1,  "a":\n2}'),
        ('{"cut": "of', '{"cut": "of'),
        ({"b": "é", "a": [1, {"c": None}]}, '{"b": "é", "a": [1, {"c": null}]}'),
    ):
        for form in ({"name": "f", "arguments": given}, {"function": {"name": "f", "arguments": given}}):
            session = _read(tmp_path, _with({"role": "assistant", "tool_calls": [form]}))
            assert text == session.messages[1].tool_calls[0].arguments


def test_missing_ids_come_from_the_place(tmp_path: Path) -> None:
    """A session without an id is called after its file and line."""
    path = tmp_path / "runs.v2.jsonl"
    line = json.dumps({"version": 1, "messages": [_REPLY]})
    path.write_text(f"{line}\n\n{line}\n")

    assert [session.session_id for session in read_sessions(path)] == ["runs.v2#1", "runs.v2#3"]


def test_lone_surrogates_become_replacement_characters(tmp_path: Path) -> None:
    """Half of an escaped pair is U+FFFD; whole pairs are one character."""
    text = r'{"session_id": "s", "messages": [{"role": "assistant", "content": "a\ud83d b\ude00 c\ud83d\ude00"}]}'

    assert _read(tmp_path, text).messages[0].content == "a\ufffd b\ufffd c\U0001f600"


_NO_CALLS = {"role": "assistant", "content": ""}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"session_id": "s"}, "expected messages to be an array, got nothing"),
        ({"session_id": "s", "messages": {}}, "expected messages to be an array, got an object"),
        (
            {"session_id": "s", "messages": []},
            "expected messages to hold at least one message, got an empty array",
        ),
        (
            {"session_id": "s", "messages": [_ASK]},
            "expected at least one assistant message that the model wrote",
        ),
        (
            {"session_id": "s", "messages": [_REPLY | {"model_output": False}]},
            "expected at least one assistant",
        ),
        (
            {"session_id": 5, "messages": [_REPLY]},
            "expected session_id to be a string or null, got the number 5",
        ),
        ({"session_id": "s", "model": [], "messages": [_REPLY]}, "expected model to be a string or null"),
        (
            {"session_id": "s", "tools": {}, "messages": [_REPLY]},
            "expected tools to be an array, got an object",
        ),
        ({"session_id": "s", "tools": [1], "messages": [_REPLY]}, "expected tools[0] to be an object"),
        ({"version": 2, "messages": [_REPLY]}, "expected version 1 of the trace format, got 2"),
        (
            {"session_id": "s", "version": "1", "messages": [_REPLY]},
            "expected version 1 of the trace format, got '1'",
        ),
        (
            {"session_id": "s", "version": True, "messages": [_REPLY]},
            "expected version 1 of the trace format, got true",
        ),
        (_with("x"), "expected messages[1] to be an object, got 'x'"),
        (
            _with({"content": "x"}),
            "expected messages[1].role to be one of system, developer, user, assistant, tool",
        ),
        (_with({"role": "bot", "content": "x"}), "user, assistant, tool, got 'bot'"),
        (_with({"role": ["user"], "content": "x"}), "user, assistant, tool, got an array"),
        (
            _with({"role": "user"}),
            "expected messages[1].content to be a string, null or an array of parts, got nothing",
        ),
        (
            _with({"role": "user", "content": 1.5}),
            "expected messages[1].content to be a string, null or an array",
        ),
        (_with({"role": "user", "content": [1]}), "expected messages[1].content[0] to be an object"),
        (
            _with({"role": "user", "content": [{"type": "text", "text": None}]}),
            "expected messages[1].content[0].text to be a string, got null",
        ),
        (
            _with(_NO_CALLS | {"tool_calls": {}}),
            "expected messages[1].tool_calls to be an array, got an object",
        ),
        (
            _with(_NO_CALLS | {"tool_calls": ["f"]}),
            "expected messages[1].tool_calls[0] to be an object, got 'f'",
        ),
        (
            _with(_NO_CALLS | {"tool_calls": [{"arguments": ""}]}),
            "messages[1].tool_calls[0].name to be a string",
        ),
        (
            _with(_NO_CALLS | {"tool_calls": [{"function": {"name": "f"}}]}),
            "expected messages[1].tool_calls[0].function.arguments to be a string or an object, got nothing",
        ),
        (
            _with(_NO_CALLS | {"tool_calls": [{"name": "f", "arguments": 3}]}),
            "arguments to be a string or an object",
        ),
        (_with(_NO_CALLS | {"token_ids": 3}), "expected messages[1].token_ids to be an array"),
        (
            _with(_NO_CALLS | {"token_ids": [1, -1]}),
            "messages[1].token_ids[1] to be an integer in 0 … 2^31-1, got -1",
        ),
        (
            _with(_NO_CALLS | {"token_ids": [2**31]}),
            "messages[1].token_ids[0] to be an integer in 0 … 2^31-1",
        ),
        (_with(_NO_CALLS | {"token_ids": [True]}), "messages[1].token_ids[0] to be an integer in 0 … 2^31-1"),
        (
            _with(_NO_CALLS | {"model_output": "no"}),
            "expected messages[1].model_output to be a boolean, got 'no'",
        ),
        (
            _with(_NO_CALLS | {"reasoning_content": 1}),
            "expected messages[1].reasoning_content to be a string or null",
        ),
        (
            _with({"role": "tool", "content": "", "tool_call_id": 1}),
            "messages[1].tool_call_id to be a string or null",
        ),
    ],
)
def test_malformed_sessions_are_refused(record: Any, message: str, tmp_path: Path) -> None:
    """Each mistake is told as FILE:LINE, what was expected, and what came."""
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"session_id": "good", "messages": [_REPLY]}) + "\n" + json.dumps(record))
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        list(read_sessions(path))

    assert str(caught.value).startswith(f"{path}:2: expected ")
    assert ", got " in str(caught.value)


@pytest.mark.parametrize("record", ["[]", "7", '"text"', "null"])
def test_lines_must_be_objects(record: str, tmp_path: Path) -> None:
    """A line with another JSON value is refused by its number."""
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"session_id": "good", "messages": [_REPLY]}) + "\n" + record)

    with pytest.raises(InputError, match=r"t\.jsonl:2: expected the line to be an object, got "):
        list(read_sessions(path))
