"""One token prefix and its KV."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from suffixspec.target.cache import KVCache
    from suffixspec.target.model import Target


class Branch:
    """A KV cache and the tokens that it holds.

    Invariant: slot i of the cache is the KV of ``token_ids[i]`` behind ``token_ids[:i]``. The cache's length
    is the only truth about what is valid: tokens are written down before the cache commits them, so that
    whatever interrupts a step (an exception, a signal, no memory) leaves a valid branch behind.

    Args:
        cache: an empty cache.
        owner: whose branch it is; only its owner may reuse it.
    """

    def __init__(self, cache: KVCache, owner: Hashable) -> None:
        self.cache = cache
        self.owner = owner
        self._ids = np.zeros(256, np.int32)

    def __len__(self) -> int:
        """Tokens with KV. Cost: O(1)."""
        return self.cache.length

    @property
    def token_ids(self) -> NDArray[np.int32]:
        """int32 [n]: read-only view of the tokens with KV. Valid until the next change."""
        view = self._ids[: self.cache.length]
        view.flags.writeable = False
        return view

    @property
    def nbytes(self) -> int:
        """Allocated bytes of the KV."""
        return self.cache.nbytes

    def common_prefix(self, token_ids: NDArray[np.int32]) -> int:
        """How many leading tokens (of int32 [n]) have their KV here. Changes nothing. Cost: O(n)."""
        shared = min(len(self), token_ids.shape[0])
        differs = np.flatnonzero(self._ids[:shared] != token_ids[:shared])
        return int(differs[0]) if differs.size else shared

    def cut(self, length: int) -> None:
        """Cut back to the first ``length`` tokens. Cost: O(1)."""
        self.cache.truncate(length)

    def copy(self, other: Branch, length: int) -> None:
        """Hold the first ``length`` tokens of another branch, and nothing else; there is room for them.

        Cost: copies their KV, in memory.
        """
        self.cut(0)
        self._write(other.token_ids[:length])
        self.cache.copy(other.cache, length)

    def prefill(self, target: Target, token_ids: NDArray[np.int32]) -> None:
        """Append int32 [n] tokens: one causal forward."""
        self._write(token_ids)
        target.prefill(self.cache, torch.from_numpy(token_ids.astype(np.int64)))

    def keep(self, slots: Sequence[int], token_ids: Sequence[int]) -> None:
        """Commit a path of the last tree forward: its nodes (ascending) and their tokens, m of each."""
        self._write(np.asarray(token_ids, np.int32))
        self.cache.keep(torch.tensor(slots, dtype=torch.int64))

    def _write(self, token_ids: NDArray[np.int32]) -> None:
        start = self.cache.length
        end = start + token_ids.shape[0]
        if end > self._ids.shape[0]:
            grown = np.zeros(max(end, self._ids.shape[0] * 6 // 5), np.int32)
            grown[:start] = self._ids[:start]
            self._ids = grown
        self._ids[start:end] = token_ids
