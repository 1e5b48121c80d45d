"""The sealed index of a namespace on disk: one file, and a note of which segments are in it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from suffixspec.store.files import Files

if TYPE_CHECKING:
    from suffixspec.index.sealed import SealedIndex

LEAST_SEALED = 250_000
"""Tokens from which on a namespace has a sealed index: fewer are indexed in a second at every start."""
_NOTE = "current.json"
_VERSION = 1
_NO_NOTE = (OSError, ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class Note:
    """What the current file is."""

    file: str
    ends: Mapping[str, int]
    """The segments whose texts it holds, oldest first, and where in its text each ends."""

    @property
    def segments(self) -> frozenset[str]:
        """Their names."""
        return frozenset(self.ends)


class SealedFile:
    """The place of a namespace's sealed index.

    ::

        current.json    names the file that counts, and the segments that are in it
        HEX.index       see ``suffixspec.index.sealed``

    It can be made again from the log at any time, so nothing is lost with it; and it holds what the log holds, so
    it goes first where something of that has to go. Who changes it holds the lock of the log.

    Args:
        folder: made when there is something to put there.
        files: the disk.
    """

    def __init__(self, folder: Path, *, files: Files) -> None:
        self._folder = folder
        self._files = files

    def note(self) -> Note | None:
        """What the current file is; None where there is none. Cost: a small read."""
        try:
            note = json.loads((self._folder / _NOTE).read_bytes())
            if note["version"] != _VERSION:
                return None
            return Note(str(note["file"]), {str(name): int(end) for name, end in note["segments"].items()})
        except _NO_NOTE:
            return None

    def open(self, note: Note) -> SealedIndex:
        """Map a noted file into memory. Cost: O(1).

        Raises:
            InputError: it is damaged, or of a later version.
            OSError: it has gone.
        """
        from suffixspec.index.sealed import SealedIndex

        return SealedIndex.open(self._folder / note.file)

    def put(self, index: SealedIndex, ends: Mapping[str, int]) -> Note:
        """Save an index of these segments, in the place of the one that was there.

        Args:
            index: what to save.
            ends: where in its text each segment ends, oldest first.

        Raises:
            OSError: no room; the old one is as it was.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        note = Note(f"{secrets.token_hex(8)}.index", ends)
        try:
            index.save(self._folder / note.file)
            self._write(note)
        finally:
            self.sweep()
        return note

    def replace(self, old: Sequence[str], new: str) -> None:
        """Segments were merged into a new one: what is in the file is the same."""
        note = self.note()
        if note is not None and note.segments.issuperset(old):
            end = max(note.ends[name] for name in old)
            ends = {new if name == old[-1] else name: note.ends[name] for name in note.ends}
            ends[new] = end
            self._write(Note(note.file, {name: ends[name] for name in ends if name not in old}))

    def _write(self, note: Note) -> None:
        told = {"version": _VERSION, "file": note.file, "segments": dict(note.ends)}
        self._files.write_whole(self._folder / _NOTE, json.dumps(told, indent=1).encode("ascii"))

    def holds(self, segments: Collection[str]) -> bool:
        """Whether one of these segments is in the file."""
        note = self.note()
        return note is not None and not note.segments.isdisjoint(segments)

    def sweep(self) -> None:
        """Remove what no note names: files of killed processes, or of before."""
        note = self.note()
        for path in self._paths():
            if note is None or path.name not in {note.file, _NOTE}:
                self._files.remove(path)

    def remove(self) -> None:
        """Remove the index; the note first, so that none names a file that is not there."""
        self._files.remove(self._folder / _NOTE)
        self.sweep()

    def _paths(self) -> list[Path]:
        return sorted(self._folder.iterdir()) if self._folder.is_dir() else []

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return sum(path.stat().st_size for path in self._paths())

    def verify(self, segments: Collection[str]) -> list[tuple[Path, str]]:
        """Read every byte and say what is wrong: (path, problem) each.

        Args:
            segments: names of those in the log.
        """
        from suffixspec.errors import InputError

        note = self.note()
        counted = set() if note is None else {note.file, _NOTE}
        found = [
            (path, "expected a sealed index that counts, got a leftover; compact removes it")
            for path in self._paths()
            if path.name not in counted
        ]
        if note is not None:
            path = self._folder / note.file
            if not note.segments.issubset(segments):
                found.append((path, "expected segments of the log in it, got others; compact removes it"))
            try:
                self.open(note).verify()
            except InputError as error:
                found.append((path, error.message))
            except OSError as error:
                found.append((path, f"expected a sealed index, got {error}; compact removes it"))
        return found
