"""Text from tokens that arrive one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

Decode: TypeAlias = Callable[[Sequence[int]], str]
"""Token ids to text, with U+FFFD for bytes that are no character."""

_UNKNOWN = "\ufffd"
# A character takes at most 4 bytes and so at most 4 tokens. Waiting much longer for one is of no use: the bytes
# are garbage. So no more than this is decoded for one token.
_LONGEST_WAIT = 16


class Detokenizer:
    """Turns tokens into text as they come; a character whose bytes lie in several tokens comes with the last.

    The pieces, put together, are ``decode`` of all tokens, where a longer text never changes what a shorter
    one said but for its last, incomplete character. That holds for byte-level vocabularies; one with byte
    fallback may take back a character when garbage bytes follow it, which a stream cannot.

    Args:
        decode: token ids to text; is given the last few tokens only.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        # What comes first may be decoded differently (SentencePiece drops a space there), so tokens are
        # decoded behind those that came before them. Between the two lies a border of characters.
        self._before: list[int] = []
        self._waiting: list[int] = []
        self._shown = 0  # so many characters of decode(_before + _waiting) have been returned

    def push(self, token_id: int) -> str:
        """The text that this token completes, "" while a character is incomplete.

        Cost: decodes a few tokens, twice.
        """
        self._waiting.append(token_id)
        text = self._decode([*self._before, *self._waiting])
        new = text[self._shown :]
        if new and not new.endswith(_UNKNOWN):
            self._before, self._waiting = self._waiting, []
            self._shown = len(self._decode(self._before))
            return new
        # U+FFFD at the end: a character may have begun, or it may be garbage, or that very character.
        if len(self._waiting) < _LONGEST_WAIT:
            return ""
        if new:
            # More bytes can still change the last character, and it begins within the last few tokens.
            self._before, self._waiting = [], self._waiting[-_LONGEST_WAIT // 2 :]
            self._shown = len(self._decode(self._waiting)) - 1
            return new[:-1]
        self._waiting = []  # tokens without a text
        return ""

    def flush(self) -> str:
        """What is left at the end of the output: bytes that never became a character, as U+FFFD."""
        text = self._decode([*self._before, *self._waiting]) if self._waiting else ""
        self._before, self._waiting, shown, self._shown = [], [], self._shown, 0
        return text[shown:]
