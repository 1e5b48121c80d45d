"""What a request says about tools: which there are, and whether they may, must or must not be called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from suffixspec.errors import InputError

_MODES = ("auto", "none", "required")


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """OpenAI's ``tools`` and ``tool_choice``, as far as parsing an output is concerned."""

    names: frozenset[str]
    """The functions that there are."""
    mode: Literal["auto", "none", "required"]
    """Whether calls are looked for; "required" too where one function is named."""
    only: str | None = None
    """The one function that was asked for."""
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """For each function the JSON schemas of its parameters by name, as far as given."""

    @property
    def parses(self) -> bool:
        """Whether anything in an output is a call."""
        return self.mode != "none" and bool(self.names)

    def allows(self, name: str, *, marked: bool) -> bool:
        """Whether a call of this function is one.

        Args:
            name: the function.
            marked: the output says that it is a call, by the markers of its form. A function that does not
                exist is then called nevertheless: whoever runs the tools tells the model so. Without markers
                a JSON object is a call only when it names a function that exists.
        """
        if self.only is not None:
            return name == self.only
        return marked or name in self.names


def tool_choice_of(tools: list[dict[str, Any]] | None, choice: Any = "auto") -> ToolChoice:
    """Read ``tools`` and ``tool_choice`` of a request.

    Args:
        tools: ``{"type": "function", "function": {"name": …}}``, or the function's object alone.
        choice: "auto", "none", "required", or ``{"type": "function", "function": {"name": …}}`` (or
            ``{"type": "function", "name": …}``); None is "auto".

    Raises:
        InputError: neither; or a function that is not among the tools, or none to require.
    """
    parameters = {_name(tool): _parameters(tool) for tool in tools or ()}
    names = frozenset(parameters)
    if choice is None:
        choice = "auto"
    if isinstance(choice, str):
        if choice not in _MODES:
            raise InputError(f"expected tool_choice to be one of {', '.join(_MODES)}, got {choice!r}")
        if choice == "required" and not names:
            raise InputError('expected tools for tool_choice "required", got none')
        return ToolChoice(names, choice, None, parameters)  # type: ignore[arg-type]
    only = _name(choice, "tool_choice")
    if only not in names:
        known = ", ".join(sorted(names)) or "none"
        raise InputError(f"expected tool_choice to name one of the tools ({known}), got {only!r}")
    return ToolChoice(names, "required", only, parameters)


def _name(tool: Any, what: str = "each of tools") -> str:
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or not name:
        expected = '{"type": "function", "function": {"name": …}}'
        raise InputError(f"expected {what} to be {expected}, got {tool!r}")
    return name


def _parameters(tool: dict[str, Any]) -> dict[str, Any]:
    schema = tool.get("function", tool).get("parameters")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else {}
