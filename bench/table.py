"""The README's table: ``python -m bench.table [TRACE…] [--limit N] [-o FILE.json]``.

Per trace: tokens per step of the default drafter in three forms beside the n-gram index's, and the modelled
speed-up under each named cost curve (drafts follow the curve). All drafters see the same rendered sessions.
"""

import argparse
from pathlib import Path
from typing import Any

from bench import environment, sessions
from bench.replay_bars import figures, run
from suffixspec.cost import NAMES, CostCurve
from suffixspec.native.warm_up import warm_up


def main() -> None:
    """Replay each trace under each curve, print Markdown, and save the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.table", description=__doc__)
    parser.add_argument("traces", nargs="*", default=[sessions.DEFAULT_TRACE], metavar="TRACE")
    parser.add_argument("-o", "--output", metavar="FILE.json")
    parser.add_argument("--limit", type=int, help="sessions of each trace (default: all)")
    parser.add_argument("--nodes", type=int, default=32)
    args = parser.parse_args()
    warm_up()
    document: dict[str, Any] = {
        "environment": environment.describe("bench.table", traces=args.traces, seed=0),
        "settings": {"max_nodes": args.nodes, "history": "namespace", "limit": args.limit},
        "traces": {},
    }
    print("| trace | τ | session mean | capped | τ, n-grams | gpu | mid | cpu |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for trace in args.traces:
        recorded = sessions.load([trace], limit=args.limit)
        curves = {name: CostCurve.named(name) for name in NAMES}
        results = {
            name: run(recorded, ("suffix", "ngram") if name == "gpu" else ("suffix",), args.nodes, curve)
            for name, curve in curves.items()
        }
        suffix, ngram = results["gpu"].drafters
        speedups = " | ".join(f"{results[name].drafters[0].modelled_speedup or 0:.2f}x" for name in NAMES)
        name = Path(trace).name.partition(".")[0]
        print(
            f"| {name}, {len(recorded)} sessions | {suffix.tokens_per_step or 0:.2f}"
            f" | {suffix.tokens_per_step_session_mean or 0:.2f} | {suffix.tokens_per_step_capped or 0:.2f}"
            f" | {ngram.tokens_per_step or 0:.2f} | {speedups} |",
            flush=True,
        )
        document["traces"][name] = {"sessions": len(recorded)} | {
            curve: figures(metrics) for curve, metrics in results.items()
        }
    environment.save(args.output, document)


if __name__ == "__main__":
    main()
