"""pi coding-agent sessions (``~/.pi/agent/sessions/…/*.jsonl``)."""

from collections.abc import Iterable, Iterator
from typing import Any

from suffixspec.trace.chat import arguments_text, content_text
from suffixspec.trace.fields import a_string, an_object, optional_string, text_or_none
from suffixspec.trace.importers.base import Context, Importer, items, numbered
from suffixspec.trace.importers.transcript import Transcript
from suffixspec.trace.session import Message, ToolCall, TraceSession

_SILENT = ("model_change", "thinking_level_change", "label", "custom", "session_info")


class Pi(Importer):
    """One session a file (or several, one after the other).

    Where the user went back in the session's tree, and after a compaction, a new part ``ID#2`` begins, with
    what came before as context. The system prompt and the tools are not in these logs.
    """

    name = "pi"
    title = "pi session"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._tree = _Tree(context.stem, 1, None)

    @classmethod
    def matches(cls, record: Any) -> bool:
        """The head has a working directory; an entry holds a message with a role."""
        if not isinstance(record, dict) or "payload" in record or "sessionId" in record:
            return False
        if record.get("type") == "session":
            return "cwd" in record or "id" in record
        message = record.get("message")
        return record.get("type") == "message" and isinstance(message, dict) and "role" in message

    def feed(self, record: Any, line: int) -> Iterable[TraceSession]:
        """Take one entry; most sessions come out of `finish`."""
        entry = an_object(record, "the line")
        if entry.get("type") == "session":
            done = list(self.finish())
            name = text_or_none(entry.get("id")) or self.context.stem
            self._tree = _Tree(name, line, text_or_none(entry.get("modelId")))
            return done
        if not self._tree.add(entry):
            message = entry.get("message")
            role = f" and role {message.get('role')!r:.60}" if isinstance(message, dict) else ""
            self.context.note(f"an entry of type {entry.get('type')!r:.60}{role}", line)
        return ()

    def finish(self) -> Iterator[TraceSession]:
        """Return the last session."""
        tree = self._tree
        for number, messages in enumerate(tree.transcript.parts(), start=1):
            yield self.session(numbered(tree.name, number), messages, tree.line, model=tree.model)


class _Tree:
    """One session, as its entries come in; each names the entry that it follows."""

    def __init__(self, name: str, line: int, model: str | None) -> None:
        self.name = name
        self.line = line
        self.transcript = Transcript()
        self._head_model = model
        self._writer: str | None = None
        self._starts: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        """By entry: how many messages there were before it, and after it."""

    @property
    def model(self) -> str | None:
        """The model that wrote the first reply, or else the one that the head names."""
        return self._writer or self._head_model

    def add(self, entry: dict[str, Any]) -> bool:
        """Add an entry; return False if it is of an unknown kind and was left out.

        Raises:
            InputError: the entry is malformed.
        """
        name, parent = text_or_none(entry.get("id")), text_or_none(entry.get("parentId"))
        end = self._ends.get(parent or "", len(self.transcript))
        if any(dropped.role == "assistant" for dropped in self.transcript.messages[end:]):
            self.transcript.rewind(end)
            self._ends = {other: position for other, position in self._ends.items() if position <= end}
        start = len(self.transcript)
        kind, known = entry.get("type"), True
        if kind == "message":
            known = self._message(an_object(entry.get("message"), "message"))
        elif kind == "compaction":
            self._compact(entry)
        elif kind in ("branch_summary", "custom_message"):
            self._shown(entry.get("summary") or entry.get("content"))
        else:
            known = kind in _SILENT
        if name is not None:
            self._starts[name] = start
            self._ends[name] = len(self.transcript)
        return known

    def _message(self, message: dict[str, Any]) -> bool:
        role = message.get("role")
        if role == "assistant":
            self._assistant(message)
        elif role == "toolResult":
            self.transcript.append(
                Message(
                    "tool",
                    content_text(message.get("content"), "message.content", joint="\n"),
                    tool_call_id=optional_string(message, "toolCallId", "message."),
                    name=optional_string(message, "toolName", "message."),
                )
            )
        elif role == "bashExecution":  # a command which the user ran; shown to the model unless excluded
            if message.get("excludeFromContext") is not True:
                command, output = message.get("command") or "", message.get("output") or ""
                self._shown(f"Ran `{command}`\n```\n{output}\n```")
        elif role in ("user", "custom", "hookMessage", "branchSummary", "compactionSummary"):
            self._shown(message.get("content") or message.get("summary"))
        else:
            return False
        return True

    def _shown(self, content: Any) -> None:
        self.transcript.append(Message("user", content_text(content, "message.content", joint="\n")))

    def _assistant(self, message: dict[str, Any]) -> None:
        texts, thinking, calls = [], [], []
        for index, block in enumerate(items(message.get("content"))):
            where = f"message.content[{index}]"
            kind = block.get("type")
            if kind == "text":
                texts.append(a_string(block.get("text"), f"{where}.text"))
            elif kind == "thinking":
                thinking.append(a_string(block.get("thinking"), f"{where}.thinking"))
            elif kind == "toolCall":
                name = a_string(block.get("name"), f"{where}.name")
                arguments = arguments_text(block.get("arguments"), f"{where}.arguments")
                calls.append(ToolCall(name, arguments, optional_string(block, "id", f"{where}.")))
        if isinstance(message.get("content"), str):
            texts.append(message["content"])
        if not texts and not thinking and not calls:
            return  # the call failed or was stopped before the first token
        self._writer = self._writer or text_or_none(message.get("model"))
        reasoning = "\n".join(thinking) or None
        text = "\n".join(texts)
        self.transcript.append(Message("assistant", text, reasoning=reasoning, tool_calls=tuple(calls)))

    def _compact(self, entry: dict[str, Any]) -> None:
        first_kept = text_or_none(entry.get("firstKeptEntryId")) or ""
        kept = self.transcript.messages[self._starts.get(first_kept, len(self.transcript)) :]
        summary = Message("user", content_text(entry.get("summary"), "summary"))
        self.transcript.restart([summary, *kept])
        self._starts.clear()
        self._ends.clear()
