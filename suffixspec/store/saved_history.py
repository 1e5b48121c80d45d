"""A store and a drafter kept together: what is on disk comes into memory, what is written goes to disk."""

from __future__ import annotations

import atexit
import threading
import time
import warnings
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from suffixspec.draft.calibration import Calibration
from suffixspec.draft.indexed import IndexDrafter
from suffixspec.errors import InputError, SuffixspecError, SuffixspecWarning
from suffixspec.fair_lock import FairLock
from suffixspec.index.generations import GenerationalIndex
from suffixspec.index.history import CONTEXT
from suffixspec.index.sealed import SealedIndex
from suffixspec.store.epoch import Forgotten, digest
from suffixspec.store.history_store import HistoryStore
from suffixspec.store.identity import TokenizerIdentity
from suffixspec.store.namespace_log import NamespaceLog
from suffixspec.store.pace import STRETCH, give_way
from suffixspec.store.record import Record
from suffixspec.store.saved_session import SavedDraftSession
from suffixspec.store.sealed_file import LEAST_SEALED, Note
from suffixspec.store.sealer import Sealer, is_whole
from suffixspec.store.usefulness import Ledger, Origin

if TYPE_CHECKING:
    from suffixspec.store.budget import Budget
    from suffixspec.store.segment import SegmentInfo
    from suffixspec.text.tokenizer import Tokenizer

Piece: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int32]]
"""Tokens, and what stood before them."""

BLOCK = 2048
"""Most tokens that are indexed at once while an engine is at work: about 2 ms."""

ASIDE = 4 * BLOCK
"""Tokens from which on they are indexed apart from what the engine uses, and put in place when they are ready."""

_BYTES_PER_TOKEN = 56  # of the index, about: more tokens than fit are not read
_MOST_QUEUED = 4_000_000  # tokens that wait while a disk is full; the oldest go
_POLL_SECONDS = 0.05
_LOOK_SECONDS = 2.0  # how often the disk is asked for segments of other processes


@dataclass(slots=True)
class Loading:
    """What came into memory so far."""

    tokens: int = 0
    seconds: float = 0.0
    """Spent on it, reading and indexing."""
    longest_pause_ms: float = 0.0
    """The longest that the lock was held for one block: a draft may have waited so long."""


@dataclass(slots=True)
class _Resident:
    """A namespace in memory, and the segments that are in it."""

    segments: set[str] = field(default_factory=set)
    pending: deque[SegmentInfo] = field(default_factory=deque)
    reread: set[str] = field(default_factory=set)
    """Segments of this process whose records are not in memory any more: something was forgotten since."""
    stale: bool = False
    looked: bool = False
    sealed: SealedIndex | None = None
    """What is drafted from beside the trees, once it is in memory."""
    note: Note | None = None
    """Which file that is, and which segments are in it: they are not in the trees."""
    kept: list[Record] | None = None
    """What comes in while the trees are being built anew."""
    ledger: Ledger | None = None
    """Which segments the text in memory is of, where the budget wants to know."""
    renewed: int = 0
    """How often all that was in memory has left it."""
    reading: threading.Lock = field(default_factory=threading.Lock)
    """Held while it is read from disk, by one thread at a time: what is taken is indexed before another looks."""
    _seen: set[int] = field(default_factory=set)

    def fresh(self, records: Sequence[Record]) -> list[Record]:
        """Those that are not in memory yet; from now on they are.

        Segments are merged while they are read: a merged one may hold what is known and what is not.
        """
        new = []
        for record in records:
            mark = _mark(record)
            if mark not in self._seen:
                self._seen.add(mark)
                new.append(record)
        return new

    def take_over(self, other: _Resident) -> None:
        """Of what is in memory, what another one knows: it has been built anew."""
        self._seen = other._seen
        self.renewed += 1

    def clear(self) -> None:
        """Nothing is in memory any more."""
        self.segments.clear()
        self.pending.clear()
        self._seen.clear()
        self.renewed += 1
        self.sealed = self.note = None
        if self.ledger is not None:
            self.ledger.clear()
        self.stale = True


def _mark(record: Record) -> int:
    return hash((record.session, record.time, zlib.crc32(record.tokens.tobytes())))


class SavedHistory:
    """Feeds a drafter's history from a store, and the store from the drafter's sessions.

    A namespace is read when its first session begins: in the background, oldest first, as much of its end as the
    memory for it holds; a long one is indexed apart, without a lock, and put in place when it is ready. Drafts
    work without it until then. An output is in memory as soon as it is complete, whether or not its session goes
    on. A thread writes it to disk, and looks for what other processes have sealed.

    Args:
        store: opened with the drafter's tokenizer.
        drafter: its history is fed.
        lock: held while the drafter is used; an engine gives its own.
        target: whose calibration is read and saved.
        background: read in a thread. False reads when ``session`` is called, which then waits; also what other
            processes have sealed since the last one.
        writes: append what the sessions write; False only reads.
        seal_tokens: a namespace of so many tokens has a sealed index, which opens at once; built in the background
            only, so that nothing else depends on when it is ready. None: none is built, and none is read.
        owns_store: close the store too.
    """

    def __init__(
        self,
        store: HistoryStore,
        drafter: IndexDrafter,
        *,
        lock: Any = None,
        target: str = "",
        background: bool = True,
        writes: bool = True,
        seal_tokens: int | None = LEAST_SEALED,
        owns_store: bool = False,
    ) -> None:
        self.store = store
        self.lock = FairLock() if lock is None else lock
        self.loading = Loading()
        self._drafter = drafter
        self._target = target
        self._background = background
        self._writes = writes
        self._owns_store = owns_store
        self._seals = seal_tokens is not None
        self._sealer = Sealer(
            store,
            least=seal_tokens or 1,
            done=self._look_now,
            stop=lambda: self._closed or self.reader.behind,
        )
        self._sessions: WeakSet[SavedDraftSession] = WeakSet()
        self._resident: dict[str, _Resident] = {}
        self._queue: deque[tuple[str, Record]] = deque()
        self._queued = 0
        self._origins: dict[int, Origin] = {}  # of queued records, by id
        self._read_epoch = store.epoch.value
        # Since this process began: what is not written yet may be meant.
        self._forgotten: list[Forgotten] = []
        self._lost_until = float("-inf")
        self._leaving: deque[Any] = deque()  # from memory
        self._io = threading.RLock()  # held while the queue is written
        self._full = False
        self._refused: dict[str, str] = {}
        self._closed = False
        self._wake = threading.Event()
        self._looking = False
        self.reader = store.epoch.reader()
        store.attached.add(self)
        drafter.set_calibrations(store.calibration.load(target, Calibration))
        self._thread = threading.Thread(target=self._work, name="suffixspec history", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    # -- sessions ---------------------------------------------------------------------------------------------

    def session(self, namespace: str, name: str) -> SavedDraftSession:
        """Begin an agent loop that shares the history of ``namespace``; see ``Drafter.session``.

        Raises:
            TokenizerMismatchError: the namespace was written with another tokenizer.
        """
        with self.lock:
            new = namespace not in self._resident
        if new:
            self.store.admit(namespace)
            with self.lock:
                self._place(namespace).reread = set(self.store.log(namespace).own)
            if self._background:
                self._wake.set()
        if not self._background:
            self.load(namespace)
        with self.lock:
            session = SavedDraftSession(self, self._drafter.session(namespace), namespace, name)
            self._sessions.add(session)
            return session

    def keep(self, namespace: str, name: str, output: NDArray[np.int32], context: NDArray[np.int32]) -> None:
        """Have an output in memory, for all sessions, and written to disk when the thread comes to it.

        The lock is held for one piece of text at a time, unless the caller holds it around all of them.

        Args:
            namespace: whose history it is.
            name: of the session that wrote it.
            output: int32 [k], complete.
            context: int32 [c], the end of its prompt.
        """
        record = Record(name, output, context, time.time())
        with self.lock:
            place = self._place(namespace)
            origin = None if place.ledger is None else place.ledger.new()
            place.fresh([record])
            if place.kept is not None:
                place.kept.append(record)
            renewed = place.renewed
            if self._writes:
                self._enqueue(namespace, record, origin)
        if not self._drafter.keeps_history:
            return
        for block in blocks([record]):
            with self._indexing(namespace, block):
                # In between it may have come from the disk, whole, or have been forgotten.
                if place.renewed != renewed or not self._not_forgotten(namespace, [record]):
                    return
                self._index(namespace, block)
                if place.ledger is not None and origin is not None:
                    place.ledger.came(self._drafter.history.index(namespace).trees[0], origin)
            self.give_way()

    def _enqueue(self, namespace: str, record: Record, origin: Origin | None) -> None:
        self._queue.append((namespace, record))
        self._queued += len(record.tokens)
        if origin is not None:
            self._origins[id(record)] = origin
        while self._queued > _MOST_QUEUED and len(self._queue) > 1:
            _, lost = self._queue.popleft()
            self._queued -= len(lost.tokens)
            self._origins.pop(id(lost), None)
        self._wake.set()

    @contextmanager
    def _indexing(self, namespace: str, block: Sequence[Piece]) -> Iterator[None]:
        """Holds the lock to index a block, with room for it: larger arrays are filled before, without the lock.

        What leaves the memory by it is freed afterwards, without it too.
        """
        more = sum(len(tokens) + min(len(context), CONTEXT) + 1 for tokens, context in block)
        with self.lock:
            index = self._drafter.history.index(namespace)
            leaving = index.trees
            growth = index.growth(more)
        if growth is not None:
            growth.copy()
            with self.lock:
                whole = growth.whole()
            if whole:
                growth.fill()
        with self.lock:
            if growth is not None:
                index.put(growth)
            yield
        del leaving, growth

    def _index(self, namespace: str, block: Sequence[Piece]) -> None:
        for tokens, context in block:
            self._drafter.history.add(namespace, tokens, context=context)

    def give_way(self) -> None:
        """Let other threads that draft have the interpreter, where there may be any: some 60 µs."""
        if self._background:
            give_way()

    def catch_up(self) -> None:
        """Drop the history in memory when something was forgotten, and say so to whoever waits. No disk call.

        It is read anew in the background.
        """
        with self.lock:
            epoch = self.store.epoch.value
            if self._closed or epoch == self.reader.seen:
                return
            history = self._drafter.history
            for name in history.namespaces:  # freed by the thread: a draft would wait for it
                self._leaving.append((history.index(name).trees, history.index(name).sealed))
            self._drafter.clear_history()
            for session in list(self._sessions):
                session.clear_history()
            for resident in self._resident.values():
                resident.clear()
            self.reader.acknowledge(epoch)
        self._wake.set()

    def _place(self, namespace: str) -> _Resident:
        if namespace not in self._resident:
            counts = self.store.budget.eviction == "least-useful"
            self._resident[namespace] = _Resident(ledger=Ledger() if counts else None)
        return self._resident[namespace]

    def ledger(self, namespace: str) -> Ledger | None:
        """Who counts what is accepted from a namespace's segments; None where nobody does."""
        return self._place(namespace).ledger

    # -- from disk --------------------------------------------------------------------------------------------

    def load(self, namespace: str) -> None:
        """Read what is on disk of a namespace and not in memory yet; returns when that is done.

        Waits for another thread that reads it. The caller does not hold ``lock``.
        """
        with self._reading(namespace):
            for _ in self._load(namespace):
                pass

    def resident(self, namespace: str) -> bool:
        """Whether all of a namespace that was on disk when last looked is in memory."""
        with self.lock:
            place = self._resident.get(namespace)
            return place is not None and place.looked and not place.pending and not place.stale

    def _reading(self, namespace: str) -> threading.Lock:
        with self.lock:
            return self._place(namespace).reading

    def _load(self, namespace: str) -> Iterator[None]:
        """Block by block; yields after each, with no lock held but that of who reads."""
        log = self.store.log(namespace)
        started = time.perf_counter()
        with self.lock:
            place = self._place(namespace)
            epoch = self.reader.seen
        if self._writes:
            try:
                log.take_over()
            except OSError as error:  # a full disk keeps nobody from reading
                self._say(error)
        found = log.segments()
        log.expect(self.store.identity)
        if self._seals:
            self._open_sealed(namespace, log, place, found, epoch)
        with self.lock:
            if self.reader.seen != epoch:
                return
            chosen = self._worth_reading(found, place.segments | (log.own - place.reread))
            place.pending = deque(chosen)
            place.segments |= {info.name for info in found} - {info.name for info in chosen}
            place.looked = True
        self.loading.seconds += time.perf_counter() - started
        if self._seals and self._writes and self._background:
            self._sealer.consider(log, found)
        if sum(info.footer.tokens for info in chosen) >= ASIDE:
            yield from self._load_aside(namespace, log, place, epoch)
        while True:
            with self.lock:
                if not place.pending or self._closed:
                    return
                info = place.pending[0]
                origin: Origin | None = None
            started = time.perf_counter()
            for block in blocks(self._fresh(place, log.read(info), epoch)):
                with self._indexing(namespace, block):
                    if self._outdated(epoch):
                        return
                    begun = time.perf_counter()
                    self._index(namespace, block)
                    if place.ledger is not None:
                        origin = origin or place.ledger.new(info.name)
                        place.ledger.came(self._drafter.history.index(namespace).trees[0], origin)
                    self._count(block, started, begun)
                yield
                started = time.perf_counter()
            with self.lock:
                if place.pending and place.pending[0] is info:
                    place.pending.popleft()
                    place.segments.add(info.name)

    def sealed(self, namespace: str) -> SealedIndex | None:
        """The sealed index that drafts of a namespace come from beside the trees; None until it is in memory."""
        with self.lock:
            place = self._resident.get(namespace)
            return None if place is None else place.sealed

    def _open_sealed(
        self, namespace: str, log: NamespaceLog, place: _Resident, found: list[SegmentInfo], epoch: int
    ) -> None:
        """Bring the namespace's sealed index into memory, where there is one that is not there yet.

        What is in it leaves the trees, which are built anew from the rest: nothing counts twice.
        """
        note = log.sealed.note()
        if (
            note is None
            or not is_whole(note, found)
            or (place.note is not None and place.note.file == note.file)
        ):
            return
        with self.lock:
            known = place.segments | (log.own - place.reread)
            in_trees = bool(known & note.segments) or place.note is not None
        if in_trees and not self._writes:
            return  # what is in memory here is written by somebody else, at a time of its own
        started = time.perf_counter()
        try:
            index = log.sealed.open(note)
            index.prefault(lambda: self._outdated(epoch))
        except FileNotFoundError:  # there is a newer one, or somebody removed it
            self._drop_sealed(log, note, None)
            return
        except (OSError, InputError) as error:
            self._drop_sealed(log, note, error)
            return
        if not index.resident:
            return
        if in_trees:
            self._exchange(namespace, log, place, note, index, epoch)
            return
        with self.lock:
            if self._outdated(epoch):
                return
            place.sealed, place.note = index, note
            place.segments |= note.segments
            if place.ledger is not None:
                place.ledger.sealed(list(note.ends.items()))
            self._drafter.history.index(namespace).sealed = index
            self.loading.tokens += len(index)
            self.loading.seconds += time.perf_counter() - started

    def _exchange(
        self, namespace: str, log: NamespaceLog, place: _Resident, note: Note, index: SealedIndex, epoch: int
    ) -> None:
        """Put a sealed index in place of the trees that hold its text; what it does not hold is indexed anew."""
        with self.lock:
            place.kept = []
        try:
            self.flush()
            log.seal()
            found = log.segments()
            if not is_whole(note, found):
                return
            rest = [info for info in found if info.name not in note.segments]
            fresh = _Resident()
            built = GenerationalIndex(budget_bytes=self._drafter.history.namespace_bytes)
            for info in rest:
                origin = None if place.ledger is None else place.ledger.new(info.name)
                for block in blocks(fresh.fresh(log.read(info))):
                    if self._outdated(epoch):
                        return
                    for tokens, context in block:
                        built.add(tokens, context=context[-CONTEXT:])
                    if place.ledger is not None and origin is not None:
                        place.ledger.came(built.trees[0], origin)
                    give_way()
            kept: list[Record] = []
            while True:
                for block in blocks(fresh.fresh(kept)):
                    for tokens, context in block:
                        built.add(tokens, context=context[-CONTEXT:])
                with self.lock:  # what comes in while that is indexed is less, and in the end a block
                    kept, place.kept = place.kept or [], []
                if sum(len(record.tokens) for record in kept) < BLOCK:
                    break
            with self.lock:
                if self._outdated(epoch):
                    return
                begun = time.perf_counter()
                for record in fresh.fresh(kept + place.kept):
                    built.add(record.tokens, context=record.context[-CONTEXT:])
                if place.ledger is not None:
                    place.ledger.sealed(list(note.ends.items()))
                history = self._drafter.history.index(namespace)
                self._leaving.append((history.trees, history.sealed))
                history.clear()
                self._drafter.history.adopt(namespace, built)
                history.sealed = index
                place.sealed, place.note = index, note
                place.segments = {info.name for info in found}
                place.pending.clear()
                place.take_over(fresh)
                self._count([], begun, begun)
        finally:
            with self.lock:
                place.kept = None

    def _drop_sealed(self, log: NamespaceLog, note: Note, error: Exception | None) -> None:
        """Remove one that does not open: another is made."""
        if error is not None:
            warnings.warn(
                f"sealed index of namespace {log.name!r} is removed and built again: {error}",
                SuffixspecWarning,
                stacklevel=2,
            )
        with log.lock:
            if log.sealed.note() == note:
                log.sealed.remove()

    def _look_now(self) -> None:
        """At the disk, and not in a while."""
        self._looking = True
        self._wake.set()

    def _load_aside(self, namespace: str, log: NamespaceLog, place: _Resident, epoch: int) -> Iterator[None]:
        """Index what is pending in trees of its own, with no lock held, and put them in place at the end.

        Growing a large tree takes many times what a draft may wait.
        """
        built = GenerationalIndex(budget_bytes=self._drafter.history.namespace_bytes)
        with self.lock:
            pending = list(place.pending)
        for info in pending:
            started = time.perf_counter()
            origin = None if place.ledger is None else place.ledger.new(info.name)
            for block in blocks(self._fresh(place, log.read(info), epoch)):
                for tokens, context in block:
                    built.add(tokens, context=context[-CONTEXT:])
                if place.ledger is not None and origin is not None:
                    place.ledger.came(built.trees[0], origin)
                if self._outdated(epoch):
                    return
                self._count(block, started, None)
                yield
                started = time.perf_counter()
        with self.lock:
            if self._outdated(epoch):
                return
            begun = time.perf_counter()
            self._leaving.append(self._drafter.history.index(namespace).trees)
            self._drafter.history.adopt(namespace, built)
            self._count([], begun, begun)
            place.segments |= {info.name for info in pending}
            place.pending.clear()

    def _fresh(self, place: _Resident, records: Sequence[Record], epoch: int) -> list[Record]:
        """Those that are not in memory yet; the lock is held for a few at a time."""
        new: list[Record] = []
        for start in range(0, len(records), STRETCH):
            with self.lock:
                if self._outdated(epoch):
                    return []
                new += place.fresh(records[start : start + STRETCH])
            give_way()
        return new

    def _outdated(self, epoch: int) -> bool:
        """Whether what was read may be what has been forgotten since, or nobody wants it any more."""
        return self._closed or self.store.epoch.value != epoch

    def _count(self, block: Sequence[Piece], started: float, locked: float | None) -> None:
        now = time.perf_counter()
        done = self.loading
        done.tokens += sum(len(tokens) for tokens, _ in block)
        done.seconds += now - started
        if locked is not None:
            done.longest_pause_ms = max(done.longest_pause_ms, (now - locked) * 1e3)

    def _worth_reading(self, found: list[SegmentInfo], known: set[str]) -> list[SegmentInfo]:
        """The newest segments that are not in memory and fit into it, oldest first."""
        room = self._drafter.history.namespace_bytes // _BYTES_PER_TOKEN
        chosen: list[SegmentInfo] = []
        for info in reversed(found):
            merged = set(info.header.replaces)
            if info.name in known or (merged and merged <= known):
                continue
            room -= info.footer.tokens
            if room < 0 and chosen:
                break
            chosen.append(info)
        return chosen[::-1]

    # -- to disk ----------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what the sessions have left so far, and wait for it; see ``HistoryStore.append``.

        Raises:
            OSError: a full disk, or the like; what was not written stays in the queue.
        """
        with self._io:
            while True:
                with self.lock:
                    if not self._queue:
                        return
                    namespace, ahead = next(groupby(islice(self._queue, STRETCH), key=itemgetter(0)))
                    batch = [record for _, record in ahead]
                if namespace not in self._refused:
                    log = self.store.log(namespace)
                    with log.lock:  # no forgetting comes between the look at the epoch and the writing
                        kept = self._not_forgotten(namespace, batch)
                        try:
                            segment = self.store.append(namespace, list(self._with_texts(kept)))
                            for record in kept:
                                if id(record) in self._origins:
                                    self._origins[id(record)].segment = segment
                        except SuffixspecError as error:
                            self._refused[namespace] = str(error)
                            warnings.warn(f"history is not saved: {error}", SuffixspecWarning, stacklevel=2)
                done = set(map(id, batch))
                with self.lock:
                    for one in done:
                        self._origins.pop(one, None)
                    while self._queue and id(self._queue[0][1]) in done:  # some may have left meanwhile
                        self._queued -= len(self._queue.popleft()[1].tokens)
                give_way()

    def share(self) -> None:
        """Write what the sessions have left so far and seal it: other processes see it now, not by and by.

        A disk that is full is said in a warning, once.
        """
        try:
            self.flush()
            if self._writes:
                self.store.seal()
        except OSError as error:
            self._say(error)

    def _with_texts(self, records: Sequence[Record]) -> Iterator[Record]:
        tokenizer = self.store.tokenizer
        for record in records:
            if tokenizer is not None:
                give_way()  # a tokenizer holds the interpreter while it decodes
                text = tokenizer.decode(record.tokens.tolist(), continues=True)
                yield Record(record.session, record.tokens, record.context, record.time, text)
            else:
                yield record

    def _not_forgotten(self, namespace: str, records: list[Record]) -> list[Record]:
        """Without what was forgotten after it was written here. Reads a small file when the epoch has changed."""
        if records and self.store.epoch.value != self._read_epoch:
            try:
                self._forgotten += self.store.epoch.forgotten(self._read_epoch)
                self._read_epoch = self._forgotten[-1].epoch
            except SuffixspecError:  # nobody can tell what is meant: all that was written until now goes
                self._lost_until = time.time()
                self._read_epoch = self.store.epoch.value
        space = digest(namespace)
        return [
            one
            for one in records
            if one.time > self._lost_until and not any(entry.covers(space, one) for entry in self._forgotten)
        ]

    def _work(self) -> None:
        looked = time.monotonic()
        while not self._closed:
            self._wake.wait(_POLL_SECONDS)
            self._wake.clear()
            if self._closed:
                return
            look = self._background and (self._looking or time.monotonic() - looked >= _LOOK_SECONDS)
            self._looking = False
            self._leaving.clear()
            try:
                if self.reader.behind:
                    self.catch_up()
                self.flush()
                self._full = False
                if look:
                    self._save_counts()
                for namespace, place in list(self._resident.items()):
                    self.store.log(namespace).seal_if_old()
                    if place.stale:
                        self._read_again(namespace, place)
                    elif look or (self._background and not place.looked):
                        self._read_new(namespace)
            except (OSError, SuffixspecError) as error:
                self._say(error)
                time.sleep(_POLL_SECONDS)
            if look:
                looked = time.monotonic()

    def _read_again(self, namespace: str, place: _Resident) -> None:
        """After something was forgotten: all that is left, what this process wrote included."""
        log = self.store.log(namespace)
        log.seal()
        with self.lock:
            place.stale = False
            place.reread = set(log.own)
        self._read_new(namespace)

    def _read_new(self, namespace: str) -> None:
        with self._reading(namespace):
            for _ in self._load(namespace):
                if self._closed or self.reader.behind:
                    break
                give_way()

    def _save_counts(self) -> None:
        """Write down what was accepted from which segment since the last time."""
        for namespace, place in list(self._resident.items()):
            if place.ledger is not None:
                with self.lock:
                    taken = place.ledger.take()
                if taken and self._writes:
                    self.store.log(namespace).count_accepted(taken)

    def _say(self, error: Exception) -> None:
        if not self._full:
            self._full = True
            warnings.warn(
                f"history cannot be saved now: {error}; trying again", SuffixspecWarning, stacklevel=2
            )

    # -- the end ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write and seal what is left, save the calibration. May be called again.

        A disk that is full does not stop the rest from closing: it is said in a warning.
        """
        with self.lock:
            if self._closed:
                return
            self._closed = True
        atexit.unregister(self.close)
        self._wake.set()
        self._thread.join()
        self._sealer.join()
        self.store.attached.discard(self)
        try:
            self.flush()
            if self._writes:
                self._save_counts()
                self.store.seal()
                self._save_counts()  # of what has just been sealed
                self.store.calibration.save(self._target, dict(self._drafter.calibrations()))
        except OSError as error:
            warnings.warn(f"history is not saved: {error}", SuffixspecWarning, stacklevel=2)
        finally:
            self.reader.close()
            if self._owns_store:
                self.store.close()

    def summary(self) -> str:
        """A sentence about what was read."""
        done = self.loading
        if not done.tokens:
            return f"history {self.store.path}: nothing there yet"
        rate = done.tokens / max(done.seconds, 1e-9)
        return f"history {self.store.path}: {done.tokens:,} tokens of earlier runs read, {rate:,.0f} a second"


def open_saved(
    store: HistoryStore | str | PathLike[str],
    drafter: object,
    tokenizer: Tokenizer,
    *,
    budget: Budget | None = None,
    **options: Any,
) -> SavedHistory:
    """A drafter's saved history; a store that is opened here is closed with it.

    Args:
        store: a folder, or a store that was opened with this tokenizer.
        drafter: an ``IndexDrafter``.
        tokenizer: of the target.
        budget: of a store that is opened here; an open one has its own.
        options: see ``SavedHistory``.

    Raises:
        InputError: no folder for a history, another tokenizer's store, or a drafter without one.
        ValueError: a budget for a store that is open.
    """
    if not isinstance(drafter, IndexDrafter):
        raise InputError(
            f"expected a drafter with a history to save (IndexDrafter), got {type(drafter).__name__}; leave the "
            "history store out"
        )
    if isinstance(store, HistoryStore):
        if budget is not None:
            raise ValueError("expected no budget with an open history store, which has its own, got one")
        expected = TokenizerIdentity.of(tokenizer)
        if store.identity != expected:
            raise InputError(
                f"expected a history store opened with tokenizer {expected}, got {store.identity}; open it with "
                "HistoryStore(path, tokenizer=engine.tokenizer)"
            )
        return SavedHistory(store, drafter, **options)
    opened = HistoryStore(store, tokenizer=tokenizer, budget=budget)
    try:
        return SavedHistory(opened, drafter, owns_store=True, **options)
    except BaseException:
        opened.close()
        raise


def blocks(records: Sequence[Record], size: int = BLOCK) -> Iterator[list[Piece]]:
    """Records as (tokens, context), in groups of about ``size`` tokens; longer ones in pieces.

    A piece has the end of the one before it as its context: matches go on across the cut.
    """
    block: list[Piece] = []
    held = 0
    for record in records:
        for start in range(0, len(record.tokens), size):
            tokens = record.tokens[start : start + size]
            context = record.context if start == 0 else record.tokens[max(0, start - CONTEXT) : start]
            block.append((tokens, context))
            held += len(tokens)
            if held >= size:
                yield block
                block, held = [], 0
    if block:
        yield block
