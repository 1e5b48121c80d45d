"""The drafter that never drafts: plain decoding, the baseline of every comparison."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suffixspec.draft.tree import EMPTY, DraftTree


class NoDrafter:
    """Proposes nothing, keeps nothing."""

    name = "none"
    nbytes = 0
    indexed_tokens = 0

    def session(self, namespace: str = "default") -> NoDraftSession:  # noqa: ARG002 (the protocol's)
        """Begin an agent loop."""
        return NoDraftSession()


class NoDraftSession:
    """See ``DraftSession``."""

    nbytes = 0
    indexed_tokens = 0

    def sync(self, prompt_ids: ArrayLike, *, temperature: float = 0.0, learn: bool = True) -> int:  # noqa: ARG002
        """Begin a turn; nothing is known of it."""
        return 0

    def draft(self, max_nodes: int | None = None) -> DraftTree:  # noqa: ARG002
        """Propose nothing."""
        return EMPTY

    def accept(self, emitted: NDArray[np.int32]) -> None:
        """Learn nothing."""

    def sources(self, nodes: int) -> NDArray[np.int32]:
        """int32 [0]."""
        return np.zeros(nodes, np.int32)

    def end_turn(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""
