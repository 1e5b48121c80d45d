"""Copy what followed the longest match, found with suffix automata: one of the context, one of history.

The rule of drafters such as SAM-Decoding, written from its description: the longest suffix of the context that
occurred before, in the context or in what earlier sessions wrote, is continued as it went on there. Of two
matches the longer one counts, the context's if they are equal.

In plain Python; the context's automaton is kept over the turns of a session as long as prompts continue it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suffixspec.draft import EMPTY, DraftTree
from suffixspec.replay.peers.context import Context, chain
from suffixspec.replay.peers.suffix_automaton import SuffixAutomaton

_SESSION, _HISTORY = 0, 1
_REMATCHED = 256
"""Tokens that are matched again when the history has changed under a session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomatonSettings:
    """What to copy.

    Raises:
        ValueError: "expected …, got …".
    """

    occurrence: Literal["recent", "first"] = "recent"
    """Which occurrence of the match is copied from."""
    shortest: int = 1
    """The shortest match that is copied from."""
    tokens: int = 32
    """The most tokens that are copied; the node budget caps it."""

    def __post_init__(self) -> None:
        if self.occurrence not in {"recent", "first"}:
            raise ValueError(f"expected occurrence=recent or occurrence=first, got {self.occurrence!r}")
        if self.shortest < 1 or self.tokens < 1:
            raise ValueError(
                f"expected shortest and tokens >= 1, got shortest={self.shortest}, tokens={self.tokens}"
            )


class AutomatonDrafter:
    """Drafts from the context and, if wanted, from the outputs of earlier sessions of the namespace.

    Args:
        name: what reports call it.
        settings: the rule's numbers.
        max_nodes: upper bound of a draft.
        history: whether earlier sessions count.
    """

    nbytes = 0
    """Not measured: objects of Python say nothing about the memory of the peer."""
    indexed_tokens = 0

    def __init__(
        self,
        *,
        name: str = "automaton",
        settings: AutomatonSettings | None = None,
        max_nodes: int = 32,
        history: bool = True,
    ) -> None:
        self.name = name
        self.settings = settings or AutomatonSettings()
        self.max_nodes = max_nodes
        self._keep = history
        self._histories: dict[str, SuffixAutomaton] = {}

    def session(self, namespace: str = "default") -> AutomatonSession:
        """Begin an agent loop that shares the history of ``namespace``."""
        history = self._histories.setdefault(namespace, SuffixAutomaton()) if self._keep else None
        return AutomatonSession(self.settings, self.max_nodes, history)


class AutomatonSession:
    """See ``DraftSession``. ``settings`` may change between two drafts: the automata do not depend on it."""

    nbytes = 0
    indexed_tokens = 0

    def __init__(self, settings: AutomatonSettings, max_nodes: int, history: SuffixAutomaton | None) -> None:
        self.settings = settings
        self.max_nodes = max_nodes
        self._history = history
        self._own = SuffixAutomaton()
        self._context = Context()
        self._outputs: list[list[int]] = []
        self._turn_start = 0
        self._source = _SESSION
        self._match = (0, 0)  # in the history
        self._seen = 0 if history is None else len(history.text)

    def sync(self, prompt_ids: ArrayLike, *, temperature: float = 0.0, learn: bool = True) -> int:  # noqa: ARG002
        """Begin a turn: make ``prompt_ids`` the context; return how many tokens were known already.

        Cost: O(new tokens) where the prompt continues the context, else O(prompt).
        """
        before = len(self._context)
        common = self._context.replace(prompt_ids)
        if common < before:  # an automaton cannot shrink
            common = 0
            self._own = SuffixAutomaton()
            self._match = (0, 0)
        self._append(self._context.tokens[common:].tolist())
        self._turn_start = len(self._context)
        return common

    def _append(self, tokens: list[int]) -> None:
        for token in tokens:
            self._own.append(token)
        history = self._history
        if history is None:
            return
        if self._seen != len(history.text):
            self._seen = len(history.text)
            self._match = (0, 0)
            tokens = self._context.tokens[-_REMATCHED:].tolist()
        state, length = self._match
        for token in tokens:
            state, length = history.step(state, length, token)
        self._match = state, length

    def draft(self, max_nodes: int | None = None) -> DraftTree:
        """What followed the longest match."""
        settings = self.settings
        automaton, (state, length) = self._own, self._own.repeat()
        self._source = _SESSION
        if self._history is not None and self._seen == len(self._history.text) and self._match[1] > length:
            automaton, (state, length) = self._history, self._match
            self._source = _HISTORY
        if length < settings.shortest:
            return EMPTY
        start = (automaton.first if settings.occurrence == "first" else automaton.recent)[state]
        most = min(settings.tokens, self.max_nodes if max_nodes is None else max_nodes)
        copied = automaton.text[start : start + most]
        if self._source == _HISTORY:
            copied = _until_the_end(copied)
        return chain(np.array(copied, np.int32))

    def accept(self, emitted: NDArray[np.int32]) -> None:
        """Append the target's tokens."""
        self._context.extend(emitted)
        self._append(emitted.tolist())

    def sources(self, nodes: int) -> NDArray[np.int32]:
        """int32 [nodes]: where the last draft was copied from."""
        return np.full(nodes, self._source, np.int32)

    def end_turn(self) -> None:
        """Keep the output for the history."""
        self._outputs.append(self._context.tokens[self._turn_start :].tolist())

    def close(self) -> None:
        """End the session: its outputs become history, each with an end that no match crosses."""
        if self._history is not None:
            for output in self._outputs:
                for token in output:
                    self._history.append(token)
                self._history.append(-1 - len(self._history.text))
        self._outputs.clear()


def _until_the_end(tokens: list[int]) -> list[int]:
    """The tokens up to the end of the output that they are from: a negative number."""
    end = next((i for i, token in enumerate(tokens) if token < 0), len(tokens))
    return tokens[:end]
