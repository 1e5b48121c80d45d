"""The output format that makes a model call a tool where a request requires it."""

from __future__ import annotations

from typing import Any

from suffixspec.parsing.choice import tool_choice_of

_ANY = {"type": "object"}


def required_call_format(
    tools: list[dict[str, Any]] | None, tool_choice: Any = "auto"
) -> dict[str, Any] | None:
    """A ``response_format`` whose outputs are one call of an allowed function, as bare JSON.

    For ``verify.constraint.constraint_for``; a parser made with the same ``tool_choice`` reads such an output
    as a call, whatever the form in which the model calls otherwise.

    Args:
        tools: the request's.
        tool_choice: the request's.

    Returns:
        None where no call is required.

    Raises:
        InputError: malformed tools or tool_choice.
    """
    choice = tool_choice_of(tools, tool_choice)
    if choice.mode != "required":
        return None
    calls = []
    for tool in tools or ():
        function = tool.get("function", tool)
        if choice.only is None or function["name"] == choice.only:
            parameters = function.get("parameters") or _ANY
            properties = {"name": {"const": function["name"]}, "arguments": parameters}
            calls.append({"type": "object", "properties": properties, "required": ["name", "arguments"]})
    schema = calls[0] if len(calls) == 1 else {"anyOf": calls}
    return {"type": "json_schema", "json_schema": {"name": "tool_call", "schema": schema, "strict": True}}
