"""The weights that a calibration starts from, learned on other text by ``bench.start_weights``."""

from __future__ import annotations

import math
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from suffixspec.draft import IndexDrafter
from suffixspec.draft.calibration import START_WEIGHTS, Calibration, no_start
from suffixspec.draft.prior import Prior
from suffixspec.index.sealed import SealedIndex
from suffixspec.native import evidence
from suffixspec.text.render import render_session
from suffixspec.text.token_class import token_classes
from suffixspec.text.tokenizer import load_tokenizer
from suffixspec.trace.reader import read_sessions

TRACE = Path(__file__).parents[2] / "traces" / "swebench.jsonl"


def test_a_calibration_starts_from_them_but_for_tokens():
    """The file has one for each weight that names no token; those that name one start at nothing."""
    kept = np.load(START_WEIGHTS)
    assert kept.shape == (evidence.FIRST_TOKEN_FEATURE,)
    assert np.isfinite(kept).all()
    values = Calibration().weights[:, evidence.VALUE]
    assert np.array_equal(values[: evidence.FIRST_TOKEN_FEATURE], kept.astype(np.float32))
    assert not values[evidence.FIRST_TOKEN_FEATURE :].any()
    assert 0.3 < kept[evidence.SCALE] < 1.5
    assert np.count_nonzero(kept) > 1000


def test_none_correct_nothing():
    """Then a candidate's chance is the best rate of its evidence."""
    drafter = IndexDrafter(history="session")
    drafter.calibration = Calibration(start=no_start())
    session = drafter.session()
    session.sync([1, 2, 3, 1, 2])
    draft = session.draft()
    rates = drafter.calibration.cells[:, evidence.RATE]
    assert draft.token_ids[0] == 3
    assert float(draft.probs[0]) == pytest.approx(float(rates[evidence.cell_of(0, 2, 1, 1)]), rel=1e-5)


def test_they_know_more_of_new_text_than_nothing_does():
    """On sessions that were not learned from, chances are nearer to what came: the features still mean what they did.

    Where this fails after a change of a feature, learn the weights again.
    """
    tokenizer = load_tokenizer()
    prior = Prior(SealedIndex.build(np.zeros(0, np.int32)), token_classes(tokenizer))
    turns = [
        turn
        for session in list(islice(read_sessions([str(TRACE)]), 4))[1::2]
        for turn in islice(render_session(session, tokenizer), 6)
    ]
    losses = []
    for start in (None, no_start()):
        total, count = 0.0, 0
        drafter = IndexDrafter(prior=prior)
        drafter.calibration = Calibration(start=start)
        session = drafter.session()
        for turn in turns:
            session.sync(turn.prompt_ids, learn=False)  # what is learned soon covers what it started from
            output = turn.output_ids.tolist()
            for at, token in enumerate(output):
                draft = session.draft()
                for node in np.flatnonzero(draft.parents < 0):
                    chance = float(draft.probs[node])
                    total -= math.log(chance if draft.token_ids[node] == token else 1 - chance)
                    count += 1
                session.accept(np.array(output[at : at + 1], np.int32))
            session.end_turn()
        losses.append(total / count)
    assert losses[0] < 0.95 * losses[1], losses
