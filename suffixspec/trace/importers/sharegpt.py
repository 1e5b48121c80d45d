"""ShareGPT conversations: ``{"id", "conversations": [{"from", "value"}]}``."""

import json
from collections.abc import Iterator
from typing import Any

from suffixspec.trace.chat import parse_tools
from suffixspec.trace.fields import a_list, a_string, an_object, expected, optional_string
from suffixspec.trace.importers.base import Importer
from suffixspec.trace.session import Message, TraceSession

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "model": "assistant",
    "function_call": "assistant",
    "system": "system",
    "tool": "tool",
    "function_response": "tool",
    "observation": "tool",
    "ipython": "tool",
}


class ShareGpt(Importer):
    """One conversation a record."""

    name = "sharegpt"
    title = "ShareGPT"

    @classmethod
    def matches(cls, record: Any) -> bool:
        """A conversation has a list of ``conversations``."""
        return isinstance(record, dict) and isinstance(record.get("conversations"), list)

    def feed(self, record: Any, line: int) -> Iterator[TraceSession]:
        """Take one conversation."""
        conversation = an_object(record, "the conversation")
        default_id = self.default_id(line)
        messages = []
        system = optional_string(conversation, "system")
        if system:
            messages.append(Message("system", system))
        for index, value in enumerate(a_list(conversation.get("conversations"), "conversations")):
            where = f"conversations[{index}]"
            entry = an_object(value, where)
            key = "from" if "from" in entry else "role"
            speaker = a_string(entry.get(key), f"{where}.{key}")
            role = _ROLES.get(speaker.lower())
            if role is None:
                raise expected("one of " + ", ".join(_ROLES), speaker, f"{where}.{key}")
            text = entry.get("value") if "value" in entry else entry.get("content")
            messages.append(Message(role, a_string(text, f"{where}.value")))
        name = conversation.get("id")
        yield self.session(
            name if isinstance(name, str) and name else default_id,
            messages,
            line,
            model=optional_string(conversation, "model"),
            tools=_tools(conversation.get("tools")),
        )


def _tools(value: Any) -> tuple[dict[str, Any], ...] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value or "null")
        except ValueError:
            return None
    return parse_tools(value) if isinstance(value, list) else None
