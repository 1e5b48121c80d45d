"""What was learned is kept apart by temperature, and nothing is learned from what is not the target's choice."""

import numpy as np
import pytest

from suffixspec.draft import IndexDrafter

TEXT = [i % 7 for i in range(60)]
BUCKETS = [[0.0], [1e-6, 0.2, 0.5], [0.51, 0.7, 1.0], [1.01, 2.0, 50.0]]


def state(drafter: IndexDrafter, temperature: float) -> tuple[bytes, bytes]:
    calibration = drafter.calibration_at(temperature)
    return calibration.cells.tobytes(), calibration.weights.tobytes()


def decode(drafter: IndexDrafter, **options) -> None:
    """A turn whose repeats all fail."""
    session = drafter.session()
    session.sync(TEXT, **options)
    for token in range(100, 130):
        session.draft()
        session.accept(np.array([token, 3, 4, 5], np.int32))
    session.end_turn()


@pytest.mark.parametrize("learned", range(len(BUCKETS)))
@pytest.mark.parametrize("place", [0, -1])
def test_each_range_of_temperatures_learns_for_itself(learned, place):
    """A turn changes the calibration of its own range, all of it, and no other."""
    drafter = IndexDrafter()
    prior = state(drafter, 0.0)
    decode(drafter, temperature=BUCKETS[learned][place])
    for bucket, temperatures in enumerate(BUCKETS):
        states = {state(drafter, temperature) for temperature in temperatures}
        assert len(states) == 1, f"temperatures {temperatures} do not share a calibration"
        assert (states == {prior}) is (bucket != learned), temperatures


def test_drafts_follow_the_calibration_of_their_temperature():
    """What failed at temperature 1 is trusted less there, and as before in greedy decoding."""
    drafter = IndexDrafter(history="session")

    def trust(temperature: float) -> float:
        session = drafter.session()
        session.sync(TEXT, temperature=temperature)
        return float(session.draft(1).probs[0])

    before = trust(0.0)
    assert trust(1.0) == before
    for _ in range(10):
        decode(drafter, temperature=1.0)
    assert trust(1.0) < before
    assert trust(0.0) == before


def test_nothing_is_learned_where_that_is_said():
    """A turn that is not to be learned from changes no calibration; its tokens are indexed all the same."""
    drafter = IndexDrafter()
    prior = state(drafter, 0.7)
    decode(drafter, temperature=0.7, learn=False)
    assert state(drafter, 0.7) == prior
    session = drafter.session()
    session.sync(TEXT, learn=False)
    session.accept(np.array([90, 91, 92, 93, 90], np.int32))
    assert session.draft(2).token_ids.tolist() == [91, 92]
    session.end_turn()
    session.sync([*TEXT, 1])
    session.draft()
    session.accept(np.array([5], np.int32))
    assert state(drafter, 0.0) != prior, "the next turn is learned from again"
