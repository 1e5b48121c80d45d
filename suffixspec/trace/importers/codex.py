"""Codex session logs (``~/.codex/sessions/…/rollout-*.jsonl``), with and without envelopes."""

from collections.abc import Iterable, Iterator
from typing import Any

from suffixspec.errors import InputError
from suffixspec.trace.fields import text_or_none
from suffixspec.trace.importers.base import Context, Importer, items, numbered
from suffixspec.trace.importers.response_items import ResponseItems
from suffixspec.trace.importers.transcript import Transcript
from suffixspec.trace.session import Message, TraceSession

_ENVELOPES = ("session_meta", "turn_context", "response_item", "event_msg", "compacted")
_BARE = ("message", "reasoning", "function_call", "function_call_output", "local_shell_call")
_SILENT = ("ghost_snapshot", "other", "compaction", "compaction_summary")


class Codex(Importer):
    """One session a file (or several, one after the other). Tool definitions are not in these logs.

    Consecutive items of the model up to the next output or message are one model message. After a compaction
    or a rollback a new part ``ID#2`` begins, with what came before as context.
    """

    name = "codex"
    title = "Codex rollout"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._rollout = _Rollout(context.stem, 1)
        self._forked_from: set[str] = set()

    @classmethod
    def matches(cls, record: Any) -> bool:
        """An envelope with a payload, or (2025's first logs) a bare response item."""
        if not isinstance(record, dict):
            return False
        kind = record.get("type")
        if kind in _ENVELOPES:
            return isinstance(record.get("payload"), dict)
        if kind not in _BARE or "message" in record or "uuid" in record or "payload" in record:
            return False
        return isinstance(record.get("content"), list) or "call_id" in record

    def feed(self, record: Any, line: int) -> Iterable[TraceSession]:
        """Take one record; most sessions come out of `finish`."""
        if not isinstance(record, dict):
            raise InputError("expected a Codex record, got a line that is no object")
        kind, payload = record.get("type"), record.get("payload")
        if kind not in _ENVELOPES or not isinstance(payload, dict):
            return self._bare(record, line)
        if kind == "session_meta":
            return list(self._meta(payload, line))
        if kind == "turn_context":
            self._rollout.model = self._rollout.model or text_or_none(payload.get("model"))
        elif kind == "response_item":
            self._item(payload, "payload", line)
        elif kind == "compacted":
            self._rollout.compact(payload)
        elif payload.get("type") == "task_started":
            self._rollout.turn_starts.append(len(self._rollout.transcript))
        elif payload.get("type") == "thread_rolled_back":
            self._rollout.roll_back(payload.get("num_turns"))
        return ()

    def finish(self) -> Iterator[TraceSession]:
        """Return the last session."""
        rollout = self._rollout
        for number, messages in enumerate(rollout.transcript.parts(), start=1):
            yield self.session(numbered(rollout.name, number), messages, rollout.line, model=rollout.model)

    def _meta(self, payload: dict[str, Any], line: int) -> Iterator[TraceSession]:
        name = text_or_none(payload.get("id"))
        # A forked session repeats the records of the session it comes from, that one's head included.
        if name in self._forked_from:
            return
        yield from self.finish()
        self._rollout = _Rollout(name or self.context.stem, line)
        forked_from = text_or_none(payload.get("forked_from_id"))
        if forked_from is not None:
            self._forked_from.add(forked_from)
        self._rollout.model = text_or_none(payload.get("model"))
        instructions = payload.get("base_instructions") or payload.get("instructions")
        text = instructions.get("text") if isinstance(instructions, dict) else instructions
        if isinstance(text, str) and text:
            self._rollout.transcript.append(Message("system", text))

    def _bare(self, record: dict[str, Any], line: int) -> Iterable[TraceSession]:
        if record.get("type") in _BARE or str(record.get("type")).endswith(("_call", "_output")):
            self._item(record, "the item", line)
        elif "id" in record and "instructions" in record:
            return list(self._meta(record, line))
        elif "record_type" not in record:
            self.context.note("a line that is no Codex record", line)
        return ()

    def _item(self, item: dict[str, Any], where: str, line: int) -> None:
        if not self._rollout.items.add(item, where) and item.get("type") not in _SILENT:
            self.context.note(f"an item of type {item.get('type')!r:.60}", line)


class _Rollout:
    """One session, as its records come in."""

    def __init__(self, name: str, line: int) -> None:
        self.name = name
        self.line = line
        self.model: str | None = None
        self.transcript = Transcript()
        self.items = ResponseItems(self.transcript)
        self.turn_starts: list[int] = []
        """By user's turn: how many messages there were before it."""

    def compact(self, payload: dict[str, Any]) -> None:
        """Go on with the system message and what the compaction left."""
        self.transcript.restart(
            message for message in self.transcript.messages[:1] if message.role == "system"
        )
        self.items.close()
        self.turn_starts.clear()
        replacement = payload.get("replacement_history")
        for index, item in enumerate(items(replacement)):
            self.items.add(item, f"payload.replacement_history[{index}]")
        self.items.close()
        if not isinstance(replacement, list) and text_or_none(payload.get("message")):
            self.transcript.append(Message("user", payload["message"]))
        # Whatever the model wrote in there, it wrote it earlier.
        self.transcript.messages[:] = [message.as_context() for message in self.transcript.messages]

    def roll_back(self, turns: Any) -> None:
        """Take back the user's last turns."""
        if isinstance(turns, int) and 0 < turns <= len(self.turn_starts):
            self.transcript.rewind(self.turn_starts[-turns])
            self.items.close()
            del self.turn_starts[-turns:]
