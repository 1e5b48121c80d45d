"""One agent loop whose outputs go into a saved history."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from suffixspec.draft.indexed import IndexDraftSession
    from suffixspec.draft.tree import DraftTree
    from suffixspec.store.record import Record
    from suffixspec.store.saved_history import SavedHistory
    from suffixspec.store.usefulness import Origin

Output = tuple[float, NDArray[np.int32], NDArray[np.int32]]
"""When it was complete, the end of its prompt, its tokens."""
Written: TypeAlias = "tuple[Record, Origin | None]"
"""An output on its way to disk, and who counts what is accepted from it."""


class SavedDraftSession:
    """A ``DraftSession`` that looks at the store's epoch before every draft, and saves each output when it is complete.

    The look is a memory access (some 150 ns); no call of it waits for a disk.
    """

    def __init__(self, saved: SavedHistory, inner: IndexDraftSession, namespace: str, name: str) -> None:
        self._saved = saved
        self._inner = inner
        self._namespace = namespace
        self._name = name
        self._written: list[Written] = []
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
        """The model's output is complete: it goes to disk soon, and is history here when the session ends."""
        with self._saved.lock:
            self._inner.end_turn()
            now = time.time()
            outputs = [(now, context, output) for context, output in self._inner.take_outputs()]
            self._written += self._saved.write(self._namespace, self._name, outputs)
        self._saved.give_way()

    def clear_history(self) -> None:
        """Drop what can be drafted here from other sessions."""
        self._inner.clear_history()

    def close(self) -> None:
        """End the session: its outputs become history, one after the other: the lock is held for one at a time."""
        written, self._written = self._written, []
        with self._saved.lock:
            self._inner.close()
        self._saved.remember(self._namespace, written)

    @property
    def nbytes(self) -> int:
        """Allocated bytes of the session's own indexes."""
        return self._inner.nbytes

    @property
    def indexed_tokens(self) -> int:
        """Tokens in the session's tree."""
        return self._inner.indexed_tokens
