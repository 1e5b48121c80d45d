"""Kills a writing process again and again, and looks what is left; run by test_crash.

    python -m tests.store.killed FOLDER ROUNDS SEED

Each round forks a writer that appends numbered records, seals, compacts and now and then forgets, and tells each
number that was appended through a pipe. The parent kills it after a random time.
"""

import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path

from suffixspec.store import Budget

from .inputs import QuickFiles, numbers, opened, record

BUDGET = Budget(segment_bytes=900)


def write(place: Path, start: int, told: int) -> None:
    number = start
    with opened(place, budget=BUDGET, files=QuickFiles()) as store:
        while True:
            store.append("n", [record(number, session="even" if number % 2 == 0 else "odd")])
            os.write(told, number.to_bytes(4, "little"))
            number += 1
            if number % 7 == 0:
                store.seal()
            if number % 23 == 0:
                store.compact()
            if number % 31 == 0:
                store.append("x", [record(number, session="gone")])
                store.forget(session="gone")


def main() -> None:
    warnings.simplefilter("error")
    place, rounds, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    acknowledged: list[int] = []
    start = killed_in_work = 0
    for number in range(rounds):
        read, told = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            write(place, start, told)
        os.close(told)
        # Most are killed at work, some while they open the history.
        data = os.read(read, 4) if rng.random() < 0.8 else b""
        time.sleep(rng.random() * 0.05)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while piece := os.read(read, 65536):
            data += piece
        os.close(read)
        new = [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]
        acknowledged += new
        killed_in_work += bool(new)
        with opened(place, budget=BUDGET, files=QuickFiles()) as store:
            store.compact()  # finishes what was left
            problems = store.verify()
            found = numbers(store) if "n" in store.names() else []
        where = f"seed {seed}, round {number}"
        assert not problems, f"{where}: {problems}"
        assert found == sorted(set(found)), f"{where}: twice or out of order: {found}"
        missing = set(acknowledged) - set(found)
        assert not missing, f"{where}: lost {sorted(missing)}"
        # One record may have been written and not told.
        assert len(set(found) - set(acknowledged)) <= number + 1, where
        start = max(found, default=-1) + 1
    print(f"{rounds} kills, {killed_in_work} of them while writing, {len(acknowledged)} records, none lost")


if __name__ == "__main__":
    main()
