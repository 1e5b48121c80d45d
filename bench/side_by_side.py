"""Loops that run side by side: ``python -m bench.side_by_side TRACE… [-o FILE.json]``.

As many recorded loops of one namespace as ``--widths`` says are decoded at a time, a step of each in turn, with the
recorded text in the target's place. What one wrote is history for the others when its turn ends, as the drafter has it,
or for comparison when its loop ends: then a loop sees its own outputs once, in its own tree, and the others' late.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench import environment, sessions
from suffixspec.cost import CostCurve
from suffixspec.draft import IndexDrafter
from suffixspec.draft.prior import Prior, load_prior
from suffixspec.replay.simulate import RenderedSession
from suffixspec.text.tokenizer import load_tokenizer
from suffixspec.verify.recorded import accept_recorded

WHENS = ("turn", "loop")
"""At the end of what an output becomes history."""
_SPACE = "default"


def main() -> None:
    """Decode every trace at every width both ways, print Markdown, and save the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.side_by_side", description=__doc__)
    parser.add_argument("traces", nargs="+", metavar="TRACE")
    parser.add_argument("-o", "--output", metavar="FILE.json")
    parser.add_argument("--widths", default="1,8", help="loops at a time (default: 1,8)")
    parser.add_argument("--limit", type=int, help="sessions of each trace (default: all)")
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--cost", default="gpu", help="cost curve, by name or file (default: gpu)")
    args = parser.parse_args()
    widths = [int(width) for width in args.widths.split(",")]
    cost, prior = CostCurve.load(args.cost), load_prior(load_tokenizer())
    document: dict[str, Any] = {
        "environment": environment.describe("bench.side_by_side", traces=args.traces, seed=0),
        "settings": {"max_nodes": args.nodes, "cost": args.cost, "limit": args.limit, "prior": True},
        "traces": {},
    }
    print("| trace | loops at a time | session mean, history by turn | by loop | gain |")
    print("|---|---:|---:|---:|---:|")
    for trace in args.traces:
        recorded = sessions.load([trace], limit=args.limit)
        rows = document["traces"][Path(trace).name.partition(".")[0]] = {}
        for width in widths:
            row = {when: decode(recorded, width, when, cost, prior, args.nodes) for when in WHENS}
            rows[str(width)] = row
            turn, loop = (row[when]["session_mean"] for when in WHENS)
            print(
                f"| {Path(trace).name} | {width} | {turn:.3f} | {loop:.3f} | {turn / loop - 1:+.1%} |",
                flush=True,
            )
    environment.save(args.output, document)


def decode(
    recorded: list[RenderedSession], width: int, when: str, cost: CostCurve, prior: Prior | None, nodes: int
) -> dict[str, float]:
    """Tokens per step with ``width`` loops at a time; the next one begins when one ends."""
    drafter = IndexDrafter(max_nodes=nodes, cost=cost, prior=prior)
    waiting = list(range(len(recorded)))
    running: dict[int, Iterator[int]] = {}
    counts = np.zeros((len(recorded), 2), np.int64)  # tokens, steps
    while waiting or running:
        while waiting and len(running) < width:
            number = waiting.pop(0)
            running[number] = _steps(drafter, recorded[number], when)
        for number in list(running):
            emitted = next(running[number], 0)
            if not emitted:
                del running[number]
            counts[number] += emitted, emitted > 0
    tokens, steps = counts.T
    return {
        "session_mean": float((tokens / np.maximum(steps, 1)).mean()),
        "token_weighted": float(tokens.sum() / steps.sum()),
    }


def _steps(drafter: IndexDrafter, loop: RenderedSession, when: str) -> Iterator[int]:
    """Decode a loop; how many tokens each step gives."""
    session, kept = drafter.session(_SPACE), []
    for turn in loop.turns:
        session.sync(turn.prompt_ids)
        at = 0
        while at < len(turn.output_ids):
            path = accept_recorded(session.draft(), turn.output_ids[at:])
            emitted = turn.output_ids[at : at + len(path) + 1]
            session.accept(emitted)
            at += len(emitted)
            yield len(emitted)
        if when == "turn":
            session.end_turn()
        else:
            kept.append(session.take_output())
    for output, context in kept:
        drafter.history.add(_SPACE, output, context=context)
    session.close()


if __name__ == "__main__":
    main()
