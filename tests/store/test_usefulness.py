"""Budgets under which the least useful leaves first: what was drafted from stays, the rest goes."""

import random

import numpy as np
import pytest

from suffixspec.draft import IndexDrafter
from suffixspec.store import Budget, HistoryStore, Record, SavedHistory
from suffixspec.store.sealer import build

from .inputs import QuickFiles, Words, numbers, record

LENGTH = 20
COUNT = 20
"""Records, each in a segment of its own."""


def budget(eviction: str = "least-useful") -> Budget:
    return Budget(namespace_tokens=COUNT * LENGTH, eviction=eviction, segment_bytes=400)


def filled(place, eviction: str = "least-useful") -> HistoryStore:
    store = HistoryStore(place, tokenizer=Words(), budget=budget(eviction), files=QuickFiles())
    for number in range(COUNT):
        store.append("n", [record(number, length=LENGTH)])
        store.log("n").seal()
    return store


def use(saved: SavedHistory, number: int, times: int = 1) -> None:
    """An agent loop that writes a record's text again, drafted from history. It goes on: nothing of it is kept."""
    tokens = record(number, length=LENGTH).tokens
    for _ in range(times):
        session = saved.session("n", "user")
        session.sync(tokens[:6])
        draft = session.draft()
        accepted = tokens[6 : 6 + len(draft)]
        assert draft.token_ids.tolist() == accepted.tolist()
        session.accept(np.append(accepted, 7).astype(np.int32))


def push(store: HistoryStore, start: int, count: int) -> None:
    for number in range(start, start + count):
        store.append("n", [record(number, length=LENGTH)])
        store.log("n").seal()


@pytest.mark.parametrize("sealed", [False, True], ids=["trees", "sealed index"])
@pytest.mark.parametrize("seed", range(2))
def test_what_was_drafted_from_stays(tmp_path, seed, sealed):
    """Old segments that drafts were accepted from outlive newer ones that nobody used; counts survive a restart."""
    useful = sorted(random.Random(seed).sample(range(COUNT // 2), 3))
    with filled(tmp_path) as store:
        if sealed:
            assert build(store, store.log("n"), least=1, stop=lambda: False)
        saved = SavedHistory(
            store, IndexDrafter(), background=False, seal_tokens=1 if sealed else None, writes=True
        )
        saved._sealer.consider = lambda *_: None
        for number in useful:
            use(saved, number)
        assert (saved.sealed("n") is not None) == sealed
        saved.close()
        counted = store.log("n").useful.read()
        assert len(counted) == len(useful), f"seed {seed}: {counted}"
    with HistoryStore(tmp_path, tokenizer=Words(), budget=budget(), files=QuickFiles()) as store:
        push(store, COUNT, COUNT - 6)
        kept = numbers(store)
        assert kept[:3] == useful, f"seed {seed}"
        assert kept[-1] == 2 * COUNT - 7
        assert sum(one.tokens for one in store.summaries()) <= COUNT * LENGTH
        faded = store.log("n").useful.read()
        assert all(0 < faded[name] < counted[name] for name in counted), "eviction lets use fade"
        assert store.verify() == []


def test_the_oldest_leave_first_by_default(tmp_path):
    """Use counts for nothing then, and nothing is counted."""
    with filled(tmp_path, "oldest") as store:
        saved = SavedHistory(store, IndexDrafter(), background=False)
        use(saved, 0)
        saved.close()
        assert store.log("n").useful.read() == {}
    with HistoryStore(tmp_path, tokenizer=Words(), budget=budget("oldest"), files=QuickFiles()) as store:
        push(store, COUNT, 5)
        assert numbers(store) == list(range(5, COUNT + 5))


def test_use_of_what_is_on_no_disk_yet_counts(tmp_path):
    """An output that another session drafts from before it is written: its segment gets the credit when it has one."""
    with HistoryStore(tmp_path, tokenizer=Words(), budget=budget(), files=QuickFiles()) as store:
        saved = SavedHistory(store, IndexDrafter(), background=False)
        tokens = record(3, length=LENGTH).tokens
        with saved._io:
            session = saved.session("n", "first")
            session.sync(tokens[:4])
            session.accept(tokens[4:])
            session.end_turn()
            session.close()
            session = saved.session("n", "second")
            session.sync(tokens[:8])
            assert session.draft().token_ids.tolist() == tokens[8:].tolist()
            session.accept(np.append(tokens[8:], 9).astype(np.int32))
        saved.close()
        (info,) = store.log("n").segments()
        assert store.log("n").useful.read() == {info.name: LENGTH - 8}


def test_counts_follow_segments_that_are_merged_and_rewritten(tmp_path):
    """Merging adds them up, forgetting a part passes them on, forgetting all drops them."""
    with filled(tmp_path) as store:
        log = store.log("n")
        names = [info.name for info in log.segments()]
        log.count_accepted({names[0]: 5.0, names[1]: 7.0, "gone": 3.0})
        assert log.useful.read() == {names[0]: 5.0, names[1]: 7.0}
        log._budget = Budget(eviction="least-useful")
        store.compact("n")
        (info,) = log.segments()
        assert log.useful.read() == {info.name: 12.0}
        log.count_accepted({names[0]: 1.0})
        assert log.useful.read() == {info.name: 13.0}, "by a name that it replaced"
        store.forget(session="session-003", timeout=0)
        (info,) = log.segments()
        assert log.useful.read() == {info.name: 13.0}
        store.forget(namespace="n", timeout=0)
        assert log.useful.read() == {}
        assert not list((tmp_path / "useful").iterdir())


def test_the_least_useful_of_all_namespaces_leaves_first(tmp_path):
    """The total bound looks at all of them, whosever is older."""
    bounds = Budget(
        total_tokens=3 * LENGTH, eviction="least-useful", segment_bytes=100, namespace_tokens=10**6
    )
    with HistoryStore(tmp_path, tokenizer=Words(), budget=bounds, files=QuickFiles()) as store:
        for log in (store.log("a"), store.log("b")):
            log._budget = Budget(namespace_tokens=4, eviction="least-useful")  # none is too young
        for number, name in enumerate("abab"):
            store.log(name)._budget = Budget(eviction="least-useful", namespace_tokens=10**6)
            store.append(
                name,
                [
                    Record(
                        "s",
                        record(number, length=LENGTH).tokens,
                        time=float(number),
                        text=record(number, length=LENGTH).text,
                    )
                ],
            )
            store.log(name).seal()
        for name in "ab":
            store.log(name)._budget = Budget(namespace_tokens=4, eviction="least-useful")
        oldest = store.log("a").segments()[0]
        store.log("a").count_accepted({oldest.name: 10.0})
        store.keep_to_budget()
        assert numbers(store, "a") == [0, 2]
        assert numbers(store, "b") == [3]


def test_a_budget_s_eviction_is_one_of_two():
    """Anything else is refused."""
    with pytest.raises(ValueError, match="expected eviction oldest or least-useful, got 'newest'"):
        Budget(eviction="newest")
