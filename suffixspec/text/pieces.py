"""Very long texts, encoded piece by piece with the result of one piece.

A tokenizer's own record of a text takes some 160 bytes for each byte of it, so one message of 50 MB would take
8 GB. A text is cut in front of a newline, or else of a space, that follows something that is neither. That is
where the usual pre-tokenizers end a word, whatever stands further left or right: those of GPT-2's kind always,
others mostly. Because a tokenizer may know none of this (a merge over newlines, a token that takes in the white
space around it), every cut is tried first: the text around it has to give the same ids in one piece and in two.
Where no cut stands that test, the piece grows, in the end to the whole text.
"""

import re
from collections.abc import Callable, Iterator

PIECE = 1 << 18
"""Characters of a piece, and the length from which texts are cut."""
OVERLAP = 1 << 12
"""Characters on either side of a cut that are encoded to try it."""
_TRIES = 4  # cuts of each kind that are tried before a piece grows
_KINDS = (re.compile(r"(?<=\S)\n"), re.compile(r"(?<=\S) "))


def encode_in_pieces(
    text: str,
    encode: Callable[[str, bool], list[int]],
    *,
    continues: bool = False,
    piece: int = PIECE,
    overlap: int = OVERLAP,
) -> list[int]:
    """The ids of ``text`` that ``encode(text, continues)`` gives, without the memory that it takes.

    Args:
        text: any text.
        encode: gives the ids of a text, which goes on after another one where its second argument is true.
        continues: whether ``text`` goes on after another one.
        piece: characters of a piece; a shorter text stays whole.
        overlap: characters on either side of a cut that are encoded to try it.

    Cost: that of ``encode``, and 6 % more for trying; memory for one piece, besides the ids.
    """
    ids: list[int] = []
    begin = 0
    while begin < len(text):
        end = _find_cut(text, begin, encode, piece, overlap)
        ids += encode(text[begin:end], continues or begin > 0)
        begin = end
    return ids


def _find_cut(
    text: str, begin: int, encode: Callable[[str, bool], list[int]], piece: int, overlap: int
) -> int:
    """Where the piece from ``begin`` ends: at the first cut behind it that stands the test, or with the text."""
    for near in range(begin + piece, len(text), piece):
        for cut in _cuts(text, near, min(near + piece, len(text))):
            left, right = text[max(begin, cut - overlap) : cut], text[cut : cut + overlap]
            before, after = encode(left, True), encode(right, True)
            # No ids tell nothing: a tokenizer may drop white space at the end of a text, and nowhere else.
            if before and after and encode(left + right, True) == before + after:
                return cut
    return len(text)


def _cuts(text: str, begin: int, end: int) -> Iterator[int]:
    """Places to cut at from ``begin`` on, the better kind first."""
    for kind in _KINDS:
        for _, found in zip(range(_TRIES), kind.finditer(text, begin, end), strict=False):
            yield found.start()
