"""Comparing settings: the shortcut over one index, the halves, the choice, and the bars."""

import random
import sys

import numpy as np
import pytest

from bench import bars, compare, halves
from bench.peers import chosen, grid, lockstep
from suffixspec.cost import CostCurve
from suffixspec.replay.metrics import measure
from suffixspec.replay.peers import PEERS, make_peer
from suffixspec.replay.result import ReplayResult
from suffixspec.replay.simulate import Simulation, replay

from . import fake_arctic
from .slow import loop

CURVES = {name: CostCurve.named(name) for name in ("gpu", "mid", "cpu")}
COUNTS = (
    "session_id",
    "turn",
    "task_key",
    "attempt",
    "context_tokens",
    "tokens",
    "steps",
    "drafted",
    "accepted",
)


def simulated(setting: str, budget: int, recorded) -> Simulation:
    simulation = Simulation(make_peer(setting, max_nodes=budget), CURVES["gpu"])
    replay(recorded, [simulation])
    return simulation


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("peer", PEERS)
def test_lockstep_gives_what_separate_runs_give(peer, seed, monkeypatch):
    """All settings of a grid over one index: turn by turn the counts of a simulation of its own."""
    for name, module in fake_arctic.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    rng = random.Random(seed)
    recorded = [loop(rng, f"s{i % 3}", rewrite=i == 2) for i in range(4)]
    wanted = grid.distinct(peer)
    results = lockstep.explore(recorded, *grid.explorable(peer, wanted))
    assert [result.name for result in results] == list(wanted)
    for result in results:
        alone = simulated(*wanted[result.name], recorded).result
        for one, other in zip(result.turns, alone.turns, strict=True):
            for field in COUNTS:
                assert getattr(one, field) == getattr(other, field), f"seed {seed}, {result.name}, {field}"
        assert result.draft_nodes.tolist() == alone.draft_nodes.tolist(), f"seed {seed}, {result.name}"


def test_lockstep_gives_what_separate_runs_of_arctic_give():
    """The same for ArcticInference itself, where it is installed: chains and trees, within each budget."""
    pytest.importorskip("arctic_inference.suffix_decoding", reason="arctic-inference is not installed")
    recorded = [loop(random.Random(seed), f"s{seed}") for seed in range(3)]
    wanted = dict(list(grid.distinct("arctic").items())[::5])
    assert len({budget for _, budget in wanted.values()}) == 3
    for result in lockstep.explore(recorded, *grid.explorable("arctic", wanted)):
        alone = simulated(*wanted[result.name], recorded).result
        assert result.draft_nodes.tolist() == alone.draft_nodes.tolist(), result.name
        assert [turn.steps for turn in result.turns] == [turn.steps for turn in alone.turns], result.name
        assert 0 < result.index_bytes == alone.index_bytes


def test_arctics_grid_has_24_points_and_its_default():
    """No more than 24 settings at 32 nodes, the default among them; each one is known to the adapter."""
    settings = grid.settings_of("arctic")
    assert len(set(settings[32])) == len(settings[32]) == 24
    assert grid.ARCTIC_DEFAULT in settings[32]
    assert grid.ARCTIC_LOOSEST in settings[32]
    assert all(":tree=yes" in setting or "tree" not in setting for setting in settings[32])


def test_halves_hold_every_second_session():
    """Turns, draft times and nodes of sessions 0, 2, … and 1, 3, …, each with its own turns."""
    recorded = [loop(random.Random(seed), f"s{seed}", turns=seed + 1) for seed in range(5)]
    result = simulated("prompt-lookup", 8, recorded).result
    parts = halves.split(result, recorded)
    for half, names in (("tuning", ["s0", "s2", "s4"]), ("reporting", ["s1", "s3"])):
        part = parts[half]
        assert list(dict.fromkeys(turn.session_id for turn in part.turns)) == names
        steps = sum(turn.steps for turn in part.turns)
        assert len(part.draft_us) == len(part.draft_nodes) == steps
        assert part.draft_nodes.sum() == sum(turn.drafted for turn in part.turns)
    with pytest.raises(ValueError, match="expected"):
        halves.split(result, recorded[:-1])


@pytest.mark.parametrize("name", CURVES)
def test_a_result_can_be_priced_under_another_curve(name):
    """Drafts made under one curve, forwards of another: what a simulation under that one says."""
    recorded = [loop(random.Random(seed), f"s{seed}") for seed in range(3)]
    result = simulated("vllm-ngram", 16, recorded).result
    priced = halves.under(result, CURVES[name])
    other = Simulation(make_peer("vllm-ngram", max_nodes=16), CURVES[name])
    replay(recorded, [other])
    for turn, mine in zip(other.result.turns, result.turns, strict=True):
        turn.draft_us, turn.append_us, turn.prompt_append_us = (
            mine.draft_us,
            mine.append_us,
            mine.prompt_append_us,
        )
    expected = measure(ReplayResult([], 0, {}, [other.result]), CURVES[name]).drafters[0]
    assert priced.modelled_speedup == pytest.approx(expected.modelled_speedup)
    figures = halves.figures(result, CURVES)
    speeds = [session.pool.speedup for session in priced.per_session]
    assert figures["speed"][name] == pytest.approx(np.mean(speeds))
    assert figures["speed_with_prompts"][name] < figures["speed_weighted"][name]


def row(tau: float, **more: object) -> dict[str, object]:
    """Figures of one drafter on one half."""
    speed = {"gpu": tau, "mid": tau - 0.5, "cpu": 1.0}
    base = {"tau": tau, "tau_weighted": tau, "tau_capped": tau, "speed": speed, "overhead_us": 10.0}
    return base | {"draft_us_p50": 10.0, "draft_us_p99": 50.0, "index_bytes_per_token": 50.0} | more


def test_the_best_settings_are_chosen_by_objective():
    """Most tokens per step within each budget; the fastest at 32 nodes under each curve."""
    tried = {label: row(1.5) for label in grid.distinct("automaton")}
    long, short, wide = (
        grid.label(f"automaton:occurrence=first:shortest=3:tokens={k}", budget)
        for k, budget in ((32, 32), (4, 32), (64, 64))
    )
    tried[long] = row(3.0)
    tried[short] = row(2.0) | {"speed": {"gpu": 1.0, "mid": 1.0, "cpu": 1.4}}
    tried[wide] = row(9.0)
    best = chosen.best("automaton", tried)
    assert (best["tau32"], best["tau64"]) == (long, wide)
    assert (best["gpu"], best["mid"], best["cpu"]) == (long, long, short)
    assert best["default"] == "automaton at 32 nodes"


def test_bars_are_judged_on_the_reporting_half():
    """Each bar of the issue by name, value, limit and verdict; the peer that is fastest is the one to beat."""
    arctic = dict.fromkeys(("tau16", "tau32", "tau64", "gpu", "mid", "cpu", "default", "loosest"), "arctic")
    lookup = dict.fromkeys(arctic, "lookup") | {"tau64": "wide lookup"}
    ours = row(4.0)
    rows = {
        **{f"suffixspec at {budget} nodes": ours for budget in (16, 32, 64)},
        **{f"suffixspec under {name}": ours for name in CURVES},
        "arctic": row(3.1, overhead_us=90.0, draft_us_p50=50.0, index_bytes_per_token=300.0),
        "lookup": row(2.0) | {"speed": {"gpu": 2.0, "mid": 1.9, "cpu": 1.05}},
        "wide lookup": row(2.5),
    }
    part = {
        "choices": {"arctic": arctic, "prompt-lookup": lookup},
        "rows": {label: {"tuning": row(1.0), "reporting": figures} for label, figures in rows.items()},
    }
    judged = {
        (bar["trace"], bar["name"]): (bar["value"], bar["met"])
        for bar in bars.judge({"swebench_permissive": part, "chat_mtbench101": part})
    }
    loops, chat = "swebench_permissive", "chat_mtbench101"
    assert judged[loops, "τ at 32 nodes over arctic's best"] == (pytest.approx(4 / 3.1), True)
    assert judged[loops, "τ at 32 nodes over arctic's best, stretch"][1] is False
    assert judged[loops, "speed under gpu over the best peer, arctic"][1] is True
    assert judged[loops, "speed under cpu over the best peer, prompt-lookup"] == (
        pytest.approx(1 / 1.05),
        False,
    )
    assert judged[loops, "drafting and indexing per output token over arctic's"][1] is False
    assert judged[chat, "drafting and indexing per output token over arctic's"][1] is True
    assert judged[loops, "draft call, median, over arctic's loosest"] == (0.2, True)
    assert judged[loops, "index bytes per token over arctic's"][1] is True
    assert judged[chat, "speed under cpu over plain decoding"] == (1.0, True)
    assert (chat, "speed under gpu over plain decoding") not in judged
    assert (chat, "τ at 32 nodes over arctic's best") not in judged
    # The same rows make the table: three forms of tokens per step, three speeds, four costs.
    table = compare.lines(part, "reporting")
    assert table["suffixspec"] == [4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 3.5, 1.0, 10.0, 10.0, 50.0, 50.0]
    assert table["prompt-lookup, default"][:3] == [None, 2.0, None]
    assert table["prompt-lookup, best"][:8] == [2.0, 2.0, 2.5, 2.0, 2.0, 2.0, 1.9, 1.05]
    assert compare.lines(part, "tuning")["arctic, best"][0] == 1.0
