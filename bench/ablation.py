"""What each part of the drafter is worth: ``python -m bench.ablation TRACE… [--variant NAME] [-o FILE.json]``.

A variant is the code with one line of it changed, in a copy of the packages, so that compiled constants change
too. Each runs in a process of its own over the same sessions; even-numbered sessions are those to tune on, odd
ones those to report.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bench import environment, sessions
from suffixspec.cost import CostCurve
from suffixspec.draft import HistoryMode

VARIANTS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "default": (),
    "without the prior": (("bench/ablation.py", "\nPRIOR = True", "\nPRIOR = False"),),
    "without earlier sessions": (
        ("bench/ablation.py", '\nHISTORY: HistoryMode = "namespace"', '\nHISTORY: HistoryMode = "session"'),
    ),
    "without resuming": (("native/resume.py", "LEAST_MATCH = 4 ", "LEAST_MATCH = 1 << 30 "),),
    "without short contexts": (
        ("native/draft.py", "if row > 0 and have == start and last == first", "if row < 0 and have == start"),
    ),
    "short contexts wherever a tree knows nothing": (
        ("native/draft.py", "have == start and last == first and n > 0", "have == start and n > 0"),
    ),
    "without learned weights": (("native/evidence.py", "\nSTEP = 0.15", "\nSTEP = 0.0"),),
    "without the candidate's age": (
        ("native/evidence.py", "_feature(8, age * 2 + newest, session_share)", "_feature(8, 0, 0)"),
    ),
    "without which contexts name a candidate": (
        ("native/evidence.py", "_feature(7, named, known)", "_feature(7, 0, 0)"),
    ),
    "without tokens": (
        ("native/evidence.py", "_feature(3, token, 0)", "_feature(3, 0, 0)"),
        ("native/evidence.py", "_feature(4, last, token)", "_feature(4, 0, 0)"),
        ("native/evidence.py", "_feature(6, token, shares)", "_feature(6, 0, 0)"),
    ),
    "without classes of tokens": (
        (
            "native/evidence.py",
            "return int(classes[token]) if 0 <= token < classes.shape[0] else 0",
            "return 0",
        ),
    ),
    "without weights to start from": (
        ("suffixspec/draft/calibration.py", "_start() if start is None else start", "no_start()"),
    ),
    "one context a text": (("native/evidence.py", "\nCONTEXTS = 2", "\nCONTEXTS = 1"),),
    "three contexts a text": (("native/evidence.py", "\nCONTEXTS = 2", "\nCONTEXTS = 3"),),
    "as fast as it gets: one context a text, no prior, no short contexts": (
        ("bench/ablation.py", "\nPRIOR = True", "\nPRIOR = False"),
        ("native/evidence.py", "\nCONTEXTS = 2", "\nCONTEXTS = 1"),
        ("native/draft.py", "if row > 0 and have == start and last == first", "if row < 0 and have == start"),
    ),
    "no evidence passed over": (("native/draft.py", "PRUNE = 0.6 ", "PRUNE = 0.0 "),),
}
"""Name → (file, text, text in its place)."""

PRIOR = True
HISTORY: HistoryMode = "namespace"
_MEASURE = "--measure"


def main() -> None:
    """Measure the variants, print Markdown, and save the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.ablation", description=__doc__)
    parser.add_argument("traces", nargs="+", metavar="TRACE")
    parser.add_argument("-o", "--output", metavar="FILE.json")
    parser.add_argument("--variant", action="append", choices=tuple(VARIANTS), help="default: all")
    parser.add_argument("--limit", type=int, help="sessions of each trace (default: all)")
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--cost", default="gpu", help="cost curve, by name or file (default: gpu)")
    parser.add_argument(_MEASURE, action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args)))
        return
    document: dict[str, Any] = {
        "environment": environment.describe("bench.ablation", traces=args.traces, seed=0),
        "settings": {"max_nodes": args.nodes, "cost": args.cost, "limit": args.limit, "history": "namespace"},
        "variants": {},
    }
    print("| variant | trace | session mean | even | odd | token-weighted | modelled | draft µs |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for name in args.variant or VARIANTS:
        figures = run(name, args)
        document["variants"][name] = figures
        for trace, row in figures.items():
            print(
                f"| {name} | {trace} | {row['session_mean']:.3f} | {row['even']:.3f} | {row['odd']:.3f}"
                f" | {row['token_weighted']:.3f} | {row['modelled_speedup']:.3f}x | {row['draft_us_p50']:.1f} |",
                flush=True,
            )
    environment.save(args.output, document)


def run(variant: str, args: argparse.Namespace) -> dict[str, Any]:
    """Measure a variant in a process of its own, on a copy of the packages."""
    with tempfile.TemporaryDirectory() as place:
        for package in ("native", "suffixspec", "bench"):
            shutil.copytree(environment.ROOT / package, Path(place, package))
        for file, old, new in VARIANTS[variant]:
            source = Path(place, file)
            text = source.read_text(encoding="utf-8")
            if text.count(old) < 1:
                raise SystemExit(f"expected {old!r} in {file}, got none; bring the variants up to date")
            source.write_text(text.replace(old, new, 1), encoding="utf-8")
        traces = [str(Path(trace).resolve()) for trace in args.traces]
        options = ["--nodes", str(args.nodes), "--cost", args.cost]
        if args.limit is not None:
            options += ["--limit", str(args.limit)]
        done = subprocess.run(
            [sys.executable, "-m", "bench.ablation", *traces, *options, _MEASURE],
            cwd=place,  # the folder of the process comes first among the places that modules are found in
            env=os.environ | {"PYTHONPATH": place},
            stdout=subprocess.PIPE,
            check=True,
        )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Replay each trace with this process's code."""
    from suffixspec.draft import IndexDrafter
    from suffixspec.draft.prior import load_prior
    from suffixspec.native.warm_up import warm_up
    from suffixspec.replay.simulate import Simulation, replay
    from suffixspec.text.tokenizer import load_tokenizer

    warm_up()
    cost = CostCurve.load(args.cost)
    prior = load_prior(load_tokenizer()) if PRIOR else None
    figures = {}
    for trace in args.traces:
        recorded = sessions.load([trace], limit=args.limit)
        drafter = IndexDrafter(max_nodes=args.nodes, cost=cost, history=HISTORY, prior=prior)
        simulation = Simulation(drafter, cost)
        replay(recorded, [simulation])
        steps: dict[str, list[int]] = {session.session_id: [0, 0] for session in recorded}
        for turn in simulation.result.turns:
            steps[turn.session_id][0] += turn.tokens
            steps[turn.session_id][1] += turn.steps
        taus = np.array([tokens / max(1, count) for tokens, count in steps.values()])
        tokens, count = np.sum(list(steps.values()), axis=0)
        milliseconds = sum(turn.target_ms for turn in simulation.result.turns)
        figures[Path(trace).name.partition(".")[0]] = {
            "sessions": len(recorded),
            "session_mean": float(taus.mean()),
            "even": float(taus[::2].mean()),
            "odd": float(taus[1::2].mean()),
            "token_weighted": float(tokens / count),
            "modelled_speedup": float(tokens * cost.ms(1) / milliseconds),
            "draft_us_p50": float(np.median(simulation.result.draft_us)),
            "draft_us_p99": float(np.percentile(simulation.result.draft_us, 99)),
            "index_bytes_per_token": simulation.result.index_bytes / max(1, simulation.result.index_tokens),
        }
    return figures


if __name__ == "__main__":
    main()
