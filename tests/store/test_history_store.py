"""The store: what is appended is read back, bounded, kept apart by namespace and by tokenizer."""

import json
import os
import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tokenizers

from suffixspec.errors import InputError
from suffixspec.store import Budget, HistoryStore, Record, TokenizerMismatchError
from suffixspec.store.folder import data_root, default_history
from suffixspec.text.tokenizer import Tokenizer

from .inputs import QuickFiles, Words, numbers, opened, record


@pytest.fixture
def place(tmp_path):
    return tmp_path / "history"


def test_what_was_appended_is_read_back_in_order(place):
    """Sessions, times, contexts, texts and tokens come back as they were, also by a store that knows no tokenizer."""
    first = Record("é\n☃", np.array([1, 2**31 - 1], np.int32), np.array([7], np.int32), 12.5, "a\ud800b")
    with opened(place) as store:
        store.append("n", [first])
        store.append("n", [Record("s", np.array([3], np.int32), time=13.0, kind="file", digest="ab")])
        store.append("other", [record(1)])
    with HistoryStore(place) as store:
        assert store.names() == ["n", "other"]
        one, two = store.records("n")
        assert (one.session, one.time, one.text, one.kind) == ("é\n☃", 12.5, "a\ud800b", "output")
        assert (one.tokens.tolist(), one.context.tolist()) == ([1, 2**31 - 1], [7])
        assert (two.text, two.kind, two.digest) == (None, "file", "ab")
        assert numbers(store, "other") == [1]
        assert list(store.records("nobody")) == []
        assert store.verify() == []
        with pytest.raises(InputError, match="opened with a tokenizer"):
            store.append("n", [record(2)])


def test_others_see_a_segment_when_it_is_sealed(place):
    """By hand, by its size, by its age, and when the store is closed."""
    with opened(place, budget=Budget(segment_bytes=600)) as writer, HistoryStore(place) as reader:
        writer.append("n", [record(0)])
        assert numbers(reader) == []
        writer.seal()
        assert numbers(reader) == [0]
        for number in range(1, 8):
            writer.append("n", [record(number)])
        seen = numbers(reader)
        assert 1 < len(seen) < 8, "the size should have sealed one, and not all"
        writer.log("n")._opened -= 100
        writer.log("n").seal_if_old()
        assert numbers(reader) == list(range(8))
        writer.append("n", [record(8)])
    with HistoryStore(place) as reader:
        assert numbers(reader) == list(range(9))


def test_two_writers_share_a_namespace(place):
    """Two stores append in turns; nothing is lost, and each one's records keep their order."""
    with opened(place) as one, opened(place) as two:
        for number in range(6):
            (one if number % 2 else two).append("n", [record(number)])
        one.seal()
        two.seal()
        assert sorted(numbers(one)) == list(range(6))
        assert [n for n in numbers(one) if n % 2] == [1, 3, 5]
        assert one.verify() == []


@pytest.mark.parametrize("seed", range(3))
def test_budgets_hold_whatever_is_appended(place, seed):
    """In tokens and bytes, per namespace and together: after each sealing within them, the newest is there."""
    rng = random.Random(seed)
    budget = Budget(
        namespace_tokens=300, namespace_bytes=6000, total_tokens=500, total_bytes=9000, segment_bytes=700
    )
    dropped = 0
    with opened(place, budget=budget, files=QuickFiles()) as store:
        for number in range(60):
            name = rng.choice("abc")
            store.append(name, [record(number, length=rng.randrange(1, 40))])
            if rng.random() < 0.5:
                store.seal(name)
                summaries = {one.name: one for one in store.summaries()}
                assert all(one.tokens <= 300 and one.nbytes <= 6000 for one in summaries.values()), (
                    f"seed {seed}"
                )
                assert sum(one.tokens for one in summaries.values()) <= 500, f"seed {seed}"
                assert sum(one.nbytes for one in summaries.values()) <= 9000, f"seed {seed}"
                kept = numbers(store, name)
                assert kept == sorted(kept), f"seed {seed}"
                assert kept[-1] == number, f"seed {seed}"
                dropped = number + 1 - sum(one.records for one in summaries.values())
        assert store.verify() == [], f"seed {seed}"
    assert dropped > 10, "the test should make segments leave"


def test_compacting_merges_segments_and_keeps_all(place):
    """Many small segments become few; order and content stay; what was read before still opens."""
    with opened(place, files=QuickFiles()) as store:
        for number in range(12):
            store.append("n", [record(number)])
            store.seal("n")
        assert store.summary("n").segments == 12
        store.compact()
        assert store.summary("n").segments == 1
        assert numbers(store) == list(range(12))
        assert store.verify() == []
        for number in range(12, 80):  # small ones are merged by themselves
            store.append("n", [record(number)])
            store.log("n").seal()
        assert store.summary("n").segments < 40
        assert numbers(store) == list(range(80))


def test_another_tokenizer_is_refused_or_encoded_anew(place):
    """A sentence names both and says what to do; when asked, the texts are encoded and the ids replaced."""
    with opened(place) as store:
        store.append("n", [record(1), record(2), Record("no text", np.array([5], np.int32))])
    with opened(place, shift=1) as store:
        with pytest.raises(
            TokenizerMismatchError, match=r"expected a history of tokenizer words1 .*got .*words0"
        ):
            store.admit("n")
        with pytest.raises(TokenizerMismatchError, match="--retokenize"):
            store.append("n", [record(3)])
        store.append("new", [record(3)])
    with opened(place, shift=1, retokenize=True) as store:
        store.admit("n")
        assert [one.tokens.tolist() for one in store.records("n")] == [
            (record(number).tokens + 1).tolist() for number in (1, 2)
        ]
        assert [one.session for one in store.records("n")] == ["session-001", "session-002"]
        store.append("n", [record(4)])
        assert store.verify() == []
    with opened(place) as store, pytest.raises(TokenizerMismatchError):
        store.admit("n")


def test_another_chat_template_reads_the_same_history(place):
    """A tokenizer is known by its vocabulary and merges: an edited template loses nothing, other merges are refused."""
    backend = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    other = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0, "b": 1, "ab": 2}, []))
    with HistoryStore(place, tokenizer=Tokenizer(backend, name="t", template="one")) as store:
        store.append("n", [Record("s", np.array([0, 2], np.int32), text="aab")])
    edited = Tokenizer(backend, name="t", template="two {{ messages }}")
    with HistoryStore(place, tokenizer=edited) as store:
        store.admit("n")
        store.append("n", [Record("s", np.array([1], np.int32), text="b")])
    with HistoryStore(place, tokenizer=Tokenizer(other, name="t", template="one")) as store:
        with pytest.raises(TokenizerMismatchError):
            store.admit("n")
        assert [one.tokens.tolist() for one in store.records("n")] == [[0, 2], [1]]


def test_what_is_no_history_is_refused(tmp_path):
    """Another folder, a file, a later version: a sentence each; an empty folder becomes one."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear", encoding="utf-8")
    with pytest.raises(InputError, match="got another folder"):
        opened(tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]
    with pytest.raises(InputError, match="expected a folder for the history"):
        opened(tmp_path / "mine" / "letter.txt")
    (tmp_path / "empty").mkdir()
    opened(tmp_path / "empty").close()
    (tmp_path / "empty" / "format").write_text("suffixspec history 2\n", encoding="ascii")
    with pytest.raises(InputError, match="update suffixspec"):
        opened(tmp_path / "empty")


def test_many_may_make_a_folder_at_the_same_time(tmp_path):
    """Threads that open the same new folder at once all get it, again and again."""
    for trial in range(20):
        gate = threading.Barrier(6)

        def make(place=tmp_path / str(trial), gate=gate) -> None:
            gate.wait()
            opened(place, files=QuickFiles()).close()

        with ThreadPoolExecutor(6) as pool:
            for done in [pool.submit(make) for _ in range(6)]:
                done.result()


def test_a_segment_of_a_later_version_is_left_alone(place):
    """It is no damage: the reader is told to update, and the file stays."""
    with opened(place) as store:
        store.append("n", [record(1)])
    (path,) = place.glob("namespaces/*/*.seg")
    data = bytearray(path.read_bytes())
    data[7] += 1
    path.write_bytes(data)
    with opened(place) as store, pytest.raises(InputError, match="update suffixspec"):
        store.append("n", [record(2)])
    assert path.read_bytes() == data


def test_a_budget_says_what_it_cannot_be():
    """Every bound is above 0."""
    with pytest.raises(ValueError, match="expected total_bytes above 0, got 0"):
        Budget(total_bytes=0)


def test_only_the_owner_can_read_a_history(place):
    """Folders and files with text are closed to others."""
    with opened(place) as store:
        store.append("n", [record(1)])
    assert place.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in place.glob("namespaces/*/*"))


def test_the_data_folder_follows_the_system(monkeypatch, tmp_path):
    """SUFFIXSPEC_DATA wins, then the system's rule; a relative XDG_DATA_HOME is ignored."""
    monkeypatch.setenv("SUFFIXSPEC_DATA", str(tmp_path))
    assert default_history() == tmp_path / "history"
    monkeypatch.delenv("SUFFIXSPEC_DATA")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", "/xdg")
    assert str(data_root()) == "/xdg/suffixspec"
    monkeypatch.setenv("XDG_DATA_HOME", "xdg")
    assert data_root().parts[-3:] == (".local", "share", "suffixspec")


def test_the_store_is_light():
    """Opening, writing and reading a history loads neither numba nor torch nor transformers."""
    code = (
        "import sys, tempfile\nfrom suffixspec.store import HistoryStore\n"
        "HistoryStore(tempfile.mkdtemp() + '/h').close()\n"
        "print(*(name for name in ('numba', 'torch', 'transformers', 'tokenizers') if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == ""


def test_the_manifest_names_the_namespace_and_can_be_lost(place):
    """It lists what was sealed; without it, or with a damaged one, the segments say the same."""
    with opened(place) as store:
        store.append("n", [record(1)])
    (manifest,) = place.glob("namespaces/*/manifest.json")
    said = json.loads(manifest.read_text(encoding="ascii"))
    assert said["namespace"] == "n"
    assert [one["records"] for one in said["segments"].values()] == [1]
    manifest.write_bytes(b"{]")
    with opened(place) as store:
        assert store.names() == ["n"]
        assert [finding.path.name for finding in store.verify()] == ["manifest.json"]
        store.compact()
        assert store.verify() == []
        assert Words().vocabulary_fingerprint == store.log("n").segments()[0].header.tokenizer
