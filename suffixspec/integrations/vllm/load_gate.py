"""How many tokens each sequence of a batch may propose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from suffixspec.cost import CostCurve


class LoadGate:
    """Shares one forward among the drafts of a batch, by what a token more is worth.

    A forward checks the drafts of all sequences together. With b sequences and K draft tokens of path
    probabilities p it yields b + Σp tokens in expectation, and costs t(width + K). The tokens of all chains go in by
    falling probability, and the K is taken where yield per time is largest: none where nothing pays, which is what
    happens to drafts when many sequences have made a forward wide.

    Args:
        curve: what a forward costs.
        widest: tokens of the widest forward; beyond, the curve's last slope holds.
    """

    def __init__(self, curve: CostCurve, *, widest: int) -> None:
        self._times = curve.table(max(widest, 1))  # t(n + 1) / t(1) for n = 0 …

    def times(self, width: int, most: int) -> NDArray[np.float32]:
        """float32 [most + 1]: t(width + k) for k = 0 … ``most`` tokens more; ``width`` >= 1. Cost: O(most)."""
        start = min(width, len(self._times)) - 1
        times = self._times[start : start + most + 1]
        missing = most + 1 - len(times)
        if missing:
            slope = max(float(self._times[-1] - self._times[-2]), 0.0)
            more = self._times[-1] + slope * np.arange(1, missing + 1, dtype=np.float32)
            times = np.concatenate((times, more))
        return times

    def allot(
        self, chains: Sequence[Sequence[float]], *, sequences: int, width: int, most: int | None = None
    ) -> list[int]:
        """How many tokens of each chain go into the next forward.

        Args:
            chains: for each, the probability that each of its tokens is accepted, falling along the chain.
            sequences: those of the batch that the forward yields a token for anyway, >= 1.
            width: tokens of the forward without drafts, prefilled ones included, >= 1.
            most: draft tokens of all chains together.

        Returns:
            A length per chain, in their order. Cost: O(n log n) for n tokens in all chains.
        """
        lengths = [len(chain) for chain in chains]
        total = sum(lengths)
        if not total:
            return lengths
        probs = np.concatenate([np.asarray(chain, np.float64) for chain in chains])
        owners = np.repeat(np.arange(len(chains)), lengths)
        # Along a chain they fall, and equal ones keep their order: a token never goes in before its parent.
        order = np.argsort(-probs, kind="stable")
        if most is not None:
            order = order[:most]
        gains = np.concatenate(([0.0], np.cumsum(probs[order]))) + sequences
        gains /= self.times(width, len(order))
        taken = order[: int(np.argmax(gains))]
        return np.bincount(owners[taken], minlength=len(chains)).tolist()
