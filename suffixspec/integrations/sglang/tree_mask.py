"""A draft tree in the form in which SGLang verifies it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from suffixspec.draft.tree import DraftTree

FILLER = 0
"""The token of nodes that are only there because SGLang asks for a fixed number; every vocabulary has it."""


def pack(pending: int, tree: DraftTree, nodes: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Exactly ``nodes`` tokens, and which of them each one sees.

    Node 0 is the pending token, the last of the context; the tree hangs on it. What is missing is filled up with a
    chain below the last node, which is a leaf: no filler has a sibling, so it takes no probability from any other
    node, and one that is accepted is a token that the target wanted.

    Args:
        pending: the last token of the context.
        tree: its first ``nodes`` - 1 nodes are used; parents come before their children.
        nodes: >= 1.

    Returns:
        Tokens, int64 [nodes], and the mask, bool [nodes, nodes]: ``mask[i, j]`` where j is i or an ancestor of i.
        Cost: O(nodes²).
    """
    kept = min(len(tree), nodes - 1)
    tokens = np.full(nodes, FILLER, np.int64)
    tokens[0] = pending
    tokens[1 : kept + 1] = tree.token_ids[:kept]
    parents = np.arange(-1, nodes - 1)
    parents[1 : kept + 1] = tree.parents[:kept] + 1
    mask = np.eye(nodes, dtype=np.bool_)
    for node, parent in enumerate(parents.tolist()):
        if parent >= 0:
            mask[node] |= mask[parent]
    return tokens, mask


def chain(tree: DraftTree) -> DraftTree:
    """A tree's most probable path: for kernels that verify chains only. Cost: O(nodes)."""
    kept = tree.best_chain()
    return DraftTree(
        tree.token_ids[kept], np.arange(-1, len(kept) - 1, dtype=np.int32), tree.probs[kept], validate=False
    )


def pack_batch(
    pending: Sequence[int], trees: Sequence[DraftTree], nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """All requests of a batch: int64 [requests · nodes] and bool [requests · nodes²], one after the other."""
    packed = [pack(last, tree, nodes) for last, tree in zip(pending, trees, strict=True)]
    if not packed:
        return np.zeros(0, np.int64), np.zeros(0, np.bool_)
    return (
        np.concatenate([tokens for tokens, _ in packed]),
        np.concatenate([mask.reshape(-1) for _, mask in packed]),
    )
