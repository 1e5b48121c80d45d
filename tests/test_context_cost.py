"""t(n, L): linear in the context between what was measured."""

import pytest

from suffixspec.context_cost import ContextCost
from suffixspec.cost import CostCurve

SHORT = CostCurve.fit([(1, 10.0), (8, 12.0)])
LONG = CostCurve.fit([(1, 20.0), (8, 40.0), (16, 60.0)])
COST = ContextCost.of([(1100, LONG), (100, SHORT)])


def test_measured_lengths_give_their_own_times():
    """At a measured length, t(n) is what was measured there; below the first one too."""
    for n in (1, 3, 8, 16, 40):
        assert COST.at(100).ms(n) == SHORT.ms(n)
        assert COST.at(0).ms(n) == SHORT.ms(n)
        assert COST.at(1100).ms(n) == pytest.approx(LONG.ms(n))


def test_between_and_beyond_time_is_linear_in_the_context():
    """Half way between two lengths: half way between the times. Beyond: as much again."""
    assert COST.at(600).ms(1) == pytest.approx(15.0)
    assert COST.at(600).ms(8) == pytest.approx(26.0)
    assert COST.at(2100).ms(1) == pytest.approx(30.0)
    assert COST.at(2100).ms(8) == pytest.approx(68.0)


def test_a_longer_context_is_never_cheaper_by_noise():
    """A falling measurement is not carried on into ever cheaper forwards."""
    falling = ContextCost.of([(100, LONG), (1100, SHORT)])
    assert falling.at(5000).ms(8) == SHORT.ms(8)


def test_one_curve_holds_for_every_context():
    """A bare curve, as the named ones are."""
    assert ContextCost.of(SHORT).at(99_999) == SHORT
    assert ContextCost.of(COST) == COST


@pytest.mark.parametrize(
    "curves",
    [
        [],
        [(-1, SHORT)],
        [(5, SHORT), (5, LONG)],
        [(0, SHORT), (9, CostCurve.fit([(1, 1.0), (8, 2.0)], buckets=(1, 8)))],
    ],
)
def test_malformed_costs_are_refused(curves):
    """None, a negative length, the same length twice, or different padding."""
    with pytest.raises(ValueError, match="expected"):
        ContextCost.of(curves)
