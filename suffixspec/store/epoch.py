"""The epoch: a number that every forgetting raises, and that every process looks at before it drafts."""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import secrets
import struct
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from suffixspec.errors import InputError
from suffixspec.file_lock import FileLock, lock_descriptor
from suffixspec.store.files import Files
from suffixspec.store.record import Record

_COUNTER = struct.Struct("=Q")
_MOST_ENTRIES = 1024
_POLL = 0.005


def digest(text: str) -> str:
    """A name that stands for ``text`` and does not tell it: 24 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was forgotten when the epoch became ``epoch``; names as digests, so that this tells nothing either."""

    epoch: int
    time: float
    namespace: str | None
    """None: in all."""
    session: str | None = None
    before: float | None = None

    def covers(self, namespace: str, record: Record) -> bool:
        """Whether a record that has not reached the disk yet was to be forgotten with the rest."""
        return self.namespace in {None, namespace} and record.time <= self.time and self.matches(record)

    def matches(self, record: Record) -> bool:
        """Whether a record of that namespace is meant."""
        if self.session is not None and digest(record.session) != self.session:
            return False
        return self.before is None or record.time < self.before


class Counter:
    """A number in a file, mapped into memory: reading it is a memory access and no system call."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        if os.fstat(self._fd).st_size < _COUNTER.size:
            os.ftruncate(self._fd, _COUNTER.size)
        self._map = mmap.mmap(self._fd, _COUNTER.size)
        self.view = memoryview(self._map).cast("Q")
        """The number as item 0: one aligned word, so that a reader sees the old one or the new one."""

    @property
    def descriptor(self) -> int:
        """Of the open file, to lock it."""
        return self._fd

    @property
    def value(self) -> int:
        """The number. Cost: some 100 ns."""
        return self.view[0]

    @value.setter
    def value(self, value: int) -> None:
        self.view[0] = value

    def close(self) -> None:
        """Let go of the file. May be called again."""
        if not self._map.closed:
            self.view.release()
            self._map.close()
            os.close(self._fd)


class Epoch:
    """The store's epoch, what each forgetting was about, and who has seen it.

    Args:
        folder: of the store; exists.
        files: the disk.
    """

    def __init__(self, folder: Path, *, files: Files) -> None:
        self._files = files
        self._entries = folder / "forgotten.json"
        self._readers = folder / "readers"
        self._readers.mkdir(exist_ok=True)
        self.lock = FileLock(folder / "locks" / "forget")
        self._counter = Counter(folder / "epoch")

    @property
    def value(self) -> int:
        """The epoch now. Cost: some 100 ns, no system call."""
        return self._counter.value

    @property
    def view(self) -> memoryview[int]:
        """The epoch as item 0, for those who look often."""
        return self._counter.view

    def forgotten(self, since: int) -> list[Forgotten]:
        """What was forgotten after epoch ``since``. Cost: reads a small file."""
        if self.value <= since:
            return []
        try:
            entries = self._read()
        except (OSError, ValueError, TypeError) as error:
            raise InputError(
                f"expected the list of what was forgotten, got {error}; what is not stored yet is dropped",
                path=str(self._entries),
            ) from error
        later = [entry for entry in entries if entry.epoch > since]
        if not later or later[0].epoch > since + 1:
            raise InputError(
                f"expected what was forgotten from epoch {since + 1} on, got less; what is not stored yet is dropped",
                path=str(self._entries),
            )
        return later

    def _read(self) -> list[Forgotten]:
        return [Forgotten(**entry) for entry in json.loads(self._entries.read_bytes())]

    def advance(self, namespace: str | None, session: str | None, before: float | None) -> int:
        """Raise the epoch and say what for; the new epoch. The caller holds ``lock``.

        Args:
            namespace: its name; None for all.
            session: only of this one.
            before: only what is older.
        """
        epoch = self.value + 1
        space = None if namespace is None else digest(namespace)
        entry = Forgotten(epoch, time.time(), space, session and digest(session), before)
        kept: list[Forgotten] = []
        with contextlib.suppress(OSError, ValueError, TypeError):
            kept = self._read()
        entries = [asdict(one) for one in [*kept, entry][-_MOST_ENTRIES:]]
        self._files.write_whole(self._entries, json.dumps(entries).encode("ascii"))
        self._counter.value = epoch
        return epoch

    def reader(self) -> EpochReader:
        """Somebody who drafts from this store: every forgetting waits for its acknowledgement."""
        while True:
            reader = EpochReader(self._readers / f"{os.getpid()}-{secrets.token_hex(4)}", self)
            if not reader.gone:
                return reader
            reader.close()  # taken for a dead process's in the moment before it was locked

    def wait(self, epoch: int, timeout: float) -> list[int]:
        """Wait until every reader has seen ``epoch``; the process ids of those that did not in time."""
        deadline = time.monotonic() + timeout
        while True:
            late = self._late(epoch)
            if not late or time.monotonic() >= deadline:
                return late
            time.sleep(_POLL)

    def _late(self, epoch: int) -> list[int]:
        late = []
        for path in self._readers.iterdir():
            try:
                fd = os.open(path, os.O_RDWR)
            except OSError:  # it has just gone
                continue
            try:
                if lock_descriptor(fd, wait=False):  # its process is dead
                    path.unlink(missing_ok=True)
                    continue
                data = os.pread(fd, _COUNTER.size, 0) if hasattr(os, "pread") else path.read_bytes()
                if len(data) < _COUNTER.size or _COUNTER.unpack(data)[0] < epoch:
                    late.append(int(path.name.partition("-")[0]))
            finally:
                os.close(fd)
        return late

    def close(self) -> None:
        """Let go of the files."""
        self._counter.close()


class EpochReader:
    """One process's place among the readers; the system lifts its lock when the process dies."""

    def __init__(self, path: Path, epoch: Epoch) -> None:
        self._path = path
        self._now = epoch.view
        self._seen = Counter(path)
        lock_descriptor(self._seen.descriptor, wait=False)
        self.seen = epoch.value
        self._seen.value = self.seen

    @property
    def gone(self) -> bool:
        """Whether no forgetting can find it any more."""
        return os.fstat(self._seen.descriptor).st_nlink == 0

    @property
    def behind(self) -> bool:
        """Whether something was forgotten that this reader does not know of yet. Cost: some 150 ns."""
        return self._now[0] != self.seen

    def acknowledge(self, epoch: int) -> None:
        """Nothing that was forgotten up to ``epoch`` can be drafted here any more. No system call."""
        self.seen = epoch
        self._seen.value = epoch

    def close(self) -> None:
        """Draft from this store no more."""
        self._path.unlink(missing_ok=True)
        self._seen.close()
