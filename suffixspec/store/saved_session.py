"""One agent loop whose outputs go into a saved history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from suffixspec.draft.indexed import IndexDraftSession
    from suffixspec.draft.tree import DraftTree
    from suffixspec.store.saved_history import SavedHistory


class SavedDraftSession:
    """A ``DraftSession`` that looks at the store's epoch before every draft, and saves each output when it is complete.

    The look is a memory access (some 150 ns); no call of it waits for a disk.
    """

    def __init__(self, saved: SavedHistory, inner: IndexDraftSession, namespace: str, name: str) -> None:
        self._saved = saved
        self._inner = inner
        self._namespace = namespace
        self._name = name
        self._ledger = saved.ledger(namespace)

    @property
    def context(self) -> NDArray[np.int32]:
        """int32 [n]: read-only view of the current context."""
        return self._inner.context

    def sync(self, prompt_ids: ArrayLike, *, temperature: float = 0.0, learn: bool = True) -> int:
        """Begin a turn; see ``DraftSession``."""
        with self._saved.lock:
            known = self._inner.sync(prompt_ids, temperature=temperature, learn=learn)
        self._saved.give_way()
        return known

    def draft(self, max_nodes: int | None = None) -> DraftTree:
        """Propose what comes next, of nothing that was forgotten before this call."""
        saved = self._saved
        with saved.lock:
            if saved.reader.behind:
                saved.catch_up()
            return self._inner.draft(max_nodes)

    def accept(self, emitted: NDArray[np.int32]) -> None:
        """Append the target's tokens to the context and learn from them."""
        with self._saved.lock:
            if self._ledger is not None:
                self._ledger.count(self._inner.index, emitted)
            self._inner.accept(emitted)

    def sources(self, nodes: int) -> NDArray[np.int32]:
        """int32 [nodes]: where the first nodes of the last draft came from."""
        return self._inner.sources(nodes)

    def end_turn(self) -> None:
        """The model's output is complete: it is history for all from now on, and on disk soon.

        The lock is held for one piece of it at a time, unless the caller holds it around all of them.
        """
        with self._saved.lock:
            output, context = self._inner.take_output()
        if output.size:
            self._saved.keep(self._namespace, self._name, output, context)

    def clear_history(self) -> None:
        """Drop what can be drafted here from other sessions."""
        self._inner.clear_history()

    def close(self) -> None:
        """End the session; an output that is not complete is dropped."""
        with self._saved.lock:
            self._inner.close()

    @property
    def nbytes(self) -> int:
        """Allocated bytes of the session's own indexes."""
        return self._inner.nbytes

    @property
    def indexed_tokens(self) -> int:
        """Tokens in the session's tree."""
        return self._inner.indexed_tokens
