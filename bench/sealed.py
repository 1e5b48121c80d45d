"""Size and speed of the sealed index: ``python -m bench.sealed [--tokens N] [-o FILE.json]``.

The text is the Python standard library in SmolLM2's tokens; more than it has comes from copies of it, cut into
blocks that are shuffled, with one token in fifty replaced. What is matched against it are the outputs of a trace.

Times are of one thread, in CPU time where nothing waits, so that other work on the machine counts less; of repeated
passes the least counts. Cold means that the system was asked to drop the file's pages first.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import environment, sessions
from bench.quiet import no_collection
from suffixspec.draft.prior import load_prior
from suffixspec.index.sealed import SealedCursor, SealedIndex
from suffixspec.native import sealed as native
from suffixspec.native.jit import kernel
from suffixspec.text.tokenizer import load_tokenizer

_BLOCK = 2000  # tokens of a copied block
_REPLACED = 50  # one token in so many of a copy
_CONTEXTS = 20_000


def main() -> None:
    """Measure, print a table, and save the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.sealed", description=__doc__)
    parser.add_argument("--tokens", type=int, help="of the text (default: the standard library once)")
    parser.add_argument("--trace", default=sessions.DEFAULT_TRACE, help="whose outputs are matched")
    parser.add_argument("--limit", type=int, default=30, help="sessions of it (default: 30)")
    parser.add_argument("--repeats", type=int, default=5, help="passes, of which the least time counts")
    parser.add_argument("--seed", type=int, default=0, help="of the copies and of the samples")
    parser.add_argument("--folder", help="where the index is saved meanwhile (default: the temporary folder)")
    parser.add_argument(
        "-o", "--output", metavar="FILE.json", help="where the run joins those of other numbers of tokens"
    )
    args = parser.parse_args()
    document: dict[str, Any] = {
        "environment": environment.describe("bench.sealed", traces=[args.trace], seed=args.seed)
    }
    text = sample_text(args.tokens, args.seed)
    fed = np.concatenate(
        [
            np.append(turn.output_ids, -1)
            for session in sessions.load([args.trace], limit=args.limit)
            for turn in session.turns
        ]
    ).astype(np.int32)
    SealedIndex.build(text[:1000])  # compiles the kernels
    document["build"], index = build(text)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        document["file"], opened = files(index, Path(folder) / "text.index")
        document["cursor"] = cursors(opened, fed, args.repeats)
        document["contexts"] = contexts(opened, fed, args.repeats, args.seed)
        del opened
    show(document)
    if args.output is not None:
        environment.save(args.output, with_others(args.output, document))


def with_others(path: str, document: dict[str, Any]) -> dict[str, Any]:
    """The runs that a file holds already, by their number of tokens, and this one."""
    held = json.loads(Path(path).read_text(encoding="utf-8")) if Path(path).exists() else {"runs": {}}
    runs = held["runs"] | {str(document["build"]["tokens"]): document}
    return {"runs": {tokens: runs[tokens] for tokens in sorted(runs, key=int)}}


def sample_text(tokens: int | None, seed: int) -> NDArray[np.int32]:
    """The standard library, or so many tokens of it and of changed copies."""
    prior = load_prior(load_tokenizer())
    if prior is None:
        sys.exit("expected the sources of the Python standard library, got none; install them")
    library = np.maximum(np.asarray(prior.index.tokens), -1).astype(np.int32)
    if tokens is None:
        return library
    rng = np.random.default_rng(seed)
    pieces, have = [library], library.size
    blocks = np.array_split(library, max(1, library.size // _BLOCK))
    while have < tokens:
        copy = np.concatenate([blocks[i] for i in rng.permutation(len(blocks))])
        at = rng.integers(0, copy.size, copy.size // _REPLACED)
        copy[at] = library[rng.integers(0, library.size, at.size)]
        pieces.append(copy)
        have += copy.size
    return np.concatenate(pieces)[:tokens]


def build(text: NDArray[np.int32]) -> tuple[dict[str, Any], SealedIndex]:
    """Build once, and look at how long ``stop`` has to wait and what is allocated."""
    looks: list[float] = []

    def stop() -> bool:
        looks.append(perf_counter())
        return False

    with no_collection():
        begun, used = perf_counter(), process_time()
        index = SealedIndex.build(text, stop=stop)
        seconds, cpu = perf_counter() - begun, process_time() - used
    looks = [begun, *looks, begun + seconds]
    parts = {
        name: array.nbytes / len(index)
        for name, array in zip(("text", "sa", "nodes"), index.arrays, strict=True)
    }
    return {
        "tokens": len(index),
        "seconds": seconds,
        "cpu_seconds": cpu,
        "longest_wait_for_stop_s": float(np.diff(looks).max()),
        "process_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "bytes": index.nbytes,
        "bytes_per_token": index.nbytes / len(index),
        "bytes_per_token_of": parts,
        "records": index.records,
        "least": index.least,
    }, index


def files(index: SealedIndex, path: Path) -> tuple[dict[str, Any], SealedIndex]:
    """Save, open, and read in, from the disk and from the page cache."""

    def timed(call: Callable[[], Any]) -> tuple[float, Any]:
        begun = perf_counter()
        result = call()
        return perf_counter() - begun, result

    save_s, _ = timed(lambda: index.save(path))
    figures = {"bytes": path.stat().st_size, "save_s": save_s}
    for name in ("cold", "warm"):
        if name == "cold" and hasattr(os, "posix_fadvise"):
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        open_s, opened = timed(lambda: SealedIndex.open(path))
        prefault_s, _ = timed(opened.prefault)
        figures |= {f"{name}_open_ms": open_s * 1e3, f"{name}_prefault_s": prefault_s}
    return figures, opened


def _least(call: Callable[[], Any], repeats: int) -> float:
    """Least CPU time of a call, in ns."""
    call()
    times = []
    with no_collection():
        for _ in range(repeats):
            begun = process_time()
            call()
            times.append(process_time() - begun)
    return min(times) * 1e9


def cursors(index: SealedIndex, fed: NDArray[np.int32], repeats: int) -> dict[str, Any]:
    """Feed outputs: in one block per 256 tokens, in blocks of four as a step accepts, and 64 to a new cursor."""
    fed = fed[:200_000]

    def feed(size: int) -> Callable[[], None]:
        blocks = [fed[i : i + size] for i in range(0, fed.size - size + 1, size)]
        cursor = index.cursor()

        def run() -> None:
            for block in blocks:
                cursor.extend(block)

        return run

    starts = range(0, min(fed.size - 64, 64_000), 64)

    def match() -> None:
        for i in starts:
            SealedCursor(index).extend(fed[i : i + 64])

    lengths, held = [], []
    cursor = index.cursor()
    for token in fed[:20_000]:
        cursor.advance(token)
        lengths.append(cursor.match_length)
        held.append(int(cursor.state[0, 0]))
    return {
        "tokens": fed.size,
        "follow_ns_per_token": _least(feed(256), repeats) / fed.size,
        "accept_4_us": _least(feed(4), repeats) / (fed.size // 4) / 1e3,
        "match_64_us": _least(match, repeats) / len(starts) / 1e3,
        "match_length_mean": float(np.mean(lengths)),
        "contexts_mean": float(np.mean(held)),
        "contexts_max": max(held),
    }


@kernel
def _list_all(text, sa, nodes, rows, branches):
    found = 0
    for i in range(rows.shape[0]):
        found += native.list_branches(
            text, sa, nodes, int(rows[i, native.CODE]), int(rows[i, native.LENGTH]), int(rows[i, native.SEEN]), branches
        )  # fmt: skip
        found += branches[0, 1]
    return found


@kernel
def _follow_all(text, sa, nodes, rows, tokens):
    total = 0
    for i in range(rows.shape[0]):
        _, at, end, seen = native.follow_branch(
            text, sa, nodes, int(rows[i, native.CODE]), int(rows[i, native.LENGTH]), int(rows[i, native.SEEN]),
            int(tokens[i]),
        )  # fmt: skip
        total += at + end + seen
    return total


def contexts(index: SealedIndex, fed: NDArray[np.int32], repeats: int, seed: int) -> dict[str, Any]:
    """Offering and following at the contexts where a choice stands, in no order: with a record, and without."""
    rng = np.random.default_rng(seed)
    cursor = index.cursor()
    met = []
    for token in fed[:100_000]:
        cursor.advance(token)
        state = cursor.state
        met.append(state[1 : 1 + int(state[0, 0])].copy())
    rows = np.concatenate(met)
    rows = rows[rng.permutation(len(rows))]
    chooses = rows[:, native.AT] == rows[:, native.END]
    branches = np.zeros((native.MOST_BRANCHES, 2), np.int32)
    figures: dict[str, Any] = {"inside_an_edge_share": float(1 - chooses.mean())}
    for name, kind in (("wide", rows[:, native.CODE] > 0), ("narrow", rows[:, native.CODE] < 0)):
        some = np.ascontiguousarray(rows[chooses & kind][:_CONTEXTS])
        first, other = np.zeros(len(some), np.int32), np.zeros(len(some), np.int32)
        for i in range(len(some)):
            found = native.successors(*index.arrays, some[i : i + 1], branches)
            if found:
                first[i], other[i] = branches[0, 0], branches[rng.integers(0, found), 0]
        wild = fed[rng.integers(0, fed.size, len(some))]
        figures[name] = {
            "contexts": len(some),
            "occurrences_p10_p50_p90": np.percentile(some[:, native.SEEN], [10, 50, 90]).tolist(),
            "list_ns": _least(partial(_list_all, *index.arrays, some, branches), repeats) / len(some),
        }
        for which, tokens in (("top", first), ("listed", other), ("any", wild)):
            nanoseconds = _least(partial(_follow_all, *index.arrays, some, tokens), repeats) / len(some)
            figures[name][f"follow_{which}_ns"] = nanoseconds
    return figures


def show(document: dict[str, Any]) -> None:
    """A line per figure."""

    def lines(part: dict[str, Any], indent: str) -> None:
        for name, value in part.items():
            if isinstance(value, dict):
                print(f"{indent}{name}")
                lines(value, indent + "  ")
            else:
                print(
                    f"{indent}{name:32} {value:,.3f}"
                    if isinstance(value, float)
                    else f"{indent}{name:32} {value}"
                )

    lines({name: part for name, part in document.items() if name != "environment"}, "")


if __name__ == "__main__":
    main()
