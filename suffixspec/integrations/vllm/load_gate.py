"""How many tokens each sequence of a batch may propose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def allot(
    chains: Sequence[Sequence[float]],
    times: NDArray[np.float64],
    *,
    sequences: int,
    extra: Sequence[float] | None = None,
    most: int | None = None,
    least_gain: float = 1.0,
) -> list[int]:
    """Share one forward among the drafts of a batch, by what a token more is worth.

    A forward checks the drafts of all sequences together. With b sequences and K draft tokens of path probabilities p
    it yields b + Σp tokens in expectation, and takes times[K] + Σ extra. The tokens of all chains go in by falling
    probability per time, and the K is taken where yield per time is largest: none where nothing pays, which is what
    happens to drafts when many sequences have made a forward wide.

    Args:
        chains: for each, the probability that each of its tokens is accepted, falling along the chain.
        times: float64 [at least tokens of all chains + 1], > 0, never falling: a forward with so many of them.
        sequences: those of the batch that the forward yields a token for anyway, >= 1.
        extra: for each chain, what one of its tokens costs besides, behind a long context; None: nothing.
        most: draft tokens of all chains together.
        least_gain: yield per time, over that without drafts, below which there are none.

    Returns:
        A length per chain, in their order. Cost: O(n log n) for n tokens in all chains.
    """
    lengths = [len(chain) for chain in chains]
    total = sum(lengths)
    if not total:
        return lengths
    probs = np.concatenate([np.asarray(chain, np.float64) for chain in chains])
    owners = np.repeat(np.arange(len(chains)), lengths)
    besides = np.zeros(total) if extra is None else np.asarray(extra, np.float64)[owners]
    # Along a chain they fall, and equal ones keep their order: a token never goes in before its parent.
    worth = probs / (besides + max(float(times[total] - times[0]) / total, 1e-9))
    order = np.argsort(-worth, kind="stable")
    if most is not None:
        order = order[:most]
    gains = np.concatenate(([0.0], np.cumsum(probs[order]))) + sequences
    gains /= times[: len(gains)] + np.concatenate(([0.0], np.cumsum(besides[order])))
    best = int(np.argmax(gains))
    if gains[best] < least_gain * gains[0]:
        best = 0
    taken = order[:best]
    return np.bincount(owners[taken], minlength=len(chains)).tolist()
