"""What a drafter is, for the engine, the replay and the serving integrations alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suffixspec.draft.tree import DraftTree


@runtime_checkable
class DraftSession(Protocol):
    """The drafter's side of one agent loop.

    A turn is ``sync`` with its prompt, then any number of steps, then ``end_turn``; a step is ``draft``, the
    target's verification, and ``accept`` with what the target wrote.
    """

    def sync(self, prompt_ids: ArrayLike, *, temperature: float = 0.0, learn: bool = True) -> int:
        """Begin a turn: make ``prompt_ids`` (int [n]) the context; return how many tokens were known already.

        Args:
            prompt_ids: the prompt.
            temperature: the turn's: what a repeat is worth depends on it.
            learn: False where what is accepted is not the target's own choice (lenience): it says nothing
                about what to expect of the target.
        """
        ...

    def draft(self, max_nodes: int | None = None) -> DraftTree:
        """Propose what comes next, at most ``max_nodes`` nodes and as many as pay. Changes no index."""
        ...

    def accept(self, emitted: NDArray[np.int32]) -> None:
        """Append the target's tokens (int32 [accepted + 1]) to the context and learn from them."""
        ...

    def sources(self, nodes: int) -> NDArray[np.int32]:
        """int32 [nodes]: where the first nodes of the last draft came from; 0 session, 1 history, 2 n-gram."""
        ...

    def end_turn(self) -> None:
        """The model's output is complete: what was emitted since ``sync`` may be history for all from now on."""
        ...

    def close(self) -> None:
        """End the session."""
        ...

    @property
    def nbytes(self) -> int:
        """Allocated bytes of the session's own indexes."""
        ...

    @property
    def indexed_tokens(self) -> int:
        """Tokens those indexes hold."""
        ...


class SampledDraftSession(DraftSession, Protocol):
    """A session whose drafts were drawn from a distribution of its own, as a small draft model's are.

    Verified by the general rejection rule, they are accepted more often than by chance alone; verified as
    fixed proposals, as any draft can be, the output's distribution is the target's too.
    """

    def proposals_at(self, node: int, children: Mapping[int, int]) -> tuple[Sequence[int], Any]:
        """What was drawn after ``node`` of the last draft (-1: the context), and from what.

        Args:
            node: of the draft.
            children: token to node, of the draft's nodes after ``node``.

        Returns:
            The m tokens in the order in which they were drawn, and a float tensor [m, V] with the distribution
            that each was drawn from: see ``suffixspec.verify.rejection.ProposalsAt``.
        """
        ...


@runtime_checkable
class Drafter(Protocol):
    """Proposes draft trees from text alone; shared by all sessions of one target."""

    name: str

    def session(self, namespace: str = "default") -> DraftSession:
        """Begin an agent loop that shares the history of ``namespace``."""
        ...

    @property
    def nbytes(self) -> int:
        """Allocated bytes of the indexes that outlive a session."""
        ...

    @property
    def indexed_tokens(self) -> int:
        """Tokens that those indexes hold."""
        ...
