"""Constraints that begin behind a border: free reasoning first, then an output in the format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from suffixspec.draft.pool import DraftPool
from suffixspec.draft.tree import EMPTY, DraftTree

if TYPE_CHECKING:
    from suffixspec.verify.constraint import Constraint, ConstraintState
    from suffixspec.verify.generation import LogitsAt


@dataclass(frozen=True, slots=True)
class Border:
    """Where the bound part of an output begins: behind a token, or behind it under a header.

    A place towards it is a number, 0 at the start of an output; ``behind`` is beyond the border.
    """

    token_id: int
    """The token that it begins behind."""
    header: tuple[int, ...] = ()
    """Tokens that must come before that one, in a row; anything may stand between them and it. Where the header's
    first token comes again, it begins anew."""

    @property
    def behind(self) -> int:
        """The place beyond the border."""
        return len(self.header) + 1

    def after(self, place: int, token: int) -> int:
        """The place after one more token; beyond the border it is ``behind`` for good."""
        whole = len(self.header)
        if place > whole or (place == whole and token == self.token_id):
            return whole + 1
        if place < whole and token == self.header[place]:
            return place + 1
        if whole and token == self.header[0]:
            return 1
        return place if place == whole else 0


class DelayedConstraint:
    """A ``Constraint`` that allows everything up to a border, and behind it what another one allows.

    Args:
        inner: the other one.
        border: where it begins, the first time that the border is there.
        opening: waits for the border only where the output begins with this token, and begins at once where it
            does not: for a model that opens its reasoning itself, if it wants any. None always waits.
    """

    def __init__(self, inner: Constraint, border: Border, *, opening: int | None = None) -> None:
        self._inner = inner
        self._border = border
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
        return DelayedState(inner, self._border, self._opening)


class DelayedState:
    """A ``ConstraintState`` that waits for a border."""

    def __init__(self, inner: ConstraintState, border: Border, opening: int | None) -> None:
        self._inner = inner
        self._border = border
        self._opening = opening  # None: the output has begun, or always waits
        self._place = 0

    def extend(self, draft: DraftTree, max_nodes: int | None) -> DraftTree:
        """See ``ConstraintState.extend``; nothing is drafted across the border, or behind the two beginnings."""
        if self._begun:
            return self._inner.extend(draft, max_nodes)
        if self._opening is not None:
            if self._begins_inside(draft):
                return self._inner.extend(draft, max_nodes)
            draft = _without(draft, (draft.parents < 0) & (draft.token_ids != self._opening))
        return _without(draft, np.isin(draft.parents, self._borders(draft)))

    def allowed(self, draft: DraftTree, logits: torch.Tensor) -> torch.Tensor | LogitsAt:
        """See ``ConstraintState.allowed``."""
        if self._begun:
            return self._inner.allowed(draft, logits)
        borders = self._borders(draft)
        if self._opening is None and not borders:
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
        for node in borders:
            masked[node + 1] = _row(self._inner.allowed(EMPTY, logits[node + 1 : node + 2]), -1)
        return masked

    def accept(self, token_ids: Sequence[int]) -> None:
        """See ``ConstraintState.accept``."""
        if self._opening is not None and token_ids:
            if token_ids[0] != self._opening:
                self._place = self._border.behind
            self._opening = None
        for number, token in enumerate(token_ids):
            if self._begun:
                self._inner.accept(token_ids[number:])
                return
            self._place = self._border.after(self._place, token)

    @property
    def _begun(self) -> bool:
        return self._place == self._border.behind

    def _borders(self, draft: DraftTree) -> list[int]:
        """The nodes of a draft behind which the inner constraint begins; none hangs on another."""
        places: list[int] = []
        found: list[int] = []
        for node, (parent, token) in enumerate(
            zip(draft.parents.tolist(), draft.token_ids.tolist(), strict=True)
        ):
            before = self._place if parent < 0 else places[parent]
            places.append(self._border.after(before, token))
            if before < places[node] == self._border.behind:
                found.append(node)
        return found

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
