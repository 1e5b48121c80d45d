"""The order of a text's suffixes, and what neighbours in it share: drives the kernels of ``native.suffix_array``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from suffixspec.errors import SuffixspecError
from suffixspec.native import suffix_array as native

Stop = Callable[[], bool]

SLICE = 1 << 20
"""Positions that a kernel works on between two looks at ``stop``: some 0.1 s."""
_DENSE = 1 << 24  # token ids up to which ranks come from a table


class StoppedError(SuffixspecError):
    """What was asked to stop has stopped; nothing is left behind."""


def slices(start: int, stop: int, asked: Stop | None, *, size: int = SLICE) -> Iterator[tuple[int, int]]:
    """Cut a range into slices, and look before each of them whether to go on.

    Raises:
        StoppedError: ``asked`` says stop.
    """
    for first in range(start, stop, size):
        if asked is not None and asked():
            raise StoppedError("expected to finish an index, got a request to stop")
        yield first, min(first + size, stop)


def backward(stop: int, asked: Stop | None) -> Iterator[tuple[int, int]]:
    """The slices of range(stop), the last one first.

    Raises:
        StoppedError: ``asked`` says stop.
    """
    for first, last in slices(0, stop, asked):
        yield stop - last, stop - first


def suffix_array(text: NDArray[np.int32], stop: Stop | None = None) -> NDArray[np.int32]:
    """The positions of a text in the order of their suffixes.

    A suffix is compared token by token to the end of the text; all negative tokens are alike and smaller than
    the others, and the end is smaller still.

    Args:
        text: int32 [n].
        stop: asked several times a second.

    Returns:
        int32 [n].

    Cost: O(n); 13 bytes per token at the peak, the text not counted (over 16 million different tokens, or ids
    above that: a sort of the ids on top, during which ``stop`` is not asked).

    Raises:
        StoppedError: ``stop`` said so.
    """
    symbols, size = _ranks(text, stop)
    return _sort(symbols, size, stop)


def _ranks(text: NDArray[np.int32], stop: Stop | None) -> tuple[NDArray[np.int32], int]:
    """Tokens as ranks without gaps, in their order; and how many there are."""
    n = text.shape[0]
    if n == 0:
        return text, 0
    if int(text.max()) >= _DENSE:
        different, ranks = np.unique(np.maximum(text, -1), return_inverse=True)
        return ranks.astype(np.int32), different.shape[0]
    present = np.zeros(int(text.max()) + 2, np.int32)
    for part in slices(0, n, stop):
        native.mark(text, present, *part)
    table = np.cumsum(present, dtype=np.int32) - 1
    symbols = np.empty(n, np.int32)
    for part in slices(0, n, stop):
        native.translate(text, table, symbols, *part)
    return symbols, int(table[-1]) + 1


def _sort(s: NDArray[np.int32], k: int, stop: Stop | None) -> NDArray[np.int32]:
    """Suffix array of symbols 0 to k - 1, each of which occurs."""
    n = s.shape[0]
    if n == k:  # a permutation: its inverse
        order = np.empty(n, np.int32)
        order[s] = np.arange(n, dtype=np.int32)
        return order
    types = np.empty(n, np.uint8)
    sizes, larger = np.zeros(k, np.int32), np.zeros(k, np.int32)
    for part in backward(n, stop):
        native.classify(s, types, sizes, larger, *part)
    ends = np.cumsum(sizes, dtype=np.int32)
    starts = ends - sizes
    found = 0
    for part in slices(0, n, stop):
        found = native.gather_lms(types, np.zeros(0, np.int32), found, *part)
    lms = np.empty(max(1, found), np.int32)
    at = 0
    for part in slices(0, n, stop):
        at = native.gather_lms(types, lms, at, *part)
    lms = lms[:found]
    sa = np.empty(n, np.int32)
    if found > 1:
        # LMS positions in any order within a bucket sort their substrings; the names of those are a shorter text.
        _induce(s, sa, starts, ends, starts + larger, lms, stop)
        order = np.empty(found, np.int32)
        at = 0
        for part in slices(0, n, stop):
            at = native.sorted_lms(types, sa, order, at, *part)
        names = np.empty(n // 2 + 1, np.int32)
        named = 0
        for part in slices(0, found, stop):
            named = native.name(s, types, order, names, named, *part)
        reduced = np.empty(found, np.int32)
        for part in slices(0, found, stop):
            native.rename(lms, names, reduced, *part)
        del names
        below = _sort(reduced, named, stop)
        for part in slices(0, found, stop):
            native.reorder(lms, below, order, *part)
        lms = order
    _induce(s, sa, starts, ends, starts + larger, lms, stop)
    return sa


def _induce(
    s: NDArray[np.int32],
    sa: NDArray[np.int32],
    starts: NDArray[np.int32],
    ends: NDArray[np.int32],
    smaller: NDArray[np.int32],
    lms: NDArray[np.int32],
    stop: Stop | None,
) -> None:
    """Sort all suffixes by those in ``lms``, whose order is right."""
    n = s.shape[0]
    for first, last in slices(0, n, stop):  # memory that nobody has touched yet takes its time
        sa[first:last] = -1
    for part in slices(0, lms.shape[0], stop):
        native.place(s, sa, smaller, lms, *part)
    heads = starts.copy()
    last = int(s[n - 1])  # the suffix of one token is L, and nothing stands after it that could induce it
    sa[heads[last]] = n - 1
    heads[last] += 1
    for part in slices(0, n, stop):
        native.induce_larger(s, sa, heads, *part)
    heads = ends.copy()
    for part in backward(n, stop):
        native.induce_smaller(s, sa, heads, *part)


def shared_prefixes(
    text: NDArray[np.int32], sa: NDArray[np.int32], most: int, stop: Stop | None = None
) -> NDArray[np.uint8]:
    """How many tokens each suffix shares with the one before it in ``sa``, none across a negative token.

    Args:
        text: int32 [n].
        sa: its suffix array.
        most: larger numbers are cut to this one; at most 255.
        stop: asked several times a second.

    Returns:
        uint8 [n], in the order of ``sa``.

    Cost: O(n); 6 bytes per token at the peak.

    Raises:
        StoppedError: ``stop`` said so.
    """
    n = text.shape[0]
    before = np.empty(n, np.int32)
    for part in slices(0, n, stop):
        native.link(sa, before, *part)
    shared = np.empty(n, np.uint8)
    length = 0
    for part in slices(0, n, stop):
        length = native.common(text, before, shared, most, length, *part)
    del before
    lcp = np.empty(n, np.uint8)
    for part in slices(0, n, stop):
        native.arrange(sa, shared, lcp, *part)
    return lcp
