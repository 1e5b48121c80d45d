"""Reading sessions from files of any known format, a session at a time."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from os import PathLike, fspath
from typing import Any

from suffixspec.errors import InputError
from suffixspec.trace.fields import shown
from suffixspec.trace.importers import Context, Importer, find, known_formats
from suffixspec.trace.jsontext import decode, parse
from suffixspec.trace.session import TraceSession
from suffixspec.trace.source import MAX_LINE_BYTES, Source, size_of

# A log may open with records that say nothing about its format; this many lines are looked at.
_SAMPLE_LINES = 2_000
_SAMPLE_BYTES = 64 << 20
_UTF8_BOM = b"\xef\xbb\xbf"

BadCallback = Callable[[InputError], None]
Record = tuple[int, Any]
Line = tuple[int, bytes]


def read_sessions(
    paths: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    skip_bad: bool = False,
    limit: int | None = None,
    on_bad: BadCallback | None = None,
    on_note: BadCallback | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Iterator[TraceSession]:
    """Yield the sessions of files in any known format, in file order.

    Formats are told by content, compression too. Line-based session formats (the native one, OpenAI chat,
    ShareGPT lines …) are streamed, from a live pipe as soon as a line is complete; logs which spread a session
    over many lines are held for one file. Session ids are what the files say: they may repeat.

    Args:
        paths: one file or several.
        skip_bad: go on after a malformed record or file instead of raising.
        limit: stop after this many sessions; None reads all.
        on_bad: with ``skip_bad``, called with the error of every record or file that was skipped.
        on_note: called for every record that is left out because it holds no part of a conversation, and for
            every imported session without model output.
        on_progress: called with (bytes read so far, bytes in total) over all files; compressed bytes, where a
            file is compressed.

    Yields:
        Sessions with ``path`` and ``line`` filled in. Cost: O(bytes); memory: one session, or one log file.

    Raises:
        InputError: ``FILE:LINE: expected …, got …``: a missing, empty, unreadable, damaged, malformed or
            unknown file, or a session without model output.
        ValueError: a negative ``limit``.
    """
    if limit is not None and limit < 0:
        raise ValueError(f"expected limit to be at least 0, got {limit}")
    names = [fspath(paths)] if isinstance(paths, (str, PathLike)) else [fspath(path) for path in paths]
    total = sum(map(size_of, names))
    done = 0

    def count(size: int) -> None:
        nonlocal done
        done += size
        if on_progress is not None:
            on_progress(done, max(total, done))

    found = 0
    for name in names:
        if limit is not None and found >= limit:
            return
        trace = TraceFile(name, skip_bad=skip_bad, on_bad=on_bad, on_note=on_note, on_bytes=count)
        for session in trace.sessions():
            yield session
            found += 1
            if limit is not None and found >= limit:
                return


class TraceFile:
    """One file of sessions.

    Args:
        path: the file.
        skip_bad: go on after malformed records.
        on_bad: called with the error of every record that was skipped.
        on_note: called for every record that was left out.
        on_bytes: called with the number of bytes of the file read since the last call.
    """

    def __init__(
        self,
        path: str,
        *,
        skip_bad: bool = False,
        on_bad: BadCallback | None = None,
        on_note: BadCallback | None = None,
        on_bytes: Callable[[int], None] | None = None,
    ) -> None:
        self.path = path
        self.format: str | None = None
        """The format's title, once it is known."""
        self.bad = 0
        """Number of malformed records (or files) that were skipped so far."""
        self.notes = 0
        """Number of records that were left out so far."""
        self._damaged = False
        self._skip_bad = skip_bad
        self._on_bad = on_bad
        self._on_note = on_note
        self._on_bytes = on_bytes

    def sessions(self) -> Iterator[TraceSession]:
        """Yield the file's sessions; see `read_sessions` for errors."""
        context = Context(self.path, self._note)
        found = 0
        try:
            with Source(self.path, on_bytes=self._on_bytes) as source:
                importer, records = self._open(self._lines(source), context)
                self.format = importer.title
                for session in self._import(importer, records):
                    yield session
                    found += 1
            if not found and not self.bad:
                raise self._error("expected at least one session with model output, got none")
        except InputError as error:
            if not self._damaged:  # else it is a consequence, and the damage was reported
                self._bad(error)

    def _import(self, importer: Importer, records: Iterable[Record]) -> Iterator[TraceSession]:
        last = 1
        for line, record in records:
            last = line
            yield from self._guarded(partial(importer.feed, record, line), line)
        yield from self._guarded(importer.finish, last)

    def _guarded(self, make: Callable[[], Iterable[TraceSession]], line: int) -> Iterator[TraceSession]:
        """Yield what the importer makes; its errors get this line as their place."""
        sessions: Iterator[TraceSession] | None = None
        while True:
            try:
                sessions = iter(make()) if sessions is None else sessions
                session = next(sessions)
            except StopIteration:
                return
            except InputError as error:
                self._bad(InputError(error.message, path=self.path, line=line))
                return
            except RecursionError:
                self._bad(self._error("expected JSON, got too many nested arrays or objects", line))
                return
            if session.turns:
                yield session
            else:
                self._note(session.line, f"session {session.session_id!r} without model output")

    def _open(self, lines: Iterator[Line], context: Context) -> tuple[Importer, Iterable[Record]]:
        """Find the importer, and return it with the file's records."""
        head: list[Line] = []
        first = self._next_text(lines, head)
        if first is None:
            raise self._error("expected at least one session, got an empty file")
        if not _opens_container(first[1]):
            text = self._text_importer(head, lines)
            if text is not None:
                return text(context), self._texts(chain(head, lines))
            return self._for_lines(head, lines, context)
        try:
            value = parse(first[1], path=self.path, line=first[0])
        except InputError as error:
            document = self._document(error, first, head, lines)
        else:
            importer = find(value)
            if importer is not None:  # whatever follows: a live pipe need not say yet whether anything does
                more = self._values(lines, ends_torn=importer.ends_torn)
                return importer(context), chain([(first[0], value)], more)
            alone = self._next_text(lines, head) is None
            document = (first[0], value) if alone else None
        if document is not None:
            return self._for_document(*document, context)
        return self._for_lines(head, lines, context)

    def _lines(self, source: Source) -> Iterator[Line]:
        """Yield the file's lines without a byte order mark; if it is damaged, those before the damage."""
        try:
            for number, raw in source.lines():
                yield number, raw.removeprefix(_UTF8_BOM) if number == 1 else raw
        except InputError as error:
            self._bad(error)
            self._damaged = True

    def _next_text(self, lines: Iterator[Line], head: list[Line]) -> Line | None:
        """Move lines to the head up to the next one that is not blank, and return that."""
        for line in lines:
            head.append(line)
            if not _is_blank(line[1]):
                return line
        return None

    def _text_importer(self, head: list[Line], lines: Iterator[Line]) -> type[Importer] | None:
        """Return the importer of a text format, told by one of the first lines."""
        line: Line | None = head[-1]
        for _ in range(20):
            if line is None:
                return None
            importer = find(line[1].decode("utf-8", "replace"))
            if importer is not None and importer.of_text:
                return importer
            line = self._next_text(lines, head)
        return None

    def _document(
        self, error: InputError, first: Line, head: list[Line], lines: Iterator[Line]
    ) -> Record | None:
        """Return the file's only JSON value where the first line is not all of it; None for a file of lines.

        ``error`` is what is wrong with the first line; every line read is in the head.
        """
        opens = first[1].strip() in (b"{", b"[")
        second = None if opens else self._next_text(lines, head)
        if second is not None and self._is_container(second):
            return None
        size = sum(len(raw) for _, raw in head)
        for line in lines:
            head.append(line)
            size += len(line[1]) + 1
            if size > MAX_LINE_BYTES:
                raise self._error(
                    f"expected a JSON document of at most {MAX_LINE_BYTES >> 20} MiB, got a longer one", 1
                ) from None
        if len(head) == 1:
            raise error
        try:
            return first[0], parse(b"\n".join(raw for _, raw in head), path=self.path, line=head[0][0])
        except InputError as whole:
            if any(map(self._is_record, head)):
                return None  # lines after all, some of them malformed
            raise whole from error

    def _is_container(self, line: Line) -> bool:
        return _opens_container(line[1]) and self._parsed(line) is not None

    def _is_record(self, line: Line) -> bool:
        return _opens_container(line[1]) and find(self._parsed(line)) is not None

    def _parsed(self, line: Line) -> Any:
        try:
            return parse(line[1], path=self.path, line=line[0])
        except InputError:
            return None

    def _for_document(self, line: int, value: Any, context: Context) -> tuple[Importer, Iterable[Record]]:
        importer = find(value)
        if importer is not None:
            return importer(context), [(line, value)]
        if isinstance(value, list):
            importer = next(filter(None, map(find, value)), None)
            if importer is not None:
                return importer(context), ((line, item) for item in value)
        raise self._unknown(value, line)

    def _for_lines(
        self, head: list[Line], lines: Iterator[Line], context: Context
    ) -> tuple[Importer, Iterable[Record]]:
        """Find the importer by the first lines that tell it."""
        problem: InputError | None = None
        looked_at = size = 0
        while True:
            for number, raw in head[looked_at:]:
                looked_at += 1
                size += len(raw)
                if _is_blank(raw):
                    continue
                try:
                    value = parse(raw, path=self.path, line=number)
                except InputError as error:
                    problem = problem or self._not_json(raw, number, error)
                    continue
                importer = find(value)
                if importer is not None and not importer.of_text:
                    return importer(context), self._values(chain(head, lines), ends_torn=importer.ends_torn)
                problem = problem or self._unknown(value, number)
            full = looked_at >= _SAMPLE_LINES or size >= _SAMPLE_BYTES
            if problem is not None and (full or self._next_text(lines, head) is None):
                raise problem

    def _values(self, lines: Iterable[Line], *, ends_torn: bool) -> Iterator[Record]:
        torn: InputError | None = None  # a malformed line that is the last one, so far
        for number, raw in lines:
            if _is_blank(raw):
                continue
            if torn is not None:
                self._bad(torn)
                torn = None
            try:
                value = parse(raw, path=self.path, line=number)
            except InputError as error:
                if ends_torn:
                    torn = error
                else:
                    self._bad(error)
                continue
            del raw  # a long line's bytes need not stay while its sessions are used
            yield number, value
        if torn is not None:
            self._note(torn.line, "the last line, which was not written to its end")

    def _texts(self, lines: Iterable[Line]) -> Iterator[Record]:
        for number, raw in lines:
            try:
                text = decode(raw, path=self.path, line=number)
            except InputError as error:
                self._bad(error)
                continue
            yield number, text

    def _not_json(self, raw: bytes, line: int, error: InputError) -> InputError:
        """Return what is wrong with a line that is not JSON: the error, or that it was never meant to be."""
        if _opens_container(raw):
            return error
        try:
            text = decode(raw, path=self.path, line=line).strip()
        except InputError as undecodable:
            return undecodable
        got = f"text that starts with {text[:40]!r}"
        return self._error(f"expected one of the known formats ({known_formats()}), got {got}", line)

    def _unknown(self, value: Any, line: int) -> InputError:
        got = shown(value)
        if isinstance(value, list) and value:
            value = value[0]
            got = f"an array of {shown(value)}"
        if isinstance(value, dict):
            names = ", ".join(list(value)[:8])
            got = f"{got} with the keys {names}" if names else f"{got} without keys"
        return self._error(f"expected one of the known formats ({known_formats()}), got {got:.300}", line)

    def _error(self, message: str, line: int | None = None) -> InputError:
        return InputError(message, path=self.path, line=line)

    def _bad(self, error: InputError) -> None:
        if not self._skip_bad:
            raise error
        self.bad += 1
        if self._on_bad is not None:
            self._on_bad(error)

    def _note(self, line: int | None, message: str) -> None:
        self.notes += 1
        if self._on_note is not None:
            self._on_note(InputError(message, path=self.path, line=line))


def _is_blank(raw: bytes) -> bool:
    return not raw or raw.isspace()


def _opens_container(raw: bytes) -> bool:
    return raw[:256].lstrip().startswith((b"{", b"["))
