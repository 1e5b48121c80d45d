"""What a forward costs where this engine runs: a cost curve, corrected by what steps took."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from suffixspec.cost import CostCurve

_PAIRS = float(1 << 17)
"""Unit of (draft token, context token) pairs: 32 tokens behind 4,096."""
_CONTEXT = 4096.0
"""Unit of context tokens."""
# Standard deviations before anything was seen, in plain steps; of what is off the curve, in the curve's own values.
_LEVEL = _BY_CONTEXT = _BY_PAIRS = _OFF_CURVE = 0.5
_ALIKE = 2.0  # widths that are this many doublings apart are off alike, by 1/e
_NOISE = 0.1  # of a step's time
_MEMORY = 1000.0  # steps after which what was seen counts for a third
_WIDEST_SURPRISE = 2.0  # standard deviations
_FIRST = 4  # steps, of which the fastest tells the unit: an engine's very first ones may be slow


class ForwardTime:
    """t(n, S, P): the time of a forward over n tokens whose sequences have S tokens of context together.

    Every draft token attends to the context of its sequence, so that a draft costs more behind a long one: P is the
    number of such pairs. With the curve c, scaled by the first steps,

        t(n, S, P) = level · c(n) + off(n) + by_context · S + by_pairs · P

    where ``off`` is linear between widths of powers of two. All these are Gaussian, at first as vague as a curve of
    another machine and model is, and learned from each step by a Kalman filter (R. E. Kalman, 1960). What was seen
    fades, and a width that was not tried for long returns to the curve, so that it is tried again where that pays.
    Neighbouring widths are off alike: what is seen at one tells of the others. A surprise is cut to two standard
    deviations (P. J. Huber, 1964), since a stall of the machine is no slow forward.

    Args:
        curve: what a forward costs as far as is known; only its shape matters.
        widest: tokens of the widest forward; beyond, the last slope holds.
        learn: whether steps correct it. False: t(n, S, P) = c(n).
    """

    def __init__(self, curve: CostCurve, *, widest: int, learn: bool = True) -> None:
        widest = max(widest, 2)
        self.learns = learn
        self.steps = 0
        """Steps that were learned from."""
        # Of forwards over 1 … widest tokens, or those that they are padded to: log2 of their width, and c of it.
        widths = curve.padded(np.arange(1, widest + 1))
        self._log2 = np.log2(widths)
        self._curve = curve.times(widest - 1) / curve.t1_ms
        self._knots = np.arange(math.ceil(math.log2(max(widest, widths[-1]))) + 1, dtype=np.float64)
        at = curve.times(1 << (len(self._knots) - 1))[(1 << np.arange(len(self._knots))) - 1] / curve.t1_ms
        # State: level, by context, by pairs, off at each knot; in units of a plain step, which the first ones tell.
        self._unit_ms = curve.t1_ms
        self._state = np.zeros(3 + len(at))
        self._state[0] = 1.0
        apart = np.abs(self._knots[:, None] - self._knots[None, :])
        self._vague = np.zeros((len(self._state),) * 2)
        self._vague[:3, :3] = np.diag([_LEVEL**2, _BY_CONTEXT**2, _BY_PAIRS**2])
        self._vague[3:, 3:] = np.outer(at, at) * _OFF_CURVE**2 * np.exp(-apart / _ALIKE)
        self._covariance = self._vague.copy()
        self._first: list[tuple[int, int, int, float]] = []

    @property
    def ms_per_pair(self) -> float:
        """What one draft token costs more for one token of context."""
        return max(float(self._state[2]), 0.0) * self._unit_ms / _PAIRS

    def times(self, width: int, most: int, *, context: int = 0) -> NDArray[np.float64]:
        """Ms of forwards over ``width`` + k tokens for k = 0 … ``most``, without what pairs cost: float64 [most + 1].

        Args:
            width: >= 1.
            most: >= 0.
            context: tokens of context, of all its sequences.

        Never falling in k. Cost: O(most), some 20 µs.
        """
        known = slice(width - 1, width + most)
        level, by_context, _, *off = self._state.tolist()
        times = level * self._curve[known] + np.interp(self._log2[known], self._knots, off)
        if len(times) <= most:
            times = self._beyond(times, width, most)
        times += max(by_context, 0.0) * (context / _CONTEXT)
        # A plain step is the unit of all that pays: however wrong the rest, none is free.
        np.maximum(times, 1e-2, out=times)
        return np.maximum.accumulate(times) * self._unit_ms

    def observe(self, width: int, context: int, pairs: int, seconds: float) -> None:
        """Learn from a step.

        Args:
            width: tokens of its forward, >= 1.
            context: tokens of context, of all its sequences.
            pairs: for all tokens but the first of each sequence, the length of its context, added up.
            seconds: what it took, > 0.

        Cost: O(log² widest), some 25 µs.
        """
        if not self.learns or not seconds > 0.0:
            return
        self.steps += 1
        if self.steps > _FIRST:
            self._learn(width, context, pairs, seconds)
            return
        self._first.append((width, context, pairs, seconds))
        if self.steps == _FIRST:
            self._unit_ms = min(
                1e3 * step[3] / self._curve[min(step[0], len(self._curve)) - 1] for step in self._first
            )
            for step in self._first:
                self._learn(*step)

    def _learn(self, width: int, context: int, pairs: int, seconds: float) -> None:
        width = min(width, len(self._curve)) - 1
        row = np.zeros_like(self._state)
        row[:3] = self._curve[width], context / _CONTEXT, pairs / _PAIRS
        log2 = float(self._log2[width])
        below = min(int(log2), len(self._knots) - 2)
        row[3 + below], row[4 + below] = 1.0 - (log2 - below), log2 - below
        # What may have changed since the last step.
        keep = 1.0 - 1.0 / _MEMORY
        self._state[3:] *= keep
        self._covariance *= keep**2
        self._covariance += self._vague * (1.0 - keep**2)
        # What this one says.
        expected = float(row @ self._state)
        along = self._covariance @ row
        variance = float(row @ along) + (_NOISE * max(expected, 0.1)) ** 2
        surprise = 1e3 * seconds / self._unit_ms - expected
        # A cut surprise counts as one of a less certain step, so that the next one like it is as welcome.
        variance *= max(1.0, abs(surprise) / (_WIDEST_SURPRISE * math.sqrt(variance)))
        self._state += along * (surprise / variance)
        self._covariance -= along[:, None] * (along / variance)

    def _beyond(self, times: NDArray[np.float64], width: int, most: int) -> NDArray[np.float64]:
        """Those of known widths, and of wider ones, to which the curve's last slope leads."""
        level, *_, last = self._state.tolist()
        slope = max(level * float(self._curve[-1] - self._curve[-2]), 0.0)
        n = np.arange(max(width, len(self._curve) + 1), width + most + 1)
        return np.concatenate((times, level * self._curve[-1] + last + slope * (n - len(self._curve))))
