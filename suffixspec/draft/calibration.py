"""What a candidate's evidence is worth: observed acceptance per kind of evidence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from suffixspec.native import draft as native

_LENGTHS = np.array([1, 2, 3, 4, 5.5, 8, 12, 22, 45, 100])  # middle of each bucket of ``native.cell_of``
_COUNTS = np.array([1, 2, 3.5, 7, 20])
_SHARES = np.array([0.025, 0.075, 0.15, 0.3, 0.5, 0.7, 0.87, 1.0])
_PRIOR_TRIALS = 8.0
_MEMORY = 1000.0


class Calibration:
    """Acceptance probabilities, learned online.

    A candidate comes with evidence of the kind (source, context length, count, share of its context); each
    kind is a cell that counts how often such a candidate was what the target wrote. A continuation that was
    seen once is not certain, and how uncertain it is depends on the text: that is what is learned here. Cells
    start from a prior of a few trials, so that the first drafts are sensible.

    State: ``cells``, float32 [CELLS, 3]: hits, trials and their ratio. A cell is halved at 1,000 trials, so
    that it follows what changes.
    """

    def __init__(self) -> None:
        # A longer and more frequent context says more; a single occurrence of one token says little.
        seen = (_LENGTHS**0.8)[:, None] * (_COUNTS**0.5)[None, :]
        trust = 0.97 * (1 - 1 / (1 + 0.5 * seen))
        rate = trust[:, :, None] * _SHARES[None, None, :]
        rates = np.broadcast_to(rate, (native.SOURCES, *rate.shape)).reshape(native.CELLS)
        self.cells: NDArray[np.float32] = np.zeros((native.CELLS, 3), np.float32)
        self.cells[:, native.HITS] = _PRIOR_TRIALS * rates
        self.cells[:, native.TRIALS] = _PRIOR_TRIALS
        self.cells[:, native.RATE] = rates

    def learn(self, rows: NDArray[np.int32], grown: int, emitted: NDArray[np.int32]) -> int:
        """Update the cells with what the target wrote; return how many rows it confirmed.

        Args:
            rows: int32 [nodes + 1, ROW_FIELDS], as ``native.draft`` left them; SOURCE is overwritten.
            grown: how many rows to judge.
            emitted: int32 [accepted + 1], the target's tokens.

        Cost: O(grown).
        """
        return int(native.learn(rows, grown, emitted, self.cells, _MEMORY))

    @property
    def nbytes(self) -> int:
        """Allocated bytes."""
        return self.cells.nbytes
