"""Whether a drafted output is plain decoding's, and where it is not, how close the choice was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from numpy.typing import ArrayLike

from suffixspec.index.suffix_tree import as_tokens
from suffixspec.verify.sampling import SamplingParams

if TYPE_CHECKING:
    from suffixspec.engine.engine import Engine

_NEAR_TIE = {torch.float64: 1e-9, torch.float32: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.25}
"""Logit gaps below which forwards of different shape may choose differently: some rounding errors of a sum of
hundreds of terms, for logits of the order of 20."""


@dataclass(frozen=True)
class Difference:
    """A token that plain decoding would have chosen otherwise, behind the same tokens."""

    index: int
    """Place in the output."""
    drafted: int | None
    """The token of the drafted output; None: it had ended."""
    plain: int | None
    """Plain decoding's; None: it had ended."""
    gap: float
    """How far plain decoding's most probable token lies above its second, in logits."""
    near_tie: bool
    """Whether rounding can account for it."""


@dataclass
class LosslessReport:
    """What a comparison came to."""

    compared: int
    """Tokens compared."""
    differences: list[Difference] = field(default_factory=list)
    complete: bool = True
    """False where nothing behind the first difference could be compared: the random state had parted."""

    @property
    def near_ties(self) -> int:
        """Differences that rounding can account for."""
        return sum(difference.near_tie for difference in self.differences)

    @property
    def errors(self) -> int:
        """Differences that it cannot: bugs."""
        return len(self.differences) - self.near_ties

    def sentences(self, engine: Engine) -> list[str]:
        """For people: one sentence a difference, and a summary."""
        lines = []
        for difference in self.differences:
            drafted, plain = (
                "the end" if token is None else repr(engine.decode([token]))
                for token in (difference.drafted, difference.plain)
            )
            kind = "near-tie" if difference.near_tie else "DIFFERENCE"
            lines.append(
                f"{kind} at token {difference.index}: drafted {drafted}, plain {plain}, "
                f"top-2 gap {difference.gap:.2e}"
            )
        rest = "" if self.complete else "; nothing behind the first difference could be compared"
        lines.append(
            f"lossless: {self.compared} tokens compared with plain decoding, {self.near_ties} near-ties, "
            f"{self.errors} other differences{rest}"
        )
        return lines


def check_lossless(
    engine: Engine, prompt_ids: ArrayLike, token_ids: Sequence[int], params: SamplingParams
) -> LosslessReport:
    """Decode plainly what was decoded with drafts, and compare token by token.

    After a difference in greedy decoding, plain decoding goes on behind the drafted output's own token, so
    that all flips are counted and not only the first.

    Args:
        engine: where it was decoded.
        prompt_ids: int [n], ``session.prompt_ids``.
        token_ids: the reply's.
        params: as given; ``seed`` is needed where tokens were drawn.

    Raises:
        ValueError: a sampled output without a seed, or a lenient one, which is not plain decoding's.

    Cost: plain decoding of as many tokens.
    """
    if params.lenience < 1.0:
        raise ValueError(f"expected lenience 1, got {params.lenience}: its output is not the target's own")
    if params.temperature > 0.0 and params.seed is None:
        raise ValueError("expected a seed, got none: two sampled outputs differ anyway")
    prompt = as_tokens(prompt_ids).tolist()
    drafted = list(token_ids)
    report = LosslessReport(compared=0)
    at = 0
    # One session for all stretches: what lies before a difference keeps its KV.
    session = engine.plain_session()
    with session:
        while at < len(drafted):
            limit = None if params.max_tokens is None else params.max_tokens - at
            stretch = replace(params, max_tokens=limit, logprobs=max(2, params.logprobs or 0), n=1)
            plain = session.decode([*prompt, *drafted[:at]], stretch)
            pairs = zip(drafted[at:], plain.token_ids, strict=False)
            same = next(
                (i for i, (a, b) in enumerate(pairs) if a != b), min(len(drafted) - at, len(plain.token_ids))
            )
            report.compared += same
            place = at + same
            if place == len(drafted) and same == len(plain.token_ids):
                break
            ended = place == len(drafted)
            gap = float("inf")
            if same < len(plain.token_ids):
                top = plain.logprobs[same].top
                gap = top[0][1] - top[1][1] if len(top) > 1 else gap
            report.compared += 1
            report.differences.append(
                Difference(
                    index=place,
                    drafted=None if ended else drafted[place],
                    plain=plain.token_ids[same] if same < len(plain.token_ids) else None,
                    gap=gap,
                    near_tie=gap < _NEAR_TIE.get(engine.target.dtype, 1e-3),
                )
            )
            at = place + 1
            if not params.keeps_argmax:
                report.complete = at >= len(drafted)
                break
    return report
