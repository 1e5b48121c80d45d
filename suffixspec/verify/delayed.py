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
        opening: waits for that token only where the output begins with this one, and begins at once where it
            does not: for a model that opens its reasoning itself, if it wants any. None always waits.
    """

    def __init__(self, inner: Constraint, token_id: int, *, opening: int | None = None) -> None:
        self._inner = inner
        self._token_id = token_id
        self._opening = opening

    def begin(
        self,
        *,
        max_nodes: int,
        costs: Callable[[], NDArray[np.float32] | None],
        drafts: bool = True,
    ) -> DelayedState:
        """See ``Constraint.begin``."""
        inner = self._inner.begin(max_nodes=max_nodes, costs=costs, drafts=drafts)
        return DelayedState(inner, self._token_id, self._opening)


class DelayedState:
    """A ``ConstraintState`` that waits for a token."""

    def __init__(self, inner: ConstraintState, token_id: int, opening: int | None) -> None:
        self._inner = inner
        self._token_id = token_id
        self._opening = opening  # None: the output has begun, or always waits
        self._begun = False

    def extend(self, draft: DraftTree, max_nodes: int | None) -> DraftTree:
        """See ``ConstraintState.extend``; nothing is drafted across the token, or behind the two beginnings."""
        if self._begun:
            return self._inner.extend(draft, max_nodes)
        if self._opening is not None:
            if self._begins_inside(draft):
                return self._inner.extend(draft, max_nodes)
            draft = _without(draft, (draft.parents < 0) & (draft.token_ids != self._opening))
        borders = np.flatnonzero(draft.token_ids == self._token_id)
        return _without(draft, np.isin(draft.parents, borders))

    def allowed(self, draft: DraftTree, logits: torch.Tensor) -> torch.Tensor | LogitsAt:
        """See ``ConstraintState.allowed``."""
        if self._begun:
            return self._inner.allowed(draft, logits)
        borders = np.flatnonzero(draft.token_ids == self._token_id)
        if self._opening is None and not borders.size:
            return logits
        masked = logits.clone()
        if self._opening is not None:
            inside = draft if self._begins_inside(draft) else EMPTY  # the part that the inner one speaks of
            rows = self._inner.allowed(inside, logits[: len(inside) + 1])
            for node in range(-1, len(inside)):
                masked[node + 1] = _row(rows, node)
            masked[0, self._opening] = logits[0, self._opening]
            if len(inside):
                return masked
        for node in borders.tolist():
            masked[node + 1] = _row(self._inner.allowed(EMPTY, logits[node + 1 : node + 2]), -1)
        return masked

    def accept(self, token_ids: Sequence[int]) -> None:
        """See ``ConstraintState.accept``."""
        if self._opening is not None and token_ids:
            self._begun = token_ids[0] != self._opening
            self._opening = None
        if not self._begun:
            if self._token_id not in token_ids:
                return
            self._begun = True
            token_ids = token_ids[list(token_ids).index(self._token_id) + 1 :]
        self._inner.accept(token_ids)

    def _begins_inside(self, draft: DraftTree) -> bool:
        """Whether no node of the draft opens the reasoning, so that all of it is the inner constraint's."""
        return not (draft.token_ids[draft.parents < 0] == self._opening).any()


def _without(draft: DraftTree, leave: NDArray[np.bool_]) -> DraftTree:
    """The draft without the nodes that ``leave`` (bool [k]) marks, and all that hangs on them."""
    if not leave.any():
        return draft
    pool = DraftPool(draft, np.zeros(len(draft), np.int32))
    for node in np.flatnonzero(leave).tolist():
        pool.drop(node)
    return pool.tree(len(draft), None)[0]


def _row(rows: torch.Tensor | LogitsAt, node: int) -> torch.Tensor:
    return rows[node + 1] if isinstance(rows, torch.Tensor) else rows(node)
