"""Which of the engine's sessions a call belongs to.

Clients do not say. Most send no id at all, and those that do use it for whatever they like: one id for an
agent and its sub-agents, a new one per request, the same for all users of an application. So token ids decide,
and ids are hints:

1. A call belongs to a session of its namespace whose *opening* it goes on from: the token ids of a prompt that
   began a conversation there, without the header of the reply at its end. The first turn of an agent's loop is
   the opening of all later ones, also after a cut-back or where the template drops earlier reasoning; two loops
   that share a system prompt but not the task have different openings. Of several such sessions, one that a
   hint names is taken only if none has more of the prompt's KV.
2. Where no opening fits, a session that was used with the same hint takes the call in, as a side request of its
   loop (a title generator, a sub-agent): it gets a branch of its own there, and drafts from the loop's text. A
   session takes in a few openings only, since a hint may be shared by loops that have nothing in common.
3. Else a new session begins. So does one beside a session that is busy: a session runs one call at a time.
   What its prompt has in common with others of the namespace, a system prompt most often, is copied from their KV.

A wrong choice costs time, never a wrong output: the engine compares token ids before it uses any KV.

Sessions are bounded in number. The one that was used least recently is closed for a new one, and when a new
one begins, those that have been idle for long are closed too, and all when the server stops. What a call wrote is
history of its namespace, which other sessions draft from, when the call ends.

What is sent to the model is what the client sent, with one exception, which is in ``system_prompt``: a line
that changes with every call and that is addressed to the API's accounting, not to the model.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from suffixspec.server.call import Prompt

if TYPE_CHECKING:
    from suffixspec.engine.engine import Engine
    from suffixspec.engine.session import Session

_MOST_OPENINGS = 4  # as many as a session has branches by default
_MOST_HINTS = 16
_LONGEST_HINT = 512
_HEADER_TOKENS = 32


def hints_of(headers: Mapping[str, str], body: Mapping[str, Any]) -> list[str]:
    """The client's names for the loop that a request belongs to, the most trusted first; usually none.

    Args:
        headers: with names in lower case, or case-insensitive.
        body: the request's.
    """
    metadata = body.get("metadata")
    inner = metadata if isinstance(metadata, Mapping) else {}
    found = (
        ("claude-code", headers.get("x-claude-code-session-id")),
        ("user", inner.get("user_id")),
        ("session", headers.get("session-id")),
        ("session", headers.get("session_id")),
        ("session", body.get("session_id")),
        ("session", headers.get("x-session-id")),
        ("affinity", headers.get("x-session-affinity")),
        ("litellm", headers.get("x-litellm-session-id")),
        ("cache", body.get("prompt_cache_key")),
    )
    return [
        f"{kind}:{value}"
        for kind, value in found
        if isinstance(value, str) and 0 < len(value) <= _LONGEST_HINT
    ]


@dataclass
class _Loop:
    """A session of the engine, and how to know the calls that belong to it."""

    session: Session
    openings: list[NDArray[np.int32]] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    busy: bool = False
    used: float = 0.0

    def continued_by(self, token_ids: NDArray[np.int32]) -> bool:
        return any(_starts_with(token_ids, opening) for opening in self.openings)


class Sessions:
    """Lends the engine's sessions to calls. For one thread.

    Args:
        engine: whose.
        most: sessions at a time; more only while all are lent.
        idle_seconds: a session that was not used for so long is closed when another one begins.
        drafting: False decodes plainly.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        most: int = 32,
        idle_seconds: float = 600.0,
        drafting: bool = True,
    ) -> None:
        self._engine = engine
        self._most = most
        self._idle_seconds = idle_seconds
        self._drafting = drafting
        self._loops: dict[str, list[_Loop]] = {}  # by namespace

    def __len__(self) -> int:
        """Open sessions."""
        return sum(len(loops) for loops in list(self._loops.values()))

    @contextlib.contextmanager
    def lend(self, namespace: str, prompt: Prompt, hints: Sequence[str] = ()) -> Iterator[Session]:
        """The session for a call, which nobody else gets meanwhile.

        Args:
            namespace: whose sessions come into question.
            prompt: with its token ids.
            hints: see ``hints_of``.

        Cost: O(tokens of the openings); where several sessions fit, as encoding the prompt for each.
        """
        loop = self._find(namespace, prompt, hints) or self._begin(namespace)
        token_ids = _prompt_ids(prompt)
        if not loop.continued_by(token_ids):
            loop.openings.append(self._opening(token_ids))
        loop.hints = list(dict.fromkeys([*hints, *loop.hints]))[:_MOST_HINTS]
        loop.busy = True
        try:
            yield loop.session
        finally:
            loop.busy = False
            loop.used = time.monotonic()

    def close(self) -> None:
        """Close all sessions."""
        for loops in self._loops.values():
            for loop in loops:
                loop.session.close()
        self._loops.clear()

    def _find(self, namespace: str, prompt: Prompt, hints: Sequence[str]) -> _Loop | None:
        idle = [loop for loop in self._loops.get(namespace, ()) if not loop.busy]
        token_ids = _prompt_ids(prompt)
        fits = [loop for loop in idle if loop.continued_by(token_ids)]
        if len(fits) > 1:
            return max(
                fits, key=lambda loop: (self._reusable(loop, prompt), not _apart(loop, hints), loop.used)
            )
        if fits:
            return fits[0]
        for hint in hints:
            for loop in sorted(idle, key=lambda loop: -loop.used):
                if hint in loop.hints and len(loop.openings) < _MOST_OPENINGS:
                    return loop
        return None

    def _begin(self, namespace: str) -> _Loop:
        now = time.monotonic()
        idle = sorted(
            (
                (loop.used, name, loop)
                for name, loops in self._loops.items()
                for loop in loops
                if not loop.busy
            ),
            key=lambda entry: entry[:2],
        )
        excess = len(self) + 1 - self._most
        for number, (used, name, loop) in enumerate(idle):
            if number < excess or now - used >= self._idle_seconds:
                loop.session.close()
                self._loops[name].remove(loop)
                if not self._loops[name]:
                    del self._loops[name]
        # A name that says nothing about how many others there are: a client may see it.
        session = self._engine.session(
            f"call-{uuid.uuid4().hex[:16]}", namespace=namespace, drafting=self._drafting
        )
        loop = _Loop(session, used=now)
        self._loops.setdefault(namespace, []).append(loop)
        return loop

    def _reusable(self, loop: _Loop, prompt: Prompt) -> int:
        if prompt.messages is not None:
            return loop.session.reusable_tokens(prompt.text)
        owner = (loop.session.namespace, loop.session.name)
        with self._engine.lock:
            return self._engine.branches.best(owner, _prompt_ids(prompt))[1]

    def _opening(self, token_ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """A prompt up to its last end token: a template may write the reply's header differently later."""
        ends = np.flatnonzero(np.isin(token_ids[-_HEADER_TOKENS:], list(self._engine.eos_ids)))
        if not ends.size:
            return token_ids
        return token_ids[: max(len(token_ids) - _HEADER_TOKENS, 0) + int(ends[-1]) + 1]


def _apart(loop: _Loop, hints: Sequence[str]) -> bool:
    return not set(hints) & set(loop.hints)


def _prompt_ids(prompt: Prompt) -> NDArray[np.int32]:
    if prompt.token_ids is None:
        raise RuntimeError("expected a prompt that has been encoded")
    return prompt.token_ids


def _starts_with(token_ids: NDArray[np.int32], opening: NDArray[np.int32]) -> bool:
    return len(opening) <= len(token_ids) and bool(np.array_equal(token_ids[: len(opening)], opening))
