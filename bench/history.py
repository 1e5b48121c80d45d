"""A history that lasts: ``python -m bench.history [TRACE…] [--tokens N] [-o FILE.json]``.

* Size: a history of ``--tokens`` tokens (a trace's own, varied) as a log and as a sealed index: bytes per token.
* Opening: a new process opens it, begins a session and drafts, before and after the index is in memory; with its
  pages in the system's cache, and with them dropped from it (cold).
* Pauses: what a draft takes while another thread ends sessions, appends and evicts, on disk and in memory; in turn
  with what it takes alone, and beside threads that are as busy and hold nothing: neither the interpreter nor a lock.
  What is longer than beside those is a pause that this code causes; what is not is the system's, which gave the core
  to somebody else. With each draft a call is timed that takes some 15 µs without the interpreter and then needs it
  back: it shows the part of a pause that is the interpreter's lock and no other.
* Gain: tokens per step on the second half of each trace's sessions, with nothing and with the history that an
  earlier run saved of the first half.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import environment, sessions
from bench.quiet import no_collection
from suffixspec.cost import CostCurve
from suffixspec.draft import IndexDrafter
from suffixspec.native.warm_up import warm_up
from suffixspec.replay.metrics import DrafterMetrics, measure
from suffixspec.replay.result import ReplayResult
from suffixspec.replay.simulate import RenderedSession, Simulation, replay
from suffixspec.store import Budget, HistoryStore, Record, SavedHistory
from suffixspec.store.saved_history import open_saved
from suffixspec.store.sealed_file import LEAST_SEALED
from suffixspec.store.sealer import build
from suffixspec.text.tokenizer import load_tokenizer

SPACE = "bench"
PIECE = 300
"""Tokens of a record of the large history, about those of an output."""
VARIED = 0.05
"""Share of tokens that differ from one copy of the trace to the next."""
OPEN_SECONDS, PAUSE_MS, GIB_PER_100M = 1.0, 5.0, 2.0
"""The bars."""


def main() -> None:
    """Measure, print, and save the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.history",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("traces", nargs="*", default=[sessions.DEFAULT_TRACE], metavar="TRACE")
    parser.add_argument("-o", "--output", metavar="FILE.json")
    parser.add_argument("--tokens", type=int, default=10_000_000, help="of the large history (default: 10M)")
    parser.add_argument("--limit", type=int, help="sessions of each trace (default: all)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each stretch of drafting (default: 5)")
    parser.add_argument(
        "--repeats", type=int, default=5, help="openings, and pairs of stretches (default: 5)"
    )
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--open", metavar="FOLDER", help=argparse.SUPPRESS)  # in a process of its own
    args = parser.parse_args()
    warm_up()
    if args.open:
        print(json.dumps(opened(Path(args.open), args.nodes)))
        return
    document: dict[str, Any] = {
        "environment": environment.describe("bench.history", traces=args.traces, seed=0),
        "settings": {"max_nodes": args.nodes, "tokens": args.tokens, "limit": args.limit, "varied": VARIED},
    }
    given = document["environment"]
    print(f"{given['hardware']['cpu']}, {given['hardware']['cores']} cores; commit {given['commit']}")
    recorded = {trace: sessions.load([trace], limit=args.limit) for trace in args.traces}
    first = next(iter(recorded.values()))
    with tempfile.TemporaryDirectory() as scratch:
        document["size"] = size(Path(scratch), first, args.tokens)
        document["opening"] = opening(Path(scratch), args)
        document["pauses"] = pauses(Path(scratch), first, args)
        document["gain"] = {}
        print(f"\n{'second half of':<28}{'τ':>7}{'session mean':>14}{'modelled speed-up':>19}")
        for number, (trace, of_trace) in enumerate(recorded.items()):
            name = Path(trace).name.partition(".")[0]
            document["gain"][name] = gain(Path(scratch, f"gain{number}"), name, of_trace, args.nodes)
    document["bars"] = bars(document)
    environment.save(args.output, document)


# -- size ---------------------------------------------------------------------------------------------------------


def varied(recorded: list[RenderedSession], tokens: int) -> Iterator[tuple[int, NDArray[np.int32]]]:
    """(session, piece) until there are so many tokens: the trace again and again, some tokens exchanged each time."""
    rng = np.random.default_rng(0)
    texts = [sessions.stream(session) for session in recorded]
    given = 0
    for number, original in enumerate(cycle(texts)):
        text = original.copy()
        if number >= len(texts):
            places = np.flatnonzero(rng.random(len(text)) < VARIED)
            text[places] = rng.choice(original, len(places))
        for start in range(0, len(text), PIECE):
            piece = text[start : start + PIECE][: tokens - given]
            yield number, piece
            given += len(piece)
            if given >= tokens:
                return


def size(scratch: Path, recorded: list[RenderedSession], tokens: int) -> dict[str, Any]:
    """Write the large history and its sealed index; bytes per token."""
    budget = Budget(
        namespace_tokens=1 << 40, total_tokens=1 << 40, namespace_bytes=1 << 40, total_bytes=1 << 40
    )
    none = np.zeros(0, np.int32)
    with HistoryStore(scratch / "large", tokenizer=load_tokenizer(), budget=budget) as store:
        begun = time.perf_counter()
        batch: list[Record] = []
        for number, (session, piece) in enumerate(varied(recorded, tokens)):
            batch.append(Record(f"s{session}", piece, none, float(number)))
            if len(batch) == 256:
                store.append(SPACE, batch)
                batch = []
        store.append(SPACE, batch)
        store.seal()
        written = time.perf_counter() - begun
        begun = time.perf_counter()
        log = store.log(SPACE)
        build(store, log, least=1, stop=lambda: False)
        built = time.perf_counter() - begun
        note = log.sealed.note()
        assert note is not None
        index = log.sealed.open(note)
        held = store.summary(SPACE)
        found = {
            "tokens": held.tokens,
            "segments": held.segments,
            "log_bytes_per_token": held.nbytes / held.tokens,
            "sealed_bytes_per_token": index.nbytes / held.tokens,
            "sealed_gib_per_100m": index.nbytes / held.tokens * 1e8 / 2**30,
            "append_seconds": written,
            "build_seconds": built,
        }
    print(
        f"\n{held.tokens:,} tokens: log {found['log_bytes_per_token']:.2f} bytes a token, sealed index "
        f"{found['sealed_bytes_per_token']:.2f} ({found['sealed_gib_per_100m']:.2f} GiB for 100 million), built in "
        f"{built:.1f} s"
    )
    return found


# -- opening ------------------------------------------------------------------------------------------------------


def opening(scratch: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Open the large history in new processes, warm and cold in turn."""
    found: dict[str, Any] = {}
    runs: dict[str, list[dict[str, float]]] = {"warm": [], "cold": []}
    command = [
        sys.executable,
        "-m",
        "bench.history",
        "--open",
        str(scratch / "large"),
        "--nodes",
        str(args.nodes),
    ]
    subprocess.run(command, check=True, capture_output=True)  # in the cache from here on
    for _ in range(args.repeats):
        for kind, measured in runs.items():
            if kind == "cold":
                drop_from_cache(scratch / "large")
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            measured.append(json.loads(done.stdout.splitlines()[-1]))
    print(
        f"\n{'opening, ms (median)':<24}{'open':>9}{'first draft':>13}{'in memory':>11}{'then a draft':>14}"
    )
    for kind, measured in runs.items():
        medians = {key: statistics.median(run[key] for run in measured) for key in measured[0]}
        found[kind] = {"median": medians, "runs": measured}
        print(
            f"{kind:<24}{medians['open_ms']:>9.1f}{medians['first_draft_ms']:>13.2f}"
            f"{medians['resident_ms']:>11.0f}{medians['resident_draft_ms']:>14.3f}"
        )
    return found


def opened(folder: Path, nodes: int) -> dict[str, float]:
    """Open a history as an agent's first call does; ms of each step, and what the drafts were worth."""
    tokenizer = load_tokenizer()
    assert tokenizer.vocabulary_fingerprint
    drafter = IndexDrafter(max_nodes=nodes)
    with HistoryStore(folder) as store:
        segments = store.log(SPACE).segments()
        text = store.log(SPACE).read(segments[len(segments) // 2])[0].tokens
    drop = text[:64]
    clock = time.perf_counter
    with no_collection():
        begun = clock()
        store = HistoryStore(folder, tokenizer=tokenizer)
        saved = SavedHistory(store, drafter, writes=False, seal_tokens=LEAST_SEALED, owns_store=True)
        session = saved.session(SPACE, "first")
        open_ms = (clock() - begun) * 1e3
        started = clock()
        session.sync(drop)
        before = len(session.draft())
        first_ms = (clock() - started) * 1e3
        while saved.sealed(SPACE) is None and clock() - begun < 120:
            time.sleep(0.002)
        resident_ms = (clock() - begun) * 1e3
        session = saved.session(SPACE, "second")
        session.sync(drop)
        started = clock()
        draft = session.draft()
        draft_ms = (clock() - started) * 1e3
    right = 0
    for token, wanted in zip(draft.token_ids[draft.best_chain()], text[64:], strict=False):
        right += int(token == wanted and right >= 0)
    saved.close()
    return {
        "open_ms": open_ms,
        "first_draft_ms": first_ms,
        "first_draft_nodes": before,
        "resident_ms": resident_ms,
        "resident_draft_ms": draft_ms,
        "resident_draft_right": right,
    }


def drop_from_cache(folder: Path) -> None:
    """Ask the system to forget the pages of a folder's files; only those on the disk already can go."""
    for path in folder.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDWR)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


# -- pauses -------------------------------------------------------------------------------------------------------


BESIDE = ("alone", "beside a writer", "as busy")
"""What else the process does while drafts are timed; ``Work`` says of the last what it holds: nothing."""
TIMED = ("draft", "step", "away")
Series = dict[str, list[float]]
_SMALL, _LARGE = bytes(1 << 16), bytes(1 << 21)
_PERIOD = 0.02  # seconds; the writer too sleeps so long between its sessions


class Loops:
    """One drafting thread, and beside it one that ends sessions all the time: in memory, on disk, over budget."""

    def __init__(self, folder: Path, recorded: list[RenderedSession], nodes: int) -> None:
        # Small: so that segments, generations and sealed indexes come and go within seconds.
        budget = Budget(namespace_tokens=50_000, seal_seconds=0.5)
        self.store = HistoryStore(folder, tokenizer=load_tokenizer(), budget=budget)
        self.drafter = IndexDrafter(max_nodes=nodes, history_bytes=1 << 24)
        self.saved = SavedHistory(self.store, self.drafter, seal_tokens=20_000)
        self.turns = [turn for session in recorded for turn in session.turns if len(turn.output_ids) > 8]
        self.sessions = count()
        self.ended = 0
        self.stop = threading.Event()

    def draft(self, seconds: float) -> tuple[Series, float]:
        """µs of every draft, step (draft and acceptance) and ``away``, for so long; and the other threads' load.

        The load: CPU seconds of all other threads of the process, per second.
        """
        clock = time.perf_counter
        series: Series = {what: [] for what in TIMED}
        drafts, steps, aways = series.values()
        others = time.process_time() - time.thread_time()
        begun = clock()
        end = begun + seconds
        for turn in cycle(self.turns[::2]):
            session = self.saved.session(SPACE, f"d{next(self.sessions)}")
            session.sync(turn.prompt_ids[-2000:])
            at = 0
            while at < len(turn.output_ids) and clock() < end:
                started = clock()
                session.draft()
                drafted = clock()
                session.accept(turn.output_ids[at : at + 4])
                done = clock()
                away()
                back = clock()
                drafts.append((drafted - started) * 1e6)
                steps.append((done - started) * 1e6)
                aways.append((back - done) * 1e6)
                at += 4
            session.close()
            if clock() >= end:
                return series, (time.process_time() - time.thread_time() - others) / (clock() - begun)
        raise AssertionError

    def write(self) -> None:
        """End sessions of a few turns until told to stop: up to 50 a second, as of very many agents."""
        turns = cycle(self.turns[1::2])
        while not self.stop.is_set():
            session = self.saved.session(SPACE, f"w{next(self.sessions)}")
            for turn in islice(turns, 5):
                session.sync(turn.prompt_ids[-200:])
                session.accept(turn.output_ids)
                session.end_turn()
                self.ended += len(turn.output_ids)
            session.close()
            time.sleep(_PERIOD)


class Work:
    """Threads that are as busy as they are told to be, and hold nothing while they are.

    Args:
        load: CPU seconds per second.
    """

    def __init__(self, load: float) -> None:
        self._stop = threading.Event()
        count = max(1, math.ceil(load))
        self._share = min(load / count, 1.0)
        self._threads = [threading.Thread(target=self._work) for _ in range(count)]

    def _work(self) -> None:
        while not self._stop.is_set():
            begun = time.thread_time()
            while time.thread_time() - begun < self._share * _PERIOD:
                zlib.crc32(_LARGE)
            time.sleep((1 - self._share) * _PERIOD)

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def away() -> None:
    """Some 15 µs without the interpreter, as a kernel is; returns when it is to be had again."""
    zlib.crc32(_SMALL)


def pauses(scratch: Path, recorded: list[RenderedSession], args: argparse.Namespace) -> dict[str, Any]:
    """Draft alone, beside a writer, and beside threads that are as busy as that was, in turn."""
    loops = Loops(scratch / "pauses", recorded, args.nodes)
    taken: dict[str, Series] = {kind: {what: [] for what in TIMED} for kind in BESIDE}
    loads = []
    loops.draft(min(1.0, args.seconds))
    with no_collection():
        for _ in range(args.repeats):
            for kind, series in taken.items():
                if kind == "alone":
                    more, _ = loops.draft(args.seconds)
                elif kind == "beside a writer":
                    loops.stop.clear()
                    writer = threading.Thread(target=loops.write)
                    writer.start()
                    more, load = loops.draft(args.seconds)
                    loads.append(load)
                    loops.stop.set()
                    writer.join()
                else:
                    with Work(loads[-1]):
                        more, _ = loops.draft(args.seconds)
                for what in TIMED:
                    series[what] += more[what]
    longest = loops.saved.loading.longest_pause_ms
    loops.saved.close()
    segments = loops.store.summary(SPACE)
    loops.store.close()
    found: dict[str, Any] = {
        "tokens_written": loops.ended,
        "tokens_kept": segments.tokens,
        "longest_hold_ms": longest,
        "load": statistics.median(loads),
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "only_when_idle": hasattr(os, "SCHED_IDLE") and os.sched_getscheduler(0) == os.SCHED_IDLE,
        "system_load": os.getloadavg()[0],
    }
    print(
        f"\n{loops.ended:,} tokens appended, {segments.tokens:,} kept on disk; the other threads took "
        f"{found['load']:.2f} cores; niceness {found['niceness']}"
        f"{' and the idle policy' if found['only_when_idle'] else ''}, the system's load {found['system_load']:.1f}\n"
        f"{'':<28}{'calls':>9}{'p50 µs':>9}{'p99':>9}{'p99.9':>9}{'longest ms':>12}{'over 5 ms':>11}"
    )
    for what in TIMED:
        for kind, series in taken.items():
            us = np.array(series[what])
            figures = {
                "calls": len(us),
                **{f"p{q:g}_us": float(np.percentile(us, q)) for q in (50, 99, 99.9)},
                "longest_ms": float(us.max() / 1e3),
                "over_5_ms": int((us > PAUSE_MS * 1e3).sum()),
            }
            found.setdefault(kind, {})[what] = figures
            print(
                f"{what + ', ' + kind:<28}{figures['calls']:>9,}{figures['p50_us']:>9.1f}{figures['p99_us']:>9.1f}"
                f"{figures['p99.9_us']:>9.1f}{figures['longest_ms']:>12.2f}{figures['over_5_ms']:>11}"
            )
    return found


# -- gain ---------------------------------------------------------------------------------------------------------


def gain(folder: Path, name: str, recorded: list[RenderedSession], nodes: int) -> dict[str, Any]:
    """The second half of the sessions, cold and with the saved history of the first half."""
    half = (len(recorded) + 1) // 2
    cost = CostCurve.named("gpu")
    decoded(folder, recorded[:half], nodes, cost)
    found: dict[str, Any] = {"sessions": [half, len(recorded) - half]}
    for kind, place in (("cold", None), ("warm", folder)):
        metrics = decoded(place, recorded[half:], nodes, cost)
        found[kind] = {
            "tau": metrics.tokens_per_step,
            "tau_session_mean": metrics.tokens_per_step_session_mean,
            "modelled_speedup": metrics.modelled_speedup,
        }
        print(
            f"{name + ', ' + kind:<28}{metrics.tokens_per_step or 0:>7.3f}"
            f"{metrics.tokens_per_step_session_mean or 0:>14.3f}{metrics.modelled_speedup or 0:>18.2f}x"
        )
    return found


def decoded(
    folder: Path | None, recorded: list[RenderedSession], nodes: int, cost: CostCurve
) -> DrafterMetrics:
    """Replay sessions with a drafter that keeps its history in a folder, or nowhere."""
    simulation = Simulation(IndexDrafter(max_nodes=nodes, cost=cost), cost)
    close: Callable[[], None] | None = None
    if folder is not None:
        simulation.saved = open_saved(
            folder, simulation.drafter, load_tokenizer(), target="recorded", background=False
        )
        close = simulation.saved.close
    try:
        replay(recorded, [simulation])
    finally:
        if close is not None:
            close()
    return measure(ReplayResult([], len(recorded), {}, [simulation.finish()]), cost).drafters[0]


def bars(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Each figure against its bar."""
    warm = document["opening"]["warm"]["median"]
    beside, busy = (document["pauses"][kind]["draft"] for kind in BESIDE[1:])
    judged = [
        ("sealed index of 100M tokens, GiB", document["size"]["sealed_gib_per_100m"], GIB_PER_100M),
        ("open, warm, s", warm["open_ms"] / 1e3, OPEN_SECONDS),
        ("draft beside a writer, p99, ms", beside["p99_us"] / 1e3, PAUSE_MS),
        ("draft beside a writer, longest, ms", beside["longest_ms"], PAUSE_MS),
    ]
    print()
    for name, value, bar in judged:
        print(f"{'met   ' if value <= bar else 'MISSED'}  {name}: {value:.3f} (≤ {bar:g})")
    print(
        f"        drafts over {PAUSE_MS:g} ms: {beside['over_5_ms']} of {beside['calls']:,} beside a writer; beside "
        f"threads that are as busy and hold nothing {busy['over_5_ms']} of {busy['calls']:,}, the longest "
        f"{busy['longest_ms']:.2f} ms: those are the system's"
    )
    for name, found in document["gain"].items():
        cold, warm_half = found["cold"]["tau"], found["warm"]["tau"]
        print(f"        {name}: τ {cold:.3f} cold, {warm_half:.3f} warm ({warm_half / cold - 1:+.1%})")
    return [{"name": name, "value": value, "bar": bar, "met": value <= bar} for name, value, bar in judged]


if __name__ == "__main__":
    main()
