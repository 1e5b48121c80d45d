"""Every second session apart: settings are chosen on one half and reported on the other."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from suffixspec.cost import CostCurve
from suffixspec.replay.metrics import DrafterMetrics, measure
from suffixspec.replay.result import DrafterResult, ReplayResult
from suffixspec.replay.simulate import RenderedSession

HALVES = ("tuning", "reporting")
"""The sessions with an even number in the file, counted from 0, and the others."""


def split(result: DrafterResult, recorded: Sequence[RenderedSession]) -> dict[str, DrafterResult]:
    """The result by half: turns, draft times and nodes; sources, histogram and sample are left out.

    Args:
        result: of all sessions, none of them interrupted.
        recorded: those sessions, in the order in which they were decoded.
    """
    parts = {
        half: DrafterResult(result.name, index_bytes=result.index_bytes, index_tokens=result.index_tokens)
        for half in HALVES
    }
    steps: dict[str, list[slice]] = {half: [] for half in HALVES}
    turn = step = 0
    for number, session in enumerate(recorded):
        half = HALVES[number % 2]
        turns = result.turns[turn : turn + len(session.turns)]
        parts[half].turns += turns
        turn += len(turns)
        end = step + sum(one.steps for one in turns)
        steps[half].append(slice(step, end))
        step = end
    if turn != len(result.turns) or step != len(result.draft_nodes):
        raise ValueError(
            f"expected {turn} turns of {step} steps, got {len(result.turns)} of {len(result.draft_nodes)}"
        )
    for half, part in parts.items():
        part.draft_us = np.concatenate([result.draft_us[s] for s in steps[half]] or [result.draft_us[:0]])
        part.draft_nodes = np.concatenate(
            [result.draft_nodes[s] for s in steps[half]] or [result.draft_nodes[:0]]
        )
    return parts


def under(result: DrafterResult, curve: CostCurve) -> DrafterMetrics:
    """All figures with the drafts as they were and the forwards as ``curve`` has them."""
    widest = int(result.draft_nodes.max(initial=0))
    ms = curve.table(widest).astype(np.float64) * curve.t1_ms
    turns = []
    step = 0
    for turn in result.turns:
        drafts = result.draft_nodes[step : step + turn.steps]
        turns.append(replace(turn, target_ms=float(ms[drafts].sum())))
        step += turn.steps
    return measure(ReplayResult([], 0, {}, [replace(result, turns=turns)]), curve).drafters[0]


def figures(result: DrafterResult, curves: Mapping[str, CostCurve]) -> dict[str, Any]:
    """What the comparison reports of one drafter on one half of the sessions.

    ``speed`` is the session mean, ``speed_weighted`` that of all tokens together, and
    ``speed_with_prompts`` the latter with the indexing of prompts counted as well.
    """
    by_curve = {name: under(result, curve) for name, curve in curves.items()}
    first = next(iter(by_curve.values()))
    prompt_ms = sum(turn.prompt_append_us for turn in result.turns) / 1e3
    return {
        "tau": first.tokens_per_step_session_mean,
        "tau_weighted": first.tokens_per_step,
        "tau_capped": first.tokens_per_step_capped,
        "drafted_per_step": first.drafted_per_step,
        "overhead_us": first.overhead_us_per_token,
        "draft_us_p50": first.draft_us_p50,
        "draft_us_p99": first.draft_us_p99,
        "index_bytes_per_token": first.index_bytes_per_token,
        "speed": {name: _mean_speed(metrics) for name, metrics in by_curve.items()},
        "speed_weighted": {name: metrics.modelled_speedup for name, metrics in by_curve.items()},
        "speed_with_prompts": {
            name: _with_prompts(metrics, curves[name].t1_ms, prompt_ms) for name, metrics in by_curve.items()
        },
    }


def _mean_speed(metrics: DrafterMetrics) -> float:
    speeds = [s.pool.speedup for s in metrics.per_session if s.pool.speedup is not None]
    return float(np.mean(speeds)) if speeds else 1.0


def _with_prompts(metrics: DrafterMetrics, t1_ms: float, prompt_ms: float) -> float | None:
    if not metrics.tokens or not metrics.modelled_speedup:
        return None
    plain_ms = metrics.tokens * t1_ms
    return plain_ms / (plain_ms / metrics.modelled_speedup + prompt_ms)
