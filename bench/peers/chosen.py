"""The best settings of a peer on a trace, by objective: tried on the tuning half, and kept in a cache."""

import hashlib
import importlib.metadata
import json
import os
import platform
from pathlib import Path
from typing import Any

from bench import environment, halves, sessions
from bench.peers import grid, lockstep
from suffixspec.cost import NAMES, CostCurve
from suffixspec.native.cache import cache_root
from suffixspec.replay.simulate import RenderedSession

# The code that figures depend on, besides what makes tokens of a trace: the tokens themselves are in the key.
_SOURCES = ("suffixspec/replay/peers", "suffixspec/verify/recorded.py")
_MEASURING = (
    "bench/halves.py",
    "bench/peers/lockstep.py",
    "suffixspec/replay/metrics.py",
    "suffixspec/cost.py",
)


def versions() -> dict[str, str | None]:
    """Versions of the packages that the figures depend on."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in ("arctic-inference", "numpy", "tokenizers"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def figures(trace: str, limit: int | None, peer: str, *, fresh: bool = False) -> tuple[dict[str, Any], bool]:
    """Figures of all settings of the peer's grid on the tuning half of a trace.

    Only the sessions of that half are decoded, and only they are history.

    Args:
        trace: the file.
        limit: sessions of it, both halves together; None for all.
        peer: whose grid.
        fresh: measure again, whatever is kept.

    Returns:
        ``halves.figures`` by label, and whether they were kept from an earlier run.
    """
    wanted = grid.distinct(peer)
    tuning = sessions.load([trace], limit=limit)[::2]
    key = {
        "digest": environment.digest(trace),
        "tokens": _tokens(tuning),
        "limit": limit,
        "peer": peer,
        "settings": list(wanted),
        "versions": versions(),
        "code": _code(),
    }
    name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:24]
    path = cache_root() / "compare" / f"{name}.json"
    if path.exists() and not fresh:
        return json.loads(path.read_text(encoding="utf-8"))["figures"], True
    curves = {curve: CostCurve.named(curve) for curve in NAMES}
    results = lockstep.explore(tuning, *grid.explorable(peer, wanted))
    measured = {result.name: halves.figures(result, curves) for result in results}
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(f".{os.getpid()}.tmp")
    kept = {"trace": Path(trace).name} | key | {"figures": measured}
    scratch.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    scratch.replace(path)
    return measured, False


def best(peer: str, tried: dict[str, Any]) -> dict[str, str]:
    """By objective, the label of the best settings: ``tau16`` … ``tau64``, each curve, and ``default``."""
    by_budget = {
        budget: [grid.label(setting, budget) for setting in settings]
        for budget, settings in grid.settings_of(peer).items()
    }
    choices = {
        f"tau{budget}": max(labels, key=lambda label: tried[label]["tau"])
        for budget, labels in by_budget.items()
    }
    for curve in NAMES:
        choices[curve] = max(by_budget[32], key=lambda label: tried[label]["speed"][curve])
    choices["default"] = grid.label(*grid.default(peer))
    if peer == "arctic":
        choices["loosest"] = grid.label(grid.ARCTIC_LOOSEST, 32)
    return choices


def _tokens(recorded: list[RenderedSession]) -> str:
    """A digest of all prompts and outputs."""
    digest = hashlib.sha256()
    for session in recorded:
        for turn in session.turns:
            digest.update(f"{session.namespace} {len(turn.prompt_ids)} {len(turn.output_ids)}".encode())
            digest.update(turn.prompt_ids.tobytes())
            digest.update(turn.output_ids.tobytes())
    return digest.hexdigest()[:16]


def _code() -> str:
    """A digest of the code that the figures depend on."""
    digest = hashlib.sha256()
    for source in (*_SOURCES, *_MEASURING):
        path = environment.ROOT / source
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
