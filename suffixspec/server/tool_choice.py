"""``tool_choice`` and ``parallel_tool_calls``: which calls an output has to have, and which it may.

A choice that requires a call (of any tool, or of one) binds the output to it by a grammar, where the extra
``grammar`` is installed: the output is one call, in JSON, whose arguments follow the tool's schema; a schema that
cannot be compiled leaves the arguments any object, which the response's header says. Without the extra, calls are
looked for in a free output as ever, and the header names ``tool_choice``: the model may not call.

Where parallel calls are ruled out, an output ends where its second call would begin.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from suffixspec.errors import InputError, MissingExtraError
from suffixspec.parsing import OutputParser, SingleCallParser, parser_for, required_call_format
from suffixspec.server.call import Prompt
from suffixspec.server.errors import ApiError

if TYPE_CHECKING:
    from suffixspec.server.service import Service
    from suffixspec.verify.constraint import Constraint

_ANY = {"type": "object", "additionalProperties": True}


@dataclass
class ToolCalls:
    """What a request says about calls, as it is followed."""

    service: Service
    prompt: Prompt
    choice: Any = "auto"
    """"auto", "none", "required" or OpenAI's object."""
    parallel: bool = True
    constraint: Constraint | None = None
    """Binds an output to the required call."""
    ignored: list[str] = field(default_factory=list)
    """What of it is not followed."""

    def parser(self) -> OutputParser:
        """For one output of the prompt."""
        return parser_for(
            self.service.tokenizer,
            tools=self.prompt.tools,
            prompt_text=self.prompt.text,
            tool_choice=self.choice,
            parallel=self.parallel,
            bare=self.constraint is not None,
        )

    def ends(self) -> SingleCallParser | None:
        """Says where one output of the prompt has a call too many; None where none is too many."""
        parser = self.parser() if self.prompt.tools and self.choice != "none" else None
        return parser if isinstance(parser, SingleCallParser) and self.constraint is None else None


def read_tool_calls(service: Service, prompt: Prompt, choice: Any, *, parallel: bool) -> ToolCalls:
    """What a request's ``tool_choice`` asks for, given its tools (the prompt's).

    Raises:
        ApiError: malformed tools, or a choice that is none.
    """
    calls = ToolCalls(service, prompt, choice, parallel)
    try:
        form = required_call_format(prompt.tools, choice)
        calls.parser()
    except InputError as error:
        raise ApiError(str(error), param="tool_choice" if "tool_choice" in str(error) else "tools") from error
    if form is None:
        return calls
    try:
        calls.constraint = service.constraint(form, prompt)
    except MissingExtraError:
        calls.ignored.append("tool_choice")
    except InputError:
        loose = [_loose(tool) for tool in prompt.tools or ()]
        calls.constraint = service.constraint(required_call_format(loose, choice) or {}, prompt)
        calls.ignored.append("tools.function.parameters")
    return calls


def _loose(tool: dict[str, Any]) -> dict[str, Any]:
    """The same function, of any arguments."""
    return tool | {"function": tool["function"] | {"parameters": _ANY}}
