"""Log-probabilities of emitted tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class TokenLogprobs:
    """The model's log-probability (natural logarithm) of an emitted token, and of the most probable ones.

    These are the model's own: the log-softmax of its logits before bias, penalties, processors, temperature
    and cut-offs, as vLLM's default and OpenAI's servers report them. They do not depend on how the token was
    chosen, and a token that a penalty pushed away still shows how probable the model finds it.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()
    """The most probable tokens (id, log-probability), the most probable first."""


def token_logprobs(logits: torch.Tensor, token_ids: Sequence[int], top: int = 0) -> list[TokenLogprobs]:
    """The log-probabilities of one emitted token per row.

    Args:
        logits: float [m, V], the model's raw logits after each visited node (``Acceptance.visited``).
        token_ids: m emitted tokens.
        top: how many of the most probable tokens to list; at most V are.

    Raises:
        ValueError: not one row for each token.

    Cost: a log-softmax over m rows, in float32.
    """
    if logits.dim() != 2 or logits.shape[0] != len(token_ids):
        raise ValueError(f"expected logits of shape ({len(token_ids)}, V), got {tuple(logits.shape)}")
    logprobs = torch.log_softmax(logits.to(torch.float32), dim=-1)  # [m, V]
    ids = torch.as_tensor(token_ids, dtype=torch.int64, device=logits.device)  # [m]
    chosen = logprobs.gather(1, ids[:, None])[:, 0].tolist()  # m numbers
    if top == 0:
        return [TokenLogprobs(x, value) for x, value in zip(token_ids, chosen, strict=True)]
    best = torch.topk(logprobs, min(top, logits.shape[-1]), dim=-1)  # [m, top]
    return [
        TokenLogprobs(x, value, tuple(zip(tops, values, strict=True)))
        for x, value, tops, values in zip(
            token_ids, chosen, best.indices.tolist(), best.values.tolist(), strict=True
        )
    ]
