"""How a batch shares its drafts."""

import numpy as np
import pytest

from suffixspec.cost import CostCurve, best_prefix
from suffixspec.integrations.vllm.load_gate import allot

MID = CostCurve.named("mid").times(200)
STEEP = CostCurve.fit([(1, 10.0), (8, 10.0), (64, 80.0)]).times(200)
"""Free up to eight tokens, then dear."""


def gate(chains, times, *, width, **options):
    """In a forward that is ``width`` tokens wide without drafts."""
    return allot(chains, times[width - 1 :], **options)


def test_one_sequence_gets_the_prefix_that_the_cost_curve_says():
    for seed in range(20):
        probs = np.cumprod(np.random.default_rng(seed).uniform(0.3, 1.0, 12))
        expected = best_prefix(probs, CostCurve.named("mid").table(12))
        assert allot([probs], MID, sequences=1) == [expected], f"seed {seed}"


def test_the_likelier_chain_gets_more():
    lengths = gate([[0.9, 0.8, 0.7, 0.6], [0.5, 0.2, 0.1, 0.05]], STEEP, sequences=2, width=4)
    assert lengths[0] > lengths[1]
    assert lengths[0] == 4


def test_drafts_shrink_with_the_number_of_sequences_and_end():
    chain = [0.6, 0.4, 0.3, 0.2]
    mean = [sum(gate([chain] * b, STEEP, sequences=b, width=b)) / b for b in (1, 2, 4, 8, 32)]
    assert mean == sorted(mean, reverse=True)
    assert mean[0] == 4
    assert mean[-1] == 0


def test_what_is_prefilled_beside_makes_drafts_dearer():
    chains = [[0.04, 0.03]] * 2
    few, many = (sum(gate(chains, STEEP, sequences=2, width=width)) for width in (2, 40))
    assert few > many


def test_a_token_behind_a_long_context_has_to_be_worth_more():
    chains = [[0.5, 0.4], [0.5, 0.4]]
    assert allot(chains, MID, sequences=2, extra=[0.0, 0.0]) == [2, 2]
    assert allot(chains, MID, sequences=2, extra=[0.0, 20.0]) == [2, 0]
    assert allot(chains, MID, sequences=2, extra=[20.0, 0.0]) == [0, 2]


def test_the_shared_amount_is_the_best_of_all():
    """Checked by trying every pair of lengths; whatever the two contexts cost, where the times are a straight line."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        chains = [np.cumprod(rng.uniform(0.2, 1.0, 5)) for _ in range(2)]
        straight = bool(seed % 2)
        times = (MID if straight else STEEP)[4:]
        extra = rng.uniform(0.0, 8.0, 2) if straight else np.zeros(2)

        def rate(a, b, chains=chains, times=times, extra=extra):
            return (2 + chains[0][:a].sum() + chains[1][:b].sum()) / (times[a + b] + extra @ (a, b))

        best = max(rate(a, b) for a in range(6) for b in range(6))
        got = rate(*allot(chains, times, sequences=2, extra=extra.tolist()))
        assert got == pytest.approx(best), f"seed {seed}"


def test_a_bound_on_the_batch_is_kept():
    lengths = gate([[0.9] * 8] * 4, MID, sequences=4, width=4, most=10)
    assert sum(lengths) == 10


def test_chains_of_no_tokens_get_none():
    assert allot([[], []], MID, sequences=2) == [0, 0]


def test_drafts_that_gain_too_little_are_left_out():
    chains = [[0.2, 0.1]]
    assert allot(chains, MID, sequences=1) == [2]
    assert allot(chains, MID, sequences=1, least_gain=1.5) == [0]
    assert allot([[0.9, 0.8]], MID, sequences=1, least_gain=1.5) == [2]
