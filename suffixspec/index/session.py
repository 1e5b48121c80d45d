"""The index of one agent loop: one tree, kept as long as the session, and cursors into the history."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suffixspec.index.generations import GenerationalCursor, GenerationalIndex
from suffixspec.index.sealed import SealedCursor, SealedIndex
from suffixspec.index.suffix_tree import SuffixTree, known_tokens

OVERLAP = 64
"""Tokens of left context that are repeated, uncounted, where the context leaves the tree's text."""


class SessionIndex:
    """Everything one agent loop has read or written, indexed once.

    The *context* is the token sequence that the target sees now. A new turn's prompt normally continues it,
    and only the new tokens are appended. Where a prompt departs from it (a side request, a cut-back, a
    template that renders an earlier turn differently), the tree keeps all that it has: a sentinel goes in,
    then the last ``OVERLAP`` tokens before the departure, uncounted, so that the new text keeps its left
    context, and then what is new.

    One writer at a time, and no reader during a write.

    Args:
        history: the namespace's earlier outputs, matched beside the session's own tree; None for none. Its
            sealed part is matched by the last ``OVERLAP`` tokens of each block.
        prior: text that every session shares, likewise.
    """

    def __init__(self, *, history: GenerationalIndex | None = None, prior: SealedIndex | None = None) -> None:
        self.tree = SuffixTree()
        self.history: GenerationalCursor | None = None if history is None else history.cursor()
        self.prior: SealedCursor | None = None if prior is None else prior.cursor()
        self.sealed: SealedCursor | None = None
        self._context = np.zeros(1024, np.int32)
        self._length = 0
        self.refresh()

    @property
    def context(self) -> NDArray[np.int32]:
        """int32 [n]: read-only view of the current context. Valid until the next change."""
        view = self._context[: self._length]
        view.flags.writeable = False
        return view

    @property
    def nbytes(self) -> int:
        """Allocated capacity in bytes; the history is not the session's."""
        return self.tree.nbytes + self._context.nbytes

    def sync(self, token_ids: ArrayLike, *, checked: bool = False) -> int:
        """Make ``token_ids`` the context; return how many of its first tokens were the context already.

        Changes the index. Cost: O(new tokens), plus a comparison of the common prefix.

        Args:
            token_ids: int [n].
            checked: they come from ``as_tokens``, which is not asked again.

        Raises:
            TypeError: not integers.
            ValueError: not one-dimensional, or a token out of range (nothing changes).
        """
        wanted = known_tokens(token_ids, checked)
        shared = min(self._length, wanted.shape[0])
        differs = np.flatnonzero(self._context[:shared] != wanted[:shared])
        common = int(differs[0]) if differs.size else shared
        if common < self._length:
            self.tree.end_sequence()
            self.tree.extend(wanted[max(0, common - OVERLAP) : common], counted=False)
            self._length = common
            if self.history is not None:
                self.history.reset()
                self.history.extend(wanted[max(0, common - OVERLAP) : common])
            for cursor in (self.sealed, self.prior):
                if cursor is not None:
                    cursor.reset()
                    cursor.extend(wanted[max(0, common - OVERLAP) : common])
        self._append(wanted[common:])
        return common

    def extend(self, token_ids: ArrayLike, *, checked: bool = False) -> None:
        """Append tokens to the context. Changes the index. Cost: amortised O(1) per token.

        Args:
            token_ids: int [k].
            checked: they come from ``as_tokens``, which is not asked again.

        Raises:
            TypeError: not integers.
            ValueError: not one-dimensional, or a token out of range (nothing changes).
        """
        self._append(known_tokens(token_ids, checked))

    def _append(self, tokens: NDArray[np.int32]) -> None:
        end = self._length + tokens.shape[0]
        if end > self._context.shape[0]:
            grown = np.zeros(max(end, self._context.shape[0] * 6 // 5), np.int32)
            grown[: self._length] = self._context[: self._length]
            self._context = grown
        self._context[self._length : end] = tokens
        self._length = end
        self.tree.extend(tokens, checked=True)
        if self.history is not None:
            self.history.extend(tokens, checked=True)
        # A prompt's thousands of tokens are not followed one by one: a sealed match counts no further.
        block = tokens if tokens.shape[0] <= OVERLAP else tokens[-OVERLAP:]
        for cursor in (self.sealed, self.prior):
            if cursor is not None:
                if block is not tokens:
                    cursor.reset()
                cursor.extend(block, checked=True)

    def take_prior(self, prior: SealedIndex) -> None:
        """Match a text that every session shares, from here on. Cost: O(``OVERLAP``)."""
        self.prior = self._cursor(prior)

    def refresh(self) -> None:
        """Look at history's sealed part as it is now. Cost: O(1), and O(``OVERLAP``) where it was exchanged."""
        sealed = None if self.history is None else self.history.index.sealed
        if sealed is not (None if self.sealed is None else self.sealed.index):
            self.sealed = None if sealed is None else self._cursor(sealed)

    def _cursor(self, index: SealedIndex) -> SealedCursor:
        """A cursor that stands where the context ends."""
        cursor = index.cursor()
        cursor.extend(self._context[max(0, self._length - OVERLAP) : self._length])
        return cursor
