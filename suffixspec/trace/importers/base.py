"""What every importer is: a class that recognises its format and turns records into sessions."""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from suffixspec.trace.session import Message, TraceSession

_SUFFIXES = re.compile(r"(\.(gz|zst|jsonl|ndjson|json|traj|md|markdown|txt))+$", re.IGNORECASE)


class Context:
    """What an importer knows about its file.

    Args:
        path: the file as the user named it.
        on_note: called with (line or None, message) when a record is left out because it is no part of a
            conversation or holds nothing that can be read.
    """

    def __init__(self, path: str, on_note: Callable[[int | None, str], None] | None = None) -> None:
        self.path = path
        self.stem = _SUFFIXES.sub("", Path(path).name) or Path(path).name
        """The file's name without its suffixes: what sessions without an id of their own are called."""
        self._on_note = on_note

    def note(self, message: str, line: int | None = None) -> None:
        """Report a record that is left out."""
        if self._on_note is not None:
            self._on_note(line, message)


class Importer:
    """Turns the records of one file into sessions; made anew for every file.

    A record is a line's JSON value, a whole JSON document, or an item of one that is a list. Subclasses which
    need many records for a session (logs) keep state between calls of `feed` and give the sessions in
    `finish`.

    Args:
        context: the file.
    """

    name: ClassVar[str]
    """Short name, used as the sessions' ``source``."""
    title: ClassVar[str]
    """What the format is called in messages."""
    of_text: ClassVar[bool] = False
    """Whether records are lines of text instead of JSON values."""
    ends_torn: ClassVar[bool] = False
    """Whether a malformed last line is expected: the file may be read while it is written, or after a crash."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._ordinal = 0

    @classmethod
    def matches(cls, record: Any) -> bool:
        """Whether the record is certainly one of this format. Cost: O(1), looks at keys and a few items."""
        raise NotImplementedError

    def feed(self, record: Any, line: int) -> Iterable[TraceSession]:
        """Take one record, which starts on this 1-based line, and return the sessions that are complete.

        Raises:
            InputError: the record is malformed; path and line are added by the caller.
        """
        raise NotImplementedError

    def finish(self) -> Iterable[TraceSession]:
        """Return the sessions that were waiting for more records."""
        return ()

    def default_id(self, line: int) -> str:
        """Return an id for a record without one: ``FILE#N``, N being its line, or its position in a list."""
        self._ordinal = max(line, self._ordinal + 1)
        return f"{self.context.stem}#{self._ordinal}"

    def session(self, session_id: str, messages: Iterable[Message], line: int, **fields: Any) -> TraceSession:
        """Build a session of this file."""
        fields.setdefault("source", self.name)
        return TraceSession(session_id, tuple(messages), path=self.context.path, line=line, **fields)


def numbered(name: str, number: int) -> str:
    """Return the id of the number-th (1-based) session of one origin: ``name``, then ``name#2`` and so on."""
    return name if number == 1 else f"{name}#{number}"


def items(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of a list that may hold other things too, or may be no list."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))
