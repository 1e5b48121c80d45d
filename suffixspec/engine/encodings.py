"""Tokens of texts that come again: a conversation is sent anew with every turn, and grows at its end only."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suffixspec.text.tokenizer import Tokenizer

_MOST_BYTES = 1 << 26


class Encodings:
    """Remembers what stretches of text between special tokens were encoded as; those that were not used leave first.

    Kept per namespace, so that not even the time that a request takes tells what others have sent. May be shared
    by threads.

    Args:
        tokenizer: text to tokens.
        most_bytes: upper bound of what is remembered, of all namespaces together.
    """

    def __init__(self, tokenizer: Tokenizer, *, most_bytes: int = _MOST_BYTES) -> None:
        self._tokenizer = tokenizer
        self._most = most_bytes
        self._known: OrderedDict[tuple[str, str], tuple[int, ...]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Of all that is remembered, about."""
        return self._bytes

    def encode(self, namespace: str, text: str, *, continues: bool = False) -> list[int]:
        """The tokens of a text: what ``Tokenizer.encode`` gives. Encodes what is new (2 MB/s), looks up the rest.

        Args:
            namespace: on whose behalf.
            text: any text.
            continues: it goes on after other text.
        """
        tokenizer = self._tokenizer
        if not tokenizer.splits_at_special:
            return tokenizer.encode(text, continues=continues) if text else []
        ids: list[int] = []
        for stretch in tokenizer.special_pattern.split(text):
            special = tokenizer.special_tokens.get(stretch)
            if special is not None:
                ids.append(special)
            elif stretch:
                ids += self._stretch(namespace, stretch)
        return ids

    def _stretch(self, namespace: str, text: str) -> Sequence[int]:
        key = namespace, text
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known
        ids = tuple(self._tokenizer.encode(text))
        with self._lock:
            if key not in self._known:
                self._known[key] = ids
                self._bytes += _size(text, ids)
            while self._bytes > self._most:
                (_, oldest), gone = self._known.popitem(last=False)
                self._bytes -= _size(oldest, gone)
        return ids


def _size(text: str, ids: Sequence[int]) -> int:
    return sys.getsizeof(text) + 8 * len(ids) + 256
