"""The time of a target forward as a function of its width and of the context behind it: t(n, L).

Attention reads the whole context for every new token, the linear layers do not: t(n, L) = a(n) + b(n) · L.
Behind a long context a wide forward costs more plain steps than behind a short one (on a 135M model on two
CPU cores, 16 tokens cost 1.6 plain steps behind 512 tokens and 2.0 behind 7,000), so that fewer nodes pay.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from suffixspec.cost import CostCurve


@dataclass(frozen=True, slots=True)
class ContextCost:
    """Cost curves of one target at some context lengths, linear between them.

    Build one with ``of``.
    """

    curves: tuple[tuple[int, CostCurve], ...]
    """(context length in tokens, its curve), by ascending length; at least one."""

    @classmethod
    def of(cls, cost: "CostCurve | ContextCost | Iterable[tuple[int, CostCurve]]") -> Self:
        """Curves by context length; or one curve, for a target whose cost does not hang on the context.

        Raises:
            ValueError: no curves, two for one length, a length below 0, or curves with different buckets.
        """
        if isinstance(cost, ContextCost):
            return cls(cost.curves)
        curves = [(0, cost)] if isinstance(cost, CostCurve) else sorted(cost, key=lambda pair: pair[0])
        lengths = [length for length, _ in curves]
        if not curves:
            raise ValueError("expected a cost curve for at least one context length, got none")
        if lengths[0] < 0 or len(set(lengths)) < len(lengths):
            raise ValueError(f"expected different context lengths of at least 0, got {lengths}")
        buckets = {curve.buckets for _, curve in curves}
        if len(buckets) > 1:
            raise ValueError(f"expected curves with the same buckets, got {sorted(buckets)}")
        return cls(tuple(curves))

    def at(self, context_length: int) -> CostCurve:
        """t(n) behind a context of so many tokens.

        Linear between the two nearest lengths; past the last one the last two go on; short of the first one
        that stands. Cost: O(points), tens of µs.
        """
        curves = self.curves
        first, last = curves[0], curves[-1]
        if len(curves) == 1 or context_length <= first[0]:
            return first[1]
        above = next((i for i, (length, _) in enumerate(curves) if length >= context_length), len(curves) - 1)
        (low, lower), (high, upper) = curves[above - 1], curves[above]
        share = (context_length - low) / (high - low)
        widths = sorted({n for curve in (lower, upper) for n, _ in curve.points})
        points = [(n, lower.ms(n) + share * (upper.ms(n) - lower.ms(n))) for n in widths]
        if context_length > last[0]:
            # A longer context is never cheaper; measured slopes may be, by noise.
            points = [(n, max(ms, upper.ms(n))) for n, ms in points]
        return CostCurve.fit(points, name=last[1].name, buckets=last[1].buckets)
