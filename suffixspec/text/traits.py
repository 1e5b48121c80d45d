"""What a chat template does with each kind of message, found out by rendering probes.

Templates differ, and many fail silently: SmolLM2's drops tool calls, others drop what a tool answered,
refuse a system message, or write a tool call's arguments anew. Names tell nothing about that, so a short
conversation with marked texts is rendered per question and the result searched for the marks.
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from suffixspec.text.template import RenderError

CALL_ID = "call00000"
"""Form of the ids given to tool calls that have none: nine letters and digits suit every template."""

THINK_OPEN = "<think>"

_USER, _USER2 = "probe question one", "probe question two"
_REPLY, _REPLY2 = "probe answer one", "probe answer two"
_SYSTEM = "probe instruction"
_REASON = "probe reasoning"
_RESULT = "probe result"
_TOOL = "probe_tool"
_LONG_ID = "call_0123456789-abcdefghijklm"
# No JSON library writes this: spacing, key order, a Unicode escape beside the letter itself, a float's form.
_ARGUMENTS = '{"b":  1,"a" : "\\u00e9 / é <", "c":[1.0, 1e5] }'
_SCHEMA = {
    "type": "function",
    "function": {
        "name": _TOOL,
        "description": "Probe.",
        "parameters": {"type": "object", "properties": {"a": {"type": "string", "description": "probe"}}},
    },
}


class Renderer(Protocol):
    """What is probed: a tokenizer, as far as its template goes."""

    @property
    def special_tokens(self) -> dict[str, int]:
        """Text and id of every special token."""
        ...

    @property
    def eos_token(self) -> str:
        """Text of the end token, or ``""``."""
        ...

    def render(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None = None,
        add_generation_prompt: bool = False,
    ) -> str:
        """The template's text of a conversation."""
        ...


@dataclass(frozen=True, slots=True)
class TemplateTraits:
    """What a chat template does, as far as rendering a session depends on it."""

    content_parts: bool
    """Content must be a list of ``{"type": "text", "text": …}``: plain text is dropped or refused."""
    system: bool
    """A leading system message is shown. Else its text goes in front of the first user message."""
    late_system: bool
    """A system message after the first place is shown. Else it becomes a user message."""
    developer: bool
    """The role "developer" has a meaning of its own. Else it is taken for "system"."""
    alternating: bool
    """The template insists on user, assistant, user, …: equal neighbours are merged, gaps filled."""
    empty_context: bool
    """A conversation without any message can be rendered. Else a short user message is put in front."""
    tool_role: bool
    """What a tool answered is shown under the role "tool". Else it becomes a user message."""
    tools: bool
    """Tool schemas are shown."""
    tool_calls: Literal["verbatim", "rewritten", "dropped", "refused"]
    """What becomes of a tool call; all but "verbatim" become ``<tool_call>`` blocks in the content."""
    free_ids: bool
    """Tool calls may have any id. Else they get ids of nine letters and digits."""
    reasoning: bool
    """The reasoning of the last assistant message is shown. Else it goes in front of the content as
    ``<think>`` block."""
    whitespace: bool
    """White space around a reply is kept. Else the next prompt differs from what was written."""
    header: str
    """Start of an assistant message that ``add_generation_prompt`` leaves out: appended to each prompt."""
    lead: str
    """White space between the prompt's end and the content."""
    closing_text: str
    """What ends an assistant message: white space and one special token, or ``""``."""
    closing_token: str
    """That special token, or ``""``."""

    def notes(self) -> list[str]:
        """What is rendered otherwise than given, a sentence each, for people."""
        how = {"rewritten": "writes their arguments anew", "dropped": "drops them", "refused": "refuses them"}
        notes = []
        if self.tool_calls != "verbatim":
            notes.append(
                f"tool calls are rendered as <tool_call> blocks: the chat template {how[self.tool_calls]}"
            )
        if not self.tool_role:
            notes.append("tool results are rendered as user messages: the chat template does not show them")
        if not self.tools:
            notes.append("tool schemas are left out: the chat template does not show them")
        if not self.reasoning:
            notes.append("reasoning is rendered as <think> block: the chat template does not show it")
        if not self.system:
            notes.append(
                "the system message goes in front of the first user message: the template refuses it"
            )
        if self.alternating:
            notes.append("neighbouring messages of one role are merged: the chat template insists on turns")
        if not self.whitespace:
            notes.append("the chat template trims replies: a trimmed one is encoded again in the next prompt")
        return notes


def probe_template(tokenizer: Renderer) -> TemplateTraits:
    """Find out what the chat template of ``tokenizer`` does; some thirty short renderings.

    Raises:
        RenderError: the template does not even show the text of a single user message.
    """
    return _Probe(tokenizer).traits()


def first_special(text: str, special: dict[str, int]) -> tuple[int, str] | None:
    """Place and text of the first special token in ``text``, the longest where several start."""
    found = [(at, -len(token), token) for token in special if token and (at := text.find(token)) >= 0]
    if not found:
        return None
    at, _, token = min(found)
    return at, token


class _Probe:
    def __init__(self, tokenizer: Renderer) -> None:
        self._tokenizer = tokenizer
        self._parts = False
        self._parts = self._needs_parts()

    def _message(self, role: str, text: str, **more: Any) -> dict[str, Any]:
        return {"role": role, "content": [{"type": "text", "text": text}] if self._parts else text, **more}

    def _render(self, *messages: dict[str, Any], prompt: bool = False, tools: Any = None) -> str | None:
        try:
            return self._tokenizer.render(list(messages), tools, prompt)
        except RenderError:
            return None

    def _shows(self, *messages: dict[str, Any], texts: tuple[str, ...], prompt: bool = True) -> bool:
        text = self._render(*messages, prompt=prompt)
        return text is not None and all(wanted in text for wanted in texts)

    def _needs_parts(self) -> bool:
        if self._shows(self._message("user", _USER), texts=(_USER,)):
            return False
        self._parts = True
        if self._shows(self._message("user", _USER), texts=(_USER,)):
            return True
        self._parts = False
        # Raises with the template's own words where it refuses; else it dropped the text without a word.
        self._tokenizer.render([self._message("user", _USER)], None, True)
        raise RenderError("expected the text of a user message in the rendered conversation, got it dropped")

    def traits(self) -> TemplateTraits:
        user, user2 = self._message("user", _USER), self._message("user", _USER2)
        reply, reply2 = self._message("assistant", _REPLY), self._message("assistant", _REPLY2)
        system = self._message("system", _SYSTEM)
        calls = self._tool_calls(user)
        header, lead = self._header(user, reply)
        closing_text, closing_token = self._closing(user, reply, user2)
        return TemplateTraits(
            content_parts=self._parts,
            system=self._shows(system, user, texts=(_SYSTEM, _USER)),
            late_system=self._shows(user, reply, system, user2, texts=(_SYSTEM, _USER, _REPLY, _USER2)),
            developer=self._developer(user),
            alternating=not (
                self._shows(user, user2, reply, reply2, user, texts=(_USER2, _REPLY, _REPLY2))
                and self._shows(user, reply, texts=(_USER, _REPLY))
                and self._shows(reply, user, texts=(_USER, _REPLY))
            ),
            empty_context=self._render(prompt=True) is not None,
            tool_role=self._tool_role(user, native=calls == "verbatim"),
            tools=_TOOL in (self._render(user, prompt=True, tools=[_SCHEMA]) or ""),
            tool_calls=calls,
            free_ids=self._tool_role(user, native=calls == "verbatim", identifier=_LONG_ID),
            reasoning=self._shows(
                user,
                {**reply, "reasoning_content": _REASON, "thinking": _REASON},
                texts=(_REASON, _REPLY),
                prompt=False,
            ),
            whitespace=self._shows(
                user, self._message("assistant", f" \n{_REPLY}\n "), texts=(f" \n{_REPLY}\n ",), prompt=False
            ),
            header=header,
            lead=lead,
            closing_text=closing_text,
            closing_token=closing_token,
        )

    def _tool_calls(self, user: dict[str, Any]) -> Literal["verbatim", "rewritten", "dropped", "refused"]:
        """The arguments are given as text, so that a template that can write them verbatim does."""
        call = {"id": CALL_ID, "type": "function", "function": {"name": _TOOL, "arguments": _ARGUMENTS}}
        message = self._message("assistant", _REPLY, tool_calls=[call])
        bare = self._message("assistant", "", tool_calls=[call])
        text, bare_text = self._render(user, message), self._render(user, bare)
        if text is None or bare_text is None:
            return "refused"
        if _TOOL not in text or _TOOL not in bare_text or _REPLY not in text:
            return "dropped"
        return "verbatim" if _ARGUMENTS in text and _ARGUMENTS in bare_text else "rewritten"

    def _tool_role(self, user: dict[str, Any], *, native: bool, identifier: str = CALL_ID) -> bool:
        result = self._message("tool", _RESULT, tool_call_id=identifier, name=_TOOL)
        call = {"id": identifier, "type": "function", "function": {"name": _TOOL, "arguments": _ARGUMENTS}}
        reply = self._message("assistant", _REPLY, **({"tool_calls": [call]} if native else {}))
        return self._shows(user, reply, result, texts=(_USER, _RESULT)) and self._shows(
            user, reply, result, reply, texts=(_USER, _RESULT), prompt=False
        )

    def _developer(self, user: dict[str, Any]) -> bool:
        """Known, unless it is shown the way a made-up role is."""
        text = self._render(self._message("developer", _SYSTEM), user, prompt=True)
        other = self._render(self._message("probe_role", _SYSTEM), user, prompt=True)
        return text is not None and _SYSTEM in text and text.replace("developer", "probe_role") != other

    def _header(self, user: dict[str, Any], reply: dict[str, Any]) -> tuple[str, str]:
        prompt, bare = self._render(user, prompt=True) or "", self._render(user) or ""
        full = self._render(user, reply) or ""
        if not full.startswith(prompt) or _REPLY not in full[len(prompt) :]:
            return "", ""
        between = full[len(prompt) : full.index(_REPLY, len(prompt))]
        if not between.strip():
            return "", between
        return (between, "") if prompt == bare else ("", "")

    def _closing(self, user: dict[str, Any], reply: dict[str, Any], user2: dict[str, Any]) -> tuple[str, str]:
        """The special token behind an assistant's text; some templates write it only when more follows."""
        special = self._tokenizer.special_tokens
        for messages in ((user, reply), (user, reply, user2)):
            text = self._render(*messages) or ""
            tail = text[text.find(_REPLY) + len(_REPLY) :] if _REPLY in text else ""
            found = first_special(tail.split(_USER2)[0], special)
            if found is not None:
                at, token = found
                return (tail[:at] if not tail[:at].strip() else "") + token, token
        eos = self._tokenizer.eos_token
        return eos, eos
