"""Builds the sealed indexes of a history, in the background."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from suffixspec.errors import SuffixspecWarning
from suffixspec.file_lock import lock_descriptor
from suffixspec.index.history import CONTEXT
from suffixspec.index.sealed import MOST_TOKENS, SealedIndex, StoppedError
from suffixspec.store.pace import STRETCH, give_way
from suffixspec.store.sealed_file import Note

if TYPE_CHECKING:
    from suffixspec.store.history_store import HistoryStore
    from suffixspec.store.namespace_log import NamespaceLog
    from suffixspec.store.segment import SegmentInfo

_SHARE = 4  # rebuilt when what is not in it is a quarter of what is ...
_MOST_TAIL = 250_000  # ... or so many tokens: a larger tree takes over 5 ms where it grows


def wanted(found: Sequence[SegmentInfo], note: Note | None, least: int) -> bool:
    """Whether the sealed segments of a namespace deserve a new index.

    Args:
        found: its segments.
        note: which of them are in the index there is.
        least: tokens below which none is built.
    """
    covered = frozenset[str]() if note is None or not is_whole(note, found) else note.segments
    inside = sum(info.footer.tokens for info in found if info.name in covered)
    tail = sum(info.footer.tokens for info in found if info.name not in covered)
    return tail >= max(least, 1) and tail >= min(inside // _SHARE, _MOST_TAIL)


def is_whole(note: Note, found: Sequence[SegmentInfo]) -> bool:
    """Whether all that is in an index is still in the log."""
    return note.segments.issubset({info.name for info in found})


class Sealer:
    """Builds one sealed index at a time, whichever process asks, in a thread of its own.

    Args:
        store: whose namespaces.
        least: tokens below which no index is built.
        done: called when one is in place.
        stop: asked several times a second whether to give up.
    """

    def __init__(
        self, store: HistoryStore, *, least: int, done: Callable[[], None], stop: Callable[[], bool]
    ) -> None:
        self._store = store
        self._least = least
        self._done = done
        self._stop = stop
        self._thread: threading.Thread | None = None

    def consider(self, log: NamespaceLog, found: Sequence[SegmentInfo]) -> None:
        """Begin to build the index of a namespace where it deserves one and none is being built."""
        if self._thread is not None and self._thread.is_alive():
            return
        if wanted(found, log.sealed.note(), self._least):
            self._thread = threading.Thread(
                target=self._build, args=(log,), name="suffixspec sealing", daemon=True
            )
            self._thread.start()

    def join(self) -> None:
        """Wait until nothing is being built; ``stop`` makes it short."""
        if self._thread is not None:
            self._thread.join()

    def _build(self, log: NamespaceLog) -> None:
        try:
            fd = os.open(self._store.path / "locks" / "sealing", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if lock_descriptor(fd, wait=False) and build(
                    self._store, log, least=self._least, stop=self._stop
                ):
                    self._done()
            finally:
                os.close(fd)
        except StoppedError:
            return
        except (OSError, ValueError, MemoryError) as error:
            warnings.warn(
                f"no sealed index for namespace {log.name!r} now: {error}; its history is read from the log",
                SuffixspecWarning,
                stacklevel=2,
            )
            time.sleep(1.0)


def build(store: HistoryStore, log: NamespaceLog, *, least: int, stop: Callable[[], bool]) -> bool:
    """Build a namespace's sealed index from its segments and put it in place; whether it was.

    It is not where another process has done so meanwhile, or something was forgotten, evicted or merged.
    """
    epoch = store.epoch.value
    found = log.segments()
    if not wanted(found, log.sealed.note(), least):
        return False
    text, ends = gathered(log, found, stop)
    index = SealedIndex.build(text, stop=stop)
    with log.lock:
        if store.epoch.value != epoch or not ends.keys() <= ({info.name for info in log.segments()}):
            return False
        log.sealed.put(index, ends)
    return True


def gathered(
    log: NamespaceLog, segments: Sequence[SegmentInfo], stop: Callable[[], bool]
) -> tuple[NDArray[np.int32], dict[str, int]]:
    """The text of an index, int32 [n], and where in it each segment ends.

    Each record's tokens stand behind the end of what stood before it, and -1 follows. The newest records that fit
    where they are more than an index takes.
    """
    end = np.array([-1], np.int32)
    parts: list[NDArray[np.int32]] = []
    room = MOST_TOKENS - 1
    lengths: dict[str, int] = {}
    for info in reversed(segments):
        before = len(parts)
        for number, record in enumerate(reversed(log.read(info))):
            if number % STRETCH == 0:
                give_way()
            if stop():
                raise StoppedError
            room -= len(record.tokens) + CONTEXT + 1
            if room < 0:
                break
            parts += [end, record.tokens, record.context[-CONTEXT:]]
        lengths[info.name] = sum(len(part) for part in parts[before:])
    ends: dict[str, int] = {}
    total = 0
    for info in segments:
        total += lengths[info.name]
        ends[info.name] = total
    return (np.concatenate(parts[::-1]) if parts else end[:0]), ends
