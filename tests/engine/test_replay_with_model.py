"""A replay with a model: the record decides and the model pays, or the model decides."""

import numpy as np
import pytest

from suffixspec.context_cost import ContextCost
from suffixspec.cost import CostCurve
from suffixspec.draft import IndexDrafter, NoDrafter
from suffixspec.engine import Engine
from suffixspec.replay.simulate import RenderedSession, Simulation
from suffixspec.replay.with_model import ModelReplay, RecordedOutput, lines
from suffixspec.text import RenderedTurn

from .tiny import CONTEXT, TOKENIZER, garbage, prompt, tree

CURVE = CostCurve.fit([(1, 1.0), (2, 1.1), (32, 2.0)])


def loop(seed: int, turns: int, *, start: int = 30, output: int = 20) -> RenderedSession:
    """A session of growing prompts, with outputs that repeat what was there."""
    context = prompt(seed, start)
    made = []
    for index in range(turns):
        written = prompt(seed, 10) + prompt(seed + index, output - 10)
        ids = np.array(context, np.int32)
        made.append(RenderedTurn(index, index, ids, np.array(written, np.int32), "", 0))
        context = context + written + prompt(seed + 100 + index, 15)
    return RenderedSession(f"s{seed}", "t", "n", made)


def replayed(target, drafter, *sessions, **more) -> ModelReplay:
    # No curve for the engine: what is drafted must not hang on how fast this machine is.
    engine = Engine(target, TOKENIZER, drafter=drafter, kv_bytes=1 << 26)
    replay = ModelReplay(engine, **{"forced": True, "cost": ContextCost.of(CURVE)} | more)
    for session in sessions:
        replay.run(session)
    engine.branches.check()
    return replay


def test_the_record_decides_and_the_steps_are_the_simulations(tiny_target):
    """Forced decoding takes the very steps that the simulation without a model takes."""
    sessions = [loop(1, 4), loop(2, 3)]
    replay = replayed(tiny_target, IndexDrafter(max_nodes=8), *sessions)
    simulation = Simulation(IndexDrafter(max_nodes=8), CURVE)
    for session in sessions:
        simulation.run(session)
    assert [(t.tokens, t.steps, t.drafted, t.accepted) for t in replay.turns] == [
        (t.tokens, t.steps, t.drafted, t.accepted) for t in simulation.result.turns
    ]
    assert sum(t.accepted for t in replay.turns) > 20
    modelled = sum(t.modelled_drafted_ms for t in replay.turns)
    forwards = sum(t.target_ms for t in simulation.result.turns)
    assert forwards <= modelled < 1.5 * forwards + 100
    assert sum(t.modelled_plain_ms for t in replay.turns) == pytest.approx(140.0, abs=20)


def test_each_token_of_a_loop_is_prefilled_once_though_each_turn_is_decoded_twice(tiny_target):
    """The second decoding of a turn finds the prompt's KV, and so does the next turn."""
    session = loop(3, 4)
    replay = replayed(tiny_target, IndexDrafter(max_nodes=8), session)
    first, *others = replay.turns
    assert first.cached_tokens == 0
    for before, turn in zip(session.turns, others, strict=False):
        seen = len(before.prompt_ids) + len(before.output_ids)
        assert turn.cached_tokens in (seen - 1, seen)  # the last token has KV where it was drafted
    last = session.turns[-1]
    # Outputs, and the last token of each prompt, get their KV in steps; the end of an output may be left over.
    in_steps = sum(len(turn.output_ids) + 1 for turn in session.turns[:-1])
    assert 0 <= sum(tiny_target.prefills) - (len(last.prompt_ids) - 1 - in_steps) <= 3
    assert len(replay.engine.branches) == 0


def test_a_record_is_followed_to_its_last_token():
    """The stand-in for the acceptance rule confirms what the record holds, and ends with it."""
    import torch

    output = RecordedOutput(np.array([5, 6, 7, 8], np.int32), 99)
    logits = torch.zeros(4, 10)
    accepted = output.accept(tree([(-1, 5), (0, 6), (0, 9)]), logits)
    assert accepted.path == (0, 1)
    assert accepted.token_ids == (5, 6, 7)
    assert output.finish_reason is None
    accepted = output.accept(tree([(-1, 8), (0, 1), (1, 1)]), logits)
    assert accepted.path == (0,)
    assert accepted.token_ids == (8,)
    assert accepted.finish_reason == output.finish_reason == "stop"
    assert output.token_ids == [5, 6, 7, 8]


def test_turns_beyond_the_context_are_dropped_and_counted(tiny_target):
    """A turn that does not fit is left out, whole, and the figures say so."""
    session = loop(4, 3, start=CONTEXT - 70)
    replay = replayed(tiny_target, NoDrafter(), session)
    figures = replay.figures()
    fits = [len(t.prompt_ids) + len(t.output_ids) <= CONTEXT for t in session.turns]
    assert figures["turns"] == sum(fits)
    assert figures["dropped_turns"] == 3 - sum(fits) > 0


def test_the_model_decides_without_forced_and_is_compared_with_plain_decoding(tiny_target):
    """Each turn's output is the model's own; every token is compared."""
    session = loop(5, 3)
    replay = replayed(tiny_target, garbage(1), session, forced=False, max_tokens=12, verify=True, max_turns=2)
    figures = replay.figures()
    assert figures["turns"] == 2
    assert figures["compared_tokens"] == figures["tokens"] > 0
    assert figures["near_ties"] == figures["other_differences"] == 0
    assert figures["drafted"] > 0
    engine = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26)
    wanted = [engine.plain(turn.prompt_ids, max_tokens=12).token_ids for turn in session.turns[:2]]
    assert figures["tokens"] == sum(map(len, wanted))


def test_figures_of_nothing_have_no_ratios(tiny_target):
    """Without a turn, ratios are None, and the table shows dashes."""
    figures = replayed(tiny_target, NoDrafter()).figures()
    assert figures["measured_speedup"] is figures["modelled_speedup"] is figures["tokens_per_step"] is None
    header, row = lines([figures])
    assert header.startswith("drafter")
    assert row.count("-") == 5
