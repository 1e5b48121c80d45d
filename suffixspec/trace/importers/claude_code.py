"""Claude Code session logs (``~/.claude/projects/…/*.jsonl``)."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from suffixspec.errors import InputError
from suffixspec.trace.chat import content_text, parse_message
from suffixspec.trace.fields import text_or_none
from suffixspec.trace.importers.base import Context, Importer, numbered
from suffixspec.trace.importers.transcript import Transcript
from suffixspec.trace.session import Message, TraceSession

_RECORDS = ("user", "assistant")
_SILENT = ("system", "summary", "progress", "attachment", "queue-operation", "file-history-snapshot")


class ClaudeCode(Importer):
    """One record a line; a file may hold several sessions, and sub-agents (side chains) are sessions too.

    Lines with the same message id are one model message. Where the user went back to an earlier message, and
    after a compaction, a new part ``ID#2`` begins, with what came before as context. Records which are no
    part of the conversation are left out.
    """

    name = "claude-code"
    title = "Claude Code log"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._chains: dict[tuple[str, str | None], _Chain] = {}
        self._chain_of: dict[str, _Chain] = {}

    @classmethod
    def matches(cls, record: Any) -> bool:
        """A user's or the assistant's record has a session id and a message."""
        return (
            isinstance(record, dict)
            and record.get("type") in _RECORDS
            and "message" in record
            and ("sessionId" in record or "parentUuid" in record)
        )

    def feed(self, record: Any, line: int) -> Iterable[TraceSession]:
        """Take one record; sessions come out of `finish`."""
        if not isinstance(record, dict) or not isinstance(record.get("type"), str):
            self.context.note("a line that is no Claude Code record", line)
            return ()
        uuid = text_or_none(record.get("uuid"))
        if uuid in self._chain_of and record["type"] in _RECORDS:
            return ()  # resumed sessions repeat earlier records
        if uuid is None and record["type"] not in _RECORDS:
            return ()
        chain = self._chain(record, uuid, line)
        if record["type"] in _RECORDS:
            try:
                chain.add(record)
            except InputError as error:
                self.context.note(error.message, line)
                return ()
        elif record["type"] not in _SILENT:
            self.context.note(f"a record of type {record['type']!r:.60}", line)
        if uuid is not None:
            self._chain_of[uuid] = chain
            chain.ends[uuid] = len(chain.transcript)
        return ()

    def finish(self) -> Iterator[TraceSession]:
        """Return all sessions in the order of their first records."""
        for chain in self._chains.values():
            for number, messages in enumerate(chain.transcript.parts(), start=1):
                yield self.session(numbered(chain.name, number), messages, chain.line, model=chain.model)

    def _chain(self, record: dict[str, Any], uuid: str | None, line: int) -> "_Chain":
        side = record.get("isSidechain") is True
        parent = self._chain_of.get(text_or_none(record.get("parentUuid")) or "")
        if parent is not None and parent.side == side:
            return parent
        name = text_or_none(record.get("sessionId")) or self.context.stem
        agent = None
        if side:
            agent = text_or_none(record.get("agentId")) or f"sidechain-{(uuid or str(line))[:8]}"
        key = (name, agent)
        if key not in self._chains:
            self._chains[key] = _Chain(name if agent is None else f"{name}/{agent}", line, side)
        return self._chains[key]


class _Chain:
    """The records of one conversation."""

    def __init__(self, name: str, line: int, side: bool) -> None:
        self.name = name
        self.line = line
        self.side = side
        self.model: str | None = None
        self.transcript = Transcript()
        self.ends: dict[str, int] = {}
        """By record: how many messages the conversation had after it."""
        self._index_of: dict[str, int] = {}
        self._tool_names: dict[str | None, str] = {}

    def add(self, record: dict[str, Any]) -> None:
        """Add a user's or the assistant's record.

        Raises:
            InputError: the record's message is malformed.
        """
        message = record.get("message")
        if not isinstance(message, dict) or "content" not in message:
            raise InputError("expected a message with content, got another record")
        parsed = parse_message(message | {"role": record["type"]}, "message")
        if record["type"] == "assistant":
            self._add_assistant(parsed[0], message, record)
        else:
            self._add_user(parsed, message, record)

    def _add_assistant(self, part: Message, message: dict[str, Any], record: dict[str, Any]) -> None:
        model = text_or_none(message.get("model"))
        if model == "<synthetic>" or record.get("isApiErrorMessage") is True:
            part = part.as_context()
        else:
            self.model = self.model or model
        part = replace(part, content=content_text(message["content"], "message.content", joint="\n"))
        if not part.content and not part.tool_calls and not part.reasoning:
            return
        self._tool_names.update({call.id: call.name for call in part.tool_calls})
        name = text_or_none(message.get("id"))
        index = self._index_of.get(name) if name is not None else None
        if index is None:
            index = self.transcript.append(part)
        else:
            messages = self.transcript.messages
            messages[index] = _merged(messages[index], part)
        if name is not None:
            self._index_of[name] = index

    def _add_user(self, parsed: list[Message], message: dict[str, Any], record: dict[str, Any]) -> None:
        if record.get("isCompactSummary") is True:
            self._restart(0)
        elif not any(part.role == "tool" for part in parsed):
            end = self.ends.get(text_or_none(record.get("parentUuid")) or "", len(self.transcript))
            if any(dropped.role == "assistant" for dropped in self.transcript.messages[end:]):
                self._restart(end)
        for part in parsed:
            if part.role == "tool":
                self.transcript.append(replace(part, name=self._tool_names.get(part.tool_call_id)))
            else:
                text = content_text(message["content"], "message.content", joint="\n")
                self.transcript.append(replace(part, content=text))

    def _restart(self, length: int) -> None:
        self.transcript.rewind(length)
        self.ends = {uuid: end for uuid, end in self.ends.items() if end <= length}
        self._index_of = {name: index for name, index in self._index_of.items() if index < length}


def _merged(message: Message, part: Message) -> Message:
    """Join two lines of one model message; a line that repeats what is there adds nothing."""
    known = {call.id for call in message.tool_calls}
    calls = tuple(call for call in part.tool_calls if call.id is None or call.id not in known)
    content, reasoning = message.content, message.reasoning
    if part.content and part.content != content:
        content = f"{content}\n{part.content}" if content else part.content
    if part.reasoning and part.reasoning != reasoning:
        reasoning = f"{reasoning}\n{part.reasoning}" if reasoning else part.reasoning
    return replace(message, content=content, reasoning=reasoning, tool_calls=message.tool_calls + calls)
