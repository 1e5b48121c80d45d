"""Constraints that begin behind a token: free reasoning first, then an output in the format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from suffixspec.draft.pool import DraftPool
from suffixspec.draft.tree import EMPTY, DraftTree

if TYPE_CHECKING:
    from suffixspec.verify.constraint import Constraint, ConstraintState
    from suffixspec.verify.generation import LogitsAt


class DelayedConstraint:
    """A ``Constraint`` that allows everything up to a token, and behind it what another one allows.

    Args:
        inner: the other one.
        token_id: the token that it begins behind, the first time that it is emitted.
    """

    def __init__(self, inner: Constraint, token_id: int) -> None:
        self._inner = inner
        self._token_id = token_id

    def begin(
        self,
        *,
        max_nodes: int,
        costs: Callable[[], NDArray[np.float32] | None],
        drafts: bool = True,
    ) -> DelayedState:
        """See ``Constraint.begin``."""
        return DelayedState(
            self._inner.begin(max_nodes=max_nodes, costs=costs, drafts=drafts), self._token_id
        )


class DelayedState:
    """A ``ConstraintState`` that waits for a token."""

    def __init__(self, inner: ConstraintState, token_id: int) -> None:
        self._inner = inner
        self._token_id = token_id
        self._begun = False

    def extend(self, draft: DraftTree, max_nodes: int | None) -> DraftTree:
        """See ``ConstraintState.extend``; nothing is drafted across the token."""
        if self._begun:
            return self._inner.extend(draft, max_nodes)
        borders = np.flatnonzero(draft.token_ids == self._token_id)
        if not np.isin(draft.parents, borders).any():
            return draft
        pool = DraftPool(draft, np.zeros(len(draft), np.int32))
        for node in np.flatnonzero(np.isin(draft.parents, borders)).tolist():
            pool.drop(node)
        return pool.tree(len(draft), None)[0]

    def allowed(self, draft: DraftTree, logits: torch.Tensor) -> torch.Tensor | LogitsAt:
        """See ``ConstraintState.allowed``."""
        if self._begun:
            return self._inner.allowed(draft, logits)
        borders = np.flatnonzero(draft.token_ids == self._token_id)
        if not borders.size:
            return logits
        masked = logits.clone()
        for node in borders.tolist():
            first = self._inner.allowed(EMPTY, logits[node + 1 : node + 2])
            masked[node + 1] = first[0] if isinstance(first, torch.Tensor) else first(-1)
        return masked

    def accept(self, token_ids: Sequence[int]) -> None:
        """See ``ConstraintState.accept``."""
        if not self._begun:
            if self._token_id not in token_ids:
                return
            self._begun = True
            token_ids = token_ids[list(token_ids).index(self._token_id) + 1 :]
        self._inner.accept(token_ids)
