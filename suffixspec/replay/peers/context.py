"""The token sequence that a target sees, as a peer's adapter keeps it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suffixspec.draft import EMPTY, DraftTree

_MOST = 1 << 10
_PARENTS = np.arange(-1, _MOST - 1, dtype=np.int32)
_CERTAIN = np.ones(_MOST, np.float32)


class Context:
    """Prompt and output so far, in one growing array. Appending is amortised O(1) per token."""

    def __init__(self) -> None:
        self._buffer = np.zeros(1024, np.int32)
        self._length = 0

    def __len__(self) -> int:
        """Number of tokens."""
        return self._length

    @property
    def tokens(self) -> NDArray[np.int32]:
        """int32 [n]: a view, valid until the next change."""
        return self._buffer[: self._length]

    def replace(self, prompt_ids: ArrayLike) -> int:
        """Make ``prompt_ids`` (int [n]) the context; return how many of its first tokens were it already."""
        prompt = np.asarray(prompt_ids, np.int32)
        shared = min(self._length, len(prompt))
        differs = np.flatnonzero(self._buffer[:shared] != prompt[:shared])
        common = int(differs[0]) if differs.size else shared
        self._length = common
        self.extend(prompt[common:])
        return common

    def extend(self, tokens: NDArray[np.int32]) -> None:
        """Append tokens (int32 [k])."""
        end = self._length + len(tokens)
        if end > len(self._buffer):
            grown = np.zeros(end + end // 2, np.int32)
            grown[: self._length] = self._buffer[: self._length]
            self._buffer = grown
        self._buffer[self._length : end] = tokens
        self._length = end


def chain(token_ids: NDArray[np.int32]) -> DraftTree:
    """The draft of one path, for a peer that says nothing about probabilities: each is 1.

    Args:
        token_ids: int32 [k], k up to 1,024; the draft keeps it, so it must not change afterwards.
    """
    k = len(token_ids)
    return DraftTree(token_ids, _PARENTS[:k], _CERTAIN[:k], validate=False) if k else EMPTY
