"""Chance: the one place where random numbers enter, and the probabilities that they are drawn by."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Protocol

import torch

from suffixspec.errors import SuffixspecError


class Chance(Protocol):
    """What the acceptance rules ask of a source of random numbers."""

    def draw(self, probs: torch.Tensor) -> int:
        """An index x with probability ``probs[x]`` ÷ their sum; ``probs`` is float [V], none below 0."""
        ...

    def accepts(self, probability: float) -> bool:
        """True with this probability; values above 1 count as 1."""
        ...


class SeededChance:
    """Random numbers of its own generators, so that nothing else disturbs their sequence.

    ``draw`` is ``torch.multinomial``: with the same seed, device and vocabulary it yields the tokens that
    transformers' ``generate`` yields after ``torch.manual_seed(seed)``. ``accepts`` takes from a generator
    beside it and costs no round trip to the device.

    Args:
        seed: -2**63 … 2**63 - 1; None takes one from the operating system.
        device: where the probabilities lie. The same seed gives other tokens on another kind of device.
    """

    def __init__(self, seed: int | None = None, device: torch.device | str = "cpu") -> None:
        self._tokens = torch.Generator(device)
        seed = self._tokens.seed() if seed is None else seed
        self._tokens.manual_seed(seed)
        self._coins = random.Random(seed)

    def draw(self, probs: torch.Tensor) -> int:
        """One draw from ``probs`` (float [V]), which takes as many random numbers whatever comes out."""
        return int(torch.multinomial(probs, 1, generator=self._tokens).item())

    def accepts(self, probability: float) -> bool:
        """One uniform number u in [0, 1): u < ``probability``."""
        return self._coins.random() < probability


def to_probs(scores: torch.Tensor) -> torch.Tensor:
    """The softmax of ``scores`` (float [V]), checked.

    Raises:
        SuffixspecError: the scores allow no token, or hold NaN or +inf.
    """
    probs = torch.softmax(scores, dim=-1)  # [V]
    # A NaN, a +inf or nothing above -inf makes the sum NaN, and with it every entry: looking at one will do.
    if torch.isnan(probs[0]):
        raise nothing_to_choose(scores)
    return probs


def at_tokens(values: torch.Tensor, token_ids: Iterable[int], missing: float = 0.0) -> list[float]:
    """``values`` (float [V]) of these tokens, in one transfer.

    An id that the target has no output for (V and above) gets ``missing``: the ids of a prompt, and with them
    what is drafted from it, may go beyond the output layer.
    """
    ids = list(token_ids)
    V = values.shape[-1]
    known = iter(values[[x for x in ids if x < V]].tolist())
    return [next(known) if x < V else missing for x in ids]


def nothing_to_choose(scores: torch.Tensor) -> SuffixspecError:
    """The error for scores (float [V]) that no token can be chosen from; says what is wrong with them."""
    nans, infs = int(torch.isnan(scores).sum()), int((scores == torch.inf).sum())
    if nans or infs:
        return SuffixspecError(
            f"expected scores below infinity, got {nans} NaN and {infs} +inf among {scores.shape[-1]}; "
            "check the model's logits and the logits processors"
        )
    return SuffixspecError(
        f"expected at least one token above -inf, got none among {scores.shape[-1]}; "
        "a logits processor or logit_bias forbids every token"
    )
