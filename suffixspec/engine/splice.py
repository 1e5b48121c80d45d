"""Earlier outputs put back into the prompt as the very tokens that were produced."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from suffixspec.engine.encodings import Encodings
from suffixspec.engine.json_equal import equal_as_json
from suffixspec.text.tokenizer import Tokenizer
from suffixspec.text.traits import first_special
from suffixspec.verify.detokenizer import Detokenizer


class Encode(Protocol):
    """Text to tokens."""

    def __call__(self, text: str, *, continues: bool = False) -> list[int]:
        """The tokens of ``text``, which may go on after other text."""
        ...


@dataclass(frozen=True, slots=True)
class _Written:
    """One output: where it stood, and what it was."""

    prompt_length: int
    """Characters of the prompt that it followed."""
    prompt_digest: bytes
    text: str
    """The text of ``token_ids``."""
    token_ids: tuple[int, ...]
    """Without the end token, which the template writes itself."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Characters ``start`` to ``end`` of a prompt are these tokens."""

    start: int
    end: int
    token_ids: tuple[int, ...]
    how: str


class Splicer:
    """Turns one session's prompts into token ids, with its own outputs as they were produced.

    A model does not always write the tokens that its tokenizer makes of its text; encoded anew, the output
    would have other tokens, and its KV could not be used. So the tokens of each output are kept, and put back
    where the prompt's text, at the place of that output, is what they decode to, byte for byte. Text that the
    client or the template changed or left out is encoded as it stands. Nothing but the text decides: not a
    message's role or number, and not the id of a tool call.

    One splicer knows the outputs of one session of one namespace, and no others.

    Args:
        tokenizer: tokens to text.
        encode: text to tokens, as ``encode(text, continues=…)``; None takes the tokenizer's.
        json_equal: also put outputs back that the template wrote with other white space, key order or escapes
            in their JSON objects and arrays (see ``equal_as_json``). The prompt is then not what the template
            rendered.
    """

    def __init__(
        self, tokenizer: Tokenizer, *, encode: Encode | None = None, json_equal: bool = False
    ) -> None:
        self._tokenizer = tokenizer
        self._encode = encode or partial(Encodings(tokenizer).encode, "")
        self._json_equal = json_equal
        self._written: list[_Written] = []

    def note(self, prompt_text: str, token_ids: Sequence[int]) -> None:
        """Remember an output (without its end token) that followed ``prompt_text``."""
        if token_ids:
            text = self._tokenizer.decode(token_ids, continues=True)
            written = _Written(len(prompt_text), _digest(prompt_text), text, tuple(token_ids))
            self._written.append(written)

    def encode(
        self, text: str, prefixes: Callable[[], list[str]] = list
    ) -> tuple[NDArray[np.int32], list[str]]:
        """The tokens of a prompt, and how each output that is in it was put back.

        Args:
            text: the rendered prompt.
            prefixes: the rendered prompts before each of its assistant messages; asked for only where the
                text before an output has changed, so that its place must be found anew.

        Returns:
            int32 [n]; and "bytes" or "json" for each output put back.

        Cost: hashes the text once per output, and encodes what is new (2 MB/s).
        """
        spans = self._spans(text, prefixes)
        ids: list[int] = []
        at = 0
        for span in spans:
            ids += self._encode(text[at : span.start], continues=bool(ids))
            ids += span.token_ids
            at = span.end
        ids += self._encode(text[at:], continues=bool(ids))
        return np.array(ids, np.int32), [span.how for span in spans]

    def _spans(self, text: str, prefixes: Callable[[], list[str]]) -> list[_Span]:
        """Places of outputs in the text, in order, without overlap."""
        found: dict[int, _Span] = {}
        unplaced = False
        for written in self._written:
            at = written.prompt_length
            if at <= len(text) and _digest(text[:at]) == written.prompt_digest:
                span = self._match(text, at, written, part=True)
                if span is not None:  # of several outputs of the same prompt the longest
                    if at not in found or span.end > found[at].end:
                        found[at] = span
                    continue
            unplaced = True
        if unplaced:
            for prefix in prefixes():
                at = len(prefix)
                if at in found or not text.startswith(prefix):
                    continue
                for written in reversed(self._written):
                    span = self._match(text, at, written, part=False)
                    if span is not None:
                        found[at] = span
                        break
        spans: list[_Span] = []
        for at in sorted(found):
            if not spans or at >= spans[-1].end:
                spans.append(found[at])
        return spans

    def _match(self, text: str, at: int, written: _Written, *, part: bool) -> _Span | None:
        """The output at this place of the text, if it is there; with ``part``, as far as it is there."""
        end = at + len(written.text)
        if text.startswith(written.text, at) and self._message_ends(text, end):
            return _Span(at, end, written.token_ids, "bytes")
        ends = first_special(text[at:], dict.fromkeys(self._tokenizer.eos_texts, 0))
        if ends is None:
            return None
        shown = text[at : at + ends[0]]
        if part and shown and written.text.startswith(shown):
            first = self._first_tokens(written, shown)
            return None if first is None else _Span(at, at + len(shown), first, "bytes")
        if self._json_equal and equal_as_json(shown, written.text):
            return _Span(at, at + len(shown), written.token_ids, "json")
        return None

    def _message_ends(self, text: str, at: int) -> bool:
        """Whether what follows is the end of a message, and not more text of it."""
        rest = text[at : at + 64]
        ends = self._tokenizer.eos_texts
        if not ends:  # a layout without end tokens: white space is all there is
            return rest[:1].isspace() or not rest
        rest = rest.lstrip()
        return not rest or any(rest.startswith(token) for token in ends)

    def _first_tokens(self, written: _Written, shown: str) -> tuple[int, ...] | None:
        """The first tokens of an output, if some of them decode to what is shown of it."""
        pieces = Detokenizer(lambda ids: self._tokenizer.decode(ids, continues=True))
        length = 0
        for count, token in enumerate(written.token_ids, start=1):
            length += len(pieces.push(token))
            if length >= len(shown):
                first = written.token_ids[:count]
                return first if self._tokenizer.decode(first, continues=True) == shown else None
        return None


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
