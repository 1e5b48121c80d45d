"""Small stores for tests: a tokenizer of words, records that can be told apart, disks that fail."""

import os
from pathlib import Path

import numpy as np

from suffixspec.store import Budget, HistoryStore, Record
from suffixspec.store.files import Files


class Words:
    """A tokenizer whose text is its ids; ``shift`` makes another one of it."""

    def __init__(self, shift: int = 0) -> None:
        self.shift = shift
        self.vocabulary_fingerprint = f"{shift:064x}"
        self.name = f"words{shift}"

    def encode(self, text: str, *, continues: bool = False) -> list[int]:  # noqa: ARG002 (the real one's)
        """Numbers to ids."""
        return [int(word) + self.shift for word in text.split()]

    def decode(self, ids: list[int], *, continues: bool = False) -> str:  # noqa: ARG002 (the real one's)
        """Ids to numbers."""
        return " ".join(str(token - self.shift) for token in ids)


def record(number: int, *, session: str | None = None, length: int = 6, time: float | None = None) -> Record:
    """Record ``number``: tokens that no other record has, and their text."""
    tokens = np.arange(length, dtype=np.int32) + 0x01020000 + number * 256
    return Record(
        session or f"session-{number:03d}",
        tokens,
        context=tokens[:0],
        time=float(number) if time is None else time,
        text=" ".join(map(str, tokens.tolist())),
    )


def opened(path: Path, *, shift: int = 0, files: Files | None = None, **options) -> HistoryStore:
    budget = options.pop("budget", None) or Budget()
    return HistoryStore(path, tokenizer=Words(shift), files=files, budget=budget, **options)


def numbers(store: HistoryStore, namespace: str = "n") -> list[int]:
    """Which records are there; each is checked to be what was written."""
    found = []
    for one in store.records(namespace):
        number = (int(one.tokens[0]) - 0x01020000) // 256
        expected = record(number, length=len(one.tokens))
        assert expected.tokens.tolist() == one.tokens.tolist()
        assert expected.text == one.text
        found.append(number)
    return found


def all_bytes(folder: Path) -> bytes:
    """Every byte in every file of a folder, and the names."""
    parts = []
    for path in sorted(folder.rglob("*")):
        parts.append(str(path.name).encode())
        if path.is_file():
            parts.append(path.read_bytes())
    return b"\n".join(parts)


class PowerCut(BaseException):
    """The process is gone; nothing it does afterwards reaches the disk."""


class FailingFiles(Files):
    """A disk that has room for so many bytes: then it is full, or with ``dies`` the process is gone.

    The write that crosses the limit is torn there. ``room`` may be raised later.
    """

    def __init__(self, room: int, *, dies: bool = False) -> None:
        self.room = room
        self.dies = dies
        self.written = 0
        self.failed = False

    def write(self, fd: int, data: bytes) -> None:
        """Write what there is room for."""
        self._alive()
        fits = data[: max(0, self.room - self.written)]
        super().write(fd, fits)
        self.written += len(fits)
        if len(fits) < len(data):
            self.failed = True
            if self.dies:
                raise PowerCut
            raise OSError(28, "No space left on device")

    def _alive(self) -> None:
        if self.failed and self.dies:
            raise PowerCut

    def create(self, path: Path) -> int:
        """An empty file takes no room."""
        self._alive()
        return super().create(path)

    def truncate(self, fd: int, size: int) -> None:
        """Cutting gives no room back: it stays full."""
        self._alive()
        super().truncate(fd, size)
        self.written = min(self.written, self.room)

    def sync(self, fd: int) -> None:  # noqa: ARG002
        """A test's disk has no power to lose."""
        self._alive()

    def sync_folder(self, folder: Path) -> None:  # noqa: ARG002
        """Nor its folders."""
        self._alive()

    def rename(self, source: Path, target: Path) -> None:
        """Rename, while alive."""
        self._alive()
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        """Remove, while alive."""
        self._alive()
        super().remove(path)


class QuickFiles(Files):
    """A disk that nobody waits for."""

    def sync(self, fd: int) -> None:
        """At once."""
        os.fstat(fd)

    def sync_folder(self, folder: Path) -> None:
        """At once."""
        assert folder.is_dir()
