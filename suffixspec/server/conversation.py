"""A request's messages and tools in OpenAI's form, checked, as the engine takes them."""

from __future__ import annotations

from typing import Any

from suffixspec.errors import InputError
from suffixspec.server.errors import ApiError
from suffixspec.server.fields import Fields, shown
from suffixspec.server.system_prompt import without_billing_line
from suffixspec.trace.chat import parse_messages

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_TEXT_PARTS = ("text", "refusal", "thinking", "reasoning")


def read_messages(value: Any, where: str = "messages") -> list[dict[str, Any]]:
    """Check a conversation, and take the line for the API's accounting out of its system messages.

    Raises:
        ApiError: not messages, or with something other than text in them.
    """
    if not isinstance(value, list) or not value:
        got = "an empty array" if value == [] else "nothing" if value is None else shown(value)
        raise ApiError(f"expected {where} to be an array of at least one message, got {got}", param=where)
    messages = [_message(message, f"{where}[{number}]") for number, message in enumerate(value)]
    try:
        parse_messages(messages, where)
    except InputError as error:
        raise ApiError(str(error), param=where) from error
    return messages


def read_tools(value: Any) -> list[dict[str, Any]] | None:
    """Check functions in chat completions' form.

    Raises:
        ApiError: something else.
    """
    if value is None or value == []:
        return None
    if not isinstance(value, list):
        raise ApiError(f"expected tools to be an array, got {shown(value)}", param="tools")
    for number, tool in enumerate(value):
        fields = Fields(tool, f"tools[{number}].")
        if fields.get("type") != "function":
            raise fields.refuse("type", '"function", the only kind of tool that this server knows')
        function = fields.object("function")
        if function is None:
            raise fields.refuse("function", "an object")
        if not function.text("name"):
            raise function.refuse("name", "a name")
        function.text("description")
        function.object("parameters")
    return list(value)


def _message(value: Any, where: str) -> dict[str, Any]:
    message = Fields(value, f"{where}.")
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise message.refuse("role", f"one of {', '.join(_ROLES)}")
    content = message.get("content")
    if isinstance(content, list):
        for number, part in enumerate(content):
            _check_part(part, f"{where}.content[{number}]")
    elif content is not None and not isinstance(content, str):
        raise message.refuse("content", "a string or an array of text parts")
    if content is None and role != "assistant":
        raise message.refuse("content", "a string or an array of text parts")
    if role not in {"system", "developer"}:
        return message.value
    return message.value | {"content": _without_billing(content)}


def _check_part(part: Any, where: str) -> None:
    fields = Fields(part, f"{where}.")
    kind = fields.get("type")
    if kind not in _TEXT_PARTS:
        raise fields.refuse("type", '"text", since the model reads text only')
    if kind in {"text", "refusal"} and fields.text(str(kind)) is None:
        raise fields.refuse(str(kind), "a string")


def _without_billing(content: Any) -> Any:
    if isinstance(content, str):
        return without_billing_line(content)
    if not content:
        return content
    first = content[0]
    rest = without_billing_line(first.get("text") or "")
    if rest == first.get("text"):
        return content
    if not rest and len(content) > 1:
        return content[1:]
    return [{**first, "text": rest}, *content[1:]]
