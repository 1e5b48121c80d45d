"""Bounded text: a suffix tree per generation, the oldest dropped whole."""

from __future__ import annotations

from collections import deque
from typing import Any
from weakref import WeakSet

from numpy.typing import ArrayLike

from suffixspec.index.sealed import SealedIndex
from suffixspec.index.suffix_tree import Cursor, Growth, Match, SuffixTree, as_tokens, known_tokens

_LEAST_BYTES = 16384  # per generation: room for a hundred tokens in any case


class GenerationalIndex:
    """Sequences under a byte budget.

    New sequences go to the newest generation. When that has grown to its share of the budget, a new one
    begins and the oldest is dropped whole: nobody deletes from a suffix tree, and no drafting step ever waits
    for an eviction. At most ``generations`` trees live at a time, so the oldest text leaves when between
    (generations - 1) / generations of the budget and all of it is in use.

    One writer at a time, and no reader during a write.

    Args:
        budget_bytes: upper bound of ``nbytes``, at least 16 KiB per generation.
        generations: 2 to 4.
    """

    def __init__(self, *, budget_bytes: int, generations: int = 2) -> None:
        if not 2 <= generations <= 4:
            raise ValueError(f"expected 2 to 4 generations, got {generations}")
        if budget_bytes < generations * _LEAST_BYTES:
            raise ValueError(
                f"expected a budget of at least {generations * _LEAST_BYTES} bytes, got {budget_bytes}"
            )
        self._share = budget_bytes // generations
        self._trees: deque[SuffixTree] = deque([SuffixTree()], maxlen=generations)
        self._cursors: WeakSet[GenerationalCursor] = WeakSet()
        self._epoch = 0
        self.version = 0
        """Number of changes so far."""
        self.sealed: SealedIndex | None = None
        """Older text that no longer changes, drafted from as well; mapped from its file, and not in the budget."""
        self._longest = self._share // 16
        while self._trees[0].nbytes_at_most(self._longest + 1) > self._share:
            self._longest = self._longest * 9 // 10

    @property
    def epoch(self) -> int:
        """Number of generations begun so far; a cursor that saw another number starts anew on what is new."""
        return self._epoch

    @property
    def trees(self) -> list[SuffixTree]:
        """The live generations, newest first."""
        return list(self._trees)

    @property
    def nbytes(self) -> int:
        """Allocated capacity in bytes; never above the budget."""
        return sum(tree.nbytes for tree in self._trees)

    def __len__(self) -> int:
        """Live text positions, sentinels included."""
        return sum(len(tree) for tree in self._trees)

    def add(self, tokens: ArrayLike, *, context: ArrayLike = ()) -> None:
        """Append one sequence. Changes the index, and may drop the oldest generation.

        A sequence longer than a generation's share admits keeps its tail.

        Args:
            tokens: int [k], each 0 to 2**31 - 1; an empty sequence changes nothing.
            context: int [c], what stood before the sequence: matched, so that the first tokens of the
                sequence can be drafted, and not counted.

        Cost: as ``SuffixTree.extend``; where a generation begins, some 10 µs for each cursor.

        Raises:
            TypeError: not integers.
            ValueError: not one-dimensional, or a token out of range (nothing is added).
        """
        sequence, before = as_tokens(tokens), as_tokens(context)
        if sequence.size == 0:
            return
        if sequence.size + before.size > self._longest:
            before = before[:0]
            sequence = sequence[-self._longest :]
        self.version += 1
        if self._trees[0].nbytes_at_most(before.size + sequence.size + 1) > self._share:
            self._trees.appendleft(SuffixTree())  # maxlen drops the oldest
            self._epoch += 1
            for cursor in self._cursors:  # so that an idle one does not keep the dropped generation in memory
                cursor.current()
        self._trees[0].extend(before, counted=False)
        self._trees[0].extend(sequence)
        self._trees[0].end_sequence()

    def growth(self, more: int) -> Growth | None:
        """What it takes to add ``more`` positions without growing then; see ``SuffixTree.growth``.

        None where there is room, or a new generation begins, which is small.
        """
        newest = self._trees[0]
        return newest.growth(more) if newest.nbytes_at_most(more) <= self._share else None

    def put(self, growth: Growth) -> bool:
        """Give the newest generation the arrays that ``growth`` prepared, if nothing has changed; whether they fit.

        Cursors let go of the old ones, so that it is not a draft that frees them. Changes the index. Cost: some
        0.3 µs for each cursor.
        """
        if growth.tree is not self._trees[0] or not growth.put():
            return False
        self.version += 1
        for cursor in self._cursors:
            cursor.let_go()
        return True

    def clear(self) -> None:
        """Drop all text, also for the cursors that look at it. Changes the index. Cost: some 10 µs per cursor."""
        self.sealed = None
        self._trees.clear()
        self._trees.append(SuffixTree())
        self._epoch += 1
        self.version += 1
        for cursor in self._cursors:
            cursor.current()

    def adopt(self, built: GenerationalIndex) -> None:
        """Take over the trees of an index that was built aside, as older than what is here. Changes both.

        So that a long text can be indexed while this index is in use. Of more trees than there are generations
        the oldest leave. ``built`` is empty afterwards; its budget is at most this one's.

        Cost: some 10 µs for each cursor; no text is copied.
        """
        trees = [tree for tree in (*self._trees, *built.trees) if len(tree)]
        self._trees = deque((trees or [SuffixTree()])[: self._trees.maxlen], maxlen=self._trees.maxlen)
        built.clear()
        self._epoch += 1
        self.version += 1
        for cursor in self._cursors:
            cursor.current()

    def cursor(self) -> GenerationalCursor:
        """A cursor over every live generation."""
        cursor = GenerationalCursor(self)
        self._cursors.add(cursor)
        return cursor

    def check(self) -> None:
        """Verify every invariant; for tests.

        Raises:
            AssertionError: names what is broken.
        """
        assert self.nbytes <= self._share * (self._trees.maxlen or 0), "over the budget"
        for tree in self._trees:
            tree.check()


class GenerationalCursor:
    """Matching statistics in every live generation of an index.

    A generation that begins after the cursor has been fed is matched from the last 64 tokens. What it holds of
    a generation goes when the index drops that, also while the cursor is idle.
    """

    def __init__(self, index: GenerationalIndex) -> None:
        self._index = index
        self._cursors = [tree.cursor() for tree in index.trees]
        self._epoch = index.epoch
        self._version = -1
        self._arguments: list[tuple[Any, ...]] = []

    @property
    def index(self) -> GenerationalIndex:
        """What it looks at."""
        return self._index

    def extend(self, tokens: ArrayLike, *, checked: bool = False) -> None:
        """Feed tokens, int [k]; a negative one resets the cursor. ``checked``: they come from ``as_tokens``.

        Cost: amortised O(generations) per token.
        """
        known = known_tokens(tokens, checked, allow_negative=True)
        for cursor in self.current():
            cursor.extend(known, checked=True)

    def matches(self) -> list[Match]:
        """The longest suffix fed that occurs in each live generation, newest generation first."""
        return [cursor.match() for cursor in self.current()]

    def arguments(self) -> list[tuple[Any, ...]]:
        """(text, leaf, inner, table, cursor) of each live generation as the kernels take them, newest first."""
        if self._version != self._index.version:
            self._arguments = [(*cursor.tree.arrays, cursor.state) for cursor in self.current()]
            self._version = self._index.version
        return self._arguments

    def let_go(self) -> None:
        """Hold no arrays until they are asked for again. Cost: O(1)."""
        self._arguments = []
        self._version = -1

    def reset(self) -> None:
        """Forget what was fed."""
        for cursor in self.current():
            cursor.reset()

    def current(self) -> list[Cursor]:
        """A cursor per live generation, newest first."""
        if self._epoch != self._index.epoch:
            by_tree = {id(cursor.tree): cursor for cursor in self._cursors}
            recent = self._cursors[0].recent()
            self._cursors = []
            for tree in self._index.trees:
                cursor = by_tree.get(id(tree))
                if cursor is None:
                    cursor = tree.cursor()
                    cursor.extend(recent)
                self._cursors.append(cursor)
            self._arguments = []
            self._epoch = self._index.epoch
        return self._cursors
