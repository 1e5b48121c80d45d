"""A session's messages as the dicts that one chat template takes."""

from typing import TYPE_CHECKING, Any

from suffixspec.text.tokenizer import clean
from suffixspec.text.traits import CALL_ID, TemplateTraits

if TYPE_CHECKING:
    from suffixspec.trace.session import Message

FILLER = "Continue."
"""The user message put where a template insists on one and the session has none."""


def think_block(reasoning: str) -> str:
    """Reasoning as text in front of the content."""
    return f"<think>\n{reasoning}\n</think>\n\n"


def call_blocks(message: "Message") -> str:
    """Tool calls as text behind the content: name and arguments verbatim, so not necessarily valid JSON."""
    return "\n".join(
        f'<tool_call>\n{{"name": "{call.name}", "arguments": {call.arguments or "{}"}}}\n</tool_call>'
        for call in message.tool_calls
    )


def inline_text(message: "Message", *, reasoning: bool, calls: bool) -> str:
    """Content with reasoning in front and tool calls behind, where asked for and present."""
    text = message.content
    if reasoning and message.reasoning:
        text = think_block(message.reasoning) + text
    if calls and message.tool_calls:
        text += ("\n" if text and not text.endswith("\n") else "") + call_blocks(message)
    return clean(text)


def recorded_pieces(message: "Message") -> list[str]:
    """The texts that must appear in a turn's output, in order."""
    pieces = [message.reasoning or "", message.content]
    for call in message.tool_calls:
        pieces += [call.name, call.arguments]
    return [clean(piece) for piece in pieces if piece]


class Transcript:
    """Builds the conversation message by message; only its last message changes, by merging.

    Args:
        traits: what the template can do.
        strict: use nothing but user and assistant messages in turn, whatever the traits say: the form that
            nearly every template takes.
    """

    def __init__(self, traits: TemplateTraits, *, strict: bool = False) -> None:
        self.messages: list[dict[str, Any]] = []
        self._traits = traits
        self._parts = traits.content_parts
        self._alternating = strict or traits.alternating
        self._system = traits.system and not strict
        self._late_system = traits.late_system and not self._alternating
        self._tool_role = traits.tool_role and not strict
        self._native_calls = traits.tool_calls == "verbatim" and not strict
        self._preface = ""
        self._calls: list[tuple[str, str]] = []
        self._called = 0

    def add(self, message: "Message") -> None:
        """Add a message of the context; an assistant's in its first form."""
        if message.role == "assistant":
            self.add_assistant(self.assistant_forms(message)[0])
        elif message.role == "tool":
            self._add_tool(message)
        elif message.role in {"system", "developer"}:
            self._add_system(message)
        else:
            self._append(message.role, clean(message.content), name=message.name)

    def assistant_forms(self, message: "Message") -> list[dict[str, Any]]:
        """The dicts that an assistant message can be given as, the template's own way first.

        Reasoning is a field of its own where the template shows it, else it stands in the content; tool calls
        are fields where the template writes them verbatim, and as a last form blocks in the content.
        """
        native_reasoning = self._traits.reasoning and bool(message.reasoning)
        more: dict[str, Any] = {}
        if native_reasoning:
            more = {
                "reasoning_content": clean(message.reasoning or ""),
                "thinking": clean(message.reasoning or ""),
            }
        forms = []
        if message.tool_calls and self._native_calls:
            text = inline_text(message, reasoning=not native_reasoning, calls=False)
            forms.append(self._message("assistant", text, **more, tool_calls=self._call_dicts(message)))
        text = inline_text(message, reasoning=not native_reasoning, calls=True)
        forms.append(self._message("assistant", text, **more))
        return forms

    def add_assistant(self, form: dict[str, Any]) -> None:
        """Add one of ``assistant_forms``."""
        if self._alternating and not self._answerable():
            self._append("user", FILLER)
        self.messages.append(form)
        calls = form.get("tool_calls", ())
        self._calls = [(call["id"], call["function"]["name"]) for call in calls]
        self._called += len(calls)

    def open_turn(self) -> None:
        """Make the conversation one that an assistant message can follow."""
        empty = not self.messages and (bool(self._preface) or not self._traits.empty_context)
        if empty or (self._alternating and not self._answerable()):
            self._append("user", FILLER)

    def _answerable(self) -> bool:
        return bool(self.messages) and self.messages[-1]["role"] in {"user", "tool"}

    def _message(self, role: str, text: str, **more: Any) -> dict[str, Any]:
        return {"role": role, "content": [{"type": "text", "text": text}] if self._parts else text, **more}

    def _append(self, role: str, text: str, *, name: str | None = None, **more: Any) -> None:
        if role == "user" and self._preface:
            text, self._preface = f"{self._preface}\n\n{text}", ""
        last = self.messages[-1] if self.messages else None
        if self._alternating and role == "user" and last is not None and last["role"] == "user":
            before = last["content"][0]["text"] if self._parts else last["content"]
            # A new dict: an earlier rendering may still hold the old one.
            self.messages[-1] = self._message("user", f"{before}\n\n{text}")
            return
        if name is not None:
            more["name"] = name
        self.messages.append(self._message(role, text, **more))

    def _add_system(self, message: "Message") -> None:
        text = clean(message.content)
        if not self.messages and not self._system:
            self._preface = f"{self._preface}\n\n{text}" if self._preface else text
        elif not self.messages or self._late_system:
            own = message.role == "developer" and self._traits.developer
            self._append("developer" if own else "system", text)
        elif len(self.messages) == 1 and self.messages[0]["role"] in {"system", "developer"}:
            before = self.messages[0]["content"][0]["text"] if self._parts else self.messages[0]["content"]
            self.messages[0] = self._message(self.messages[0]["role"], f"{before}\n\n{text}")
        else:
            self._append("user", text)

    def _add_tool(self, message: "Message") -> None:
        text = clean(message.content)
        if not self._tool_role:
            self._append("user", f"<tool_response>\n{text}\n</tool_response>")
            return
        call = next((call for call in self._calls if call[0] == message.tool_call_id), None)
        if call is None and self._calls:
            call = self._calls[0]  # results without ids come in the order of the calls
        if call is not None:
            self._calls.remove(call)
        identifier, called = call or (message.tool_call_id, None)
        more = {} if identifier is None else {"tool_call_id": identifier}
        self._append("tool", text, name=message.name or called, **more)

    def _call_dicts(self, message: "Message") -> list[dict[str, Any]]:
        return [
            {
                "id": (call.id if self._traits.free_ids else None)
                or f"{CALL_ID[:4]}{self._called + number:05d}",
                "type": "function",
                "function": {"name": clean(call.name), "arguments": clean(call.arguments)},
            }
            for number, call in enumerate(message.tool_calls)
        ]
