"""One recorded agent loop as plain values: a session, its messages, their tool calls."""

import hashlib
import re
from dataclasses import dataclass, field, replace
from typing import Any

ROLES = ("system", "developer", "user", "assistant", "tool")
"""Every role a message can have."""

_SUFFIX = re.compile(r"(?:#\d+)*(?:(?<=.)@.*)?$", re.DOTALL)
_INSTANCE_ID = re.compile(r"__.*\d", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool, written by the model.

    Args:
        name: the tool.
        arguments: the arguments verbatim as the model wrote them, normally a JSON string. Where a format
            keeps only the parsed object, it is serialised with ``json.dumps`` in the object's own key order.
        id: the call's id, which the tool's answer refers to.
    """

    name: str
    arguments: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    Args:
        role: one of `ROLES`.
        content: the text; parts of other kinds (images, files) are left out.
        reasoning: reasoning text which the model wrote before the content, where the format keeps it.
        tool_calls: the calls which the model wrote after the content.
        tool_call_id: for ``tool``, the call that is answered.
        name: the author's or the tool's name.
        token_ids: the ids of this message's output as the model produced them; read for ``assistant`` only.
        model_output: False for an assistant message that the model did not write in this session (a fixed
            greeting, a demonstration, a copy of an earlier session): it is context and never decoded.
    """

    role: str
    content: str = ""
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    token_ids: tuple[int, ...] | None = None
    model_output: bool = True

    @property
    def is_output(self) -> bool:
        """Whether the model wrote this message in this session. Cost: O(1)."""
        return self.role == "assistant" and self.model_output

    def as_context(self) -> "Message":
        """This message as something the model was shown and did not write. Cost: O(1)."""
        return replace(self, model_output=False) if self.is_output else self


@dataclass(frozen=True, slots=True)
class TraceSession:
    """One recorded agent loop.

    Args:
        session_id: names the session in reports; see `task_key` for what it says about retries.
        messages: the whole conversation in order; every assistant message with ``model_output`` is one model
            call.
        model: the model's name.
        tools: OpenAI-style tool definitions which the model was shown.
        namespace: who shares a history with this session.
        task: a free label.
        source: where the session comes from, in words; importers put the format's name.
        path: the file it was read from. Not part of equality.
        line: 1-based line on which its record starts. Not part of equality.
    """

    session_id: str
    messages: tuple[Message, ...]
    model: str | None = None
    tools: tuple[dict[str, Any], ...] | None = None
    namespace: str | None = None
    task: str | None = None
    source: str | None = None
    path: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)

    @property
    def turns(self) -> int:
        """Number of model calls: assistant messages with ``model_output``. Cost: O(messages)."""
        return sum(message.is_output for message in self.messages)

    @property
    def task_key(self) -> str:
        """What makes two sessions retries of the same task.

        The last path segment of the session id without its trailing ``#2`` or ``@…``, if that looks like an
        instance id (``django__django-11564``: two underscores and, after them, a digit); otherwise a hash of
        the first user message's text, or of the session id where there is none. Cost: O(length of that text).
        """
        name = _SUFFIX.sub("", self.session_id.rsplit("/", 1)[-1])
        if _INSTANCE_ID.search(name):
            return name
        text = next((message.content for message in self.messages if message.role == "user"), self.session_id)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
