"""Which agent loop's index a request goes on with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from suffixspec.draft.indexed import IndexDraftSession
from suffixspec.store.saved_session import SavedDraftSession

AnySession = IndexDraftSession | SavedDraftSession

BYTES_PER_TOKEN = 60
"""Of a session's index, about; what a new request is expected to take."""
_HEADER_TOKENS = 32
_PROBE = 64


@dataclass(eq=False)
class Lane:
    """One index of an agent loop, which one request at a time goes on with."""

    session: AnySession
    namespace: str
    key: str | None
    opening: NDArray[np.int32]
    """int32 [n]: the prompt that began it, without the header of the reply at its end."""
    busy: bool = True
    used: float = 0.0

    def common(self, prompt: NDArray[np.int32]) -> int:
        """How many first tokens of a prompt (int32 [n]) are its context. Cost: O(n), less where little is."""
        context = self.session.context
        shared = min(len(context), len(prompt))
        if not np.array_equal(context[: min(shared, _PROBE)], prompt[: min(shared, _PROBE)]):
            shared = min(shared, _PROBE)
        differs = np.flatnonzero(context[:shared] != prompt[:shared])
        return int(differs[0]) if differs.size else shared


class SessionTable:
    """The sessions of agent loops, kept from request to request.

    A request goes on with an idle session of its namespace

    - that has the same key, where the client gives one (``suffixspec_session``), else one without a key;
    - whose *opening* its prompt begins with, or whose context begins with all of its prompt;
    - and of those, the one that has most of its first tokens in common with it.

    Else a new one begins: for a new loop, for a side request of a loop, and for a second request of a loop while the
    first one runs (``n`` > 1): two outputs that are written at the same time are no one text. The next turn goes on
    with whichever of them its prompt repeats.

    A wrong choice costs drafts, never a wrong output. For one thread.

    Args:
        begin: makes a session, given a namespace and the loop's name.
        most: idle sessions that are kept; the least recently used ones are closed first.
        nbytes: memory for all indexes.
        idle_seconds: a session that was idle for so long is closed.
        clock: seconds; for tests.
    """

    def __init__(
        self,
        begin: Callable[[str, str], AnySession],
        *,
        most: int,
        nbytes: int,
        idle_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._begin = begin
        self._most = most
        self._budget = nbytes
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._lanes: dict[tuple[str, str | None], list[Lane]] = {}
        self._made = 0

    def __len__(self) -> int:
        """Open sessions."""
        return sum(len(lanes) for lanes in self._lanes.values())

    def __iter__(self) -> Iterator[Lane]:
        for lanes in self._lanes.values():
            yield from lanes

    @property
    def nbytes(self) -> int:
        """Allocated bytes of all indexes. Cost: O(sessions)."""
        return sum(lane.session.nbytes for lane in self)

    def adopt(
        self, namespace: str, key: str | None, prompt: NDArray[np.int32], ends: frozenset[int] = frozenset()
    ) -> tuple[Lane, int] | None:
        """The session for a request, which no other one gets until it is released.

        Args:
            namespace: whose sessions come into question.
            key: the client's name for the loop.
            prompt: int32 [n].
            ends: tokens that end a message, to find the header of the reply by.

        Returns:
            It, and how many first tokens of the prompt it has; None where there is no memory for one more.

        Cost: O(sessions of the key + n for each that fits).
        """
        fits = [
            (common, lane.used, lane)
            for lane in self._lanes.get((namespace, key), ())
            if not lane.busy and _fits(lane, prompt, common := lane.common(prompt))
        ]
        if fits:
            common, _, lane = max(fits, key=lambda fit: fit[:2])
            lane.busy = True
            return lane, common
        self.sweep(room_for=1, room_bytes=len(prompt) * BYTES_PER_TOKEN)
        if self.nbytes + len(prompt) * BYTES_PER_TOKEN > self._budget:
            return None
        self._made += 1
        session = self._begin(namespace, key or f"loop-{self._made}")
        lane = Lane(session, namespace, key, _opening(prompt, ends), used=self._clock())
        self._lanes.setdefault((namespace, key), []).append(lane)
        return lane, 0

    def release(self, lane: Lane) -> None:
        """Its request has ended: its output is history, and the session waits for the loop's next turn."""
        lane.session.end_turn()
        lane.busy = False
        lane.used = self._clock()

    def drop(self, lane: Lane) -> None:
        """Close a session."""
        self.forget(lane)
        lane.session.close()

    def forget(self, lane: Lane) -> None:
        """Let go of a session that may be in any state; what its request wrote does not become history."""
        place = (lane.namespace, lane.key)
        lanes = self._lanes.get(place, [])
        if lane in lanes:
            lanes.remove(lane)
        if not lanes:
            self._lanes.pop(place, None)

    def sweep(self, *, room_for: int = 0, room_bytes: int = 0) -> None:
        """Close what was idle for long, and the least recently used ones beyond the bounds.

        Cost: O(sessions).
        """
        now = self._clock()
        idle = sorted((lane for lane in self if not lane.busy), key=lambda lane: lane.used)
        excess = len(idle) + room_for - self._most
        over = self.nbytes + room_bytes - self._budget
        for number, lane in enumerate(idle):
            if number >= excess and over <= 0 and now - lane.used < self._idle_seconds:
                break
            over -= lane.session.nbytes
            self.drop(lane)

    def close(self) -> None:
        """Close all sessions; what running requests wrote so far becomes history."""
        for lane in list(self):
            if lane.busy:
                lane.session.end_turn()
            self.drop(lane)


def _fits(lane: Lane, prompt: NDArray[np.int32], common: int) -> bool:
    """Whether a prompt goes on from a session's loop: from its opening, or it is a part of its context."""
    if common == len(prompt):
        return True
    opening = lane.opening
    if common >= len(opening):
        return True
    # The context may have gone another way since, on behalf of a prompt that was cut back.
    return len(opening) <= len(prompt) and np.array_equal(prompt[: len(opening)], opening)


def _opening(prompt: NDArray[np.int32], ends: frozenset[int]) -> NDArray[np.int32]:
    """A prompt up to its last end token: a template may write the reply's header differently later."""
    tail = prompt[-_HEADER_TOKENS:].tolist()
    for back, token in enumerate(reversed(tail)):
        if token in ends:
            return prompt[: len(prompt) - back].copy()
    return prompt.copy()
