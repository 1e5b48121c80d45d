"""The time of a target forward as a function of its width: t(n) over n new tokens, in ms.

A draft of k nodes costs t(k + 1), since the pending token is checked in the same forward. Everything that
weighs a draft against its price (the drafter's node budget, the modelled speed-up of a replay) reads t from
a ``CostCurve``: one of three named ones, or points measured on a real target.

Example:
    >>> curve = CostCurve.named("mid")
    >>> curve.t1_ms, curve.ms(33)
    (25.0, 41.0)
    >>> best_prefix([0.9, 0.5, 0.001], curve.table(3))
    2
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suffixspec.errors import InputError, SuffixspecError

NAMES = ("gpu", "mid", "cpu")
"""The named curves: a GPU at batch 1, a slower or loaded accelerator, SmolLM2-135M on two CPU cores."""

_NAMED_POINTS: dict[str, tuple[tuple[int, float], ...]] = {
    # k nodes cost 1 + 0.002 k forwards of 10 ms, and 1 + 0.02 k of 25 ms: straight lines, two points each.
    "gpu": ((1, 10.0), (1001, 30.0)),
    "mid": ((1, 25.0), (101, 75.0)),
    # Measured, fp32 with a context of 512 tokens. From one token to two, the linear layers change from a
    # matrix-vector to a matrix-matrix product: the first node costs as much as the next thirty.
    "cpu": ((1, 94.0), (2, 190.0), (4, 191.0), (8, 214.0), (16, 214.0), (32, 252.0), (64, 373.0)),
}
_KEYS = ("name", "points", "buckets", "about")


@dataclass(frozen=True, slots=True)
class CostCurve:
    """t(n), non-decreasing in n: linear between its points, and past the last one with the last slope.

    Build one with ``named``, ``fit`` or ``load``; the constructor trusts its arguments.
    """

    name: str
    points: tuple[tuple[int, float], ...]
    """(n, ms), n ascending from 1, ms never falling. At least two."""
    buckets: tuple[int, ...] = ()
    """Widths that a forward is padded to, ascending; empty where forwards are not padded."""

    @classmethod
    def named(cls, name: str) -> "CostCurve":
        """One of the named curves: ``"gpu"``, ``"mid"`` or ``"cpu"``.

        Raises:
            SuffixspecError: there is no curve of that name.
        """
        if name not in _NAMED_POINTS:
            raise SuffixspecError(f"expected a cost curve of {', '.join(NAMES)}, got {name!r}")
        return cls(name, _NAMED_POINTS[name])

    @classmethod
    def fit(
        cls, measured: Iterable[tuple[int, float]], *, name: str = "measured", buckets: Sequence[int] = ()
    ) -> "CostCurve":
        """The non-decreasing curve under measured times: t(n) = the least time of any width >= n.

        Why not isotonic regression: other work on the machine can only make a forward slower, so the errors
        have one sign, and a forward over more tokens includes one over fewer. Every measurement at a width
        m >= n is therefore an upper bound of t(n), and the least of them is the best; averaging a
        neighbour's stall into the curve (which isotonic regression does, and a running maximum even spreads
        upwards) would keep drafts small for no reason. Repeated measurements of a width are pooled the
        same way.

        n = 1 stands apart: it is not pulled down by wider forwards, which may use other kernels, and a wider
        forward is never taken to be cheaper than it, so that a draft can only pay by being accepted.

        Args:
            measured: (n, ms) in any order, n >= 1 whole, ms > 0 and finite; n = 1 and one more width needed.
            name: what to call the curve in reports.
            buckets: the widths that forwards are padded to, if they are; n is charged as the smallest
                bucket >= n. Wider than the largest bucket, a forward runs (and is charged) unpadded.

        Raises:
            ValueError: "expected …, got …".
        """
        least: dict[int, float] = {}
        for n, ms in measured:
            _expect(_is_width(n), f"the number of tokens n to be a whole number >= 1, got {n!r}")
            _expect(_is_time(ms), f"a time > 0 in ms for n = {n}, got {ms!r}")
            least[int(n)] = min(float(ms), least.get(int(n), math.inf))
        smallest = f"the smallest n is {min(least)}" if least else "no points"
        _expect(1 in least, f"a point for n = 1, got {smallest}; all is compared with a plain step, t(1)")
        _expect(len(least) > 1, "points for at least two widths, got only n = 1")

        widths = sorted(least)
        fitted = [(1, least[1])]
        bound = math.inf
        for n in reversed(widths[1:]):
            bound = min(bound, least[n])
            fitted.insert(1, (n, max(bound, least[1])))
        return cls(name, tuple(fitted), _checked_buckets(buckets))

    @classmethod
    def load(cls, source: str | Path) -> "CostCurve":
        """A named curve, or one from a JSON file ``{"points": [[n, ms], …], "name"?, "buckets"?, "about"?}``.

        The points are fitted as ``fit`` says. ``about`` is free: what was measured, on what.

        Raises:
            InputError: ``source`` is neither, or the file is malformed.
        """
        if str(source) in _NAMED_POINTS:
            return cls.named(str(source))
        path = str(source)
        try:
            text = Path(source).read_bytes().decode("utf-8-sig")
        except FileNotFoundError:
            raise InputError(
                f"expected a cost curve of {', '.join(NAMES)} or a JSON file, got {path!r}, which is neither"
            ) from None
        except OSError as error:
            raise InputError(f"expected a readable file: {error.strerror}", path=path) from error
        except UnicodeDecodeError as error:
            raise InputError(
                f"expected UTF-8, got byte {error.object[error.start]:#04x}", path=path
            ) from error
        try:
            return cls._from_json(json.loads(text), default_name=Path(source).stem)
        except json.JSONDecodeError as error:
            raise InputError(f"expected JSON, got {error.msg}", path=path, line=error.lineno) from error
        except RecursionError:
            raise InputError("expected a cost curve, got JSON nested too deeply", path=path) from None
        except ValueError as error:
            raise InputError(str(error), path=path) from error

    @classmethod
    def _from_json(cls, data: Any, *, default_name: str) -> "CostCurve":
        _expect(isinstance(data, dict), f'an object {{"points": [[n, ms], …]}}, got {_kind(data)}')
        for key in data:
            _expect(key in _KEYS, f"only the keys {', '.join(_KEYS)}, got {key!r}")
        name = data.get("name", default_name)
        _expect(isinstance(name, str), f'"name" to be a text, got {_kind(name)}')
        points = data.get("points")
        _expect(isinstance(points, list), f'"points" to be a list [[n, ms], …], got {_kind(points)}')
        for index, point in enumerate(points):
            is_pair = isinstance(point, list) and len(point) == 2
            _expect(is_pair, f"point {index + 1} to be [n, ms], got {json.dumps(point)[:60]}")
        buckets = data.get("buckets", [])
        _expect(isinstance(buckets, list), f'"buckets" to be a list [n, …], got {_kind(buckets)}')
        return cls.fit([(n, ms) for n, ms in points], name=name, buckets=buckets)

    def to_json(self) -> dict[str, object]:
        """The object that ``load`` reads back to an equal curve."""
        data: dict[str, object] = {"name": self.name, "points": [list(point) for point in self.points]}
        if self.buckets:
            data["buckets"] = list(self.buckets)
        return data

    @property
    def t1_ms(self) -> float:
        """Time of a plain step in ms: t(1)."""
        return self.ms(1)

    def ms(self, n: int) -> float:
        """Time of a forward over ``n`` >= 1 new tokens in ms. O(points), some µs: use ``table`` in a loop.

        Raises:
            ValueError: n < 1.
        """
        if n < 1:
            raise ValueError(f"expected a forward over n >= 1 tokens, got {n}")
        return float(self._ms(np.array([n]))[0])

    def table(self, max_nodes: int) -> NDArray[np.float32]:
        """t(k + 1) / t(1) for drafts of k = 0 … ``max_nodes`` nodes: float32 [max_nodes + 1], C-contiguous.

        The first entry is 1. Cost and errors as of ``times``.
        """
        times = self.times(max_nodes)
        return (times / times[0]).astype(np.float32)

    def times(self, max_nodes: int) -> NDArray[np.float64]:
        """t(k + 1) in ms for drafts of k = 0 … ``max_nodes`` nodes: float64 [max_nodes + 1].

        Cost: O(max_nodes · log points).

        Raises:
            ValueError: max_nodes < 0.
        """
        if max_nodes < 0:
            raise ValueError(f"expected max_nodes >= 0, got {max_nodes}")
        return self._ms(np.arange(1, max_nodes + 2))

    def padded(self, n: NDArray[np.int64]) -> NDArray[np.int64]:
        """Int64 [m]: the widths that forwards over int64 [m] tokens run at. Cost: O(m · log buckets)."""
        if not self.buckets:
            return n
        return np.maximum(n, np.array([*self.buckets, 0])[np.searchsorted(self.buckets, n)])

    def _ms(self, n: NDArray[np.int64]) -> NDArray[np.float64]:
        """float64 [m] times of int64 [m] widths."""
        n = self.padded(n)
        (n0, ms0), (n1, ms1) = self.points[-2:]
        xs, ys = np.array(self.points, np.float64).T
        beyond = ms1 + (n - n1) * ((ms1 - ms0) / (n1 - n0))
        return np.where(n > n1, beyond, np.interp(n, xs, ys))


def best_prefix(probs: Sequence[float] | NDArray[np.floating], table: NDArray[np.floating]) -> int:
    """How many nodes of a best-first draft to keep: the k that maximises E(k) / t(k + 1).

    E(k) = 1 + Σ of the first k probabilities is the number of tokens that the forward is expected to yield.
    All prefixes are looked at, the empty one included: t is not convex, so stopping at the first node that
    does not pay would miss a later prefix that does. Of equally good ones the shortest is taken.

    This is the obvious twin of what the draft kernel does; sums are float64.

    Args:
        probs: float [m], path probability of each node in the order in which they would be drafted.
        table: float [>= m + 1], ``CostCurve.table``: t(k + 1) / t(1).

    Returns:
        k in 0 … m. Cost: O(m).

    Raises:
        ValueError: the table is too short for the draft.
    """
    if len(table) < len(probs) + 1:
        raise ValueError(f"expected a table of at least {len(probs) + 1} entries, got {len(table)}")
    best, best_gain, expected = 0, 1.0 / float(table[0]), 1.0
    for k, prob in enumerate(probs, start=1):
        expected += float(prob)
        gain = expected / float(table[k])
        if gain > best_gain:
            best, best_gain = k, gain
    return best


def _checked_buckets(buckets: Sequence[int]) -> tuple[int, ...]:
    for bucket in buckets:
        _expect(_is_width(bucket), f"buckets to be whole numbers >= 1, got {bucket!r}")
    return tuple(sorted({int(bucket) for bucket in buckets}))


def _expect(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"expected {what}")


def _is_width(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(1 <= value < 2**31)


def _is_time(value: object) -> bool:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return number and bool(0 < value <= 1e12)  # type: ignore[operator]  # false for NaN and infinity too


def _kind(value: object) -> str:
    """What JSON calls the type of a decoded value."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), "a number")
