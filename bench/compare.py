"""Our drafter and every peer on the same traces: ``python -m bench.compare TRACE… [-o FILE.json]``.

What is the same for all and what is not: ``bench/peers/__init__.py``.

1. Each peer's settings are tried on the tuning half of each trace, every second session (at most two processes;
   kept in the cache folder under the digests of the trace and its tokens, the settings, and the versions of
   all that they depend on).
2. Over all sessions, in one process, one trace after the other: our drafter with its defaults, each peer with
   its default settings and with those that were best for tokens per step at 16, 32 and 64 nodes, and for the
   speed under each cost curve at 32 nodes. Both halves are printed; bars are held against the reporting half.

Tokens per step (τ) of ours are those of all that it finds within the budget; speeds are those of drafts that
follow the cost curve. τ and speeds are session means, unless another one is named.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench import bars, environment, halves, sessions
from bench.peers import chosen, grid, lockstep
from bench.quiet import no_collection
from suffixspec.cost import NAMES, CostCurve
from suffixspec.draft.prior import find_prior
from suffixspec.errors import InputError, SuffixspecError
from suffixspec.native.warm_up import warm_up
from suffixspec.replay.decode import make_drafter
from suffixspec.replay.peers import PEERS, make_peer
from suffixspec.replay.simulate import RenderedSession, Simulation, replay
from suffixspec.text.tokenizer import load_tokenizer

NODES = 32
OURS = "suffixspec"
LIMITS = {"swebench_permissive": 60, "taubench_qwen": 200, "sql_intercode": 300, "chat_mtbench101": 200}
"""Sessions of a trace by its name, so that all of them together take no more than 40 minutes."""

_COLUMNS = ("τ 16", "τ 32", "τ 64", "weighted", "capped", *NAMES, "µs/token", "draft µs", "p99", "B/token")


def main() -> int:
    """Choose, measure, print, save; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.compare", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("traces", nargs="*", default=[sessions.DEFAULT_TRACE], metavar="TRACE")
    parser.add_argument("-o", "--output", metavar="FILE.json")
    parser.add_argument("--peers", default=",".join(PEERS), help=f"default: {','.join(PEERS)}")
    parser.add_argument("--limit", type=int, help="sessions of each trace (default: by its name, see LIMITS)")
    parser.add_argument("--jobs", type=int, default=2, help="processes that try settings (default: 2)")
    parser.add_argument("--fresh", action="store_true", help="try the settings again, whatever is kept")
    args = parser.parse_args()
    try:
        return compare(args)
    except SuffixspecError as error:
        print(f"bench.compare: {error}", file=sys.stderr)
        return 2


def compare(args: argparse.Namespace) -> int:
    """Both parts over all traces.

    Raises:
        SuffixspecError: an unknown peer, one that is not installed, or a bad trace.
    """
    peers = args.peers.split(",")
    for peer in peers:  # what is missing is said before the work begins
        make_peer(peer, max_nodes=NODES)
    for trace in args.traces:
        if not Path(trace).is_file():
            raise InputError("expected a trace, got no file of this name", path=trace)
    started = time.monotonic()
    limits = {trace: args.limit or LIMITS.get(_name(trace)) for trace in args.traces}
    document: dict[str, Any] = {
        "environment": environment.describe("bench.compare", traces=args.traces, seed=0),
        "settings": {
            "max_nodes": NODES,
            "history": "namespace",
            "limits": {_name(trace): limit for trace, limit in limits.items()},
            "halves": halves.__doc__,
            "arctic": chosen.versions()["arctic-inference"],
            "peers": peers,
        },
        "traces": {},
    }
    warm_up()
    tried = try_settings(args.traces, limits, peers, jobs=args.jobs, fresh=args.fresh, started=started)
    for trace in args.traces:
        recorded = sessions.load([trace], limit=limits[trace])
        choices = {peer: chosen.best(peer, tried[trace, peer][0]) for peer in peers}
        rows = measure(recorded, choices, started)
        part = document["traces"][_name(trace)] = {
            "sessions": len(recorded),
            "output_tokens": sum(len(turn.output_ids) for s in recorded for turn in s.turns),
            "choices": choices,
            "rows": rows,
            "grids": {peer: _grid(*tried[trace, peer]) for peer in peers},
        }
        show(_name(trace), part)
        document["bars"] = bars.judge(document["traces"])
        document["minutes"] = round((time.monotonic() - started) / 60, 1)
        if args.output:
            environment.write(args.output, document)  # a run that is stopped keeps what it has
    summary(document["traces"])
    bars.show(document.get("bars", []))
    environment.save(args.output, document)
    return 0


def try_settings(
    traces: Sequence[str],
    limits: dict[str, int | None],
    peers: Sequence[str],
    *,
    jobs: int,
    fresh: bool,
    started: float,
) -> dict[tuple[str, str], tuple[dict[str, Any], bool]]:
    """By trace and peer: figures on the tuning half by label, and whether they are from an earlier run."""
    tried = {}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        # The largest ones first, so that no process waits long for the other in the end.
        order = sorted(
            ((trace, peer) for trace in traces for peer in peers),
            key=lambda job: (job[1] != "arctic", -Path(job[0]).stat().st_size),
        )
        futures = {
            pool.submit(chosen.figures, trace, limits[trace], peer, fresh=fresh): (trace, peer)
            for trace, peer in order
        }
        for future in as_completed(futures):
            trace, peer = futures[future]
            tried[trace, peer] = future.result()
            kept = tried[trace, peer][1]
            _log(started, f"{_name(trace)}, {peer}: {'kept from an earlier run' if kept else 'tried'}")
    return tried


def measure(
    recorded: list[RenderedSession], choices: dict[str, dict[str, str]], started: float
) -> dict[str, dict[str, Any]]:
    """By label, the figures of both halves: ours by budget and by curve, and what was chosen of the peers."""
    curves = {name: CostCurve.named(name) for name in NAMES}
    rows = {}

    def simulate(label: str, drafter: Any, curve: CostCurve) -> None:
        simulation = Simulation(drafter, curve)
        with no_collection():
            replay(recorded, [simulation])
        parts = halves.split(simulation.result, recorded)
        rows[label] = {half: halves.figures(part, curves) for half, part in parts.items()}
        _log(started, label)

    prior = find_prior(load_tokenizer())
    for budget in grid.BUDGETS:
        drafter = make_drafter("suffix", max_nodes=budget, cost=None, history="namespace", prior=prior)
        simulate(f"{OURS} at {budget} nodes", drafter, curves["gpu"])
    for name, curve in curves.items():
        drafter = make_drafter("suffix", max_nodes=NODES, cost=curve, history="namespace", prior=prior)
        simulate(f"{OURS} under {name}", drafter, curve)
    for peer, labels in choices.items():
        known = grid.distinct(peer)
        setting, budget = known[labels["tau32"]]
        simulate(labels["tau32"], make_peer(setting, max_nodes=budget), curves["gpu"])
        others = {label: known[label] for label in dict.fromkeys(labels.values()) if label not in rows}
        if others:
            with no_collection():
                results = lockstep.explore(recorded, *grid.explorable(peer, others))
            for result in results:
                parts = halves.split(result, recorded)
                rows[result.name] = {half: halves.figures(part, curves) for half, part in parts.items()}
            _log(started, f"{len(others)} other settings of {peer}")
    return rows


def lines(part: dict[str, Any], half: str) -> dict[str, list[float | None]]:
    """By drafter, the figures of one half in the order of ``_COLUMNS``."""
    rows = {label: halved[half] for label, halved in part["rows"].items()}
    ours = rows[f"{OURS} at {NODES} nodes"]
    table = {
        OURS: [
            *(rows[f"{OURS} at {budget} nodes"]["tau"] for budget in grid.BUDGETS),
            ours["tau_weighted"],
            ours["tau_capped"],
            *(rows[f"{OURS} under {name}"]["speed"][name] for name in NAMES),
            *_costs(ours),
        ]
    }
    for peer, labels in part["choices"].items():
        best = rows[labels["tau32"]]
        table[f"{peer}, best"] = [
            *(rows[labels[f"tau{budget}"]]["tau"] for budget in grid.BUDGETS),
            best["tau_weighted"],
            best["tau_capped"],
            *(rows[labels[name]]["speed"][name] for name in NAMES),
            *_costs(best),
        ]
        default = rows[labels["default"]]
        table[f"{peer}, default"] = [
            None,
            default["tau"],
            None,
            default["tau_weighted"],
            default["tau_capped"],
            *(default["speed"][name] for name in NAMES),
            *_costs(default),
        ]
    return table


def _costs(row: dict[str, Any]) -> list[float | None]:
    return [row["overhead_us"], row["draft_us_p50"], row["draft_us_p99"], row["index_bytes_per_token"]]


def show(name: str, part: dict[str, Any]) -> None:
    """A Markdown table per half, and the settings that were chosen."""
    print(f"\n## {name}: {part['sessions']} sessions, {part['output_tokens']:,} output tokens")
    for half in reversed(halves.HALVES):
        print(f"\n{half} half\n")
        print(f"| | {' | '.join(_COLUMNS)} |")
        print("|---|" + "---:|" * len(_COLUMNS))
        for drafter, values in lines(part, half).items():
            cells = [
                "–" if value is None else f"{value:.2f}" if i < 8 else f"{value:.1f}"
                for i, value in enumerate(values)
            ]
            print(f"| {drafter} | {' | '.join(cells)} |")
    print("\nchosen on the tuning half:")
    for labels in part["choices"].values():
        for objective, label in labels.items():
            if objective != "default":
                print(f"- {objective}: {label}")
    sys.stdout.flush()


def summary(traces: dict[str, Any]) -> None:
    """One Markdown table over all traces, reporting half: tokens per step at 32 nodes, and speeds, with peers' best."""
    print("\n## All traces, reporting half\n")
    print(f"| trace | τ | {' | '.join(f'τ of {peer}' for peer in PEERS)} | {' | '.join(NAMES)} |")
    print("|---|---:|" + "---:|" * (len(PEERS) + len(NAMES)))
    for name, part in traces.items():
        rows = {label: halved["reporting"] for label, halved in part["rows"].items()}
        cells = [f"**{rows[f'{OURS} at {NODES} nodes']['tau']:.2f}**"]
        cells += [
            f"{rows[part['choices'][peer]['tau32']]['tau']:.2f}" if peer in part["choices"] else "–"
            for peer in PEERS
        ]
        for curve in NAMES:
            ours = rows[f"{OURS} under {curve}"]["speed"][curve]
            theirs = [rows[labels[curve]]["speed"][curve] for labels in part["choices"].values()]
            cells.append(f"{ours:.2f}x" + (f" ({max(theirs):.2f}x)" if theirs else ""))
        print(f"| {name} | {' | '.join(cells)} |")


def _grid(tried: dict[str, Any], kept: bool) -> dict[str, Any]:
    """What was tried of one peer on the tuning half, in short."""
    return {
        "kept_from_an_earlier_run": kept,
        "settings": {
            label: {"tau": row["tau"], "speed": row["speed"]} for label, row in sorted(tried.items())
        },
    }


def _name(trace: str) -> str:
    return Path(trace).name.partition(".")[0]


def _log(started: float, what: str) -> None:
    print(f"{(time.monotonic() - started) / 60:6.1f} min  {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
