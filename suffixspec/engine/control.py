"""How much to draft: the target's cost curve, refined by what its forwards really took."""

from __future__ import annotations

import math

from suffixspec.context_cost import ContextCost
from suffixspec.cost import CostCurve
from suffixspec.draft import Drafter

_LEVEL_RATE = 0.1
_SHAPE_RATE = 0.05
_RARE_RATE = 0.3  # for a width that was not seen for a while
_RARE_STEPS = 32
_PLAIN_STEPS = 64
_REFRESH_STEPS = 64
_GAIN_RATE = 0.1
_TRIAL_STEPS = 16
_PROBE_STEPS = 4
_PAUSE = (32, 256)
_PAYS = 0.97
_SHORTEST, _PER_DOUBLING = 256, 4
"""Contexts are told apart in steps of a fourth root of two: t(n) / t(1) changes by a few percent in one."""


class CostControl:
    """Keeps the drafter's cost curve true, and pauses drafting while it does not pay.

    The curve is the one at the context length of the step. Two moving averages of measured ÷ predicted time
    correct it: one over all forwards (a busy machine slows all of them, which changes no decision), and one
    per width against it (which does). What drafting gains is measured as well: tokens of a drafted step × t(1)
    ÷ the step's time. Where that stays below one, drafts are not checked for some tens of steps, then tried
    again for a few, and the pauses grow. Where every step is drafted, one in 64 is plain: without it nothing
    says what drafting is compared with.

    Args:
        drafter: follows the curve where it has ``set_cost``.
        cost: t(n) of the target, by context length or one for all; None drafts all that was found, and never
            pauses.
        max_nodes: the widest draft.
    """

    def __init__(self, drafter: Drafter, cost: ContextCost | CostCurve | None, *, max_nodes: int) -> None:
        self.cost = None if cost is None else ContextCost.of(cost)
        """What was measured beforehand."""
        self.curve: CostCurve | None = None
        """What the drafter follows now; None without a cost."""
        self._drafter = drafter
        widths = [1, 2]
        while widths[-1] < max_nodes + 1:
            widths.append(min(2 * widths[-1], max_nodes + 1))
        self._widths = widths
        self._max_nodes = max_nodes
        self._shape = dict.fromkeys(widths, 1.0)
        self._level = 1.0
        self._steps = 0
        self._seen = dict.fromkeys(widths, 0)  # the step at which each width was last seen
        self._gain = 1.0
        self._drafted = 0
        self._left = 0
        self._pause = _PAUSE[0]
        self._times: dict[int, list[float]] = {}  # by class of context length: ms of a draft of k nodes
        self._class = 0
        self._follow()

    @property
    def gain(self) -> float:
        """Speed of recent drafted steps, in plain steps; 1 where nothing is known."""
        return self._gain

    @property
    def paused(self) -> bool:
        """Whether drafts are not checked for now."""
        return self._left > 0

    def max_nodes(self, context_length: int) -> int | None:
        """The most nodes of the next draft: 0 in a pause, else None, the drafter's own bound.

        The drafter follows the curve at that context length from here on. Cost: O(1), some 100 µs where the
        length has changed much.
        """
        if self.cost is None:
            return None
        length_class = _class(context_length)
        if length_class != self._class:
            self._class = length_class
            self._follow()
        due = self._steps - self._seen[1] >= _PLAIN_STEPS
        return 0 if self.paused or due else None

    def observe(
        self, nodes: int, emitted: int, seconds: float, draft_seconds: float = 0.0, *, context_length: int
    ) -> None:
        """Learn from a step over ``nodes`` draft nodes that took so long. Cost: O(1), O(widths) at times."""
        if self.cost is None:
            return
        times = self._predicted(_class(context_length))
        ms = seconds * 1e3
        width = next((w for w in self._widths if w >= nodes + 1), self._widths[-1])
        # Without clipping one stall of the machine would count for a hundred forwards.
        ratio = min(max(ms / times[min(nodes, self._max_nodes)], 0.1), 10.0)
        self._level += _LEVEL_RATE * (ratio - self._level)
        self._steps += 1
        rare = self._steps - self._seen[width] > _RARE_STEPS
        self._seen[width] = self._steps
        self._shape[width] += (_RARE_RATE if rare else _SHAPE_RATE) * (
            ratio / self._level - self._shape[width]
        )
        if self._steps % _REFRESH_STEPS == 0:
            self._follow()
        if self._left > 0:
            self._left -= 1
            if self._left == 0:
                self._drafted, self._gain = _TRIAL_STEPS - _PROBE_STEPS, 1.0
        elif nodes > 0:
            plain = times[0] * self._level * self._shape[1]
            self._gain += _GAIN_RATE * (emitted * plain / (ms + draft_seconds * 1e3) - self._gain)
            self._drafted += 1
            if self._drafted >= _TRIAL_STEPS:
                if self._gain < _PAYS:
                    self._left = self._pause
                    self._pause = min(2 * self._pause, _PAUSE[1])
                else:
                    self._pause = _PAUSE[0]

    def _predicted(self, length_class: int) -> list[float]:
        """Float [max_nodes + 1]: ms of a forward over a draft of k nodes and the pending token, as measured."""
        if length_class not in self._times:
            assert self.cost is not None
            curve = self.cost.at(round(_SHORTEST * 2 ** (length_class / _PER_DOUBLING)))
            self._times[length_class] = curve.times(self._max_nodes).tolist()
        return self._times[length_class]

    def _follow(self) -> None:
        """Give the drafter the curve of the context length at hand, corrected by what was seen."""
        if self.cost is None:
            return
        times = self._predicted(self._class)
        points = [(n, times[n - 1] * self._level * self._shape[n]) for n in self._widths]
        measured = self.cost.curves[0][1]
        self.curve = CostCurve.fit(points, name=measured.name, buckets=measured.buckets)
        set_cost = getattr(self._drafter, "set_cost", None)
        if set_cost is not None:
            set_cost(self.curve)


def _class(context_length: int) -> int:
    """Contexts of about the same length."""
    return round(_PER_DOUBLING * math.log2(max(context_length, _SHORTEST) / _SHORTEST))
