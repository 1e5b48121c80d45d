"""The cost control: curves that follow what is measured, pauses where drafting does not pay."""

import pytest

from suffixspec.context_cost import ContextCost
from suffixspec.cost import CostCurve
from suffixspec.draft import IndexDrafter, NoDrafter
from suffixspec.engine.control import CostControl

FLAT = CostCurve.fit([(1, 10.0), (32, 10.0)])
STEEP = CostCurve.fit([(1, 10.0), (2, 19.0), (32, 300.0)])


def test_without_a_curve_everything_is_drafted():
    """No curve: no bound, no pause, whatever steps take."""
    control = CostControl(NoDrafter(), None, max_nodes=8)
    for _ in range(500):
        control.observe(8, 1, 9.0, context_length=0)
    assert control.max_nodes(0) is None
    assert control.curve is None


def test_the_drafter_follows_the_curve():
    """The drafter's table is that of the curve."""
    drafter = IndexDrafter(max_nodes=8)
    CostControl(drafter, STEEP, max_nodes=8)
    assert drafter.costs.tolist() == STEEP.table(8).tolist()


def test_a_wide_forward_that_costs_more_than_thought_changes_the_curve():
    """Measured times move the curve at that width, not at the others seen, and the drafter gets it."""
    drafter = IndexDrafter(max_nodes=31)
    control = CostControl(drafter, FLAT, max_nodes=31)
    for _ in range(300):
        control.observe(0, 1, 0.010, context_length=0)
        control.observe(7, 1, 0.010, context_length=0)
        control.observe(31, 9, 0.030, context_length=0)
    assert 2.5 < control.curve.ms(32) / control.curve.t1_ms < 3.5
    assert control.curve.ms(8) / control.curve.t1_ms < 1.5
    assert 2.5 < float(drafter.costs[31]) < 3.5


def test_what_slows_all_forwards_changes_no_decision():
    """A machine that is twice as slow has the same ratios."""
    drafter = IndexDrafter(max_nodes=31)
    control = CostControl(drafter, STEEP, max_nodes=31)
    for _ in range(300):
        control.observe(0, 1, 2 * STEEP.ms(1) / 1e3, context_length=0)
        control.observe(31, 40, 2 * STEEP.ms(32) / 1e3, context_length=0)
    ratio = float(drafter.costs[31]) / float(STEEP.table(31)[31])
    assert 0.9 < ratio < 1.1


def test_drafting_pauses_while_it_does_not_pay_and_is_tried_again():
    """Drafts that slow decoding down are left out for some tens of steps, then probed; the pauses grow."""
    control = CostControl(NoDrafter(), FLAT, max_nodes=8)
    checked = []
    for _ in range(600):
        nodes = 0 if control.max_nodes(0) == 0 else 8
        checked.append(nodes > 0)
        control.observe(nodes, 1, 0.015 if nodes else 0.010, context_length=0)
    assert 16 <= sum(checked) <= 60
    assert not any(checked[20:40])
    assert any(checked[50:300])
    assert sum(checked[:100]) > sum(checked[400:500])


def test_drafting_that_pays_is_never_paused():
    """Where a drafted step yields more than it costs, every draft is checked."""
    control = CostControl(NoDrafter(), FLAT, max_nodes=8)
    plain = 0
    for _ in range(1500):
        nodes = 8 if control.max_nodes(0) is None else 0
        plain += nodes == 0
        control.observe(nodes, 2 if nodes else 1, 0.015 if nodes else 0.010, context_length=0)
        assert not control.paused
    assert 1.2 < control.gain < 1.5
    assert 15 <= plain <= 25


def test_the_drafter_follows_the_context():
    """Behind a long context a wide forward costs more plain steps; the drafter gets the curve of the step."""
    drafter = IndexDrafter(max_nodes=31)
    control = CostControl(drafter, ContextCost.of([(512, FLAT), (8192, STEEP)]), max_nodes=31)
    widest = []
    for length in (100, 512, 2000, 4000, 8192):
        assert control.max_nodes(length) is None
        widest.append(float(drafter.costs[31]))
    assert widest[:2] == [1.0, 1.0]
    assert 1.0 < widest[2] < widest[3] < widest[4] == float(STEEP.table(31)[31])


def test_times_are_judged_by_the_context_that_they_were_taken_behind():
    """Forwards that take just what was measured for their context correct nothing, in any mix."""
    drafter = IndexDrafter(max_nodes=31)
    cost = ContextCost.of([(256, FLAT), (4096, STEEP)])
    control = CostControl(drafter, cost, max_nodes=31)
    for length in (256, 4096, 1024) * 100:
        for nodes in (0, 7, 31):
            seconds = cost.at(length).ms(nodes + 1) / 1e3
            control.observe(nodes, 40, seconds, context_length=length)
    control.max_nodes(4096)
    assert float(drafter.costs[31]) == pytest.approx(float(STEEP.table(31)[31]), rel=1e-3)
    control.max_nodes(256)
    assert float(drafter.costs[31]) == pytest.approx(1.0, rel=1e-3)
