"""What earlier sessions wrote, per namespace, under one byte budget."""

from __future__ import annotations

import itertools

from numpy.typing import ArrayLike
from sortedcontainers import SortedDict

from suffixspec.index.generations import GenerationalIndex
from suffixspec.index.suffix_tree import as_tokens

CONTEXT = 16
"""Tokens before an output that go into the history with it, so that its first tokens can be drafted too."""


class History:
    """The outputs of earlier sessions; nothing crosses from one namespace to another.

    Each namespace is a ``GenerationalIndex`` of its own. When one more would exceed the total, the namespace
    that was used least recently leaves first.

    One writer at a time, and no reader during a write.

    Args:
        budget_bytes: upper bound of the memory of all namespaces together.
        namespace_bytes: upper bound of one namespace; a quarter of the total by default.
    """

    def __init__(self, *, budget_bytes: int = 1 << 30, namespace_bytes: int | None = None) -> None:
        self._budget = budget_bytes
        self._share = budget_bytes // 4 if namespace_bytes is None else namespace_bytes
        if self._share > budget_bytes:
            raise ValueError(
                f"expected namespace_bytes of at most budget_bytes ({budget_bytes}), got {self._share}"
            )
        GenerationalIndex(budget_bytes=self._share)  # raises when the share is too small
        self._clock = itertools.count()
        self._indexes: dict[str, GenerationalIndex] = {}
        self._last_use: dict[str, int] = {}
        self._by_use: SortedDict[int, str] = SortedDict()  # oldest use first

    def __contains__(self, namespace: str) -> bool:
        """Whether the namespace holds anything. Cost: O(1)."""
        return namespace in self._indexes

    def __len__(self) -> int:
        """Live tokens of all namespaces, sentinels included. Cost: O(namespaces)."""
        return sum(len(index) for index in self._indexes.values())

    @property
    def nbytes(self) -> int:
        """Allocated capacity in bytes, at most the budget. Cost: O(namespaces)."""
        return sum(index.nbytes for index in self._indexes.values())

    @property
    def namespace_bytes(self) -> int:
        """Upper bound of the memory of one namespace."""
        return self._share

    @property
    def namespaces(self) -> list[str]:
        """Names that hold something, the least recently used first. Cost: O(namespaces)."""
        return list(self._by_use.values())

    def index(self, namespace: str) -> GenerationalIndex:
        """The index of a namespace, made if need be; counts as a use. Cost: O(log namespaces).

        Making one may drop the least recently used namespaces: the budget has to hold the new one's share.
        """
        index = self._indexes.get(namespace)
        if index is None:
            index = GenerationalIndex(budget_bytes=self._share)
            self._indexes[namespace] = index
        before = self._last_use.get(namespace)
        if before is not None:
            del self._by_use[before]
        now = next(self._clock)
        self._last_use[namespace] = now
        self._by_use[now] = namespace
        return index

    def add(self, namespace: str, tokens: ArrayLike, *, context: ArrayLike = ()) -> None:
        """Append one output to a namespace. Changes the index; may drop old text or idle namespaces.

        Args:
            namespace: who shares this text.
            tokens: int [k], one output of a model.
            context: int [c], the end of the prompt that the output followed; the last ``CONTEXT`` are kept.

        Cost: as ``SuffixTree.extend``.

        Raises:
            TypeError: not integers.
            ValueError: not one-dimensional, or a token out of range (nothing is added).
        """
        self.index(namespace).add(tokens, context=as_tokens(context)[-CONTEXT:])
        self._keep_to_budget(namespace)

    def adopt(self, namespace: str, built: GenerationalIndex) -> None:
        """Put what was indexed aside before the text of a namespace; may drop old text or idle namespaces.

        Args:
            namespace: who shares this text.
            built: with a budget of at most ``namespace_bytes``; empty afterwards.

        Cost: as ``GenerationalIndex.adopt``.
        """
        self.index(namespace).adopt(built)
        self._keep_to_budget(namespace)

    def _keep_to_budget(self, namespace: str) -> None:
        while self.nbytes > self._budget:
            _, oldest = self._by_use.peekitem(0)
            if oldest == namespace:
                break  # its own share bounds it
            self.forget(oldest)

    def forget(self, namespace: str) -> None:
        """Drop a namespace; nothing happens when there is none. Cost: O(log namespaces)."""
        if namespace in self._indexes:
            del self._indexes[namespace]
            del self._by_use[self._last_use.pop(namespace)]

    def clear(self) -> None:
        """Drop the text of every namespace, also for the sessions that draft from it. Cost: O(namespaces)."""
        for index in self._indexes.values():
            index.clear()

    def check(self) -> None:
        """Verify every invariant; for tests.

        Raises:
            AssertionError: names what is broken.
        """
        assert self.nbytes <= self._budget, f"{self.nbytes} bytes exceed the budget of {self._budget}"
        assert set(self._by_use.values()) == set(self._indexes) == set(self._last_use), "namespaces differ"
        for index in self._indexes.values():
            index.check()
