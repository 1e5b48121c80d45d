"""The settings of each peer that are tried."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from suffixspec.replay.peers import make_peer

ARCTIC_DEFAULT = "arctic"
ARCTIC_LOOSEST = "arctic:factor=8:offset=16:min_prob=0:tree=yes"
BUDGETS = (16, 32, 64)

_FACTORS = (1, 2, 4, 8)
_TREES = ((0, 0.1), (8, 0.05), (8, 0), (16, 0))
_CHAINS = ((0, 0.1), (8, 0))


def _arctic(factor: float, offset: float, min_prob: float, tree: bool) -> str:
    if (factor, offset, min_prob, tree) == (1, 0, 0.1, False):
        return ARCTIC_DEFAULT
    return f"arctic:factor={factor}:offset={offset}:min_prob={min_prob}" + (":tree=yes" if tree else "")


def settings_of(peer: str) -> dict[int, list[str]]:
    """By node budget, the settings to choose from, as ``suffixspec.replay.peers`` names them.

    At 32 nodes ArcticInference has 24; at 16 and 64, where only tokens per step are asked for, the six that
    draft the most.
    """
    if peer == "arctic":
        full = [_arctic(f, o, p, True) for f, (o, p) in product(_FACTORS, _TREES)]
        full += [_arctic(f, o, p, False) for f, (o, p) in product(_FACTORS, _CHAINS)]
        loose = [_arctic(f, o, 0, True) for f, o in product((2, 4, 8), (8, 16))]
        return {16: loose, 32: full, 64: loose}
    if peer == "prompt-lookup":
        rules = [f"prompt-lookup:longest={n}" for n in (2, 3, 5)]
        lengths = {16: (10, 16), 32: (4, 10, 16, 32), 64: (32, 64)}
    elif peer == "vllm-ngram":
        rules = [f"vllm-ngram:longest={n}:shortest={m}" for n, m in ((5, 2), (5, 3), (8, 3))]
        lengths = {16: (8, 16), 32: (4, 8, 16, 32), 64: (32, 64)}
    elif peer == "automaton":
        rules = [
            f"automaton:occurrence={which}:shortest={m}" for which, m in product(("recent", "first"), (1, 3))
        ]
        lengths = {16: (16,), 32: (4, 8, 16, 32), 64: (64,)}
    else:
        raise ValueError(f"expected a peer with a grid, got {peer!r}")
    return {
        budget: [f"{rule}:tokens={k}" for rule, k in product(rules, ks)] for budget, ks in lengths.items()
    }


def distinct(peer: str) -> dict[str, tuple[str, int]]:
    """All of them, and the default: label → (setting, node budget). Results are kept under the label."""
    wanted = [(setting, budget) for budget, settings in settings_of(peer).items() for setting in settings]
    return {label(setting, budget): (setting, budget) for setting, budget in [*wanted, default(peer)]}


def label(setting: str, budget: int) -> str:
    """What a row is called."""
    return f"{setting} at {budget} nodes"


def default(peer: str) -> tuple[str, int]:
    """What the peer does when nothing is chosen: its own default settings, at 32 nodes."""
    return peer, 32


def explorable(peer: str, wanted: Mapping[str, tuple[str, int]]) -> tuple[Any, dict[str, Any]]:
    """A drafter whose index serves all of the settings, and those settings: what ``lockstep`` takes.

    Args:
        peer: the peer that all of them are of.
        wanted: label → (setting, node budget).
    """
    settings = {}
    for label, (setting, budget) in wanted.items():
        own = make_peer(setting, max_nodes=budget).settings  # type: ignore[attr-defined]
        # One session drafts for several budgets: the budget has to be a part of the settings.
        field = "nodes" if peer == "arctic" else "tokens"
        settings[label] = replace(own, **{field: min(getattr(own, field), budget)})
    widest = max(budget for _, budget in wanted.values())
    drafter: Any = make_peer(peer, max_nodes=widest)
    if peer in {"prompt-lookup", "vllm-ngram"}:
        drafter.settings = replace(
            drafter.settings,
            shortest=min(own.shortest for own in settings.values()),
            longest=max(own.longest for own in settings.values()),
        )
    return drafter, settings
