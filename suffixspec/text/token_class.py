"""What a token looks like: one of 16 classes, the same in every vocabulary.

Whether a copy goes on depends on where it stands: in the middle of a word nearly always, behind a line's end or
before a number often not. Token ids say that for one vocabulary only, and after they have been seen; classes say it
for all of them.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from suffixspec.native.evidence import CLASSES

UNKNOWN = 0  # nothing, or no text of its own: a special token, a part of a character
(
    NEWLINES, SPACES, LINE_STARTS, DIGITS, LOWER, LOWER_PART, TITLE, TITLE_PART, UPPER, MIXED,
    BRACKET, QUOTE, MARK, MARKS, MARKS_PART,
) = range(1, CLASSES)  # fmt: skip

_REPLACED = "\ufffd"


class Vocabulary(Protocol):
    """What is asked of a tokenizer."""

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        ...

    @property
    def special_tokens(self) -> dict[str, int]:
        """Text and id of every special token."""
        ...

    def decode(self, ids: list[int], *, continues: bool = False) -> str:
        """Text of tokens."""
        ...


def token_classes(tokenizer: Vocabulary) -> NDArray[np.uint8]:
    """uint8 [vocabulary]: class of each token. Cost: some 20 µs per token."""
    classes = np.zeros(tokenizer.vocab_size, np.uint8)
    special = set(tokenizer.special_tokens.values())
    for token in range(classes.shape[0]):
        if token not in special:
            classes[token] = class_of_text(tokenizer.decode([token], continues=True))
    return classes


def class_of_text(text: str) -> int:
    """Class of a token by its text."""
    word = text.strip()
    starts = text[:1] == " "  # begins a word, or stands apart from what is before it
    if not text or _REPLACED in text:
        return UNKNOWN
    if not word:
        if not text.strip("\r\n"):
            return NEWLINES
        return LINE_STARTS if "\n" in text else SPACES
    if word.isdecimal():
        return DIGITS
    if word.isalpha() and text[starts:] == word:
        if word.islower():
            return LOWER if starts else LOWER_PART
        if word.isupper() and len(word) > 1:
            return UPPER
        if word.istitle():
            return TITLE if starts else TITLE_PART
        return MIXED
    if any(letter.isalpha() for letter in word):
        return MIXED
    if len(word) == 1:
        return BRACKET if word in "()[]{}" else QUOTE if word in "\"'`" else MARK
    return MARKS if starts else MARKS_PART
