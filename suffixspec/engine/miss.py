"""Where a prompt departed from what the branch held, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from suffixspec.text.tokenizer import Tokenizer

_SHOWN_TOKENS = 12


@dataclass(frozen=True)
class Miss:
    """A prompt that did not continue what the session had seen: the KV from ``token`` on was of no use."""

    token: int
    """The first token of the prompt that differs."""
    lost_tokens: int
    """Tokens with KV that were of no use."""
    message: int | None
    """The message that it belongs to; None for a prompt that was given as token ids, for what the template
    writes behind the messages, or where it cannot be told."""
    role: str | None
    """That message's role."""
    cached: str
    """What the branch held there."""
    prompt: str
    """What the prompt has there."""

    def __str__(self) -> str:
        where = f"token {self.token:,}"
        if self.message is not None:
            where += f", in message {self.message} ({self.role})"
        return (
            f"the prompt departs at {where} from what was seen: expected {self.cached!r}, got {self.prompt!r}; "
            f"the KV of {self.lost_tokens:,} tokens could not be used"
        )


def find_miss(
    before: NDArray[np.int32],
    prompt: NDArray[np.int32],
    tokenizer: Tokenizer,
    message_at: Callable[[str], tuple[int, str] | None],
) -> Miss | None:
    """Compare a prompt (int32 [n]) with the tokens that a branch held (int32 [m]); None if it continues them.

    Args:
        before: what the branch with the longest common prefix held.
        prompt: the new prompt.
        tokenizer: to show what differs.
        message_at: (number, role) of the message in which the prompt's text goes on after this prefix of it.
    """
    shared = min(len(before), len(prompt))
    differs = np.flatnonzero(before[:shared] != prompt[:shared])
    at = int(differs[0]) if differs.size else shared
    if at == len(before):
        return None
    place = message_at(tokenizer.decode(prompt[:at].tolist()))
    message, role = (None, None) if place is None else place
    return Miss(
        token=at,
        lost_tokens=len(before) - at,
        message=message,
        role=role,
        cached=tokenizer.decode(before[at : at + _SHOWN_TOKENS].tolist(), continues=True),
        prompt=tokenizer.decode(prompt[at : at + _SHOWN_TOKENS].tolist(), continues=True),
    )
