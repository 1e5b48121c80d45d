"""Log-probabilities as OpenAI's APIs write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suffixspec.text.tokenizer import Tokenizer
    from suffixspec.verify.logprobs import TokenLogprobs

_LEAST = -9999.0
"""OpenAI's value for a token that is as good as impossible; JSON has no infinity."""


def chat_logprobs(tokenizer: Tokenizer, logprobs: Sequence[TokenLogprobs]) -> list[dict[str, Any]]:
    """``logprobs.content`` of a chat completion."""

    def entry(token_id: int, logprob: float) -> dict[str, Any]:
        text = tokenizer.decode([token_id], continues=True)
        return {"token": text, "logprob": max(logprob, _LEAST), "bytes": _bytes(text)}

    return [
        {
            **entry(token.token_id, token.logprob),
            "top_logprobs": [entry(token_id, logprob) for token_id, logprob in token.top],
        }
        for token in logprobs
    ]


def completion_logprobs(
    tokenizer: Tokenizer, logprobs: Sequence[TokenLogprobs], offset: int
) -> dict[str, Any]:
    """``logprobs`` of a completion, for tokens whose text begins ``offset`` characters behind the prompt."""
    texts = [tokenizer.decode([token.token_id], continues=True) for token in logprobs]
    offsets = []
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    tops: list[dict[str, float]] = []
    for token in logprobs:
        top: dict[str, float] = {}
        for token_id, logprob in token.top:  # of two tokens with one text the more probable
            top.setdefault(tokenizer.decode([token_id], continues=True), max(logprob, _LEAST))
        tops.append(top)
    return {
        "tokens": texts,
        "token_logprobs": [max(token.logprob, _LEAST) for token in logprobs],
        "top_logprobs": tops,
        "text_offset": offsets,
    }


def _bytes(text: str) -> list[int] | None:
    """A token's bytes; None for one that is part of a character."""
    return None if "\ufffd" in text else list(text.encode())
