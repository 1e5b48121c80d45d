"""Threads that draft, append, evict and forget at once: every draft is text that the history held at that time.

With SUFFIXSPEC_STRESS=N the threads do N times as much.
"""

import itertools
import os
import random
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest

from suffixspec.draft import IndexDrafter
from suffixspec.native import warm_up
from suffixspec.store import Budget, HistoryStore, Record, SavedHistory

from .inputs import QuickFiles, Words

TRIGGER = np.arange(1, 17, dtype=np.int32)
"""What every prompt ends with, so that one draft may come from any record."""
LENGTH = 24
FIRST = 1000
SPACE = 64
TIMES = int(os.environ.get("SUFFIXSPEC_STRESS", "1"))
SESSIONS = (4 if numba.config.DISABLE_JIT else 40) * TIMES

FORGETTINGS = 10


def text_of(number: int) -> np.ndarray:
    """Record ``number``: a run of ids that no other record has."""
    return np.arange(LENGTH, dtype=np.int32) + FIRST + number * SPACE


class World:
    """What was said, by whom, and what has been forgotten."""

    def __init__(self, store: HistoryStore, other: HistoryStore, saved: SavedHistory, seed: int) -> None:
        self.store, self.other, self.saved, self.seed = store, other, saved, seed
        self.numbers = iter(range(10**9))
        self.said: dict[str, list[int]] = defaultdict(list)
        self.spoken: set[int] = set()
        self.forgotten: set[int] = set()
        self.latest: list[int] = []
        self.running = 0
        self.drafted = 0
        self.forgettings = self.going_on = self.nodes = 0
        self.lock = threading.Lock()

    def new_record(self) -> int:
        """The number of what is said next."""
        with self.lock:
            number = next(self.numbers)
            self.spoken.add(number)
            return number

    def has_said(self, session: str, numbers: list[int]) -> None:
        """From now on, forgetting the session forgets these."""
        with self.lock:
            self.said[session] += numbers

    def check(self, session, say: str) -> None:
        """One draft: tokens of texts that may be drafted from now.

        Nearly all go on where their parent ends; some resume a text that the context strayed from.
        """
        gone = set(self.forgotten)
        context = session.context.tolist()
        own, pairs = set(context), set(itertools.pairwise(context))
        draft = session.draft()
        spoken = self.spoken
        tokens, parents = draft.token_ids.tolist(), draft.parents.tolist()
        for token, parent in zip(tokens, parents, strict=True):
            number, place = divmod(token - FIRST, SPACE)
            where = f"seed {self.seed}, {say}: token {token} of record {number}, draft {tokens} {parents}"
            before = context[-1] if parent < 0 else tokens[parent]
            begins = place == 0 and before == TRIGGER[-1]
            self.going_on += token == before + 1 or begins or (before, token) in pairs
            self.nodes += 1
            assert token in own or token in TRIGGER or 0 <= place < LENGTH, f"torn: {where}"
            if token not in own and token >= FIRST:
                assert number in spoken, f"never said: {where}"
                assert number not in gone, f"forgotten before: {where}"
                self.drafted += 1

    def read(self, reader: int) -> None:
        """Sessions one after the other, each of a few turns; what they say becomes history."""
        rng = random.Random(self.seed * 100 + reader)
        for count in itertools.count():
            if count >= SESSIONS and self.forgettings >= FORGETTINGS:
                return
            name = f"{reader}-{count}"
            session = self.saved.session("n", name)
            for turn in range(rng.randrange(1, 4)):
                for _ in range(3):
                    asked = self.prompt(rng, turn)
                    session.sync(np.concatenate([session.context, asked]).astype(np.int32))
                    self.check(session, f"session {name}, turn {turn}")
                session.sync(np.concatenate([session.context, TRIGGER]).astype(np.int32))
                self.check(session, f"session {name}, turn {turn}")
                number = self.new_record()
                session.accept(text_of(number))
                session.end_turn()
                self.has_said(name, [number])
            session.close()

    def prompt(self, rng: random.Random, turn: int) -> np.ndarray:
        """What any record may follow, or how one of the last ones begins, forgotten or not."""
        begun = TRIGGER
        if rng.random() < 0.7:
            with self.lock:
                forgotten, spoken = self.latest[-4:], max(self.spoken, default=0)
            latest = forgotten if rng.random() < 0.5 else range(max(0, spoken - 20), spoken)
            begun = text_of(rng.choice(latest) if latest else 0)[: rng.randrange(3, 9)]
        return np.concatenate([[500_000_000 + turn], begun])

    def append(self) -> None:
        """As another process: appends, seals, merges, and keeps to its budget."""
        rng = random.Random(self.seed)
        count = 0
        while self.running:
            said = {f"w-{count}-{part}": self.new_record() for part in range(rng.randrange(1, 4))}
            count += 1
            records = [
                Record(name, text_of(number), TRIGGER, time.time(), text="x") for name, number in said.items()
            ]
            self.other.append("n", records)
            for name, number in said.items():
                self.has_said(name, [number])
            if rng.random() < 0.5:
                self.other.seal()
            if rng.random() < 0.1:
                self.other.compact()
            time.sleep(0.002)

    def forget(self) -> None:
        """Sessions that have ended and such that have not, by this store and by the other."""
        rng = random.Random(self.seed + 1)
        while self.running:
            with self.lock:
                name = rng.choice(list(self.said)[-12:] or ["nobody"])
                meant = set(self.said[name])
            store = rng.choice([self.store, self.other])
            report = store.forget(session=name, timeout=60)
            assert report.unacknowledged == [], f"seed {self.seed}"
            with self.lock:
                self.forgotten = self.forgotten | meant
                self.latest += sorted(meant)
                self.forgettings += 1
            time.sleep(0.01)


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(2))
def test_every_draft_is_text_that_was_in_history(tmp_path, seed):
    """Three drafting threads, an appending and a forgetting one, small budgets on disk and in memory."""
    budget = Budget(namespace_tokens=4000, segment_bytes=4000, seal_seconds=0.05)
    with (
        HistoryStore(tmp_path, tokenizer=Words(), budget=budget, files=QuickFiles()) as store,
        HistoryStore(tmp_path, tokenizer=Words(), budget=budget, files=QuickFiles()) as other,
    ):
        drafter = IndexDrafter(history_bytes=1 << 20, max_nodes=16)
        # With a sealed index that is built, exchanged, evicted and forgotten all the time, and with none.
        saved = SavedHistory(store, drafter, seal_tokens=None if seed % 2 else 300)
        world = World(store, other, saved, seed)
        world.running = 3

        def read(number: int) -> None:
            try:
                world.read(number)
            finally:
                with world.lock:
                    world.running -= 1

        with ThreadPoolExecutor(5) as pool:
            threads = [pool.submit(read, number) for number in range(3)]
            threads += [pool.submit(world.append), pool.submit(world.forget)]
            for thread in threads:
                thread.result(timeout=300)
        assert world.drafted > 50, f"seed {seed}: little was drafted from history: {world.drafted}"
        assert world.forgotten, f"seed {seed}"
        assert world.going_on > world.nodes // 2, f"seed {seed}: {world.going_on} of {world.nodes} go on"
        saved.close()
        drafter.history.check()
        gone = world.forgotten
        kept = {(int(one.tokens[0]) - FIRST) // SPACE for one in store.records("n")}
        assert kept <= world.spoken - gone, f"seed {seed}"
        assert store.verify() == [], f"seed {seed}"


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_every_kernel_releases_the_lock_of_the_interpreter():
    """By construction: so a draft goes on while another thread indexes."""
    assert len(warm_up._ENTRY_POINTS) > 5
    for kernel in warm_up._ENTRY_POINTS:
        assert kernel.targetoptions["nogil"] is True, kernel
