"""The draft tree: what a drafter proposes and a target verifies."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class DraftTree:
    """Proposed tokens, each with a parent. A frozen value; an empty draft is a tree of no nodes.

    Parents come before their children, and siblings have different tokens.

    Raises:
        ValueError: the arrays do not describe such a tree.
    """

    token_ids: NDArray[np.int32]
    """int32 [k]: node i proposes this token."""
    parents: NDArray[np.int32]
    """int32 [k]: index of the node before it, -1 for a node that follows the context."""
    probs: NDArray[np.float32]
    """float32 [k]: the probability that node i is accepted, given the context alone (not its parent)."""

    validate: InitVar[bool] = True
    """False skips the check, for a drafter that builds such trees by construction."""

    @classmethod
    def of_block(cls, block: NDArray[np.int32]) -> DraftTree:
        """A tree that is right by construction, over one block that it keeps; a third of the constructor's time.

        Args:
            block: int32 [3, k], C-contiguous: token ids, parents, and the bits of the probabilities as float32.
        """
        block.setflags(write=False)  # and so are the views of it
        tree = object.__new__(cls)
        fields = tree.__dict__
        fields["token_ids"], fields["parents"], fields["probs"] = (
            block[0],
            block[1],
            block[2].view(np.float32),
        )
        return tree

    def __post_init__(self, validate: bool) -> None:
        if validate:
            self._check()
        for array in (self.token_ids, self.parents, self.probs):
            array.flags.writeable = False

    def _check(self) -> None:
        k = self.token_ids.shape[0]
        if not self.token_ids.shape == self.parents.shape == self.probs.shape == (k,):
            raise ValueError(
                "expected token_ids, parents and probs of one length, got shapes "
                f"{self.token_ids.shape}, {self.parents.shape}, {self.probs.shape}"
            )
        wrong = np.flatnonzero((self.parents < -1) | (self.parents >= np.arange(k)))
        if wrong.size:
            i = int(wrong[0])
            raise ValueError(f"expected node {i} to have a parent from -1 to {i - 1}, got {self.parents[i]}")
        seen: set[tuple[int, int]] = set()
        for i, child in enumerate(zip(self.parents.tolist(), self.token_ids.tolist(), strict=True)):
            if child in seen:
                raise ValueError(
                    f"expected siblings with different tokens, got token {child[1]} again at node {i}"
                )
            seen.add(child)

    def __len__(self) -> int:
        """Number of nodes."""
        return self.token_ids.shape[0]

    @cached_property
    def depth(self) -> NDArray[np.int32]:
        """int32 [k]: 1 for a node that follows the context; position = context length + depth - 1."""
        depth = np.ones(len(self), np.int32)
        for i, parent in enumerate(self.parents.tolist()):
            if parent >= 0:
                depth[i] = depth[parent] + 1
        return depth

    @cached_property
    def ancestor_mask(self) -> NDArray[np.bool_]:
        """Bool [k, k]: node i may attend to node j, that is, j is i or an ancestor of i."""
        mask = np.eye(len(self), dtype=np.bool_)
        for i, parent in enumerate(self.parents.tolist()):
            if parent >= 0:
                mask[i] |= mask[parent]
        return mask

    def path(self, node: int) -> list[int]:
        """Node indices from the context down to ``node``, both ends included. Cost: O(depth)."""
        path = []
        while node >= 0:
            path.append(node)
            node = int(self.parents[node])
        return path[::-1]

    def paths(self) -> list[list[int]]:
        """Token ids of every path from the context to a leaf, in the order of the leaves. Cost: O(k × depth)."""
        inner = set(self.parents.tolist())
        return [
            [int(self.token_ids[i]) for i in self.path(leaf)]
            for leaf in range(len(self))
            if leaf not in inner
        ]

    def best_chain(self) -> list[int]:
        """Node indices of the most probable path, child by child. Cost: O(k).

        A target that verifies chains only is best served with this one.
        """
        chain: list[int] = []
        at = -1
        for i, parent in enumerate(self.parents.tolist()):
            # In descending probability, the first child that comes by is the most probable.
            if parent == at:
                chain.append(i)
                at = i
        return chain


EMPTY = DraftTree(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32))
"""The draft of no nodes: a plain step."""
