"""Speed and size of the index and of drafting, on a trace: ``python -m bench.index [TRACE…] [-o FILE.json]``.

Measured on one thread, kernels compiled beforehand, garbage collection off while a clock runs. Times are
of single calls, so that the worst ones show; where a pass is repeated, the least time of each call counts,
since other work on the machine only ever adds.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import environment, sessions
from bench.quiet import no_collection
from suffixspec.cost import CostCurve
from suffixspec.draft import IndexDrafter
from suffixspec.index import SuffixTree
from suffixspec.native import draft as native
from suffixspec.native.warm_up import warm_up
from suffixspec.replay.simulate import RenderedSession, Simulation, replay

BLOCK = 256
NODES = 32
SIZES = (1_000, 10_000, 100_000, 1_000_000)


def main() -> None:
    """Measure, print a table, and save the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.index", description=__doc__)
    parser.add_argument("traces", nargs="*", default=[sessions.DEFAULT_TRACE], metavar="TRACE")
    parser.add_argument("-o", "--output", metavar="FILE.json")
    parser.add_argument("--limit", type=int, default=60, help="sessions to use (default: 60)")
    parser.add_argument("--appends", type=int, default=300_000, help="single appends to time")
    parser.add_argument("--repeats", type=int, default=3, help="passes, of which the least time counts")
    parser.add_argument("--seed", type=int, default=0, help="order of the sessions for single appends")
    args = parser.parse_args()
    document = {"environment": environment.describe("bench.index", traces=args.traces, seed=args.seed)}
    warm_up()
    recorded = sessions.load(args.traces, limit=args.limit)
    streams = [sessions.stream(session) for session in recorded]
    document["input"] = {"sessions": len(recorded), "tokens": sum(map(len, streams))}
    shuffled = [streams[i] for i in np.random.default_rng(args.seed).permutation(len(streams))]
    document["session_trees"] = block_appends(streams, args.repeats)
    document["one_tree"] = one_tree(streams, args.repeats)
    document["single_append"] = single_appends(shuffled, args.appends, args.repeats)
    document["draft"] = drafts(recorded)
    document["start"] = start_up()
    show(document)
    environment.save(args.output, document)


def _least(measure: Callable[[], NDArray[np.float64]], repeats: int) -> NDArray[np.float64]:
    """The same calls measured several times: the least time of each."""
    with no_collection():
        times = measure()
        for _ in range(repeats - 1):
            times = np.minimum(times, measure())
    return times


def _distribution(us: NDArray[np.float64]) -> dict[str, float]:
    return {
        "calls": len(us),
        "mean_us": float(us.mean()),
        "p50_us": float(np.percentile(us, 50)),
        "p99_us": float(np.percentile(us, 99)),
        "p99_9_us": float(np.percentile(us, 99.9)),
        "max_us": float(us.max()),
    }


def _blocks(text: NDArray[np.int32]) -> list[NDArray[np.int32]]:
    return [text[i : i + BLOCK] for i in range(0, len(text) - BLOCK + 1, BLOCK)]


def block_appends(streams: list[NDArray[np.int32]], repeats: int) -> dict[str, Any]:
    """A tree per session, filled in blocks as a turn's prompt fills it."""

    def measure() -> NDArray[np.float64]:
        times = []
        for text in streams:
            tree = SuffixTree()
            for block in _blocks(text):
                begun = perf_counter_ns()
                tree.extend(block)
                times.append((perf_counter_ns() - begun) / 1e3 / BLOCK)
        return np.array(times)

    ratios = []
    for text in streams:
        tree = SuffixTree()
        for block in _blocks(text):
            tree.extend(block)
            ratios.append(tree.nbytes / len(tree))
    return {
        "block": BLOCK,
        "us_per_token": _distribution(_least(measure, repeats)),
        "bytes_per_token": {"p50": float(np.median(ratios)), "max": max(ratios)},
    }


def one_tree(streams: list[NDArray[np.int32]], repeats: int) -> dict[str, Any]:
    """All sessions in one tree: does the time or the size per token grow with the tree?"""
    blocks: list[NDArray[np.int32] | None] = []
    for text in streams:
        blocks += [*_blocks(text), None]
    tree = SuffixTree()

    def measure() -> NDArray[np.float64]:
        nonlocal tree
        tree = SuffixTree()
        times = []
        for block in blocks:
            if block is None:
                tree.end_sequence()
                continue
            begun = perf_counter_ns()
            tree.extend(block)
            times.append((perf_counter_ns() - begun) / 1e3 / BLOCK)
        return np.array(times)

    times = _least(measure, repeats)
    tokens = np.arange(1, len(times) + 1) * BLOCK
    largest: dict[int, dict[str, float]] = {}
    growing, ratios, sizes = SuffixTree(), [], []
    for block in blocks:
        if block is None:
            growing.end_sequence()
            continue
        growing.extend(block)
        ratios.append(growing.nbytes / len(growing))
        sizes.append(len(growing))
    lower = 0
    for size in (*(size for size in SIZES if size < sizes[-1]), sizes[-1]):
        part = (tokens > lower) & (tokens <= size)
        if part.any():
            at = int(np.searchsorted(sizes, size, side="right")) - 1
            largest[size] = {
                "us_per_token": float(times[part].mean()),
                "bytes_per_token": float(ratios[max(at, 0)]),
                "bytes_per_token_max_up_to_here": float(max(ratios[: max(at, 0) + 1])),
            }
        lower = max(lower, size)
    return {
        "tokens": len(tree),
        "block": BLOCK,
        "us_per_token": _distribution(times),
        "live_bytes_per_token": tree.live_nbytes / len(tree),
        "by_size": {str(size): values for size, values in largest.items()},
    }


def single_appends(streams: list[NDArray[np.int32]], most: int, repeats: int) -> dict[str, Any]:
    """Token by token, as a model that writes fills it: ``SuffixTree.append``, validation included."""

    def measure() -> NDArray[np.float64]:
        times: list[float] = []
        for text in streams:
            tree = SuffixTree()
            for token in text[: most - len(times)].tolist():
                begun = perf_counter_ns()
                tree.append(token)
                times.append((perf_counter_ns() - begun) / 1e3)
            if len(times) >= most:
                break
        return np.array(times)

    with no_collection():
        once = measure()
    return _distribution(np.minimum(once, _least(measure, max(1, repeats - 1)))) | {
        "max_us_of_one_pass": float(once.max())
    }


def drafts(recorded: list[RenderedSession]) -> dict[str, Any]:
    """Drafting while the sessions are decoded: the kernel call alone, and the whole of ``session.draft()``.

    The kernel call is match and draft in one; its arguments are prepared before the clock starts.
    """
    kernel, times, grown = native.draft, [], []

    def timed(*arguments: Any) -> Any:
        begun = perf_counter_ns()
        result = kernel(*arguments)
        times.append((perf_counter_ns() - begun) / 1e3)
        grown.append(result[0])
        return result

    cost = CostCurve.named("gpu")
    native.draft = timed
    try:
        with no_collection():
            replay(recorded, [Simulation(IndexDrafter(max_nodes=NODES, cost=cost), cost)])
    finally:
        native.draft = kernel
    whole = Simulation(IndexDrafter(max_nodes=NODES, cost=cost), cost)
    with no_collection():
        replay(recorded, [whole])
    us, nodes = np.array(times), np.array(grown)
    tokens = sum(turn.tokens for turn in whole.result.turns)
    return {
        "max_nodes": NODES,
        "tokens_per_step": tokens / sum(turn.steps for turn in whole.result.turns),
        "kernel_us": _distribution(us),
        "kernel_us_of_full_drafts": _distribution(us[nodes == NODES]) if (nodes == NODES).any() else None,
        "draft_us": _distribution(whole.result.draft_us.astype(np.float64)),
        "share_of_full_drafts": float((nodes == NODES).mean()),
    }


_STARTS = {
    "python -c pass": ("-c", "pass"),
    "import suffixspec": ("-c", "import suffixspec"),
    "suffixspec --help": ("-m", "suffixspec.cli", "--help"),
    "import the kernels": ("-c", "import suffixspec.draft"),
    "warm_up(), cached": ("-c", "from suffixspec.native.warm_up import warm_up; warm_up()"),
}


def start_up(repeats: int = 9) -> dict[str, Any]:
    """Wall time of fresh processes in ms, taken in turn so that noise falls on all alike."""
    times: dict[str, list[float]] = {name: [] for name in _STARTS}
    for _ in range(repeats):
        for name, arguments in _STARTS.items():
            begun = perf_counter_ns()
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
            times[name].append((perf_counter_ns() - begun) / 1e6)
    return {name: {"p50_ms": float(np.median(ms)), "min_ms": min(ms)} for name, ms in times.items()}


def show(document: dict[str, Any]) -> None:
    """Print the figures with the bars that they are held against."""
    given = document["environment"]
    print(f"{given['hardware']['cpu']}, {given['hardware']['cores']} cores; commit {given['commit']}")
    names = ", ".join(trace["name"] for trace in given["traces"])
    print(
        f"{names}: {document['input']['sessions']} sessions, {document['input']['tokens']:,} tokens indexed\n"
    )
    trees, one, single = document["session_trees"], document["one_tree"], document["single_append"]
    drafting = document["draft"]
    kernel = drafting["kernel_us_of_full_drafts"] or drafting["kernel_us"]
    rows = [
        (f"append of {BLOCK}, tree per session, µs per token", trees["us_per_token"]["mean_us"], 2.0),
        ("  median block", trees["us_per_token"]["p50_us"], None),
        ("  slowest block", trees["us_per_token"]["max_us"], None),
        (
            f"append of {BLOCK}, one tree of {one['tokens']:,}, µs per token",
            one["us_per_token"]["mean_us"],
            2.0,
        ),
        ("single append, median, µs", single["p50_us"], 10.0),
        ("  99th percentile", single["p99_us"], None),
        ("  99.9th percentile", single["p99_9_us"], None),
        ("  slowest", single["max_us"], None),
        ("allocated bytes per token, tree per session, largest", trees["bytes_per_token"]["max"], 64.0),
    ]
    for size, values in one["by_size"].items():
        rows.append((f"  one tree, {int(size):>9,} tokens", values["bytes_per_token"], 64.0))
    rows += [
        (f"match and {NODES}-node draft, kernel call, median, µs", kernel["p50_us"], 15.0),
        ("  99th percentile", kernel["p99_us"], None),
        ("session.draft(), median, µs", drafting["draft_us"]["p50_us"], None),
        ("  99th percentile", drafting["draft_us"]["p99_us"], None),
    ]
    rows += [(f"{name}, median, ms", values["p50_ms"], None) for name, values in document["start"].items()]
    for label, value, bar in rows:
        against = "" if bar is None else f"   bar {bar:g}: {'met' if value <= bar else 'MISSED'}"
        print(f"{label:<62}{value:>10.2f}{against}")


if __name__ == "__main__":
    main()
