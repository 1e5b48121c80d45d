"""The sealed index of a namespace: opens at once, holds what the log holds, and nothing that was forgotten."""

import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from suffixspec import cli
from suffixspec.draft import IndexDrafter
from suffixspec.errors import SuffixspecWarning
from suffixspec.index.sealed import SealedIndex
from suffixspec.store import Budget, HistoryStore, Record, SavedHistory, command
from suffixspec.store.epoch import digest
from suffixspec.store.sealer import build, wanted

from .inputs import QuickFiles, Words, all_bytes, numbers, opened, record
from .test_forget import PROMPT, SECRET, drafted, speak, wait_until

RECORDS = 40
LENGTH = 20
LEAST = 100
BUDGET = Budget(segment_bytes=2000)


def filled(place: Path, count: int = RECORDS, *, budget: Budget = BUDGET) -> HistoryStore:
    """A history of so many records, in several sealed segments."""
    store = HistoryStore(place, tokenizer=Words(), budget=budget, files=QuickFiles())
    for number in range(count):
        store.append("n", [record(number, length=LENGTH)])
    store.seal()
    return store


def sealed_in(store: HistoryStore) -> SealedIndex:
    """Build the index here and now, and open what is on disk."""
    log = store.log("n")
    assert build(store, log, least=LEAST, stop=lambda: False)
    return log.sealed.open(log.sealed.note())


def files_of(store: HistoryStore) -> list[Path]:
    return sorted((store.path / "sealed" / digest("n")).glob("*"))


def holds(index: SealedIndex, number: int) -> bool:
    return index.count(record(number, length=LENGTH).tokens) == 1


def test_the_index_holds_the_log_and_nothing_else(tmp_path):
    """Every record once, none across two records; a new one is wanted when a quarter more has come."""
    with filled(tmp_path) as store:
        index = sealed_in(store)
        assert all(holds(index, number) for number in range(RECORDS))
        both = np.concatenate([record(number, length=LENGTH).tokens for number in (0, 1)])
        assert index.count(both) == 0
        log = store.log("n")
        assert not build(store, log, least=LEAST, stop=lambda: False), "nothing new has come"
        for number in range(RECORDS, RECORDS * 3 // 2):
            store.append("n", [record(number, length=LENGTH)])
            store.log("n").seal()
            tail = (number + 1 - RECORDS) * LENGTH
            enough = tail >= max(LEAST, RECORDS * LENGTH // 4)
            assert wanted(log.segments(), log.sealed.note(), LEAST) == enough, f"{tail} tokens more"
        assert store.verify() == []


def test_a_history_opens_with_its_sealed_index(tmp_path):
    """What is in it is not read from the log; what came after it is; both are drafted from."""
    with filled(tmp_path) as store:
        sealed_in(store)
        store.append("n", [Record("tail", np.array(SECRET, np.int32), np.array(PROMPT, np.int32), 99.0)])
    with opened(tmp_path) as store:
        drafter = IndexDrafter()
        saved = SavedHistory(store, drafter, background=False, seal_tokens=LEAST)
        session = saved.session("n", "s")
        index = saved.sealed("n")
        assert index is not None
        assert index.resident
        assert all(holds(index, number) for number in range(RECORDS))
        assert len(drafter.history) < 100, "the trees hold the tail alone"
        session.sync(np.array(PROMPT))
        assert drafted(session)[:3] == SECRET[:3]
        tokens = record(7, length=LENGTH).tokens
        session.sync(np.concatenate([PROMPT, tokens[:6]]))
        assert drafted(session)[:3] == tokens[6:9].tolist()
        assert saved.sealed("other") is None


def test_an_index_that_is_built_meanwhile_takes_the_place_of_the_trees(tmp_path):
    """Built in the background; a session that is open drafts the same before and after; nothing counts twice."""
    with filled(tmp_path) as store:
        drafter = IndexDrafter()
        saved = SavedHistory(store, drafter, seal_tokens=LEAST)
        session = saved.session("n", "s")
        wait_until(lambda: saved.sealed("n") is not None)
        assert len(drafter.history) == 0, "all of it is in the index"
        speaker = saved.session("n", "speaker")
        speak(speaker, PROMPT, SECRET)
        speaker.close()
        session.sync(np.array(PROMPT))
        assert drafted(session)[:3] == SECRET[:3]
        tokens = record(3, length=LENGTH).tokens
        session.sync(np.concatenate([PROMPT, tokens[:6]]))
        assert drafted(session)[:3] == tokens[6:9].tolist()


def test_what_is_said_while_the_index_is_exchanged_is_not_lost(tmp_path, monkeypatch):
    """An output that comes between the last reading of the log and the exchange is drafted afterwards."""
    with filled(tmp_path) as store:
        saved = SavedHistory(store, IndexDrafter(), seal_tokens=None)
        speaker = saved.session("n", "speaker")
        wait_until(lambda: saved.resident("n"))
        log, said = store.log("n"), threading.Event()
        real = log.seal

        def seal_and_speak():
            name = real()
            if saved._resident["n"].kept is not None and not said.is_set():
                said.set()
                speak(speaker, PROMPT, SECRET)
                speaker.close()
            return name

        monkeypatch.setattr(log, "seal", seal_and_speak)
        sealed_in(store)
        saved._seals = True
        wait_until(lambda: saved.sealed("n") is not None)
        assert said.is_set()
        session = saved.session("n", "s")
        session.sync(np.array(PROMPT))
        assert drafted(session)[:3] == SECRET[:3]


def test_the_index_goes_first_when_something_in_it_is_forgotten(tmp_path, monkeypatch):
    """Gone from disk and from memory when ``forget`` returns, and built again from what is left."""
    mark = record(5, length=LENGTH).tokens.astype("<i4").tobytes()
    with filled(tmp_path) as store, opened(tmp_path) as other:
        sealed_in(store)
        saved = SavedHistory(store, IndexDrafter(), seal_tokens=LEAST)
        session = saved.session("n", "s")
        wait_until(lambda: saved.sealed("n") is not None)
        before = files_of(store)
        assert any(mark in path.read_bytes() for path in before), "the search should find what is there"
        with monkeypatch.context() as patch:
            patch.setattr(saved._sealer, "consider", lambda *_: None)  # so that none is built again at once
            report = other.forget(session="session-005", timeout=60)
            assert (report.records, report.unacknowledged) == (1, [])
            assert mark not in all_bytes(tmp_path)
            assert saved.sealed("n") is None
            session.sync(record(5, length=LENGTH).tokens[:6])
            assert drafted(session) == []
        wait_until(lambda: saved.sealed("n") is not None)
        assert not holds(saved.sealed("n"), 5)
        assert all(holds(saved.sealed("n"), number) for number in range(RECORDS) if number != 5)
        assert mark not in all_bytes(tmp_path)


def test_forgetting_what_is_not_in_it_leaves_the_index(tmp_path):
    """Nothing is built anew for what came after it."""
    with filled(tmp_path) as store:
        sealed_in(store)
        before = files_of(store)
        store.append("n", [record(90, length=LENGTH)])
        assert store.forget(session="session-090", timeout=0).records == 1
        assert files_of(store) == before
        assert store.verify() == []


def test_the_index_goes_when_something_in_it_is_evicted(tmp_path):
    """By the budget; who drafts from it goes on until the next one is there."""
    budget = Budget(segment_bytes=2000, namespace_tokens=RECORDS * LENGTH)
    with filled(tmp_path, budget=budget) as store:
        sealed_in(store)
        saved = SavedHistory(store, IndexDrafter(), seal_tokens=LEAST)
        saved.session("n", "s")
        wait_until(lambda: saved.sealed("n") is not None)
        for number in range(RECORDS, RECORDS + 30):
            store.append("n", [record(number, length=LENGTH)])
        store.seal()
        kept = numbers(store)
        assert 0 not in kept
        wait_until(lambda: (index := saved.sealed("n")) is not None and not holds(index, 0))
        log = store.log("n")
        assert log.sealed.note().segments <= {info.name for info in log.segments()}


def test_merging_segments_keeps_the_index(tmp_path):
    """Segments in it are merged with one another and with no others; the file is the same and counts."""
    with filled(tmp_path, budget=Budget(segment_bytes=400)) as store:
        sealed_in(store)
        before = [path.name for path in files_of(store)]
        for number in range(RECORDS, RECORDS + 4):
            store.append("n", [record(number, length=LENGTH)])
            store.log("n").seal()
    with opened(tmp_path) as store:
        store.compact()
        log = store.log("n")
        note = log.sealed.note()
        assert [path.name for path in files_of(store)] == before
        assert len(log.segments()) == 2
        assert len(note.segments) == 1
        assert note.segments < {info.name for info in log.segments()}
        saved = SavedHistory(store, IndexDrafter(), background=False, seal_tokens=LEAST)
        saved.session("n", "s")
        assert saved.sealed("n") is not None
        assert saved._drafter.history.index("n").nbytes > 0


@pytest.mark.parametrize("damage", ["bytes", "header", "gone", "note", "version"])
def test_a_damaged_index_is_built_again(tmp_path, damage):
    """Verification names it; a history opens without it, and has another one later."""
    with filled(tmp_path) as store:
        sealed_in(store)
        path = next(path for path in files_of(store) if path.suffix == ".index")
        note = path.with_name("current.json")
        data = bytearray(path.read_bytes())
        data[-5 if damage == "bytes" else 20] ^= 1
        if damage in {"bytes", "header"}:
            path.write_bytes(data)
        elif damage == "gone":
            path.unlink()
        elif damage == "note":
            note.write_bytes(b"{]")
        else:
            note.write_bytes(note.read_bytes().replace(b'"version": 1', b'"version": 9'))
        assert path.parent in {finding.path.parent for finding in store.verify()}
        saved = SavedHistory(store, IndexDrafter(), seal_tokens=LEAST)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            saved.session("n", "s")
            wait_until(lambda: saved.sealed("n") is not None)
        said = [str(one.message) for one in warned if one.category is SuffixspecWarning]
        assert [text for text in said if "is removed and built again" in text] == said
        assert len(said) == (damage in {"bytes", "header"})
        assert all(holds(saved.sealed("n"), number) for number in range(RECORDS))
        assert store.verify() == []


def test_what_a_killed_builder_left_is_removed(tmp_path):
    """A file that no note names, complete or not, goes with the next recovery and with every forgetting."""
    with filled(tmp_path) as store:
        sealed_in(store)
        folder = files_of(store)[0].parent
        for name in ("0123.index", ".0123.index.x.tmp"):
            (folder / name).write_bytes(b"left")
        assert len(store.verify()) == 2
        store.forget(session="session-005", timeout=0)
        assert not any(path.read_bytes() == b"left" for path in files_of(store))
        assert store.verify() == []


def test_nothing_is_put_in_place_that_was_forgotten_while_it_was_built(tmp_path):
    """A forgetting between the reading of the log and the end of the building: the index is thrown away."""
    with filled(tmp_path) as store:
        log = store.log("n")
        asked = []

        def stop() -> bool:
            if not asked:
                asked.append(store.forget(session="session-005", timeout=0))
            return False

        assert not build(store, log, least=LEAST, stop=stop)
        assert log.sealed.note() is None
        assert files_of(store) == []
        assert build(store, log, least=LEAST, stop=stop)
        assert not holds(log.sealed.open(log.sealed.note()), 5)


def test_compacting_builds_the_index_of_a_large_namespace(tmp_path, monkeypatch, capsys):
    """By hand, once; without a process that drafts."""
    filled(tmp_path).close()
    monkeypatch.setattr(command, "LEAST_SEALED", LEAST)
    said = []
    for _ in range(2):
        assert cli.main(["history", "compact", "--history", str(tmp_path)]) == 0
        said.append("sealed index built" in capsys.readouterr().out)
    assert said == [True, False]
    with opened(tmp_path) as store:
        assert store.log("n").sealed.note() is not None
        assert store.verify() == []
