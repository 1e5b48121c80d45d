"""Chat messages as the common APIs write them: OpenAI's form, and Anthropic's content blocks.

The native format and most importers share these parsers. ``where`` names the field in error messages.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from suffixspec.errors import InputError
from suffixspec.trace.fields import a_list, a_string, an_object, expected, optional_string, shown
from suffixspec.trace.session import ROLES, Message, ToolCall

_TEXT_PARTS = ("text", "input_text", "output_text", "summary_text", "reasoning_text")
_CALL_BLOCKS = ("tool_use", "server_tool_use", "mcp_tool_use")
MAX_TOKEN_ID = 2**31 - 1


def arguments_text(value: Any, where: str) -> str:
    """Return a call's arguments as text: a string verbatim, an object serialised in its own key order.

    Raises:
        InputError: neither a string nor an object nor null.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if value is None:
        return ""
    raise expected("a string or an object", value, where)


def content_text(value: Any, where: str, *, joint: str = "") -> str:
    """Return the text of a message's content.

    Args:
        value: a string, null, or a list of parts: strings, and objects with a ``type``. Parts which are not
            text are left out.
        where: names the field in errors.
        joint: what goes between the texts of two parts.

    Raises:
        InputError: something else.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if not isinstance(value, list):
        raise expected("a string, null or an array of parts", value, where)
    texts = []
    for index, part in enumerate(value):
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = an_object(part, f"{where}[{index}]").get("type")
        if kind in _TEXT_PARTS or (kind is None and "text" in part):
            texts.append(a_string(part.get("text"), f"{where}[{index}].text"))
        elif kind == "refusal":
            texts.append(a_string(part.get("refusal"), f"{where}[{index}].refusal"))
    return joint.join(texts)


def parse_tool_call(value: Any, where: str) -> ToolCall:
    """Parse a tool call: OpenAI's nested form, its free-text (custom) form, or ``{"name", "arguments"}``.

    Raises:
        InputError: the name is missing, or the arguments are.
    """
    call = an_object(value, where)
    custom = call.get("custom")
    if isinstance(custom, dict):
        name = a_string(custom.get("name"), f"{where}.custom.name")
        return ToolCall(
            name,
            a_string(custom.get("input"), f"{where}.custom.input"),
            optional_string(call, "id", f"{where}."),
        )
    inner = call.get("function")
    if inner is None:
        inner = call
    else:
        where = f"{where}.function"
        inner = an_object(inner, where)
    if "arguments" not in inner:
        raise InputError(f"expected {where}.arguments to be a string or an object, got nothing")
    return ToolCall(
        name=a_string(inner.get("name"), f"{where}.name"),
        arguments=arguments_text(inner["arguments"], f"{where}.arguments"),
        id=optional_string(call, "id", f"{where}."),
    )


def parse_message(value: Any, where: str) -> list[Message]:
    """Parse one message of a chat request; blocks with tool results become messages of their own.

    Args:
        value: ``role``, ``content`` (string, null or parts), and optionally ``tool_calls``, ``tool_call_id``,
            ``name``, ``reasoning_content``, ``token_ids``, ``model_output``. OpenAI's older ``function_call``
            and role ``function`` are understood, and so are Anthropic's ``thinking``, ``tool_use`` and
            ``tool_result`` parts.
        where: names the message in errors.

    Raises:
        InputError: an unknown role or a field of the wrong type.
    """
    message = an_object(value, where)
    role = message.get("role")
    if role == "function":
        role = "tool"
    if role not in ROLES:
        got = shown(role) if "role" in message else "nothing"
        raise InputError(f"expected {where}.role to be one of {', '.join(ROLES)}, got {got}")
    if "content" not in message and role != "assistant":
        raise InputError(f"expected {where}.content to be a string, null or an array of parts, got nothing")
    content = message.get("content")
    calls = []
    if message.get("tool_calls") is not None:
        calls = [
            parse_tool_call(call, f"{where}.tool_calls[{index}]")
            for index, call in enumerate(a_list(message["tool_calls"], f"{where}.tool_calls"))
        ]
    if message.get("function_call") is not None:
        calls.append(parse_tool_call(message["function_call"], f"{where}.function_call"))
    parsed = Message(
        role=role,
        content=content if isinstance(content, str) else content_text(content, f"{where}.content"),
        reasoning=_reasoning(message, where),
        tool_calls=tuple(calls),
        tool_call_id=optional_string(message, "tool_call_id", f"{where}."),
        name=optional_string(message, "name", f"{where}."),
        token_ids=parse_token_ids(message.get("token_ids"), f"{where}.token_ids"),
        model_output=_flag(message.get("model_output"), f"{where}.model_output"),
    )
    if isinstance(content, list):
        return _with_blocks(parsed, content, f"{where}.content")
    if content is None and role == "assistant" and isinstance(message.get("refusal"), str):
        return [replace(parsed, content=message["refusal"])]
    return [parsed]


def parse_messages(value: Any, where: str = "messages") -> list[Message]:
    """Parse a list of messages; see `parse_message`.

    Raises:
        InputError: not a list, or one of its messages is malformed.
    """
    return [
        message
        for index, item in enumerate(a_list(value, where))
        for message in parse_message(item, f"{where}[{index}]")
    ]


def parse_token_ids(value: Any, where: str) -> tuple[int, ...] | None:
    """Parse token ids: null, or an array of integers in 0 … 2³¹-1.

    Raises:
        InputError: something else.
    """
    if value is None:
        return None
    for index, token in enumerate(a_list(value, where)):
        if type(token) is not int or not 0 <= token <= MAX_TOKEN_ID:
            raise InputError(f"expected {where}[{index}] to be an integer in 0 … 2^31-1, got {token!r:.40}")
    return tuple(value)


def parse_tools(value: Any, where: str = "tools") -> tuple[dict[str, Any], ...] | None:
    """Parse tool definitions: null, or an array of objects.

    Raises:
        InputError: something else.
    """
    if value is None:
        return None
    return tuple(an_object(tool, f"{where}[{index}]") for index, tool in enumerate(a_list(value, where)))


def _with_blocks(message: Message, content: list[Any], where: str) -> list[Message]:
    """Add what the content's blocks say beyond text: thinking, tool calls, tool results."""
    thinking, calls, results = [], [], []
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        here = f"{where}[{index}]"
        if kind == "thinking":
            thinking.append(a_string(part.get("thinking"), f"{here}.thinking"))
        elif kind in _CALL_BLOCKS:
            name = a_string(part.get("name"), f"{here}.name")
            arguments = arguments_text(part.get("input"), f"{here}.input")
            calls.append(ToolCall(name, arguments, optional_string(part, "id", f"{here}.")))
        elif kind == "tool_result":
            text = content_text(part.get("content"), f"{here}.content", joint="\n")
            answered = optional_string(part, "tool_use_id", f"{here}.")
            results.append(Message("tool", text, tool_call_id=answered))
    if thinking and message.reasoning is None:
        message = replace(message, reasoning="".join(thinking))
    if calls:
        message = replace(message, tool_calls=message.tool_calls + tuple(calls))
    if results and not message.content:
        return results
    return [*results, message]


def _reasoning(message: Mapping[str, Any], where: str) -> str | None:
    text = optional_string(message, "reasoning_content", f"{where}.")
    if text is None and isinstance(message.get("reasoning"), str):
        text = message["reasoning"]
    if text is None and isinstance(message.get("thinking_blocks"), list):
        blocks = [block.get("thinking") for block in message["thinking_blocks"] if isinstance(block, dict)]
        text = "".join(block for block in blocks if isinstance(block, str)) or None
    return text


def _flag(value: Any, where: str) -> bool:
    if value is None:
        return True
    if not isinstance(value, bool):
        raise expected("a boolean", value, where)
    return value
