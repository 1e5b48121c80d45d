"""The online suffix tree.

A worked example, the text ``1 2 1 2 3`` after all five tokens (positions 0 to 4)::

    (root) ── 1 2 ──> [A] ── 1 2 3 ──> leaf 0        A = "1 2", seen twice: followed by 1 once, by 3 once
       │               └──── 3 ──────> leaf 2
       ├───── 2 ────> [B] ── 1 2 3 ──> leaf 1        B = "2"; the suffix link of A points to B
       │               └──── 3 ──────> leaf 3
       └───── 3 ────> leaf 4

    text   1 2 1 2 3                 edges are positions in the text: A starts at 0 and ends 2 deep
    inner  0:root 1:A 2:B            COUNT 5 2 2, DEPTH 0 2 1, LINK - 2 0
    leaf   0..4                      one row per suffix: parent and neighbours, nothing else

Before the 3 came, the suffixes ``1 2`` and ``2`` were *pending*: they occurred before, so they had no leaves
of their own yet, and the active point stood at ``1 2``. That is the match a drafter wants, and it costs
nothing: the text's longest suffix that was seen before, and what followed it then (1).
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suffixspec.native import tree as native

SATURATION = native.SATURATION
"""Counts stop here: a drafter cannot tell 1,023 occurrences from more, and climbing further costs time."""

_GROWTH = 8  # arrays grow by an eighth ...
_LEAST_STEP = 16  # ... and at least by so many rows
_TOKEN_LIMIT = 2**31


class Growth:
    """Larger arrays for a tree, filled while it is read; see ``SuffixTree.growth``.

    What the tree had goes with this object: hold it until no lock is held, large memory takes a while to free.
    """

    def __init__(self, tree: SuffixTree, rows: int, inners: int, slots: int) -> None:
        self.tree = tree
        self._rows, self._inners, self._slots = rows, inners, slots
        self._old = tree.arrays
        self._state = tree.state.copy()
        self._new: tuple[Any, Any, Any, Any] | None = None

    def copy(self) -> None:
        """Copy the rows, as the first of three steps. Needs no lock: ``whole`` finds out what changes meanwhile."""
        text, leaf, inner, table = self._old
        rehashed = self._slots > table.shape[0]
        if rehashed or self._rows > text.shape[0]:
            text, leaf = _grown(text, self._rows), _grown(leaf, self._rows)
        if rehashed or self._inners > inner.shape[0]:
            inner = _grown(inner, self._inners)
        self._new = text, leaf, inner, table

    def whole(self) -> bool:
        """Whether the tree is what it was. The caller keeps others from writing to it. Cost: O(1)."""
        tree = self.tree
        return all(
            now is before for now, before in zip(tree.arrays, self._old, strict=True)
        ) and np.array_equal(tree.state, self._state)

    def fill(self) -> None:
        """Fill the table from the copies, which were ``whole``. Needs no lock."""
        assert self._new is not None
        text, leaf, inner, table = self._new
        if self._slots > table.shape[0]:
            table = np.zeros(self._slots, np.uint32)
            native.rehash(text, leaf, inner, table, self._state)
            self._new = text, leaf, inner, table

    def put(self) -> bool:
        """Give the tree the larger arrays, if it is still what it was; whether it is. Cost: O(1).

        The caller keeps others from reading the tree and from writing to it.
        """
        if self._new is None or not self.whole():
            return False
        tree = self.tree
        tree._text, tree._leaf, tree._inner, tree._table = self._new
        return True


@dataclass(frozen=True, slots=True)
class Match:
    """A string that occurs in a tree, found by ``find``, ``longest_suffix``, ``shorter`` or a cursor.

    It stays valid while the tree grows: strings never leave a tree.
    """

    length: int
    """Number of tokens."""
    pos: int
    """A position in the tree's text where the string starts."""
    node: int
    """The inner node at or above the end of the string when it was found (internal)."""


class SuffixTree:
    """Online suffix tree over one growing text of tokens, exact and without a depth cap (Ukkonen 1995).

    Many sequences may share a tree: ``end_sequence`` appends a sentinel that nothing matches.

    One writer at a time, and no reader during a write: the kernels release the GIL and lock nothing.

    Args:
        capacity: text positions to allocate at once.

    Memory: about 45 bytes per token on agent text, at most 64 with room for growth (arrays grow by an eighth);
    up to 75 on text that repeats itself at every position.
    """

    def __init__(self, *, capacity: int = 16) -> None:
        capacity = max(4, _index(capacity, "capacity"))
        if capacity > native.MAX_NODES:
            raise ValueError(f"expected a capacity of at most {native.MAX_NODES} tokens, got {capacity}")
        self._text = np.zeros(capacity, np.int32)
        self._leaf = np.zeros((capacity, native.LEAF_FIELDS), np.int32)
        self._inner = np.zeros((max(4, capacity // 2), native.INNER_FIELDS), np.int32)
        self._inner[0, [native.PARENT, native.NEXT, native.INNERS, native.LEAVES, native.PREV]] = -1
        self._table = np.zeros(max(16, capacity * 2), np.uint32)
        self._state = np.zeros(native.STATE_FIELDS, np.int64)
        self._state[native.S_INNERS] = 1
        self._sentinels = 0

    @classmethod
    def of_arrays(
        cls,
        text: NDArray[np.int32],
        leaf: NDArray[np.int32],
        inner: NDArray[np.int32],
        table: NDArray[np.uint32],
        state: NDArray[np.int64],
    ) -> SuffixTree:
        """A tree over the arrays of another one, ``arrays`` and ``state``, cut to what is in use or not.

        They are taken as they are, not copied and not checked.
        """
        tree = cls()
        tree._text, tree._leaf, tree._inner, tree._table, tree._state = text, leaf, inner, table, state
        tree._sentinels = int((text[: len(tree)] < 0).sum())
        return tree

    # -- the text ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Number of text positions, sentinels included."""
        return int(self._state[native.S_N])

    @property
    def tokens(self) -> NDArray[np.int32]:
        """int32 [len]: read-only view of the text; sentinels are negative. Valid until the next append."""
        view = self._text[: len(self)]
        view.flags.writeable = False
        return view

    @property
    def pending(self) -> int:
        """Length of the longest suffix of the text that starts at an earlier position too. Cost: O(1)."""
        return int(self._state[native.S_N] - self._state[native.S_SUFFIX])

    def append(self, token: int) -> None:
        """Append one token. Changes the tree.

        Args:
            token: 0 to 2**31 - 1.

        Cost: amortised O(1); a single append that ends a repeat of L tokens makes L leaves.

        Raises:
            TypeError: not an integer.
            ValueError: out of range, or the tree is full.
        """
        token = _index(token, "token")
        if not 0 <= token < _TOKEN_LIMIT:
            raise ValueError(f"expected a token id from 0 to {_TOKEN_LIMIT - 1}, got {token}")
        self._extend(np.array([token], np.int32), counted=True)

    def extend(self, tokens: ArrayLike, *, counted: bool = True, checked: bool = False) -> None:
        """Append a block of tokens. Changes the tree.

        Args:
            tokens: int [k], each 0 to 2**31 - 1.
            checked: they come from ``as_tokens``, which is not asked again.
            counted: False for text that is only there as left context of what follows (where a branch leaves
                the text): occurrences that start in this block are matched and drafted from, and add nothing
                to any count.

        Cost: amortised O(1) per token, 5 to 10 times less per token than ``append``.

        Raises:
            TypeError: not integers.
            ValueError: not one-dimensional, a token out of range (nothing is appended), or the tree is full.
        """
        self._extend(known_tokens(tokens, checked), counted=counted)

    def end_sequence(self) -> None:
        """Append a sentinel: no match and no draft crosses it. Changes the tree. Cost: as ``append``."""
        self._sentinels += 1
        self._extend(np.array([-self._sentinels], np.int32), counted=True)

    def _extend(self, tokens: NDArray[np.int32], *, counted: bool) -> None:
        needed = len(self) + tokens.shape[0]
        if needed > native.MAX_NODES:
            raise ValueError(
                f"expected at most {native.MAX_NODES} tokens in one tree, got {needed}; "
                "use a GenerationalIndex, which drops old text"
            )
        if needed > self._text.shape[0]:
            capacity = max(needed, self._text.shape[0] + self._text.shape[0] // _GROWTH)
            self._text = _grown(self._text, capacity)
            self._leaf = _grown(self._leaf, capacity)
        taken = 0
        while True:
            taken = native.extend(*self.arrays, self._state, tokens, taken, counted)
            if taken == tokens.shape[0]:
                return
            self._make_room()

    def _make_room(self) -> None:
        """Grow what is full: the inner nodes or the table."""
        inners, used = int(self._state[native.S_INNERS]), int(self._state[native.S_USED])
        room = self._inner.shape[0]
        if inners >= room:
            self._inner = _grown(self._inner, _larger(room))
        slots = self._table.shape[0]
        if used > slots * 4 // 5 - 2:
            self._table = np.zeros(_larger(slots), np.uint32)
            native.rehash(*self.arrays, self._state)

    def growth(self, more: int) -> Growth | None:
        """What it takes to append ``more`` positions without growing then; None where there is room. Changes nothing.

        For a tree that others read meanwhile, under a lock: ``extend`` copies and hashes under it what is prepared
        here without. ``Growth.copy``, then ``Growth.fill`` if the tree is ``Growth.whole``, then ``Growth.put``,
        which is refused when somebody wrote to the tree meanwhile; ``extend`` grows it then.

        Memory: within ``nbytes_at_most(more)`` afterwards; in between, the old arrays and the new ones are there.
        Cost: O(1).
        """
        pending = self.pending
        rows, inners, slots = (array.shape[0] for array in self.arrays[1:])
        needed = len(self) + more
        most_inners = int(self._state[native.S_INNERS]) + pending + more
        most_used = int(self._state[native.S_USED]) + 2 * (pending + more)
        if needed > native.MAX_NODES:
            return None
        grows = False
        if needed > rows:
            rows, grows = max(needed, rows + rows // _GROWTH), True
        if most_inners > inners:
            inners, grows = max(most_inners, _larger(inners)), True
        if most_used > slots * 4 // 5 - 2:
            slots = max((most_used + 3) * 5 // 4 + 1, _larger(slots))
            grows = True
        return Growth(self, rows, min(inners, native.MAX_NODES), slots) if grows else None

    @property
    def arrays(self) -> tuple[Any, Any, Any, Any]:
        """(text, leaf, inner, table) as the kernels take them; new ones after the tree has grown."""
        return self._text, self._leaf, self._inner, self._table

    @property
    def state(self) -> NDArray[np.int64]:
        """Sizes and active point as the kernels take them."""
        return self._state

    # -- strings ----------------------------------------------------------------------------------

    def longest_suffix(self) -> Match:
        """The longest suffix of the text that starts at an earlier position too. Changes nothing. Cost: O(1)."""
        return Match(self.pending, int(self._state[native.S_SUFFIX]), int(self._state[native.S_NODE]))

    def find(self, tokens: ArrayLike) -> Match | None:
        """Find a string, None where it does not occur. Changes nothing. Cost: O(length)."""
        wanted = np.asarray(tokens)
        if wanted.size and wanted.dtype.kind in "iu" and wanted.min() < 0:
            return None  # sentinels are nobody's text
        wanted = as_tokens(wanted)
        length, node, pos = native.find(*self.arrays, len(self), wanted)
        return Match(length, pos, node) if length == wanted.shape[0] else None

    def shorter(self, match: Match) -> Match:
        """The same string without its first token, by suffix link. Changes nothing. Cost: amortised O(1).

        Raises:
            ValueError: the match is empty.
        """
        if match.length == 0:
            raise ValueError("expected a match of at least one token, got the empty one")
        node, _ = self._locus(match)
        node, length, pos = native.shorten(*self.arrays, node, match.length, match.pos)
        return Match(length, pos, node)

    def count(self, match: Match) -> int:
        """Occurrences of the string, up to ``SATURATION``. Changes nothing. Cost: O(1) after a recent find.

        An occurrence counts when a token follows it, when its leaf has been made (a suffix that is still
        pending has none), and when it does not start in a block appended with ``counted=False``.
        """
        _, code = self._locus(match)
        if code >= 0:
            return int(self._inner[code, native.COUNT])
        j = ~code
        return int(j + match.length < len(self) and self._leaf[j, native.L_PARENT] >= 0)

    def successors(self, match: Match) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The tokens that followed the string, and how often, most frequent first. Changes nothing.

        Returns:
            (token ids int32 [m], counts int32 [m]). Counts are those of ``count``; a token seen only in
            uncounted text has count 0. Sentinels are left out.

        Cost: O(m log m).
        """
        _, code = self._locus(match)
        room = 64
        while True:
            tokens, counts = np.zeros(room, np.int32), np.zeros(room, np.int32)
            found = native.successors(
                self._text, self._leaf, self._inner, len(self), code, match.length, tokens, counts
            )
            if found <= room:
                break
            room = found
        order = np.argsort(-counts[:found], kind="stable")
        return tokens[:found][order], counts[:found][order]

    def _locus(self, match: Match) -> tuple[int, int]:
        if match.pos + match.length > len(self):
            raise ValueError(
                f"expected a match of this tree ({len(self)} positions), got one that ends at "
                f"{match.pos + match.length}"
            )
        node, code = native.descend(*self.arrays, match.node, match.length, match.pos)
        return int(node), int(code)

    def cursor(self) -> Cursor:
        """A cursor for matching a text that is not in this tree."""
        return Cursor(self)

    # -- state ------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Allocated capacity in bytes."""
        return sum(int(array.nbytes) for array in (*self.arrays, self._state))

    def nbytes_at_most(self, more: int) -> int:
        """Upper bound of ``nbytes`` after ``more`` further positions, in one append or several. Cost: O(1)."""
        n, pending = len(self), self.pending
        rows = self._text.shape[0]
        if n + more > rows:
            rows = (n + more) * (_GROWTH + 1) // _GROWTH + 1
        inners = int(self._state[native.S_INNERS]) + pending + more
        if inners > self._inner.shape[0]:
            inners = max(inners, self._inner.shape[0]) * (_GROWTH + 1) // _GROWTH + _LEAST_STEP
        else:
            inners = self._inner.shape[0]
        used = int(self._state[native.S_USED]) + 2 * (pending + more)
        slots = self._table.shape[0]
        if used > slots * 4 // 5 - 2:
            slots = (used + 2) * 5 // 4 * (_GROWTH + 1) // _GROWTH + _LEAST_STEP
        row = 1 + native.LEAF_FIELDS
        return 4 * (rows * row + inners * native.INNER_FIELDS + slots) + self._state.nbytes

    @property
    def live_nbytes(self) -> int:
        """Bytes in use: what is left of ``nbytes`` without room for growth and empty slots."""
        n, inners = len(self), int(self._state[native.S_INNERS])
        return 4 * (
            n + native.LEAF_FIELDS * n + native.INNER_FIELDS * inners + int(self._state[native.S_USED])
        )

    def check(self) -> None:
        """Verify every invariant; for tests. Cost: O(nodes × length of the text) at worst.

        Raises:
            AssertionError: names the broken node.
        """
        from suffixspec.index.checks import check_tree

        check_tree(*self.arrays, self._state)


class Cursor:
    """Matching statistics: the longest suffix of another text that occurs in a tree (Chang and Lawler 1994).

    While the tree does not change, the match is exact without limit. Where it changed since the last call,
    the cursor looks again at the last 64 tokens that it was fed: a match shorter than that is exact, and a
    longer one stays what it was.

    Cost: amortised O(1) per token, plus O(64) after a change.
    """

    def __init__(self, tree: SuffixTree) -> None:
        self.tree = tree
        self._cursor = np.zeros(native.CURSOR_FIELDS, np.int64)
        self._recent = np.zeros(native.WINDOW, np.int32)

    def advance(self, token: int) -> None:
        """Feed one token; a negative one resets the cursor."""
        self.extend(np.array([_index(token, "token")], np.int64))

    def extend(self, tokens: ArrayLike, *, checked: bool = False) -> None:
        """Feed tokens, int [k]; a negative one resets the cursor. ``checked``: they come from ``as_tokens``.

        Raises:
            TypeError: not integers.
            ValueError: not one-dimensional, or above 2**31 - 1.
        """
        self._feed(known_tokens(tokens, checked, allow_negative=True))

    def _feed(self, tokens: NDArray[np.int32]) -> None:
        tree = self.tree
        native.advance_cursor(*tree.arrays, len(tree), self._cursor, self._recent, tokens)

    @property
    def state(self) -> NDArray[np.int64]:
        """The cursor as the kernels take it, up to date with the tree."""
        if self._cursor[native.C_N] != len(self.tree):
            self._feed(_NO_TOKENS)
        return self._cursor

    def match(self) -> Match:
        """The longest suffix of the tokens fed so far that occurs in the tree now."""
        node, length, pos = (int(x) for x in self.state[:3])
        return Match(length, pos, node)

    def recent(self) -> NDArray[np.int32]:
        """int32 [at most 64]: the last tokens fed since the last reset."""
        return self._recent[native.WINDOW - int(self._cursor[native.C_FED]) :].copy()

    def reset(self) -> None:
        """Forget what was fed."""
        self._cursor[:] = 0


_NO_TOKENS = np.zeros(0, np.int32)
_INT32 = _NO_TOKENS.dtype
_FEW = 64


def as_tokens(tokens: ArrayLike, *, allow_negative: bool = False) -> NDArray[np.int32]:
    """Validate token ids: int32 [k], C-contiguous; copies only where it must. Cost: O(k).

    Raises:
        TypeError: not integers.
        ValueError: not one-dimensional, or a token out of range.
    """
    array = np.asarray(tokens)
    if array.size == 0 and array.ndim == 1:
        return _NO_TOKENS
    # What a step emits: numpy's minimum and maximum alone would take longer.
    is_plain = array.dtype is _INT32 and array.ndim == 1 and array.flags.carray
    if is_plain and array.shape[0] <= _FEW and (allow_negative or min(array.tolist()) >= 0):
        return array
    if array.dtype.kind not in "iu":
        raise TypeError(f"expected integer token ids, got {array.dtype} values")
    if array.ndim != 1:
        raise ValueError(f"expected token ids in one dimension, got an array of shape {array.shape}")
    low, high = int(array.min()), int(array.max())
    if high >= _TOKEN_LIMIT or (low < 0 and not allow_negative) or low < -_TOKEN_LIMIT:
        wrong = high if high >= _TOKEN_LIMIT else low
        raise ValueError(f"expected token ids from 0 to {_TOKEN_LIMIT - 1}, got {wrong}")
    # The kernels are compiled for arrays of one kind: contiguous and writeable.
    return np.require(array, np.int32, ["C_CONTIGUOUS", "WRITEABLE"])


def known_tokens(tokens: ArrayLike, checked: bool, *, allow_negative: bool = False) -> NDArray[np.int32]:
    """Tokens as ``as_tokens`` gives them; it is not asked where they are ``checked`` already."""
    if checked and isinstance(tokens, np.ndarray):
        return tokens
    return as_tokens(tokens, allow_negative=allow_negative)


def _index(value: Any, what: str) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"expected an integer {what}, got {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"expected an integer {what}, got {value!r}") from None


def _larger(rows: int) -> int:
    """How many rows an array of so many grows to."""
    return rows + max(_LEAST_STEP, rows // _GROWTH)


def _grown(array: NDArray[np.int32], rows: int) -> NDArray[np.int32]:
    rows = min(rows, native.MAX_NODES)
    grown = np.zeros((rows, *array.shape[1:]), array.dtype)
    grown[: array.shape[0]] = array
    return grown
