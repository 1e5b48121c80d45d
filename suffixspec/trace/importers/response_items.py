"""Items of OpenAI's Responses API, as Codex logs and mini-swe-agent trajectories hold them."""

import json
from dataclasses import replace
from typing import Any

from suffixspec.trace.chat import arguments_text, content_text
from suffixspec.trace.fields import optional_string, text_or_none
from suffixspec.trace.importers.transcript import Transcript
from suffixspec.trace.session import ROLES, Message, ToolCall


class ResponseItems:
    """Adds items to a transcript; consecutive items of the model become one message.

    The texts of one item are concatenated, those of several items of one message joined by a newline.

    Args:
        transcript: where the messages go.
    """

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._open: int | None = None
        self._names: dict[str, str] = {}

    def close(self) -> None:
        """End the model's current message: what it writes next is another model call."""
        self._open = None

    def add(self, item: dict[str, Any], where: str) -> bool:
        """Add one item; return False if it is of an unknown kind and was left out.

        Raises:
            InputError: a field of the wrong type.
        """
        kind = item.get("type")
        if kind is None and "role" in item:
            kind = "message"
        if kind == "message":
            return self._message(item, where)
        if kind == "reasoning":
            # "summary" is left out: the model did not write it.
            self._output(reasoning=content_text(item.get("content"), f"{where}.content"))
        elif kind == "function_call":
            arguments = arguments_text(item.get("arguments"), f"{where}.arguments")
            self._call(item, text_or_none(item.get("name")) or "", arguments, where)
        elif kind == "custom_tool_call":
            arguments = arguments_text(item.get("input"), f"{where}.input")
            self._call(item, text_or_none(item.get("name")) or "", arguments, where)
        elif isinstance(kind, str) and kind.endswith("_output"):
            self._answer(item, where)
        elif isinstance(kind, str) and kind.endswith("_call") and isinstance(item.get("action"), dict):
            action = json.dumps(item["action"], ensure_ascii=False)  # local_shell_call, web_search_call
            self._call(item, kind.removesuffix("_call"), action, where)
        else:
            return False
        return True

    def _message(self, item: dict[str, Any], where: str) -> bool:
        role = item.get("role")
        text = content_text(item.get("content"), f"{where}.content")
        if role == "assistant":
            self._output(text=text)
        elif role in ROLES:
            self._transcript.append(Message(role, text))
            self.close()
        else:
            return False
        return True

    def _call(self, item: dict[str, Any], name: str, arguments: str, where: str) -> None:
        call_id = optional_string(item, "call_id", f"{where}.") or optional_string(item, "id", f"{where}.")
        if call_id is not None:
            self._names[call_id] = name
        self._output(call=ToolCall(name, arguments, call_id))

    def _answer(self, item: dict[str, Any], where: str) -> None:
        output = item.get("output")
        if isinstance(output, dict):  # older Codex: {"content": text, "success": …}
            output = output.get("content")
        call_id = optional_string(item, "call_id", f"{where}.")
        name = self._names.get(call_id) if call_id is not None else None
        text = content_text(output, f"{where}.output")
        self._transcript.append(Message("tool", text, tool_call_id=call_id, name=name))
        self.close()

    def _output(self, *, text: str = "", reasoning: str = "", call: ToolCall | None = None) -> None:
        if not text and not reasoning and call is None:
            return
        messages = self._transcript.messages
        if self._open is None or self._open != len(messages) - 1:
            self._open = self._transcript.append(Message("assistant"))
        message = messages[self._open]
        messages[self._open] = replace(
            message,
            content="\n".join(filter(None, (message.content, text))),
            reasoning="\n".join(filter(None, (message.reasoning, reasoning))) or None,
            tool_calls=message.tool_calls if call is None else (*message.tool_calls, call),
        )
