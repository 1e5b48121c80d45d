"""The native format: one JSON object a line, one session an object. The package docstring describes it."""

import json
from collections.abc import Mapping
from typing import Any

from suffixspec.errors import InputError
from suffixspec.trace.chat import parse_messages, parse_tools
from suffixspec.trace.fields import an_object, optional_string, shown
from suffixspec.trace.session import Message, ToolCall, TraceSession

VERSION = 1
"""The version of the format that is read and written."""


def parse_session(value: Any, *, default_id: str, path: str = "", line: int = 0) -> TraceSession:
    """Parse one session.

    Args:
        value: the parsed JSON of one line.
        default_id: the session's id where the record has none.
        path: the file it was read from.
        line: 1-based line on which it starts.

    Raises:
        InputError: an unknown version, a field of the wrong type, an unknown role, or a session without an
            assistant message that the model wrote.
    """
    record = an_object(value, "the line")
    version = record.get("version")
    if version is not None and (type(version) is not int or version != VERSION):
        raise InputError(f"expected version {VERSION} of the trace format, got {_shown_version(version)}")
    if "messages" not in record:
        raise InputError("expected messages to be an array, got nothing")
    messages = parse_messages(record["messages"])
    session_id = optional_string(record, "session_id")
    session = TraceSession(
        session_id=default_id if session_id is None else session_id,
        messages=tuple(messages),
        model=optional_string(record, "model"),
        tools=parse_tools(record.get("tools")),
        namespace=optional_string(record, "namespace"),
        task=optional_string(record, "task"),
        source=optional_string(record, "source"),
        path=path,
        line=line,
    )
    if not messages:
        raise InputError("expected messages to hold at least one message, got an empty array")
    if not session.turns:
        raise InputError("expected at least one assistant message that the model wrote, got none")
    return session


def encode_session(session: TraceSession) -> bytes:
    r"""Return the session as one line of JSON in UTF-8, with the ``\n``.

    Raises:
        InputError: a text holds a lone surrogate, or a tool definition is nested too deeply.
    """
    record: dict[str, Any] = {"version": VERSION, "session_id": session.session_id}
    for key in ("model", "namespace", "task", "source"):
        value = getattr(session, key)
        if value is not None:
            record[key] = value
    if session.tools is not None:
        record["tools"] = list(session.tools)
    record["messages"] = [_message_record(message) for message in session.messages]
    try:
        return json.dumps(record, ensure_ascii=False).encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        raise InputError(f"expected text in session {session.session_id!r}, got a lone surrogate") from None
    except (RecursionError, TypeError, ValueError) as error:
        raise InputError(f"expected JSON values in session {session.session_id!r}, got: {error}") from None


def _shown_version(value: Any) -> str:
    """Return a version as an error message shows it: a number itself, anything else by its kind."""
    return str(value) if type(value) in (int, float) else shown(value)


def _message_record(message: Message) -> Mapping[str, Any]:
    record: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning is not None:
        record["reasoning_content"] = message.reasoning
    if message.tool_calls:
        record["tool_calls"] = [_call_record(call) for call in message.tool_calls]
    for key in ("tool_call_id", "name"):
        value = getattr(message, key)
        if value is not None:
            record[key] = value
    if message.token_ids is not None:
        record["token_ids"] = list(message.token_ids)
    if not message.model_output:
        record["model_output"] = False
    return record


def _call_record(call: ToolCall) -> Mapping[str, Any]:
    record: dict[str, Any] = {} if call.id is None else {"id": call.id}
    return record | {"type": "function", "function": {"name": call.name, "arguments": call.arguments}}
