"""Acceptance against a recorded text: the target's choices are known beforehand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from suffixspec.draft.tree import DraftTree


def accept_recorded(draft: DraftTree, target: NDArray[np.int32]) -> list[int]:
    """The nodes of ``draft`` that a target which writes ``target`` confirms, in order.

    Invariant: the accepted nodes spell a prefix of ``target``, the longest that the draft holds. This is
    greedy acceptance with the argmax at each node given by the record.

    Args:
        draft: the draft tree.
        target: int32 [m], what the target writes next.

    Returns:
        Node indices from the context downwards; at most m.

    Cost: O(nodes): siblings differ and parents come before their children, so one pass is a walk.
    """
    wanted = target[: len(draft)].tolist()
    accepted: list[int] = []
    at = -1
    for node, (parent, token) in enumerate(
        zip(draft.parents.tolist(), draft.token_ids.tolist(), strict=True)
    ):
        if len(accepted) == len(wanted):
            break
        if parent == at and token == wanted[len(accepted)]:
            accepted.append(node)
            at = node
    return accepted
