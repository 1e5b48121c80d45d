"""The n-gram index: short contexts in fixed memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suffixspec.index.suffix_tree import as_tokens
from suffixspec.native import ngram as native


class NgramIndex:
    """Contexts of one to four tokens, each with its most frequent successors, in memory fixed from the start.

    Counts are lower bounds of the true counts: a context may have been evicted and come back, and rare
    successors wear one another down (Misra and Gries 1982). Two contexts whose 31-bit keys collide in one set
    share a row, which costs a drafter a wrong guess and nothing else.

    One writer at a time, and no reader during a write.

    Args:
        slots: contexts to keep, rounded up to a multiple of four. 44 bytes each.
    """

    def __init__(self, *, slots: int = 1 << 15) -> None:
        if slots < 1:
            raise ValueError(f"expected at least one slot, got {slots}")
        rows = -(-slots // native.WAYS) * native.WAYS
        # As the kernels take them; read-only for everybody else.
        self.table = np.zeros((rows, native.ROW_FIELDS), np.int32)
        self._cursor = NgramCursor(self)

    def extend(self, tokens: ArrayLike) -> None:
        """Count a block of tokens, int [k] of 0 to 2**31 - 1. Changes the index. Cost: O(4) per token.

        Raises:
            TypeError: not integers.
            ValueError: not one-dimensional, or a token out of range (nothing is counted).
        """
        self._cursor.extend(tokens)

    def end_sequence(self) -> None:
        """What comes next follows nothing. Changes the index. Cost: O(1)."""
        self._cursor.end_sequence()

    def clear(self) -> None:
        """Drop all counts, in place. Changes the index. Cost: O(slots)."""
        self.table[:] = 0

    def cursor(self) -> NgramCursor:
        """A place from which a text of its own is counted; several texts may take turns."""
        return NgramCursor(self)

    def successors(self, context: ArrayLike, order: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The successors of the last ``order`` tokens of ``context``, most frequent first. Changes nothing.

        Returns:
            (token ids int32 [m], counts int32 [m]), m from 0 to 4; a count is at most the true one.

        Raises:
            ValueError: order not from 1 to 4, or more than there are tokens.
        """
        tokens = as_tokens(context)
        if not 1 <= order <= min(native.ORDERS, tokens.shape[0]):
            raise ValueError(
                f"expected an order from 1 to {min(native.ORDERS, tokens.shape[0])}, got {order}"
            )
        row = native.find_context(self.table, tokens, tokens.shape[0], order)
        pairs = self.table[row, native.FIRST :].reshape(-1, 2) if row >= 0 else np.zeros((0, 2), np.int32)
        pairs = pairs[pairs[:, 1] > 0]
        pairs = pairs[np.argsort(-pairs[:, 1], kind="stable")]
        return pairs[:, 0].copy(), pairs[:, 1].copy()

    @property
    def nbytes(self) -> int:
        """Allocated bytes; fixed from the start."""
        return self.table.nbytes

    def check(self) -> None:
        """Verify every invariant; for tests. Cost: O(slots).

        Raises:
            AssertionError: names the broken row.
        """
        counts = self.table[:, native.FIRST + 1 :: 2]
        for row in np.flatnonzero(self.table[:, native.KEY]):
            held = counts[row]
            assert (held[held.argmin() :] == 0).all() or (held > 0).all(), (
                f"row {row} has a gap: {self.table[row]}"
            )
            assert held.max() <= self.table[row, native.TOTAL], (
                f"row {row} counts too much: {self.table[row]}"
            )
            tokens = self.table[row, native.FIRST :: 2][held > 0]
            assert len(set(tokens.tolist())) == tokens.size, (
                f"row {row} lists a token twice: {self.table[row]}"
            )
        empty = self.table[self.table[:, native.KEY] == 0]
        assert not empty.any(), "an empty row holds counts"


class NgramCursor:
    """One text that is being counted in an n-gram index."""

    def __init__(self, index: NgramIndex) -> None:
        self.index = index
        # As the kernels take it: the last four tokens, newest last, and how many of them are valid.
        self.tail = np.zeros(native.TAIL_FIELDS, np.int32)

    def extend(self, tokens: ArrayLike) -> None:
        """Count the next tokens of this text, int [k]. Changes the index. Cost: O(4) per token.

        Raises:
            TypeError: not integers.
            ValueError: not one-dimensional, or a token out of range (nothing is counted).
        """
        native.extend(self.index.table, self.tail, as_tokens(tokens))

    def end_sequence(self) -> None:
        """What comes next follows nothing. Cost: O(1)."""
        self.tail[:] = 0
