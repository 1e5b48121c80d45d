"""How a batch shares its drafts."""

import numpy as np
import pytest

from suffixspec.cost import CostCurve, best_prefix
from suffixspec.integrations.vllm.load_gate import LoadGate

GATE = LoadGate(CostCurve.named("mid"), widest=200)
STEEP = LoadGate(CostCurve.fit([(1, 10.0), (8, 10.0), (64, 80.0)]), widest=64)
"""Free up to eight tokens, then dear."""


def test_one_sequence_gets_the_prefix_that_the_cost_curve_says():
    for seed in range(20):
        probs = np.cumprod(np.random.default_rng(seed).uniform(0.3, 1.0, 12))
        expected = best_prefix(probs, CostCurve.named("mid").table(12))
        assert GATE.allot([probs], sequences=1, width=1) == [expected], f"seed {seed}"


def test_the_likelier_chain_gets_more():
    lengths = STEEP.allot([[0.9, 0.8, 0.7, 0.6], [0.5, 0.2, 0.1, 0.05]], sequences=2, width=4)
    assert lengths[0] > lengths[1]
    assert lengths[0] == 4


def test_drafts_shrink_with_the_number_of_sequences_and_end():
    chain = [0.6, 0.4, 0.3, 0.2]
    mean = [sum(STEEP.allot([chain] * b, sequences=b, width=b)) / b for b in (1, 2, 4, 8, 64)]
    assert mean == sorted(mean, reverse=True)
    assert mean[0] == 4
    assert mean[-1] == 0


def test_what_is_prefilled_beside_makes_drafts_dearer():
    chains = [[0.04, 0.03]] * 2
    assert sum(STEEP.allot(chains, sequences=2, width=2)) > sum(STEEP.allot(chains, sequences=2, width=40))


def test_the_shared_amount_is_the_best_of_all():
    """Checked by trying every pair of lengths."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        chains = [np.cumprod(rng.uniform(0.2, 1.0, 5)) for _ in range(2)]
        times = STEEP.times(5, 10)
        best = max(
            (2 + chains[0][:a].sum() + chains[1][:b].sum()) / times[a + b] for a in range(6) for b in range(6)
        )
        a, b = STEEP.allot(chains, sequences=2, width=5)
        got = (2 + chains[0][:a].sum() + chains[1][:b].sum()) / times[a + b]
        assert got == pytest.approx(best), f"seed {seed}"


def test_a_bound_on_the_batch_is_kept():
    lengths = GATE.allot([[0.9] * 8] * 4, sequences=4, width=4, most=10)
    assert sum(lengths) == 10


def test_beyond_the_widest_forward_time_goes_on_growing():
    gate = LoadGate(CostCurve.named("mid"), widest=4)
    times = gate.times(4, 6)
    assert len(times) == 7
    assert np.all(np.diff(times) > 0)


def test_chains_of_no_tokens_get_none():
    assert GATE.allot([[], []], sequences=2, width=2) == [0, 0]
