"""Prompt lookup and the n-gram proposer: copy what followed the first occurrence of the last few tokens.

Both are one rule. For n from the longest to the shortest: if the last n tokens of the context occurred in it
before, draft the tokens after the *first* occurrence, up to the end of the context. transformers'
``prompt_lookup_num_tokens`` has n from 2 to 1 and 10 tokens, vLLM's ``ngram`` method n from 5 to 2.

Written from that rule, not from their code. Where they scan the whole context in every step, the first
occurrences are kept in a table here, which grows with the context and is kept over the turns of a session:
the drafts are the same, and the time is less than theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suffixspec.draft import EMPTY, DraftTree
from suffixspec.replay.peers.context import Context, chain


@dataclass(frozen=True, slots=True, kw_only=True)
class NgramSettings:
    """What to match and how much to copy.

    Raises:
        ValueError: "expected …, got …".
    """

    longest: int = 2
    """The most tokens that are matched, n."""
    shortest: int = 1
    """The fewest."""
    tokens: int = 10
    """The most tokens that are copied; the node budget caps it."""

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest <= 64:
            raise ValueError(
                f"expected 1 <= shortest <= longest <= 64, got shortest={self.shortest}, longest={self.longest}"
            )
        if self.tokens < 1:
            raise ValueError(f"expected tokens >= 1, got tokens={self.tokens}")


class FirstOccurrences:
    """Where each n-gram of a text ended first, for n in a range. The text grows and shrinks at its end.

    Args:
        shortest: smallest n.
        longest: largest n.
    """

    def __init__(self, shortest: int, longest: int) -> None:
        self._text: list[int] = []
        # Per n: the end of the first occurrence by n-gram, and the n-grams in the order of those ends.
        self._tables: dict[int, tuple[dict[tuple[int, ...], int], list[tuple[int, ...]]]] = {
            n: ({}, []) for n in range(shortest, longest + 1)
        }

    def extend(self, tokens: list[int]) -> None:
        """Append tokens. Cost: O(len(tokens) · number of n)."""
        text = self._text
        begun = len(text)
        text += tokens
        for n, (ends, order) in self._tables.items():
            for end in range(max(begun + 1, n), len(text) + 1):
                ngram = tuple(text[end - n : end])
                if ngram not in ends:
                    ends[ngram] = end
                    order.append(ngram)

    def truncate(self, length: int) -> None:
        """Forget all but the first ``length`` tokens. Cost: O(what is forgotten)."""
        del self._text[length:]
        for ends, order in self._tables.values():
            while order and ends[order[-1]] > length:
                del ends[order.pop()]

    def find(self, n: int) -> int | None:
        """Where the first occurrence of the last n tokens ends, if that is before the end of the text."""
        length = len(self._text)
        if length <= n:
            return None
        end = self._tables[n][0][tuple(self._text[length - n :])]
        return end if end < length else None


class NgramDrafter:
    """Drafts from the context alone; no history.

    Args:
        name: what reports call it.
        settings: the rule's numbers.
        max_nodes: upper bound of a draft.
    """

    nbytes = 0
    """Not measured: a table in plain Python says nothing about the memory of the peer."""
    indexed_tokens = 0

    def __init__(self, *, name: str, settings: NgramSettings, max_nodes: int = 32) -> None:
        self.name = name
        self.settings = settings
        self.max_nodes = max_nodes

    def session(self, namespace: str = "default") -> NgramSession:  # noqa: ARG002 (the protocol's)
        """Begin an agent loop."""
        return NgramSession(self.settings, self.max_nodes)


class NgramSession:
    """See ``DraftSession``. ``settings`` may be narrowed between two drafts: the table does not change."""

    nbytes = 0
    indexed_tokens = 0

    def __init__(self, settings: NgramSettings, max_nodes: int) -> None:
        self.settings = settings
        self.max_nodes = max_nodes
        self._context = Context()
        self._first = FirstOccurrences(settings.shortest, settings.longest)

    def sync(self, prompt_ids: ArrayLike, *, temperature: float = 0.0, learn: bool = True) -> int:  # noqa: ARG002
        """Begin a turn: make ``prompt_ids`` the context; return how many tokens were known already."""
        common = self._context.replace(prompt_ids)
        self._first.truncate(common)
        self._first.extend(self._context.tokens[common:].tolist())
        return common

    def draft(self, max_nodes: int | None = None) -> DraftTree:
        """What followed the longest n-gram that occurred before."""
        settings = self.settings
        most = min(settings.tokens, self.max_nodes if max_nodes is None else max_nodes)
        for n in range(settings.longest, settings.shortest - 1, -1):
            start = self._first.find(n)
            if start is not None:
                return chain(self._context.tokens[start : start + most].copy())
        return EMPTY

    def accept(self, emitted: NDArray[np.int32]) -> None:
        """Append the target's tokens."""
        self._context.extend(emitted)
        self._first.extend(emitted.tolist())

    def sources(self, nodes: int) -> NDArray[np.int32]:
        """int32 [nodes]: all from the session."""
        return np.zeros(nodes, np.int32)

    def end_turn(self) -> None:
        """Nothing to do: what was emitted is a part of the next prompt."""

    def close(self) -> None:
        """Nothing is kept."""
