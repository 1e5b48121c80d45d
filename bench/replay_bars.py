"""Tokens per step on a trace: ``python -m bench.replay_bars [TRACE…] [-o FILE.json]``.

What ``suffixspec replay`` prints for it, in one run over the same rendered sessions:

* the first sessions, history on, at 32 nodes: every drafter in the three forms of tokens per step
  (``suffixspec replay TRACE --drafter all --limit 60``);
* the same sessions right after themselves (``--warm`` with the same file);
* first and later tries of a task, over all sessions (without ``--limit``).
"""

import argparse
from typing import Any

from bench import environment, sessions
from suffixspec.cost import CostCurve
from suffixspec.draft.prior import find_prior
from suffixspec.native.warm_up import warm_up
from suffixspec.replay.decode import DRAFTERS, make_drafter
from suffixspec.replay.metrics import DrafterMetrics, RunMetrics, measure
from suffixspec.replay.result import ReplayResult
from suffixspec.replay.simulate import RenderedSession, Simulation, replay
from suffixspec.text.tokenizer import load_tokenizer

FIGURES = (
    "tokens_per_step",
    "tokens_per_step_session_mean",
    "tokens_per_step_capped",
    "drafted_per_step",
    "acceptance_rate",
    "alpha_chain",
    "c",
    "ops_growth",
    "draft_us_p50",
    "draft_us_p99",
    "append_us_per_token",
    "index_bytes_per_token",
    "modelled_speedup",
)


def main() -> None:
    """Replay, print a table, and save the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.replay_bars", description=__doc__)
    parser.add_argument("traces", nargs="*", default=[sessions.DEFAULT_TRACE], metavar="TRACE")
    parser.add_argument("-o", "--output", metavar="FILE.json")
    parser.add_argument("--limit", type=int, default=60, help="sessions of the first two parts (default: 60)")
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--cost", default="gpu", help="cost curve, by name or file (default: gpu)")
    parser.add_argument("--skip-retries", action="store_true", help="leave the third part out: it reads all")
    args = parser.parse_args()
    cost = CostCurve.load(args.cost)
    document: dict[str, Any] = {
        "environment": environment.describe("bench.replay_bars", traces=args.traces, seed=0),
        "settings": {"max_nodes": args.nodes, "cost": cost.to_json(), "history": "namespace"},
    }
    warm_up()
    recorded = sessions.load(args.traces, limit=args.limit if args.skip_retries else None)
    first = recorded[: args.limit]
    given = document["environment"]
    print(f"{given['hardware']['cpu']}, {given['hardware']['cores']} cores; commit {given['commit']}")
    names = ", ".join(trace["name"] for trace in given["traces"])

    print(f"\n{names}, first {len(first)} sessions, {args.nodes} nodes, cost curve {cost.name}")
    cold = run(first, DRAFTERS, args.nodes, cost)
    show(cold.drafters)
    default = cold.drafters[0]
    share = default.c or 0.0
    print(f"c of {default.name}: {share:.4f}   bar 0.002: {'met' if share <= 0.002 else 'MISSED'}")
    document["first_sessions"] = {"sessions": len(first)} | figures(cold)

    print(f"\nthe same {len(first)} sessions right after themselves")
    warm = run(first, ("suffix", "combined"), args.nodes, cost, passes=2)
    show(warm.drafters, bar=15.0)
    document["after_themselves"] = {"sessions": len(first)} | figures(warm)

    if not args.skip_retries:
        retried = run(recorded, ("suffix", "ngram"), args.nodes, cost)
        print(f"\ntasks that were tried more than once, of all {len(recorded)} sessions")
        for drafter in retried.drafters:
            show_retries(drafter)
        document["retries"] = {
            drafter.name: drafter.retries and drafter.retries.to_json() for drafter in retried.drafters
        }
        document["all_sessions"] = {"sessions": len(recorded)} | figures(retried)
    environment.save(args.output, document)


def run(
    recorded: list[RenderedSession], names: tuple[str, ...], nodes: int, cost: CostCurve, *, passes: int = 1
) -> RunMetrics:
    """Decode the sessions ``passes`` times with each drafter; the figures are those of the last pass."""
    prior = find_prior(load_tokenizer())
    drafters = [
        make_drafter(name, max_nodes=nodes, cost=cost, history="namespace", prior=prior) for name in names
    ]
    for _ in range(passes):
        simulations = [Simulation(drafter, cost) for drafter in drafters]
        replay(recorded, simulations)
    results = [simulation.result for simulation in simulations]
    return measure(ReplayResult([], len(recorded), {}, results), cost)


def figures(metrics: RunMetrics) -> dict[str, Any]:
    """The figures to keep, by drafter."""
    return {
        "output_tokens": metrics.trace.output_tokens,
        "drafters": {
            drafter.name: {name: getattr(drafter, name) for name in FIGURES} for drafter in metrics.drafters
        },
    }


def show(drafters: tuple[DrafterMetrics, ...], *, bar: float | None = None) -> None:
    """A line per drafter: the three forms of tokens per step, and what drafting costs."""
    print(f"{'':<10}{'τ':>8}{'sessions':>10}{'capped':>8}{'speed-up':>10}{'c':>9}{'draft µs':>10}")
    for drafter in drafters:
        taus = drafter.tokens_per_step, drafter.tokens_per_step_session_mean, drafter.tokens_per_step_capped
        tau, mean, capped = (value or 0.0 for value in taus)
        against = "" if bar is None else f"   bar {bar:g}: {'met' if tau >= bar else 'MISSED'}"
        print(
            f"{drafter.name:<10}{tau:>8.2f}{mean:>10.2f}{capped:>8.2f}{drafter.modelled_speedup or 0:>9.2f}x"
            f"{drafter.c or 0:>9.4f}{drafter.draft_us_p50 or 0:>10.1f}{against}"
        )


def show_retries(drafter: DrafterMetrics) -> None:
    """First against later tries."""
    if drafter.retries is None:
        print(f"{drafter.name:<10}no task was tried twice")
        return
    first, later = drafter.retries.contrast.first, drafter.retries.contrast.later
    print(
        f"{drafter.name:<10}{drafter.retries.tasks} tasks: τ {first.tokens_per_step or 0:.2f} on the first try, "
        f"{later.tokens_per_step or 0:.2f} on later ones"
    )


if __name__ == "__main__":
    main()
