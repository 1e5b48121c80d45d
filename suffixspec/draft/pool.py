"""Draft trees made of several: one drafter's, and paths that others know of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from suffixspec.cost import best_prefix
from suffixspec.draft.tree import EMPTY, DraftTree

_LEAST = 2.0**-10  # as in the index's drafts: what is less probable is not worth a place


class DraftPool:
    """A draft tree that paths are added to, and the part of it that pays.

    Args:
        draft: what there is already.
        sources: int32 [nodes], where its nodes came from.

    Everything here costs some µs for each node.
    """

    def __init__(self, draft: DraftTree, sources: NDArray[np.int32]) -> None:
        self.tokens: list[int] = draft.token_ids.tolist()
        """Of each node; more may come, in the order in which they are added."""
        self.children: dict[int, dict[int, int]] = {}
        """By node (-1: the context) and token: the child."""
        self._parents: list[int] = draft.parents.tolist()
        self._sources: list[int] = sources.tolist()
        self._dropped: set[int] = set()
        self._paths: list[float] = draft.probs.tolist()
        self._given = [  # probability of each node given its parent
            path / max(self._paths[parent] if parent >= 0 else 1.0, 1e-9)
            for path, parent in zip(self._paths, self._parents, strict=True)
        ]
        for node, (token, parent) in enumerate(zip(self.tokens, self._parents, strict=True)):
            self.children.setdefault(parent, {})[token] = node

    def __len__(self) -> int:
        """Number of nodes, dropped ones included."""
        return len(self.tokens)

    def add_chain(self, tokens: Sequence[int], given: Iterable[float], source: int, parent: int = -1) -> None:
        """Add a path below ``parent``; where a node is there already, the stronger evidence counts.

        Args:
            tokens: of the path, downwards.
            given: the probability of each, given the one before it.
            source: where new nodes come from.
            parent: a node, or -1 for the context.
        """
        path = self._paths[parent] if parent >= 0 else 1.0
        for token, rate in zip(tokens, given, strict=False):
            path *= rate
            if path < _LEAST:
                return
            below = self.children.setdefault(parent, {})
            node = below.get(token)
            if node is None:
                node = below[token] = len(self.tokens)
                self.tokens.append(token)
                self._parents.append(parent)
                self._given.append(rate)
                self._paths.append(path)
                self._sources.append(source)
            else:
                self._given[node] = max(self._given[node], rate)
                self._paths[node] = max(self._paths[node], path)
            parent = node

    def drop(self, node: int) -> None:
        """Leave a node out, and with it all that hangs on it."""
        below = self.children[self._parents[node]]
        if below.get(self.tokens[node]) == node:
            del below[self.tokens[node]]
        self._dropped.add(node)

    def tree(self, most: int, costs: NDArray[np.float32] | None) -> tuple[DraftTree, NDArray[np.int32]]:
        """The most probable nodes, at most ``most`` and as many as pay; and their sources, int32 [nodes].

        Args:
            most: upper bound of the nodes.
            costs: float32 [m + 1], t(k + 1) / t(1) for a draft of k nodes; None takes all that there is room
                for.
        """
        paths = [0.0] * len(self.tokens)
        for node, parent in enumerate(self._parents):  # parents come first
            if node in self._dropped or parent in self._dropped:
                self._dropped.add(node)
                continue
            siblings = self.children[parent]
            # Siblings exclude one another, so together they are certain at most.
            total = 1.0
            if len(siblings) > 1:
                total = max(1.0, sum(self._given[sibling] for sibling in siblings.values()))
            paths[node] = (paths[parent] if parent >= 0 else 1.0) * min(self._given[node], 1.0) / total
        if costs is not None:
            most = min(most, costs.shape[0] - 1)
        # Of equally probable nodes the earlier one first: so a parent comes before its children.
        kept = (node for node in range(len(paths)) if node not in self._dropped)
        order = sorted(kept, key=lambda node: (-paths[node], node))[:most]
        if costs is not None:
            order = order[: best_prefix([paths[node] for node in order], costs)]
        if not order:
            return EMPTY, np.zeros(0, np.int32)
        place = {node: index for index, node in enumerate(order)}
        tree = DraftTree(
            np.array([self.tokens[node] for node in order], np.int32),
            np.array([place.get(self._parents[node], -1) for node in order], np.int32),
            np.array([paths[node] for node in order], np.float32),
            validate=False,
        )
        return tree, np.array([self._sources[node] for node in order], np.int32)
