"""What is kept of a request that runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from suffixspec.draft.tree import EMPTY, DraftTree
from suffixspec.integrations.hosted.session_table import Lane, SessionTable
from suffixspec.integrations.hosted.settings import Settings

_CHECKED = 16
_LONGEST_NAME = 512


class LiveRequest:
    """A request, its session, and how far its row has been read.

    Read from the runner's row alone, and whenever one is seen: rows move, requests are preempted, leave the batch and
    come back, their last tokens are taken back. What was read is compared with what is there now: all of it where
    the row is another one than last time, else its end.

    Args:
        state: the runner's state of it.
        lane: the session that it goes on with.
        common: how many tokens of the prompt the session has.
    """

    def __init__(self, state: Any, lane: Lane, common: int) -> None:
        params = state.sampling_params
        self.state = state
        self.lane = lane
        self.prompt_length = int(state.num_prompt_tokens)
        self.ended = False
        """Its output has come to an end token: what vLLM sampled behind that is thrown away."""
        self._length = 0
        self._begun = False
        self._common = common
        self._row = -1
        self._temperature = float(getattr(params, "temperature", 0.0) or 0.0)
        self.is_seeded = self._temperature > 0.0 and getattr(params, "seed", None) is not None
        """Whether its output is sampled, and is to be the same each time."""
        self._most_output = getattr(params, "max_tokens", None)
        self._least_output = int(getattr(params, "min_tokens", 0) or 0)
        self._ends = stop_ids(params)

    @property
    def is_same(self) -> bool:
        """Whether the runner's state still is that of the request that began."""
        return int(self.state.num_prompt_tokens) == self.prompt_length

    def read(self, index: int, row: NDArray[np.int32], length: int, allowed: int) -> int:
        """Take in what is new in the request's row.

        Args:
            index: of the row.
            row: int32 [at least length], the request's tokens.
            length: how many there are.
            allowed: most tokens of the prompt that may be indexed now.

        Returns:
            How many of the prompt were. Cost: O(new tokens); O(length) where the row is another one.
        """
        session = self.lane.session
        indexed = 0
        if self._length < self.prompt_length or not self._begun:
            # The prompt: what the session has of it costs nothing, the rest comes in slices.
            have = self._length if self._begun else self._common
            end = min(length, self.prompt_length, have + allowed)
            if end == 0 or (self._begun and end <= self._length):
                return 0
            common = session.sync(row[:end], temperature=self._temperature)
            self._begun = True
            self._length = end
            self._row = index
            indexed = end - common
            if end < min(length, self.prompt_length):
                return indexed
        if length < self._length or not self._agrees(index, row):
            return indexed + self._read_anew(index, row, length)
        self._row = index
        emitted = row[self._length : length]
        if emitted.size and self.ended:
            return indexed + self._read_anew(index, row, length)
        if emitted.size:
            emitted = self._until_end(emitted)
            session.accept(emitted)
            self._length += len(emitted)
        return indexed

    @property
    def is_read(self) -> bool:
        """Whether all of the prompt is indexed."""
        return self._begun and self._length >= self.prompt_length

    def draft(self) -> DraftTree:
        """What comes next, as the session sees it."""
        return EMPTY if self.ended else self.lane.session.draft()

    def room(self, max_model_len: int) -> int:
        """How many tokens a draft may have: one more is always sampled."""
        room = max_model_len - self._length - 1
        if self._most_output is not None:
            room = min(room, self._most_output - (self._length - self.prompt_length) - 1)
        return max(0, room)

    def _agrees(self, index: int, row: NDArray[np.int32]) -> bool:
        context, length = self.lane.session.context, self._length
        if len(context) < length:
            return False
        if index != self._row:
            return np.array_equal(context[:length], row[:length])
        start = max(0, length - _CHECKED)
        # Of so few tokens, a comparison of bytes takes a tenth of one of arrays.
        return context[start:length].tobytes() == row[start:length].tobytes()

    def _read_anew(self, index: int, row: NDArray[np.int32], length: int) -> int:
        """Begin a turn in the middle of an output: vLLM took tokens back, or the row is not what it was."""
        session = self.lane.session
        session.end_turn()
        common = session.sync(row[:length], temperature=self._temperature)
        self._length, self._row, self._begun, self.ended = length, index, True, False
        return length - common

    def _until_end(self, emitted: NDArray[np.int32]) -> NDArray[np.int32]:
        """Without what was sampled behind an end token, in the same step."""
        tokens = emitted.tolist()
        if self._ends.isdisjoint(tokens):
            return emitted
        done = self._length - self.prompt_length
        for at, token in enumerate(tokens):
            if token in self._ends and done + at + 1 >= self._least_output:
                self.ended = True
                return emitted[: at + 1]
        return emitted


def begin(
    state: Any, prompt: NDArray[np.int32], table: SessionTable, settings: Settings, *, adapter: str | None
) -> LiveRequest | None:
    """A new request, with the session that it goes on with.

    Its client may name the loop (``suffixspec_session``) and whose history it shares (``suffixspec_namespace``) among
    the request's own arguments; names of no use are none.

    Args:
        state: the engine's of it.
        prompt: int32 [n], its tokens.
        table: of the sessions there are.
        settings: those of them that are about namespaces.
        adapter: the name of its LoRA adapter.

    Returns:
        None where there is no memory for one more session.
    """
    given = getattr(state.sampling_params, "extra_args", None) or {}
    namespace = _name(given.get("suffixspec_namespace")) or settings.namespace
    if adapter is not None and not settings.share_adapters:
        namespace = f"{namespace}/lora:{adapter}"
    adopted = table.adopt(
        namespace, _name(given.get("suffixspec_session")), prompt, end_ids(state.sampling_params)
    )
    return None if adopted is None else LiveRequest(state, *adopted)


def stop_ids(params: Any) -> frozenset[int]:
    """The tokens that end a request's output."""
    found = set(getattr(params, "stop_token_ids", None) or ())
    end = getattr(params, "eos_token_id", None)  # vLLM leaves it out where it is to be ignored
    return frozenset(found | ({end} if end is not None else set()))


def end_ids(params: Any) -> frozenset[int]:
    """The tokens that end a message of this model, whether or not they end this request's output."""
    return frozenset(getattr(params, "all_stop_token_ids", None) or ()) | stop_ids(params)


def _name(value: object) -> str | None:
    """A client's name for something; None where it gives none that is usable."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return value if isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME else None
