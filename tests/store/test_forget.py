"""Forgetting: the bytes are gone from disk, and no process drafts from them afterwards."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from suffixspec.draft import IndexDrafter
from suffixspec.store import SavedHistory
from suffixspec.store.epoch import Epoch, digest

from .inputs import QuickFiles, all_bytes, numbers, opened, record

ROOT = Path(__file__).resolve().parents[2]


def traces_of(number: int) -> list[bytes]:
    """What would give record ``number`` away: its tokens' bytes, and its session's name."""
    return [record(number).tokens.astype("<i4").tobytes()[4:20], f"session-{number:03d}".encode()]


def assert_gone(place: Path, number: int) -> None:
    found = [mark for mark in traces_of(number) if mark in all_bytes(place)]
    assert not found, f"record {number} is still there: {found}"


@pytest.mark.parametrize("seed", range(2))
def test_the_bytes_of_what_was_forgotten_are_in_no_file(tmp_path, seed):
    """By session, by time and by namespace, from sealed, open and damaged segments; the rest stays as it was."""
    rng = random.Random(seed)
    with opened(tmp_path, files=QuickFiles()) as store, opened(tmp_path, files=QuickFiles()) as other:
        expected = set(range(30))
        for number in range(30):
            (store if rng.random() < 0.7 else other).append("n", [record(number)])
            if rng.random() < 0.3:
                store.seal("n")
        store.append("m", [record(90)])
        assert all(mark in all_bytes(tmp_path) for mark in traces_of(3)), (
            "the search should find what is there"
        )
        for number in rng.sample(range(10, 30), 8):
            report = store.forget(session=f"session-{number:03d}", timeout=0)
            assert report.records == 1, f"seed {seed}"
            expected.discard(number)
            assert_gone(tmp_path, number)
        store.seal()
        damaged = min(tmp_path.glob(f"namespaces/{digest('n')}/*.seg"))
        held = [n for n in range(30) if traces_of(n)[0] in damaged.read_bytes()]
        data = bytearray(damaged.read_bytes())
        data[-3] ^= 1
        damaged.write_bytes(data)
        with pytest.warns(match="set aside"):
            numbers(store, "n")
        other.append("n", [record(40)])  # its open segment is gone: it begins another one
        store.forget(before=8.0, timeout=0)
        expected = {n for n in expected if n >= 8} - set(held) | {40}
        other.seal()
        for number in range(8):
            assert_gone(tmp_path, number)
        for number in held:
            assert_gone(tmp_path, number)
        assert set(numbers(store, "n")) == {n for n in expected if n != 90}, f"seed {seed}"
        assert store.verify() == []
        store.forget(namespace="m", timeout=0)
        assert_gone(tmp_path, 90)
        assert store.names() == ["n"]


def test_nothing_said_forgets_nothing(tmp_path):
    """Without a session, a namespace or a time it is an error."""
    with opened(tmp_path) as store:
        store.append("n", [record(1)])
        with pytest.raises(ValueError, match="expected a namespace, a session or a time"):
            store.forget()
        store.seal()
        assert numbers(store) == [1]
        assert store.epoch.value == 0


def drafted(session) -> list[int]:
    return session.draft().token_ids.tolist()


def speak(session, prompt: list[int], output: list[int]) -> None:
    session.sync(np.array(prompt))
    session.draft()
    session.accept(np.array(output, np.int32))
    session.end_turn()


PROMPT, SECRET = [11, 12, 13, 14, 15], list(range(500, 530))


def test_a_live_session_drafts_nothing_that_was_forgotten(tmp_path):
    """The next draft after forgetting, in a session that was drafting it a moment before; other text comes back."""
    with opened(tmp_path) as store, opened(tmp_path) as writer:
        saved = SavedHistory(store, IndexDrafter(), background=False)
        secret = saved.session("n", "secret")
        speak(secret, PROMPT, SECRET)
        harmless = saved.session("n", "harmless")
        speak(harmless, [21, 22, 23], list(range(700, 730)))
        secret.close()
        harmless.close()
        saved.flush()
        live = saved.session("n", "live")
        live.sync(np.array(PROMPT))
        assert drafted(live)[:2] == SECRET[:2], "it should be drafted before"
        report = writer.forget(session="secret")
        assert (report.records, report.unacknowledged) == (1, [])
        assert drafted(live) == []
        live.sync(np.array([21, 22, 23]))
        wait_until(lambda: saved.resident("n"))
        assert drafted(live)[:2] == [700, 701]
        saved.close()


def test_a_process_that_could_not_answer_drafts_nothing_either(tmp_path):
    """The draft itself looks: here the thread that answers is kept from it, and the namespace had left the memory."""
    with opened(tmp_path) as store, opened(tmp_path) as writer:
        saved = SavedHistory(store, IndexDrafter(), background=False)
        secret = saved.session("n", "secret")
        speak(secret, PROMPT, SECRET)
        secret.close()
        saved.flush()
        live = saved.session("n", "live")
        live.sync(np.array(PROMPT))
        with saved.lock:
            assert drafted(live)[:2] == SECRET[:2]
            saved._drafter.history.forget("n")  # as when another namespace needs the room
            assert drafted(live)[:2] == SECRET[:2], "a session keeps the index that it began with"
            assert writer.forget(session="secret", timeout=0.05).unacknowledged == [os.getpid()]
            assert drafted(live) == []
        saved.close()


def test_what_is_not_written_yet_is_forgotten_too(tmp_path):
    """Outputs of a session that is still open, or that wait for the disk, do not come back when they are written."""
    with opened(tmp_path) as store, opened(tmp_path) as writer:
        saved = SavedHistory(store, IndexDrafter(), background=False)
        secret = saved.session("n", "secret")
        speak(secret, PROMPT, SECRET)
        writer.forget(namespace="n", session="secret")
        speak(secret, [31, 32, 33], [900, 901])  # said afterwards: that is kept
        secret.close()
        saved.flush()
        store.seal()
        assert [one.tokens.tolist() for one in store.records("n")] == [[900, 901]]
        live = saved.session("n", "live")
        live.sync(np.array(PROMPT))
        assert drafted(live) == []
        saved.close()


def test_what_no_disk_has_seen_is_forgotten_too(tmp_path):
    """Everything of a history may still be in memory: a session is forgotten though no namespace is on disk yet."""
    with opened(tmp_path) as store, opened(tmp_path) as writer:
        saved = SavedHistory(store, IndexDrafter(), background=False)
        secret = saved.session("n", "secret")
        speak(secret, PROMPT, SECRET)
        with saved._io:  # nothing is written meanwhile
            secret.close()
            live = saved.session("n", "live")
            live.sync(np.array(PROMPT))
            assert drafted(live)[:2] == SECRET[:2]
            assert writer.names() == []
            writer.forget(session="secret", timeout=0)
            assert drafted(live) == []
        saved.close()
        assert list(store.records("n")) == []


def wait_until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)


READER = """\
import sys, time
from suffixspec.store.epoch import Epoch
from suffixspec.store.files import Files
from pathlib import Path
epoch = Epoch(Path(sys.argv[1]), files=Files())
reader = epoch.reader()
print("ready", flush=True)
while True:
    if reader.behind:
        reader.acknowledge(epoch.value)
    time.sleep(0.001)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs SIGSTOP")
def test_forgetting_waits_for_other_processes_and_names_those_that_do_not_answer(tmp_path):
    """A running reader acknowledges; a stopped one is named after the timeout; a dead one is passed over."""
    with opened(tmp_path) as store:
        store.append("n", [record(1), record(2), record(3)])
        child = subprocess.Popen(
            [sys.executable, "-c", READER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        try:
            assert child.stdout.readline() == "ready\n"
            assert store.forget(session="session-001", timeout=60).unacknowledged == []
            os.kill(child.pid, signal.SIGSTOP)
            assert store.forget(session="session-002", timeout=0.05).unacknowledged == [child.pid]
            os.kill(child.pid, signal.SIGCONT)
            assert store.forget(session="session-003", timeout=60).unacknowledged == []
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
        assert store.forget(namespace="n", timeout=60).unacknowledged == []
        assert list((tmp_path / "readers").iterdir()) == []


def test_the_list_of_what_was_forgotten_tells_nothing(tmp_path):
    """Names stand in it as digests; where it does not reach back far enough, that is an error."""
    with opened(tmp_path) as store:
        store.append("tenant-x", [record(1, session="session-of-x")])
        store.forget(session="session-of-x", timeout=0)
        everywhere, entry = store.epoch.forgotten(0)
        assert everywhere.namespace is None
        assert (entry.namespace, entry.session) == (digest("tenant-x"), digest("session-of-x"))
        data = (tmp_path / "forgotten.json").read_bytes()
        assert b"tenant-x" not in data
        assert b"session-of-x" not in data
        (tmp_path / "forgotten.json").unlink()
        with pytest.raises(Exception, match="expected the list of what was forgotten"):
            store.epoch.forgotten(0)
        again = Epoch(tmp_path, files=QuickFiles())
        assert again.value == 2
        again.close()
