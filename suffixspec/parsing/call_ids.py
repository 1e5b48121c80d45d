"""Ids of tool calls."""

from __future__ import annotations

import random
import string

_ALPHABET = string.ascii_letters + string.digits


class CallIds:
    """Makes the ids of one message's calls.

    Args:
        seed: the same seed gives the same ids; None gives ids that nobody has had before.
        short: nine letters and digits, for chat templates that accept no other; else ``call_`` and 24 of
            them, OpenAI's form.
    """

    def __init__(self, seed: int | None = None, *, short: bool = False) -> None:
        # The text of the seed, so that the ids share nothing with the random numbers that chose the tokens.
        self._random: random.Random = (
            random.SystemRandom() if seed is None else random.Random(f"tool calls {seed}")
        )
        self._short = short

    def next(self) -> str:
        """The next call's id."""
        letters = self._random.choices(_ALPHABET, k=9 if self._short else 24)
        return ("" if self._short else "call_") + "".join(letters)
