"""Drafting from a prediction of the output, beside what the indexes say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suffixspec.draft.alignment import (
    CELLS,
    FOLLOWED,
    INSERTED,
    MATCHED,
    REPLACED,
    START,
    Alignment,
    followed,
)
from suffixspec.draft.drafter import DraftSession
from suffixspec.draft.pool import DraftPool
from suffixspec.draft.tree import DraftTree

PREDICTION = 3
"""In ``sources``: the node was drafted from the prediction."""

_PRIOR = {
    START: (0.8,),
    FOLLOWED: (0.85, 0.9, 0.93, 0.96, 0.98, 0.99),
    MATCHED: (0.3, 0.5, 0.7, 0.85, 0.93, 0.97),
    REPLACED: (0.4, 0.3, 0.15),
    INSERTED: (0.25, 0.2, 0.15),
}
_PRIOR_TRIALS = 8.0
_MEMORY = 1000.0


class PredictionTrust:
    """How often predictions were right, by the kind of evidence, greedy and sampled apart; learned online.

    Holds frequencies and no text. State: float64 [2, CELLS] hits and trials.
    """

    def __init__(self) -> None:
        rates = np.zeros(CELLS)
        for first, values in _PRIOR.items():
            rates[first : first + len(values)] = values
        self._trials = np.full((2, CELLS), _PRIOR_TRIALS)
        self._hits = self._trials * rates

    def rates(self, temperature: float) -> list[float]:
        """Float [CELLS]: the probability that a token is right whose evidence is of that kind."""
        row = int(temperature > 0.0)
        rates: list[float] = (self._hits[row] / self._trials[row]).tolist()
        return rates

    def learn(self, cell: int, hit: bool, temperature: float) -> None:
        """A token with that evidence was right, or was not. Cost: O(1)."""
        at = int(temperature > 0.0), cell
        if self._trials[at] >= _MEMORY:
            self._trials[at] *= 0.5
            self._hits[at] *= 0.5
        self._trials[at] += 1.0
        self._hits[at] += hit


class PredictedDraftSession:
    """A ``DraftSession`` for one call with a prediction, around the session's own.

    The inner session does all that it does otherwise, so that the call's output is indexed as any other; what
    the prediction says is added to its drafts, and what pays of both together is drafted. The prediction itself
    enters no index: it is gone with this object.

    Args:
        inner: the session's own drafting.
        alignment: the output's place in the prediction.
        trust: what predictions were worth so far.
        max_nodes: upper bound of a draft.
        costs: gives float32 [max_nodes + 1], t(k + 1) / t(1) for a draft of k nodes; or None, to draft all.
        drafts: False only keeps account of the prediction.
    """

    def __init__(
        self,
        inner: DraftSession,
        alignment: Alignment,
        trust: PredictionTrust,
        *,
        max_nodes: int,
        costs: Callable[[], NDArray[np.float32] | None],
        drafts: bool = True,
    ) -> None:
        self.inner = inner
        self.alignment = alignment
        self._trust = trust
        self._max_nodes = max_nodes
        self._costs = costs
        self._drafts = drafts
        self._temperature = 0.0
        self._learns = True
        self._sources = np.zeros(0, np.int32)

    def sync(self, prompt_ids: ArrayLike, *, temperature: float = 0.0, learn: bool = True) -> int:
        """Begin the turn; see ``DraftSession``."""
        self._temperature, self._learns = temperature, learn
        return self.inner.sync(prompt_ids, temperature=temperature, learn=learn)

    def draft(self, max_nodes: int | None = None) -> DraftTree:
        """What the indexes and the prediction say, as far as it pays.

        Cost: the inner draft, and some µs for each node.
        """
        draft = self.inner.draft(max_nodes)
        most = self._max_nodes if max_nodes is None else min(max_nodes, self._max_nodes)
        chains = list(self.alignment.chains()) if self._drafts and most > 0 else []
        self._sources = self.inner.sources(len(draft))
        if not chains:
            return draft
        pool = DraftPool(draft, self._sources)
        rates = self._trust.rates(self._temperature)
        for tokens, cell, run in chains:
            given = [rates[cell], *(rates[followed(run + depth)] for depth in range(1, most))]
            pool.add_chain(tokens[:most].tolist(), given, PREDICTION)
        draft, self._sources = pool.tree(most, self._costs())
        return draft

    def accept(self, emitted: NDArray[np.int32]) -> None:
        """Append the target's tokens (int32 [accepted + 1]) and learn what the prediction was worth."""
        self.inner.accept(emitted)
        for token in np.asarray(emitted).tolist():
            for cell, hit in self.alignment.push(token):
                if self._learns:
                    self._trust.learn(cell, hit, self._temperature)

    def sources(self, nodes: int) -> NDArray[np.int32]:
        """int32 [nodes]: as ``DraftSession``, and ``PREDICTION`` for nodes that only the prediction has."""
        return self._sources[:nodes]

    def end_turn(self) -> None:
        """The model's output is complete."""
        self.inner.end_turn()

    def close(self) -> None:
        """End the session."""
        self.inner.close()

    @property
    def nbytes(self) -> int:
        """Allocated bytes, the prediction included."""
        return self.inner.nbytes + self.alignment.token_ids.nbytes

    @property
    def indexed_tokens(self) -> int:
        """Tokens that the session's indexes hold."""
        return self.inner.indexed_tokens
