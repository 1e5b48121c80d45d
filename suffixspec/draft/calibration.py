"""What a candidate's evidence is worth: observed acceptance per kind of evidence."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suffixspec.native import evidence as native
from suffixspec.native import learning

_LENGTHS = np.array([1, 2, 3, 4, 5.5, 8, 12, 22, 45, 100])  # middle of each bucket of ``native.cell_of``
_COUNTS = np.array([1, 2, 3.5, 7, 20])
_SHARES = np.array([0.025, 0.075, 0.15, 0.3, 0.5, 0.7, 0.87, 1.0])
# Of a text that is resumed, by how sure its place is; where the change is believed to be a substitution, by the
# tokens since. On five traces such evidence was right about as often.
_RESUMED = np.array([0, 0.38, 0.6, 0.55, 0.72, 0.78, 0.85, 0.9, 0.93, 0.95])
_SUBSTITUTED = np.array([0.4, 0.18, 0.07, 0.05, 0.04])
_PRIOR_TRIALS = 8.0
_MEMORY = 1000.0
_SCALE_INERTIA = 50.0  # the cells' rates are right on average: trust them long
START_WEIGHTS = Path(__file__).with_name("start_weights.npy")
"""float16 [FIRST_TOKEN_FEATURE]: what the weights that name no token were worth on other text; made by
``bench.start_weights``, again when a feature is another one."""


class Calibration:
    """Acceptance probabilities, learned online; see ``native/evidence.py`` for the model.

    A continuation that was seen once is not certain, and how uncertain it is depends on the text and on the
    target: that is what is learned here. The cells start from a prior of a few trials, so that the first
    drafts are sensible, and the weights from what was learned on other text, but for those that name tokens, which
    start at nothing.

    Args:
        start: float32 [FIRST_TOKEN_FEATURE], weights to start from; None: those that come with the drafter.

    State: ``cells``, float32 [CELLS, 3]: hits, trials and their ratio (halved at 1,000 trials, so that they
    follow what changes), and ``weights``, float32 [WEIGHTS, 2].
    """

    def __init__(self, *, start: NDArray[np.float32] | None = None) -> None:
        # A longer and more frequent context says more; a single occurrence of one token says little.
        seen = (_LENGTHS**0.8)[:, None] * (_COUNTS**0.5)[None, :]
        trust = 0.97 * (1 - 1 / (1 + 0.5 * seen))
        rate = trust[:, :, None] * _SHARES[None, None, :]
        rates = np.broadcast_to(rate, (native.SOURCES, *rate.shape)).copy()
        for source in (native.RESUMED, native.RESUMED_HISTORY):
            rates[source] = _RESUMED[:, None, None]
            rates[source, 0] = _SUBSTITUTED[:, None]
        rates = rates.reshape(native.CELLS)
        self.cells: NDArray[np.float32] = np.zeros((native.CELLS, 3), np.float32)
        self.cells[:, native.HITS] = _PRIOR_TRIALS * rates
        self.cells[:, native.TRIALS] = _PRIOR_TRIALS
        self.cells[:, native.RATE] = rates
        self.weights: NDArray[np.float32] = np.zeros((native.WEIGHTS, 2), np.float32)
        self.weights[:, native.SQUARES] = 1.0
        self.weights[native.SCALE, native.SQUARES] = _SCALE_INERTIA
        self.weights[: native.FIRST_TOKEN_FEATURE, native.VALUE] = _start() if start is None else start

    def learn(
        self,
        rows: NDArray[np.int32],
        given: NDArray[np.float32],
        grown: int,
        emitted: NDArray[np.int32],
        *,
        strayed: NDArray[np.int32],
        teach: bool = True,
    ) -> int:
        """Learn from what the target wrote; return how many rows it confirmed.

        Args:
            rows: int32 [nodes + 1, ROW_FIELDS], as ``native.draft`` left them; SOURCE is overwritten.
            given: float32 [nodes + 1], the rows' probabilities given their parents.
            grown: how many rows to judge.
            emitted: int32 [accepted + 1], the target's tokens.
            strayed: int32 [LIVE, 2], what the context may come back to; brought up to date.
            teach: False: only ``strayed`` changes.

        Cost: O(grown).
        """
        return int(
            learning.learn(rows, given, grown, emitted, self.cells, self.weights, _MEMORY, teach, strayed)
        )

    @property
    def nbytes(self) -> int:
        """Allocated bytes."""
        return self.cells.nbytes + self.weights.nbytes


def no_start() -> NDArray[np.float32]:
    """Weights that correct nothing: the cells' rates count as they are."""
    start = np.zeros(native.FIRST_TOKEN_FEATURE, np.float32)
    start[native.SCALE] = 1.0
    return start


@cache
def _start() -> NDArray[np.float32]:
    return np.load(START_WEIGHTS).astype(np.float32)
