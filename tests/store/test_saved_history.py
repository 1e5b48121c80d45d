"""A drafter with a saved history: the second run drafts from the first, and drafting never waits for a disk."""

import threading
import weakref
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import pytest

from suffixspec.draft import IndexDrafter, NoDrafter
from suffixspec.draft.calibration import Calibration
from suffixspec.errors import InputError, SuffixspecWarning
from suffixspec.index.suffix_tree import Growth
from suffixspec.store import HistoryStore, SavedHistory, TokenizerMismatchError
from suffixspec.store.record import Record
from suffixspec.store.saved_history import BLOCK, blocks, open_saved

from .inputs import FailingFiles, Words, numbers, opened, record
from .test_forget import PROMPT, SECRET, drafted, speak, wait_until


def test_the_second_run_drafts_from_the_first(tmp_path):
    """Outputs, their contexts and what was learned come back, in the foreground and in the background."""
    first = IndexDrafter()
    saved = open_saved(tmp_path, first, Words(), target="t", background=False)
    session = saved.session("n", "s")
    speak(session, PROMPT, SECRET)
    speak(session, [*PROMPT, *SECRET, *PROMPT], SECRET)
    first.calibration_at(0.3).cells[0, 0] = 5.0
    session.close()
    saved.close()
    for background in (False, True):
        drafter = IndexDrafter()
        saved = open_saved(tmp_path, drafter, Words(), target="t", background=background)
        session = saved.session("n", "again")
        wait_until(lambda saved=saved: saved.resident("n"))
        session.sync(np.array(PROMPT))
        assert drafted(session)[:3] == SECRET[:3]
        assert saved.loading.tokens == 2 * len(SECRET)
        assert np.array_equal(drafter.calibration.cells, first.calibration.cells)
        assert drafter.calibration_at(0.3).cells[0, 0] == 5.0
        other = saved.session("other", "s")
        other.sync(np.array(PROMPT))
        assert drafted(other) == [], "another namespace"
        saved.close()


def test_another_process_s_outputs_are_read_while_running(tmp_path):
    """What one process seals is drafted by another that runs already; its own outputs are not read twice."""
    with opened(tmp_path) as store, opened(tmp_path) as other:
        saved = SavedHistory(store, IndexDrafter())
        session = saved.session("n", "s")
        speak(session, PROMPT, SECRET)
        session.close()
        saved.flush()
        store.seal()
        other.append(
            "n", [Record("o", np.arange(800, 830, dtype=np.int32), np.array([41, 42, 43], np.int32))]
        )
        other.seal()
        wait_until(lambda: saved.loading.tokens > 0)
        assert saved.loading.tokens == 30
        live = saved.session("n", "live")
        live.sync(np.array([41, 42, 43]))
        assert drafted(live)[:2] == [800, 801]
        saved.close()


def test_to_load_returns_when_what_another_thread_reads_is_in_memory(tmp_path, monkeypatch):
    """The thread in the background has taken an output from disk, but not indexed it yet: it is waited for."""
    with opened(tmp_path) as store:
        store.append("n", [record(0)])
        store.seal()
        saved = SavedHistory(store, IndexDrafter())
        taken, go = threading.Event(), threading.Event()
        fresh = saved._fresh

        def taking(*arguments: Any) -> list[Record]:
            new = fresh(*arguments)
            if threading.current_thread().name == "suffixspec history" and not taken.is_set():
                taken.set()
                assert go.wait(60)
            return new

        monkeypatch.setattr(saved, "_fresh", taking)
        saved.session("n", "s")
        assert taken.wait(60)
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(lambda: (saved.load("n"), len(saved._drafter.history))[1])
            wait([found], timeout=0.5)  # where it does not wait, it has ended by now
            go.set()
            assert found.result(60) > 0
        saved.close()


def test_what_was_said_here_is_not_read_again_when_another_process_merges_it(tmp_path):
    """A merged segment holds an output of this process and one of another: the other's is new, its own is not."""
    with opened(tmp_path) as store, opened(tmp_path) as other:
        saved = SavedHistory(store, IndexDrafter(), background=False)
        speak(saved.session("n", "s"), PROMPT, SECRET)
        saved.flush()
        store.seal()
        other.append("n", [record(1)])
        other.seal()
        other.compact("n")
        (merged,) = store.log("n").segments()
        assert merged.footer.tokens == len(SECRET) + 6
        saved.load("n")
        (tree,) = saved._drafter.history.index("n").trees
        assert tree.count(tree.find(record(1).tokens[:3])) == 1
        assert tree.count(tree.find(SECRET[:3])) == 1
        saved.close()


def test_an_output_that_nobody_would_draft_from_is_on_disk_only(tmp_path):
    """A drafter whose sessions stand alone keeps no index of them."""
    with opened(tmp_path) as store:
        drafter = IndexDrafter(history="session")
        saved = SavedHistory(store, drafter, background=False)
        speak(saved.session("n", "s"), PROMPT, SECRET)
        saved.close()
        assert len(drafter.history) == 0
        assert [one.tokens.tolist() for one in store.records("n")] == [SECRET]


class TrippedFiles(FailingFiles):
    """Notes which threads write."""

    def __init__(self) -> None:
        super().__init__(1 << 30)
        self.threads: set[str] = set()

    def write(self, fd: int, data: bytes) -> None:
        """Write, and note who does."""
        self.threads.add(threading.current_thread().name)
        super().write(fd, data)


def test_a_session_writes_nothing_to_disk_itself(tmp_path):
    """Prompts, drafts, acceptances, ends of turns and the end of a session: the writing is another thread's."""
    files = TrippedFiles()
    with HistoryStore(tmp_path, tokenizer=Words(), files=files) as store:
        saved = SavedHistory(store, IndexDrafter())
        files.threads.clear()
        session = saved.session("n", "s")
        speak(session, PROMPT, SECRET)
        session.close()
        wait_until(lambda: bool(files.threads))
        assert files.threads == {"suffixspec history"}
        saved.close()


@pytest.mark.parametrize("reread", [False, True])
def test_an_output_is_in_memory_and_on_disk_before_its_session_ends(tmp_path, reread):
    """A process that is killed loses no loop that goes on, and other sessions draft from it. It is there once."""
    with HistoryStore(tmp_path, tokenizer=Words()) as store:
        saved = SavedHistory(store, IndexDrafter(), background=False)
        session = saved.session("n", "s")
        speak(session, PROMPT, SECRET)
        saved.flush()
        store.log("n").seal()
        assert [one.tokens.tolist() for one in store.records("n")] == [SECRET]
        if reread:  # as after something else was forgotten
            with saved.lock:
                saved._drafter.clear_history()
                saved._place("n").clear()
            saved._read_again("n", saved._place("n"))
        other = saved.session("n", "t")
        other.sync(np.array(PROMPT))
        assert drafted(other)[:2] == SECRET[:2]
        session.close()
        saved.load("n")
        assert drafted(other)[:2] == SECRET[:2]
        tree = saved._drafter.history.index("n").trees[0]
        assert tree.count(tree.find(SECRET[:3])) == 1
        saved.close()
        assert [one.tokens.tolist() for one in store.records("n")] == [SECRET]


def test_what_is_forgotten_while_its_session_goes_on_does_not_come_back(tmp_path):
    """Not into memory when the session ends, and not onto the disk."""
    with HistoryStore(tmp_path, tokenizer=Words()) as store:
        saved = SavedHistory(store, IndexDrafter(), background=False)
        session = saved.session("n", "s")
        speak(session, PROMPT, SECRET)
        saved.flush()
        store.forget(session="s", namespace="n")
        saved.catch_up()
        session.close()
        saved.flush()
        other = saved.session("n", "t")
        other.sync(np.array(PROMPT))
        assert drafted(other) == []
        saved.close()
        assert list(store.records("n")) == []


def test_a_full_disk_stops_nobody_and_is_said_once(tmp_path):
    """Sessions go on and draft; when there is room again, what waited is written."""
    files = FailingFiles(1 << 30)
    with HistoryStore(tmp_path, tokenizer=Words(), files=files) as store:
        saved = SavedHistory(store, IndexDrafter())
        files.room = files.written
        with pytest.warns(SuffixspecWarning, match="cannot be saved now.*No space left") as warned:  # noqa: PT031
            session = saved.session("n", "s")
            speak(session, PROMPT, SECRET)
            session.close()
            wait_until(lambda: files.failed)
            session = saved.session("n", "t")
            session.sync(np.array(PROMPT))
            assert drafted(session)[:2] == SECRET[:2]
            wait_until(lambda: len(warned) > 0)
        files.room = 1 << 30
        saved.close()
        assert [one.tokens.tolist() for one in store.records("n")] == [SECRET]


def test_a_disk_that_fills_up_in_the_middle_of_the_queue_is_written_to_once(tmp_path):
    """Of many outputs of two namespaces some fit: the rest waits, in order, and nothing is there twice or is lost."""
    files = FailingFiles(1 << 30)
    with HistoryStore(tmp_path, tokenizer=Words(), files=files) as store:
        saved = SavedHistory(store, IndexDrafter(), background=False)
        said = {"n": [*range(30), *range(40, 45)], "m": [*range(30, 40), *range(45, 48)]}
        with saved._io, saved.lock:  # the thread that writes waits
            for number in range(48):
                namespace = next(name for name, numbers in said.items() if number in numbers)
                one = record(number)
                saved.keep(namespace, one.session, one.tokens, one.context)
            assert saved._queued == 48 * 6
            files.room = files.written + 4500
            with pytest.raises(OSError, match="No space left"):
                saved.flush()
            waiting = [entry.session for _, entry in saved._queue]
            assert 0 < len(waiting) < 48
            assert waiting == [record(number).session for number in range(48 - len(waiting), 48)]
            assert saved._queued == len(waiting) * 6
            files.room = 1 << 30
            saved.flush()
            assert (saved._queued, len(saved._queue)) == (0, 0)
        saved.close()
        for namespace, expected in said.items():
            assert numbers(store, namespace) == expected


@pytest.mark.parametrize("damage", ["shape", "prior", "bytes", "nan"])
def test_a_calibration_of_another_kind_is_passed_over_once(tmp_path, monkeypatch, damage):
    """Wrong shapes, another prior, damaged bytes or numbers that are none: the prior, and one warning."""
    with opened(tmp_path) as store:
        learned = Calibration()
        learned.cells[3, 0] = np.nan if damage == "nan" else 9.0
        if damage == "shape":
            learned.cells = learned.cells[:-1].copy()
        store.calibration.save("t", {"0": learned})
        if damage == "bytes":
            path = store.calibration.path("t")
            path.write_bytes(path.read_bytes()[:-30])
        if damage == "prior":
            prior = Calibration.__init__

            def other(self, **given) -> None:
                prior(self, **given)
                self.cells[0, 0] += 1

            monkeypatch.setattr(Calibration, "__init__", other)
        with pytest.warns(SuffixspecWarning, match="beginning from the prior") as warned:
            assert [store.calibration.load("t", Calibration) for _ in range(2)] == [{}, {}]
        assert len(warned) == 1
        assert store.calibration.load("nobody", Calibration) == {}
        store.calibration.save("t", {"0": Calibration()})
        assert store.calibration.load("t", Calibration)["0"].cells.shape == Calibration().cells.shape


def test_another_tokenizer_is_refused_when_a_session_begins(tmp_path):
    """The error says which; nothing is read."""
    with opened(tmp_path) as store:
        store.append("n", [record(1)])
    saved = open_saved(tmp_path, IndexDrafter(), Words(1), background=False)
    with pytest.raises(TokenizerMismatchError):
        saved.session("n", "s")
    saved.close()


def test_what_cannot_be_saved_is_refused(tmp_path):
    """A drafter without a history, and a store of another tokenizer."""
    with pytest.raises(InputError, match="got NoDrafter"):
        open_saved(tmp_path, NoDrafter(), Words())
    with opened(tmp_path, shift=1) as store, pytest.raises(InputError, match="opened with tokenizer"):
        open_saved(store, IndexDrafter(), Words())


def test_long_records_are_indexed_in_pieces():
    """A piece goes on from the end of the one before, so that a match crosses the cut; short ones share a block."""
    long = Record("s", np.arange(50, dtype=np.int32), np.array([9], np.int32))
    short = Record("s", np.arange(3, dtype=np.int32))
    found = [[(t.tolist(), c.tolist()) for t, c in block] for block in blocks([short, long, short], 20)]
    assert [[len(t) for t, _ in block] for block in found] == [[3, 20], [20], [10, 3]]
    assert [one for block in found for t, _ in block for one in t] == [*range(3), *range(50), *range(3)]
    assert found[0][1][1] == [9]
    assert found[1][0][1] == list(range(4, 20))


def test_a_long_history_is_put_in_place_when_it_is_ready(tmp_path):
    """Indexed apart from the one in use: a session that began before drafts from it, and its memory is bounded."""
    rng = np.random.default_rng(5)
    with opened(tmp_path) as store:
        for number in range(12):
            tokens = rng.integers(1000, 9000, 1500).astype(np.int32)
            store.append("n", [Record(f"s{number}", tokens, tokens[:0], float(number))])
        store.append("n", [Record("last", np.array(SECRET, np.int32), np.array(PROMPT, np.int32), 99.0)])
    saved = open_saved(tmp_path, IndexDrafter(history_bytes=1 << 23), Words())
    session = saved.session("n", "s")
    session.sync(np.array(PROMPT))
    wait_until(lambda: saved.resident("n"))
    assert drafted(session)[:3] == SECRET[:3]
    assert saved.loading.tokens == 12 * 1500 + len(SECRET)
    saved._drafter.history.check()
    saved.close()


LONG = np.random.default_rng(8).integers(1000, 9000, 4 * BLOCK).astype(np.int32)


def held_one_piece_at_a_time(saved, monkeypatch, between=lambda: None) -> list[int]:
    """Tokens that are indexed under the lock, each time that it is held; ``between`` runs once, after the first."""
    holds = []
    index, copy, give_way = saved._index, Growth.copy, saved.give_way
    later = [between]

    def indexed(namespace, block):
        holds.append(sum(len(tokens) for tokens, _ in block))
        index(namespace, block)

    def gave_way():
        give_way()
        if holds and later:
            later.pop()()

    def copied(growth):
        with ThreadPoolExecutor(1) as others:
            assert others.submit(saved.lock.acquire).result(10), (
                "nobody holds the lock while arrays are copied"
            )
            others.submit(saved.lock.release).result(10)
        copied.calls += 1
        copy(growth)

    copied.calls = 0
    monkeypatch.setattr(saved, "_index", indexed)
    monkeypatch.setattr(saved, "give_way", gave_way)
    monkeypatch.setattr(Growth, "copy", copied)
    return holds


@pytest.mark.parametrize("background", [False, True])
def test_the_lock_is_held_for_a_piece_of_text_at_a_time_when_a_turn_ends(tmp_path, monkeypatch, background):
    """A long output comes into memory whole; trees grow beside the lock, so that a draft waits for one piece."""
    with opened(tmp_path) as store:
        saved = SavedHistory(store, IndexDrafter(), background=background)
        session = saved.session("n", "s")
        holds = held_one_piece_at_a_time(saved, monkeypatch)
        speak(session, PROMPT, [*SECRET, *LONG.tolist()])
        speak(session, [41, 42, 43], SECRET)
        session.close()
        assert sum(holds) == len(LONG) + 2 * len(SECRET)
        assert max(holds) <= BLOCK
        assert Growth.copy.calls >= 4
        other = saved.session("n", "t")
        for at in (0, BLOCK - len(SECRET) + 4, len(LONG) - 30):
            other.sync(LONG[at : at + 12])
            assert drafted(other)[:3] == LONG[at + 12 : at + 15].tolist(), f"at {at}"
        tree = saved._drafter.history.index("n").trees[0]
        assert tree.count(tree.find(SECRET[:3])) == 2
        saved._drafter.history.check()
        monkeypatch.undo()
        saved.close()


def test_an_output_that_is_forgotten_while_it_is_being_indexed_does_not_come_back(tmp_path, monkeypatch):
    """Neither its first piece nor the ones that had yet to come."""
    with opened(tmp_path) as store, opened(tmp_path) as other:
        saved = SavedHistory(store, IndexDrafter(), background=False)
        session = saved.session("n", "s")

        def forget():
            other.forget(session="s", timeout=0)
            saved.catch_up()

        holds = held_one_piece_at_a_time(saved, monkeypatch, forget)
        speak(session, PROMPT, LONG.tolist())
        assert holds == [BLOCK]
        assert len(saved._drafter.history) == 0
        monkeypatch.undo()
        saved.close()


def test_an_output_that_comes_from_the_disk_while_it_is_being_indexed_is_there_once(tmp_path, monkeypatch):
    """As when something else was forgotten in the middle of it: all is read again, and no piece is added to that."""
    with opened(tmp_path) as store:
        saved = SavedHistory(store, IndexDrafter(), background=False)
        session = saved.session("n", "s")

        def again():
            saved.flush()
            place = saved._place("n")
            saved._drafter.clear_history()
            place.clear()
            saved._read_again("n", place)

        holds = held_one_piece_at_a_time(saved, monkeypatch, again)
        speak(session, PROMPT, LONG.tolist())
        monkeypatch.undo()
        (tree,) = saved._drafter.history.index("n").trees
        for at in range(0, len(LONG) - 8, BLOCK // 4):
            assert tree.count(tree.find(LONG[at : at + 5])) == 1, f"at {at}"
        assert holds == [BLOCK], "the rest was indexed apart"
        saved.close()


def test_what_leaves_the_memory_is_freed_by_the_thread(tmp_path):
    """A draft that finds that something was forgotten does not free large memory itself."""
    with opened(tmp_path) as store, opened(tmp_path) as other:
        saved = SavedHistory(store, IndexDrafter(), background=False)
        session = saved.session("n", "s")
        speak(session, PROMPT, SECRET)
        session.close()
        saved.flush()
        (tree,) = saved._drafter.history.index("n").trees
        freed = []
        weakref.finalize(tree, lambda: freed.append(threading.current_thread()))
        del tree
        live = saved.session("n", "t")
        live.sync(np.array(PROMPT))
        with saved._io, saved.lock:  # it is this thread that finds out
            other.forget(session="s", timeout=0)
            assert drafted(live) == []
        wait_until(lambda: freed)
        assert freed == [saved._thread]
        saved.close()
