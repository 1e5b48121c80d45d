"""Which session a request goes on with."""

import numpy as np
import pytest

from suffixspec.draft import IndexDrafter
from suffixspec.integrations.hosted.session_table import SessionTable

END = 2
ENDS = frozenset({END})


class Clock:
    """Seconds that pass one by one."""

    now = 0.0

    def __call__(self) -> float:
        """The time."""
        self.now += 1.0
        return self.now


@pytest.fixture
def drafter():
    return IndexDrafter(max_nodes=8)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def table(drafter, clock):
    return SessionTable(
        lambda namespace, _: drafter.session(namespace),
        most=3,
        nbytes=1 << 30,
        idle_seconds=1000.0,
        clock=clock,
    )


def ids(*tokens: int) -> np.ndarray:
    return np.array(tokens, np.int32)


def used(table, namespace, key, prompt, output=()):
    """A request from its beginning to its end."""
    lane, common = table.adopt(namespace, key, prompt, ENDS)
    lane.session.sync(prompt)
    if len(output):
        lane.session.accept(ids(*output))
    table.release(lane)
    return lane, common


OPENING = ids(*range(10, 40), END, 5)


def test_the_next_turn_of_a_loop_goes_on_with_its_session(table):
    first, common = used(table, "a", None, OPENING, [7, 8, END])
    assert common == 0
    second, common = used(table, "a", None, np.append(OPENING, [7, 8, END, 50, 51, END, 5]))
    assert second is first
    assert common == len(OPENING) + 3
    assert len(table) == 1


def test_a_header_that_is_written_differently_later_does_not_hide_the_loop(table):
    first, _ = used(table, "a", None, np.append(OPENING, [60, 61]), [7, END])
    again, common = used(table, "a", None, np.append(OPENING, [7, END, 50]))
    assert again is first
    assert common == len(OPENING)


def test_a_loop_with_the_same_system_prompt_and_another_task_is_another_loop(table):
    first, _ = used(table, "a", None, np.append(OPENING, [50, END, 5]))
    other, common = used(table, "a", None, np.append(OPENING, [51, END, 5]))
    assert other is not first
    assert common == 0


def test_a_prompt_that_was_cut_back_goes_on_with_its_session(table):
    first, _ = used(table, "a", None, np.append(OPENING, [50, END, 5]), [7, 8, 9])
    again, common = used(table, "a", None, OPENING)
    assert again is first
    assert common == len(OPENING)


def test_of_several_sessions_the_one_with_most_in_common_is_taken(table):
    lanes = [table.adopt("a", None, OPENING, ENDS)[0] for _ in range(2)]
    for lane, token in zip(lanes, (7, 8), strict=True):
        lane.session.sync(OPENING)
        lane.session.accept(ids(token, END))
        table.release(lane)
    assert table.adopt("a", None, np.append(OPENING, [8, END, 9]), ENDS)[0] is lanes[1]


def test_a_session_that_runs_is_not_given_to_a_second_request(table):
    first, _ = table.adopt("a", None, OPENING, ENDS)
    second, _ = table.adopt("a", None, OPENING, ENDS)
    assert first is not second


def test_namespaces_and_keys_do_not_mix(table):
    first, _ = used(table, "a", "loop", OPENING)
    assert used(table, "b", "loop", OPENING)[0] is not first
    assert used(table, "a", None, OPENING)[0] is not first
    assert used(table, "a", "other", OPENING)[0] is not first


def test_a_side_request_of_a_loop_leaves_the_loops_session_as_it_is(table):
    first, _ = used(table, "a", "loop", OPENING, [7, 8, END])
    side, _ = used(table, "a", "loop", ids(*range(100, 140)))
    assert side is not first
    assert used(table, "a", "loop", np.append(OPENING, [7, 8, END, 9]))[1] == len(OPENING) + 3


def test_the_least_recently_used_idle_session_leaves_first_and_becomes_history(table, drafter):
    prompts = [ids(*range(100 * i, 100 * i + 40)) for i in range(1, 6)]
    for prompt in prompts:
        used(table, "a", None, prompt, [7, 8, 9])
    assert len(table) == 3
    assert "a" in drafter.history
    assert used(table, "a", None, prompts[-1])[1] > 0
    assert used(table, "a", None, prompts[0])[1] == 0


def test_sessions_that_run_are_never_closed_and_memory_is_bounded(drafter):
    table = SessionTable(
        lambda namespace, _: drafter.session(namespace), most=1, nbytes=1_000_000, idle_seconds=1000.0
    )
    lanes = []
    while (adopted := table.adopt("a", None, ids(*range(len(lanes), len(lanes) + 3000)), ENDS)) is not None:
        lane, _ = adopted
        lane.session.sync(ids(*range(len(lanes), len(lanes) + 3000)))
        lanes.append(lane)
        assert len(lanes) < 100
    assert len(lanes) > 1
    assert all(lane in list(table) for lane in lanes)
    for lane in lanes:
        table.release(lane)
    assert table.adopt("a", None, ids(1, 2, 3), ENDS) is not None
    assert table.nbytes < 1_500_000


def test_a_session_that_is_idle_for_long_ends(table, clock):
    used(table, "a", None, OPENING, [7])
    clock.now += 2000.0
    table.sweep()
    assert len(table) == 0


def test_the_end_closes_all_and_keeps_their_outputs(table, drafter):
    lane, _ = table.adopt("a", None, OPENING, ENDS)
    lane.session.sync(OPENING)
    lane.session.accept(ids(7, 8))
    table.close()
    assert len(table) == 0
    assert len(drafter.history) > 0


def test_loops_without_a_name_get_one_of_their_own(drafter):
    """A saved history keeps what each loop wrote under its name."""
    begun = []

    def begin(namespace, name):
        begun.append((namespace, name))
        return drafter.session(namespace)

    table = SessionTable(begin, most=3, nbytes=1 << 30, idle_seconds=1000.0)
    for key, first in ((None, 3), (None, 4), ("loop", 5)):
        used(table, "a", key, OPENING + first)
    assert len(set(begun)) == 3
    assert ("a", "loop") in begun
