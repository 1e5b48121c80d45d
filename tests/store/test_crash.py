"""Crashes, torn writes, full disks and damaged bytes: at most the unsealed tail is lost, the rest opens."""

import contextlib
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from suffixspec.errors import SuffixspecWarning
from suffixspec.store import Budget

from .inputs import FailingFiles, PowerCut, QuickFiles, numbers, opened, record

ROOT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("SUFFIXSPEC_KILLS", "40"))
SEED = int(os.environ.get("SUFFIXSPEC_SEED", "1"))
STEP = int(os.environ.get("SUFFIXSPEC_FAULT_STEP", "31"))  # 1: every byte position


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_process_loses_nothing_that_was_appended(tmp_path):
    """A kill at random moments of appending, sealing, compacting and forgetting; SUFFIXSPEC_KILLS sets how often.

    What ``append`` returned from is there afterwards, once and in order; nothing is damaged or missed.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.store.killed", str(tmp_path / "h"), str(KILLS), str(SEED)],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, f"seed {SEED}: {done.stdout}{done.stderr}"
    assert f"{KILLS} kills" in done.stdout
    assert int(done.stdout.split()[2]) > KILLS // 2, f"most kills should hit a writer: {done.stdout}"


def small_log(place: Path, files: FailingFiles, *, recovers: bool = False) -> list[int]:
    """Append five records and seal twice; the numbers whose append returned.

    With ``recovers`` there is room again after the first failure.
    """
    done = []
    with opened(place, files=files) as store:
        for number in range(5):
            try:
                store.append("n", [record(number, length=2)])
            except OSError:
                files.room = 1 << 30 if recovers else files.room
                continue
            done.append(number)
            if number in {1, 3}:
                try:
                    store.seal("n")
                except OSError:
                    files.room = 1 << 30 if recovers else files.room
        with contextlib.suppress(OSError):
            store.close()
    return done


def test_a_write_may_be_torn_at_every_byte(tmp_path):
    """The process dies at a byte position of a small log: what was appended before it is there.

    Every byte position is tried with SUFFIXSPEC_FAULT_STEP=1, else every thirty-first, from which one on is by chance.
    """
    whole = FailingFiles(1 << 30)
    small_log(tmp_path / "whole", whole)
    lost = 0
    for room in range(random.Random(SEED).randrange(STEP), whole.written, STEP):
        place = tmp_path / f"h{room}"
        files = FailingFiles(room, dies=True)
        done: list[int] = []
        try:
            store = opened(place, files=files)
            for number in range(5):
                store.append("n", [record(number, length=2)])
                done.append(number)
                if number in {1, 3}:
                    store.seal("n")
            store.close()
        except PowerCut:
            # What the system does with the descriptors of a dead process.
            writer = store.log("n")._writer
            if writer is not None:
                writer.close()
            store.epoch.close()
        with opened(place, files=QuickFiles()) as again:
            again.compact()
            found = numbers(again)
            assert found[: len(done)] == done, f"at byte {room}"
            assert found == list(range(len(found))), f"at byte {room}"
            again.append("n", [record(9)])
            again.seal()
            assert numbers(again) == [*found, 9], f"at byte {room}"
            assert again.verify() == [], f"at byte {room}"
        lost += len(done) < 5
    assert lost > 10, "most positions should lie before the last append"


@pytest.mark.parametrize("recovers", [False, True], ids=["it stays full", "somebody makes room"])
def test_a_disk_may_be_full_at_every_byte(tmp_path, recovers):
    """The disk is full from a byte position on: an append fails whole, and the rest is there. Positions as above."""
    whole = FailingFiles(1 << 30)
    assert small_log(tmp_path / "whole", whole) == list(range(5))
    refused = 0
    for room in range(random.Random(SEED).randrange(STEP), whole.written, STEP):
        place = tmp_path / f"h{room}"
        files = FailingFiles(room)
        done = small_log(place, files, recovers=recovers)
        refused += len(done) < 5
        with opened(place, files=QuickFiles()) as again:
            assert numbers(again) == done or len(done) == 5 or not recovers, (
                f"full at byte {room}: not sealed"
            )
            again.compact()
            assert numbers(again) == done, f"full at byte {room}"
            assert again.verify() == [], f"full at byte {room}"
    assert refused > 10, "many positions should refuse an append"


class InterruptedFiles(QuickFiles):
    """Ctrl-C in the moment after so many writes."""

    def __init__(self, after: int) -> None:
        self.left = after

    def write(self, fd: int, data: bytes) -> None:
        """Write, and be interrupted once."""
        super().write(fd, data)
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_an_interrupt_between_a_write_and_what_follows_damages_nothing(tmp_path):
    """Ctrl-C after any write of appending, sealing and forgetting: what is done again afterwards is there once."""
    for after in range(1, 30):
        files = InterruptedFiles(after)
        place = tmp_path / str(after)
        with opened(place, files=files) as store:
            for number in range(5):
                with contextlib.suppress(KeyboardInterrupt):
                    store.append("n", [record(number)])
                    store.seal("n")
                    store.forget(session=f"session-{number - 1:03d}", timeout=0)
                    continue
                if number not in numbers(store):
                    store.append("n", [record(number)])
                store.forget(session=f"session-{number - 1:03d}", timeout=0)
                store.seal("n")
            assert files.left <= 0 or after > 20, "every write should be interrupted"
            assert store.verify() == [], f"after write {after}"
            assert numbers(store) == [4], f"after write {after}"


def sealed_log(place: Path) -> list[Path]:
    with opened(place, files=QuickFiles()) as store:
        for number in range(3):
            store.append("n", [record(number, length=2)])
            store.seal("n")
    return sorted(place.glob("namespaces/*/*.seg"))


def test_a_damaged_segment_is_set_aside_and_the_rest_opens(tmp_path):
    """Bytes of a sealed segment flipped in turn: it is named in a warning and moved, nothing wrong is read."""
    paths = sealed_log(tmp_path / "h")
    good = paths[1].read_bytes()
    for at in range(random.Random(SEED).randrange(STEP), len(good), STEP):
        bad = bytearray(good)
        bad[at] ^= 0x40
        if at == 7:
            continue  # the version: see test_history_store
        paths[1].write_bytes(bad)
        with opened(tmp_path / "h", files=QuickFiles()) as store:
            (finding,) = store.verify()
            assert finding.path == paths[1], f"byte {at}"
            with pytest.warns(SuffixspecWarning, match=f"{paths[1].name}: set aside"):
                assert numbers(store) == [0, 2], f"byte {at}"
            assert numbers(store) == [0, 2]
            aside = tmp_path / "h" / "aside"
            assert [path.name.partition("-")[2] for path in aside.iterdir()] == [paths[1].name]
            for path in aside.iterdir():
                path.unlink()
        paths[1].write_bytes(good)


def test_a_segment_that_was_cut_off_is_set_aside(tmp_path):
    """A sealed segment of any shorter length is damaged."""
    paths = sealed_log(tmp_path / "h")
    good = paths[2].read_bytes()
    for length in range(0, len(good), 5 * STEP):
        paths[2].write_bytes(good[:length])
        with opened(tmp_path / "h", files=QuickFiles()) as store, pytest.warns(match="set aside"):
            assert numbers(store) == [0, 1], f"length {length}"
        paths[2].write_bytes(good)
    for path in (tmp_path / "h" / "aside").iterdir():
        path.unlink()


@pytest.mark.parametrize("seed", range(3))
def test_an_open_segment_with_damaged_bytes_gives_a_prefix(tmp_path, seed):
    """A byte of an unsealed segment flipped: what stands before it is recovered, nothing wrong is."""
    rng = random.Random(seed)
    for trial in range(20):
        place = tmp_path / f"h{trial}"
        store = opened(place, files=QuickFiles())
        store.append("n", [record(number, length=2) for number in range(4)])
        log = store.log("n")
        path = log._writer.path
        log._writer.close()  # as when the process dies
        store.epoch.close()
        data = bytearray(path.read_bytes())
        at = rng.randrange(400, len(data))
        data[at] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        with opened(place, files=QuickFiles()) as again:
            again.compact()
            found = numbers(again)
            assert found == list(range(len(found))), f"seed {seed}, trial {trial}"
            assert len(found) < 4, f"seed {seed}, trial {trial}, byte {at}"


def test_a_segment_that_disappears_is_missed(tmp_path):
    """Verification names it, and who writes next is warned once."""
    paths = sealed_log(tmp_path / "h")
    paths[0].unlink()
    with opened(tmp_path / "h", files=QuickFiles()) as store:
        assert [finding.path for finding in store.verify()] == [paths[0]]
        with pytest.warns(SuffixspecWarning, match="it is lost"):
            store.append("n", [record(5)])
        assert store.verify() == []


def test_a_crash_between_merging_and_removing_counts_nothing_twice(tmp_path):
    """A merged segment and the ones that it replaces may be there together: they count once, and leave later."""
    paths = sealed_log(tmp_path / "h")
    kept = {path: path.read_bytes() for path in paths}
    with opened(tmp_path / "h", files=QuickFiles(), budget=Budget()) as store:
        store.compact()
    for path, data in kept.items():
        path.write_bytes(data)
    with opened(tmp_path / "h", files=QuickFiles()) as store:
        assert numbers(store) == [0, 1, 2]
        store.compact()
        assert not any(path.exists() for path in paths)
        assert numbers(store) == [0, 1, 2]
