"""Ratios of times that were measured alternately."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Pairs:
    """Seconds of two ways to do the same work, pair by pair: ``ours[i]`` and ``theirs[i]`` were taken in turn."""

    theirs: Sequence[float]
    ours: Sequence[float]

    @property
    def ratios(self) -> list[float]:
        """How many times faster ours was, per pair, ascending."""
        return sorted(theirs / ours for theirs, ours in zip(self.theirs, self.ours, strict=True))

    @property
    def median(self) -> float:
        """Of the ratios."""
        return statistics.median(self.ratios)

    @property
    def pooled(self) -> float:
        """Ratio of the sums."""
        return sum(self.theirs) / sum(self.ours)

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return {
            "pairs": len(self.ratios),
            "median": self.median,
            "least": self.ratios[0],
            "quartiles": statistics.quantiles(self.ratios, n=4) if len(self.ratios) > 1 else None,
            "most": self.ratios[-1],
            "pooled": self.pooled,
            "theirs_s": list(self.theirs),
            "ours_s": list(self.ours),
        }

    def line(self, name: str, bar: float | None = None) -> str:
        """For people: the median with its spread, and whether it reaches a bar."""
        ratios = self.ratios
        verdict = "" if bar is None else f"   bar {bar:g}x: {'met' if self.median >= bar else 'MISSED'}"
        return (
            f"{name:<58}{self.median:6.2f}x   {ratios[0]:.2f} to {ratios[-1]:.2f} in {len(ratios)} pairs, "
            f"pooled {self.pooled:.2f}x{verdict}"
        )
