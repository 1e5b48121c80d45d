"""What the drafter's learned weights start from: ``python -m bench.start_weights TRACE… [-o FILE.json] [--keep]``.

The weights that name no token (see ``native/evidence.py``) are learned from the tuning halves of the traces, one
session of each in turn, and averaged over the later sessions. ``--keep`` writes them to where a ``Calibration``
reads them.

Then what they are worth on the reporting halves, where nothing was learned from: tokens per step and speed, starting
from nothing, from the weights of the *other* traces, and from those of all.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import environment, halves, sessions
from bench.compare import LIMITS
from suffixspec.cost import NAMES, CostCurve
from suffixspec.draft import IndexDrafter
from suffixspec.draft.calibration import START_WEIGHTS, Calibration, no_start
from suffixspec.draft.prior import Prior, find_prior
from suffixspec.native import evidence as native
from suffixspec.native.warm_up import warm_up
from suffixspec.replay.simulate import RenderedSession, Simulation, replay
from suffixspec.text.tokenizer import load_tokenizer

NODES = 32
SHRUNK = 0.8
"""The weights are kept at so much of what was learned: less is certain of a text that was not learned from."""
SETTLED = 0.25
"""Share of the sessions after which the average begins."""
_COLUMNS = ("tau", *NAMES)


def main() -> None:
    """Learn, measure, print Markdown, and save."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.start_weights",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("traces", nargs="+", metavar="TRACE")
    parser.add_argument("-o", "--output", metavar="FILE.json")
    parser.add_argument("--keep", action="store_true", help=f"write {START_WEIGHTS.name} of the drafter")
    parser.add_argument("--limit", type=int, help="sessions of each trace (default: as bench.compare)")
    args = parser.parse_args()
    warm_up()
    prior = find_prior(load_tokenizer())
    recorded = {}
    for trace in args.traces:
        name = Path(trace).name.partition(".")[0]
        recorded[name] = sessions.load([trace], limit=args.limit or LIMITS.get(name))
    learned = learn(recorded, prior)
    if args.keep:
        np.save(START_WEIGHTS, learned.astype(np.float16))
        print(f"wrote {START_WEIGHTS}", flush=True)
    document: dict[str, Any] = {
        "environment": environment.describe("bench.start_weights", traces=args.traces, seed=0),
        "settings": {"max_nodes": NODES, "shrunk": SHRUNK, "settled": SETTLED},
        "used": int(np.count_nonzero(learned)),
        "traces": {},
    }
    print("| trace | start | tau | " + " | ".join(NAMES) + " |\n|---|---|" + "---:|" * len(_COLUMNS))
    for name, those in recorded.items():
        others = {other: recorded[other] for other in recorded if other != name}
        starts = {"nothing": no_start(), "all traces": learned}
        if others:
            starts["the other traces"] = learn(others, prior)
        document["traces"][name] = {label: measure(those, prior, start) for label, start in starts.items()}
        for label, row in document["traces"][name].items():
            print(f"| {name} | {label} | " + " | ".join(f"{row[c]:.4f}" for c in _COLUMNS) + " |", flush=True)
    environment.save(args.output, document)


def learn(recorded: dict[str, list[RenderedSession]], prior: Prior | None) -> NDArray[np.float32]:
    """float32 [FIRST_TOKEN_FEATURE]: weights from the tuning halves, every trace with a history of its own."""
    calibration = Calibration(start=no_start())
    simulations = {}
    for name in recorded:
        drafter = IndexDrafter(max_nodes=NODES, prior=prior)
        drafter.calibration = calibration
        simulations[name] = Simulation(drafter, CostCurve.named("gpu"))
    turns = _in_turn(recorded)
    total = np.zeros(native.FIRST_TOKEN_FEATURE)
    first = int(SETTLED * len(turns))
    for number, (name, session) in enumerate(turns):
        replay([session], [simulations[name]])
        if number >= first:
            total += calibration.weights[: native.FIRST_TOKEN_FEATURE, native.VALUE]
    weights = (total / (len(turns) - first)).astype(np.float32)
    weights[native.FIRST_FEATURE :] *= SHRUNK
    return weights


def _in_turn(recorded: dict[str, list[RenderedSession]]) -> list[tuple[str, RenderedSession]]:
    """The sessions of the tuning halves, those of each trace spread evenly."""
    tuning = {name: those[::2] for name, those in recorded.items()}
    spread = [
        (number / len(those), name, session)
        for name, those in tuning.items()
        for number, session in enumerate(those)
    ]
    return [(name, session) for _, name, session in sorted(spread, key=lambda entry: entry[:2])]


def measure(
    recorded: list[RenderedSession], prior: Prior | None, start: NDArray[np.float32]
) -> dict[str, float]:
    """Figures of the reporting half: tokens per step with all that is found, and speed under each cost curve."""
    curves = {name: CostCurve.named(name) for name in NAMES}
    row = {}
    for name, curve in (("tau", None), *curves.items()):
        drafter = IndexDrafter(max_nodes=NODES, cost=curve, prior=prior)
        drafter.calibration = Calibration(start=start)
        simulation = Simulation(drafter, curve or curves["gpu"])
        replay(recorded, [simulation])
        figures = halves.figures(halves.split(simulation.result, recorded)["reporting"], curves)
        row[name] = figures["tau"] if curve is None else figures["speed"][name]
    return row


if __name__ == "__main__":
    main()
