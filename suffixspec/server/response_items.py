"""The items of the Responses API as messages and tools of chat completions, which the engine takes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from suffixspec.server.conversation import read_tools
from suffixspec.server.errors import ApiError
from suffixspec.server.fields import Fields, shown

_TEXT_PARTS = ("input_text", "output_text", "text", "refusal", "summary_text", "reasoning_text")
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_OUTPUTS = ("function_call_output", "custom_tool_call_output")


def read_items(value: Any) -> list[dict[str, Any]]:
    """A request's ``input`` as messages.

    What the model wrote in one turn (reasoning, text, calls: an item each) becomes one assistant's message.

    Raises:
        ApiError: an item that is malformed, or of a kind that the model cannot read.
    """
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, list):
        got = "nothing" if value is None else shown(value)
        raise ApiError(f"expected input to be a string or an array of items, got {got}", param="input")
    messages: list[dict[str, Any]] = []
    turn: dict[str, Any] | None = None  # the assistant's message that goes on
    for number, item in enumerate(value):
        fields = Fields(item, f"input[{number}].")
        kind = fields.get("type") or ("message" if "role" in fields else None)
        role = fields.get("role")
        of_model = kind in ("reasoning", *_CALLS) or (kind == "message" and role == "assistant")
        if of_model and turn is None:
            turn = {"role": "assistant", "content": ""}
            messages.append(turn)
        if kind == "message":
            if role not in ("user", "assistant", "system", "developer"):
                raise fields.refuse("role", "one of user, assistant, system, developer")
            text = _text(fields, "content")
            if role == "assistant" and turn is not None:
                turn["content"] += text
                continue
            messages.append({"role": role, "content": text})
        elif kind == "reasoning" and turn is not None:
            text = _text(fields, "content") or _text(fields, "summary")
            if text:
                turn["reasoning_content"] = turn.get("reasoning_content", "") + text
            continue
        elif isinstance(kind, str) and kind in _CALLS and turn is not None:
            turn.setdefault("tool_calls", []).append(_call(fields, _CALLS[kind]))
            continue
        elif kind in _OUTPUTS:
            call_id = fields.text("call_id") or ""
            messages.append({"role": "tool", "tool_call_id": call_id, "content": _text(fields, "output")})
        else:
            raise fields.refuse(
                "type",
                f"one of message, reasoning, {', '.join((*_CALLS, *_OUTPUTS))}: no other item has text",
            )
        turn = None
    return messages


def _call(fields: Fields, where: str) -> dict[str, Any]:
    name, text = fields.text("name"), fields.text(where)
    if not name:
        raise fields.refuse("name", "a tool's name")
    if text is None:
        raise fields.refuse(where, "a string")
    arguments = text if where == "arguments" else json.dumps({"input": text}, ensure_ascii=False)
    return {
        "id": fields.text("call_id") or "",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise fields.refuse(name, "a string or an array of text parts")
    texts = []
    for number, part in enumerate(value):
        inner = Fields(part, f"{fields.path(name)}[{number}].")
        kind = inner.get("type")
        if kind not in _TEXT_PARTS:
            raise inner.refuse("type", "a text part, since the model reads text only")
        text = inner.text("refusal" if kind == "refusal" else "text")
        if text is None:
            raise inner.refuse("text", "a string")
        texts.append(text)
    return "".join(texts)


@dataclass
class Tools:
    """The tools of a request."""

    functions: list[dict[str, Any]] | None
    """In chat completions' form."""
    custom: set[str] = field(default_factory=set)
    """Those that take free text: shown to the model as functions of one string, ``input``."""
    ignored: list[str] = field(default_factory=list)
    """Those that only OpenAI's servers can run: the model is not told of them."""


def read_response_tools(value: Any) -> Tools:
    """A request's ``tools``.

    Raises:
        ApiError: malformed.
    """
    tools = Tools(None)
    functions: list[dict[str, Any]] = []
    if value is not None and not isinstance(value, list):
        raise ApiError(f"expected tools to be an array, got {shown(value)}", param="tools")
    for number, tool in enumerate(value or ()):
        fields = Fields(tool, f"tools[{number}].")
        kind, name = fields.text("type"), fields.get("name")
        if kind == "function":
            function = {
                key: fields.get(key) for key in ("name", "description", "parameters") if key in fields
            }
            functions.append({"type": "function", "function": function})
        elif kind == "custom" and isinstance(name, str):
            functions.append({"type": "function", "function": _free_text(fields, name)})
            tools.custom.add(name)
        else:
            tools.ignored.append(f"tools[{number}] ({kind})")
    tools.functions = read_tools(functions)
    return tools


def _free_text(fields: Fields, name: str) -> dict[str, Any]:
    form = fields.object("format")
    description = fields.text("description") or ""
    definition = form.text("definition") if form is not None else None
    if definition:
        description += f"\n\nThe input follows this grammar:\n{definition}"
    parameters = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    return {"name": name, "description": description, "parameters": parameters}


def read_response_tool_choice(value: Any) -> Any:
    """A request's ``tool_choice`` in chat completions' form.

    Raises:
        ApiError: a tool that this server does not have.
    """
    if value is None:
        return "auto"
    if isinstance(value, str):
        return value
    fields = Fields(value, "tool_choice.")
    kind = fields.get("type")
    if kind == "allowed_tools":
        return fields.one_of("mode", ("auto", "required")) or "auto"
    if kind in ("function", "custom"):
        return {"type": "function", "function": {"name": fields.text("name")}}
    raise fields.refuse("type", "function, custom or allowed_tools")


def free_text(arguments: str) -> str:
    """The text that a tool of free text was called with."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    text = value.get("input") if isinstance(value, dict) else None
    return text if isinstance(text, str) else arguments
