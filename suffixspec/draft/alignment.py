"""Where an output stands in the text that was predicted for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suffixspec.index.suffix_tree import as_tokens

_RUN_ENDS = (1, 2, 4, 8, 16)  # a run of so many tokens, the last class is longer
_LOST_ENDS = (1, 2)
_RUNS = len(_RUN_ENDS) + 1
_LOSTS = len(_LOST_ENDS) + 1

START = 0
FOLLOWED = 1  # + class of the run
MATCHED = FOLLOWED + _RUNS  # + class of the run
REPLACED = MATCHED + _RUNS  # + class of how many tokens were lost
INSERTED = REPLACED + _LOSTS
CELLS = INSERTED + _LOSTS

_LONGEST_MATCH = 32
_LONGEST_LOSS = 8
_CERTAIN = 2


@dataclass(slots=True)
class _Pointer:
    """A place where the output may go on in the prediction."""

    at: int
    run: int
    """How many tokens before it the output has in common with the prediction there."""
    cell: int
    """Which kind of evidence speaks for it: START, FOLLOWED, ..."""
    unmarked: int = 0
    """How many of these tokens are not counted as accepted yet."""
    certain: bool = True
    """Whether it is more than a few tokens that agree by chance."""


class Alignment:
    """Follows an output through its prediction, token by token, and finds its place again after each difference.

    At first the output is expected to begin with the prediction. Where it goes another way, three things may
    have happened, and each gives a pointer: tokens were replaced (the prediction goes on behind as many), they
    were inserted (it goes on where it was left), or the output is at another place, found by the longest
    recent text that also stands in the prediction; of several such places the nearest, ahead rather than
    behind. The pointers that the next token confirms stay.

    Depends on the output and the prediction alone, not on what was drafted.

    Args:
        token_ids: int [n], the prediction; may be empty.

    Raises:
        TypeError: not integers.
        ValueError: not one-dimensional, or a token out of range.
    """

    def __init__(self, token_ids: ArrayLike) -> None:
        self.token_ids: NDArray[np.int32] = as_tokens(token_ids)
        """int32 [n]."""
        self._pointers = [_Pointer(0, 0, START)] if self.token_ids.size else []
        self._used = np.zeros(self.token_ids.size, np.bool_)
        self._recent: list[int] = []
        self._anchor = 0  # where the output was last known to stand
        self._since = 0  # tokens that came since then
        self._order: NDArray[np.int64] | None = None  # places in the prediction by token
        self._sorted: NDArray[np.int32] = self.token_ids[:0]  # the tokens in that order

    @property
    def accepted(self) -> int:
        """Tokens of the prediction that are in the output, in its order; each counts once. Cost: O(n)."""
        return int(np.count_nonzero(self._used))

    @property
    def rejected(self) -> int:
        """Tokens of the prediction that are not, so far. Cost: O(n)."""
        return self.token_ids.size - self.accepted

    def push(self, token_id: int) -> list[tuple[int, bool]]:
        """The output's next token.

        Returns:
            For each pointer that there was (cell, whether it was right).

        Cost: O(1) while the output follows the prediction; else O(occurrences of the token in it).
        """
        size = self.token_ids.size
        self._recent = [*self._recent[1 - _LONGEST_MATCH :], token_id]
        outcome: list[tuple[int, bool]] = []
        followers: list[_Pointer] = []
        for pointer in self._pointers:
            if pointer.at >= size:
                continue
            hit = int(self.token_ids[pointer.at]) == token_id
            outcome.append((pointer.cell, hit))
            if hit:
                run = pointer.run + 1
                certain = pointer.certain or run >= _CERTAIN
                followers.append(_Pointer(pointer.at + 1, run, followed(run), pointer.unmarked + 1, certain))
        if followers:
            first = followers[0]
            if first.certain:
                self._used[first.at - first.unmarked : first.at] = True
                first.unmarked = 0
                self._anchor, self._since = first.at, 0
            else:
                self._since += 1
            self._pointers = followers
        else:
            self._since += 1
            self._pointers = list(self._candidates()) if size else []
        return outcome

    def chains(self) -> Iterator[tuple[NDArray[np.int32], int, int]]:
        """What the prediction says comes next: (int32 [m] tokens, cell of the first, run before it)."""
        for pointer in self._pointers:
            if pointer.at < self.token_ids.size:
                yield self.token_ids[pointer.at :], pointer.cell, pointer.run

    def _candidates(self) -> Iterator[_Pointer]:
        """Where the output may be now, the most likely first, each place once."""
        lost = self._since
        size = self.token_ids.size
        near = [
            _Pointer(at, 0, cell)
            for at, cell in (
                (self._anchor + lost, REPLACED + _class(lost, _LOST_ENDS)),
                (self._anchor, INSERTED + _class(lost, _LOST_ENDS)),
            )
            if lost <= _LONGEST_LOSS and at < size
        ]
        found = self._match()
        if found is not None:
            at, run = found
            match = _Pointer(at, run, MATCHED + _class(run, _RUN_ENDS), run, run >= _CERTAIN)
            near.insert(0 if run >= _CERTAIN else len(near), match)
        taken: set[int] = set()
        for pointer in near:
            if pointer.at not in taken:
                taken.add(pointer.at)
                yield pointer

    def _match(self) -> tuple[int, int] | None:
        """(place behind, length) of the longest end of the output, up to 32 tokens, that the prediction has."""
        if self._order is None:
            self._order = np.argsort(self.token_ids, kind="stable")
            self._sorted = self.token_ids[self._order]
        tokens = self.token_ids
        last = np.int32(self._recent[-1])  # another type would copy the whole array
        low = int(np.searchsorted(self._sorted, last, "left"))
        high = int(np.searchsorted(self._sorted, last, "right"))
        ends = self._order[low:high]  # [m], ascending: places of the last token
        if not ends.size:
            return None
        run = 1
        while run < len(self._recent):
            wanted = self._recent[-1 - run]
            more = ends[ends >= run]
            more = more[tokens[more - run] == wanted]
            if not more.size:
                break
            ends, run = more, run + 1
        ahead = ends[int(np.searchsorted(ends, self._anchor)) :]
        return int(ahead[0] if ahead.size else ends[-1]) + 1, run


def followed(run: int) -> int:
    """The cell of a token behind ``run`` tokens that followed the prediction."""
    return FOLLOWED + _class(run, _RUN_ENDS)


def _class(value: int, ends: tuple[int, ...]) -> int:
    return next((number for number, end in enumerate(ends) if value <= end), len(ends))
