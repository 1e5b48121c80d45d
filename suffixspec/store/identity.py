"""Which tokenizer the token ids of a history belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffixspec.errors import SuffixspecError

if TYPE_CHECKING:
    from suffixspec.store.segment import Header
    from suffixspec.text.tokenizer import Tokenizer

_SHOWN = 12


@dataclass(frozen=True, slots=True)
class TokenizerIdentity:
    """A tokenizer's fingerprint, which decides, and its name, which people read.

    The fingerprint is that of its vocabulary, merges and added tokens: another chat template changes what a
    prompt is, not what token ids stand for.
    """

    fingerprint: str
    name: str

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> TokenizerIdentity:
        """That of a tokenizer. Cost: the first time, that of its fingerprint (0.1 to 1 s)."""
        return cls(tokenizer.vocabulary_fingerprint, tokenizer.name)

    def __str__(self) -> str:
        return f"{self.name} ({self.fingerprint[:_SHOWN]})"


class TokenizerMismatchError(SuffixspecError):
    """A namespace was written with another tokenizer: its token ids mean something else."""

    def __init__(self, namespace: str, expected: TokenizerIdentity, header: Header) -> None:
        other = TokenizerIdentity(header.tokenizer, header.tokenizer_name)
        super().__init__(
            f"expected a history of tokenizer {expected}, got namespace {namespace!r} of {other}; choose another "
            "folder or namespace, or run 'suffixspec history compact --retokenize' with this tokenizer: it writes "
            "the history anew from its texts"
        )
