"""What a call came to: tokens as the APIs count them, and times as llama.cpp's server tells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suffixspec.engine.reply import Reply


@dataclass
class Usage:
    """Tokens of a call. A prompt counts once, whatever the number of its outputs."""

    prompt: int
    cached: int
    """Prompt tokens whose KV was there."""
    completion: int
    """Tokens that came out, end tokens included. Rejected tokens of a prediction are not among them."""
    prediction_accepted: int
    prediction_rejected: int

    @classmethod
    def of(cls, replies: Sequence[Reply], n: int) -> Usage:
        """Of the replies of a call with ``n`` outputs per prompt, in order."""
        firsts = replies[::n]
        return cls(
            prompt=sum(reply.prompt_tokens for reply in firsts),
            cached=sum(reply.cached_tokens for reply in firsts),
            completion=sum(len(reply.token_ids) for reply in replies),
            prediction_accepted=sum(getattr(reply, "prediction_accepted", 0) or 0 for reply in replies),
            prediction_rejected=sum(getattr(reply, "prediction_rejected", 0) or 0 for reply in replies),
        )

    def openai(self) -> dict[str, Any]:
        """As completions and chat completions tell it."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {
                "accepted_prediction_tokens": self.prediction_accepted,
                "rejected_prediction_tokens": self.prediction_rejected,
            },
        }

    def responses(self) -> dict[str, Any]:
        """As the Responses API tells it."""
        return {
            "input_tokens": self.prompt,
            "input_tokens_details": {"cached_tokens": self.cached, "cache_write_tokens": 0},
            "output_tokens": self.completion,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self.prompt + self.completion,
        }

    def anthropic(self) -> dict[str, Any]:
        """As the Messages API tells it: cached tokens are not among the input tokens."""
        return {
            "input_tokens": self.prompt - self.cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": self.cached,
            "output_tokens": self.completion,
        }


def timings(replies: Sequence[Reply]) -> dict[str, Any]:
    """The ``timings`` object of llama.cpp's server: what was computed, and in what time.

    ``prompt_n`` counts prompt tokens that were not cached, ``predicted_n`` tokens that came out, ``draft_n``
    draft nodes that were checked. Times are the call's own: waiting for other calls is not part of them.
    """
    first = replies[0] if replies else None
    cache_n = first.cached_tokens if first else 0
    prompt_n = sum(reply.prompt_tokens - reply.cached_tokens for reply in replies)
    prompt_ms = 1e3 * sum(
        reply.timings.render + reply.timings.index_prompt + reply.timings.prefill for reply in replies
    )
    predicted_n = sum(len(reply.token_ids) for reply in replies)
    predicted_ms = 1e3 * sum(reply.timings.decode for reply in replies)
    return {
        "cache_n": cache_n,
        "prompt_n": prompt_n,
        "prompt_ms": round(prompt_ms, 3),
        "prompt_per_token_ms": _ratio(prompt_ms, prompt_n),
        "prompt_per_second": _ratio(1e3 * prompt_n, prompt_ms),
        "predicted_n": predicted_n,
        "predicted_ms": round(predicted_ms, 3),
        "predicted_per_token_ms": _ratio(predicted_ms, predicted_n),
        "predicted_per_second": _ratio(1e3 * predicted_n, predicted_ms),
        "draft_n": sum(reply.counts.drafted for reply in replies),
        "draft_n_accepted": sum(reply.counts.accepted for reply in replies),
    }


def _ratio(a: float, b: float) -> float:
    return round(a / b, 3) if b else 0.0
