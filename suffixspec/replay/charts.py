"""The report's charts as inline SVG: no script, no external file; colours come from the page's CSS classes.

Each function returns markup that is safe to put into a page: every text in it is escaped. A figure that a
chart draws is also in its ``<title>`` elements, which browsers show on hovering and screen readers read.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

WIDTH = 880
"""Width of every chart in SVG units; the page scales it."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of ``bars``."""

    label: str
    value: float
    text: str
    """The value as it is written at the bar's end."""
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a bar of ``stacks``."""

    css: str
    share: float
    title: str


@dataclass(frozen=True, slots=True)
class Point:
    """One position of a ``Line``: the turns ``first`` … ``last`` (1-based) of all sessions together."""

    first: int
    last: int
    value: float
    count: int
    low: float
    high: float

    @property
    def name(self) -> str:
        """Which turns, in words."""
        return f"turn {self.first}" if self.first == self.last else f"turns {self.first} to {self.last}"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of ``lines``."""

    label: str
    css: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Column:
    """One position of ``columns``: two bars side by side, both shares in [0, 1]."""

    label: str
    first: float
    second: float
    title: str


def bars(
    rows: Sequence[Bar], *, name: str, reference: float | None = None, reference_label: str = ""
) -> Markup:
    """Horizontal bars from 0, with a dashed line at ``reference``."""
    left, step, top = _room([row.label for row in rows]), 38, 6
    right = 20 + 8 * max((len(row.text) for row in rows), default=0)
    bottom = top + step * len(rows)
    largest = max([row.value for row in rows] + ([reference] if reference is not None else []), default=1.0)
    scale = (WIDTH - left - right) / (largest or 1.0)
    parts = []
    for index, row in enumerate(rows):
        y, length = top + index * step, max(row.value * scale, 1.0)
        weight = "bold" if row.strong else "plain"
        parts.append(
            _group(
                f"{row.label}: {row.text}",
                _text(left - 12, y + 17, row.label, weight, anchor="end"),
                _rect(left, y, length, 24, "bar strong" if row.strong else "bar"),
                _text(left + length + 8, y + 17, row.text, weight),
            )
        )
    if reference is not None:
        x = left + reference * scale
        parts += [
            _line(x, 0, x, bottom, "reference"),
            _text(x, bottom + 15, reference_label, anchor="middle"),
        ]
    return _svg(name, bottom + (24 if reference is not None else 0), parts)


def stacks(rows: Sequence[tuple[str, Sequence[Segment]]], *, name: str) -> Markup:
    """Horizontal bars of full width, each cut into shares that add up to 1."""
    left, step, top = _room([label for label, _ in rows]), 42, 4
    width = WIDTH - left - 2
    parts = []
    for index, (label, segments) in enumerate(rows):
        y, x = top + index * step, float(left)
        parts.append(_text(left - 12, y + 20, label, "plain", anchor="end"))
        for segment in segments:
            length = max(segment.share, 0.0) * width
            text = f"{segment.share:.0%}" if length >= 36 else ""
            parts.append(
                _group(
                    segment.title,
                    _rect(x, y, max(length - 1.5, 0.0), 30, segment.css),
                    _text(x + length / 2, y + 20, text, f"inside on-{segment.css}", anchor="middle"),
                )
            )
            x += length
    return _svg(name, top + step * len(rows), parts)


def lines(
    series: Sequence[Line], *, name: str, y_label: str, reference: float, reference_label: str
) -> Markup:
    """Lines over the turns of a loop; the first one with a band from ``low`` to ``high``, its counts below.

    All series have the same positions.
    """
    left, right, top, plot, gap, strip = 46, WIDTH - 120, 26, 250, 34, 34
    positions = series[0].points
    bottom = top + plot
    # The band may leave the plot where a few wild turns would otherwise flatten the lines.
    usual_high = sorted(point.high for point in positions)[int(0.95 * (len(positions) - 1))]
    ticks = _ticks(max([reference, usual_high, *(point.value for line in series for point in line.points)]))
    x_step = (right - left) / max(len(positions) - 1, 1)

    def x(index: int) -> float:
        return left + index * x_step

    def y(value: float) -> float:
        return bottom - min(value, ticks[-1]) * plot / ticks[-1]

    parts = [_text(left - 30, 14, y_label)]
    for tick in ticks:
        parts += [
            _line(left, y(tick), right, y(tick), "grid"),
            _text(left - 8, y(tick) + 4, f"{tick:g}", anchor="end"),
        ]
    upper = [(x(i), y(point.high)) for i, point in enumerate(positions)]
    lower = [(x(i), y(point.low)) for i, point in enumerate(positions)]
    parts.append(_path("polygon", upper + lower[::-1], "band"))
    parts += [
        _line(left, y(reference), right, y(reference), "reference"),
        _text(right + 8, y(reference) + 4, reference_label),
    ]
    label_ys = _spread([y(line.points[-1].value) for line in series], [y(reference)])
    for line, label_y in reversed(list(zip(series, label_ys, strict=True))):
        parts.append(
            _path("polyline", [(x(i), y(p.value)) for i, p in enumerate(line.points)], f"line {line.css}")
        )
        parts.append(_text(right + 8, label_y + 4, line.label, f"end {line.css}"))
        for i, point in enumerate(line.points):
            title = f"{line.label}, {point.name}: {point.value:.2f} over {_turns(point.count)}"
            parts.append(_group(title, _dot(x(i), y(point.value), f"dot {line.css}")))
    most = max(point.count for point in positions)
    floor, thickness = bottom + gap + strip, min(x_step * 0.7, 18.0)
    for i, point in enumerate(positions):
        height = strip * point.count / most
        count = _rect(x(i) - thickness / 2, floor - height, thickness, height, "count")
        parts.append(_group(f"{point.name}: {_turns(point.count)}", count))
    parts.append(_text(right + 18, floor - 8, f"at most {_turns(most)}"))
    every = math.ceil(len(positions) / 16)
    for i in range(0, len(positions), every):
        parts.append(_text(x(i), bottom + 18, str(positions[i].first), anchor="middle"))
    parts.append(_text(right + 18, bottom + 18, "turn"))
    return _svg(name, floor + 4, parts)


def columns(rows: Sequence[Column], *, name: str, x_label: str) -> Markup:
    """Pairs of vertical bars over shared positions, as shares in percent."""
    left, right, top, plot = 46, WIDTH - 4, 10, 220
    bottom = top + plot
    ticks = _ticks(100 * max(max(row.first, row.second) for row in rows))
    scale = plot / ticks[-1]
    step = (right - left) / len(rows)
    thickness = min(step * 0.42, 26.0)
    parts = []
    for tick in ticks:
        y = bottom - tick * scale
        parts += [_line(left, y, right, y, "grid"), _text(left - 8, y + 4, f"{tick:g}%", anchor="end")]
    every = math.ceil(len(rows) * max(len(row.label) for row in rows) / 90)
    for index, row in enumerate(rows):
        middle = left + (index + 0.5) * step
        first, second = 100 * row.first * scale, 100 * row.second * scale
        parts.append(
            _group(
                row.title,
                _rect(middle - step / 2, top, step, plot, "hover"),
                _rect(middle - thickness, bottom - first, thickness, first, "bar"),
                _rect(middle, bottom - second, thickness, second, "bar strong"),
            )
        )
        if index % every == 0:
            parts.append(_text(middle, bottom + 18, row.label, anchor="middle"))
    parts.append(_text((left + right) / 2, bottom + 38, x_label, anchor="middle"))
    return _svg(name, bottom + 44, parts)


def _room(labels: Sequence[str]) -> int:
    """Width for labels at the left: a fixed one, more for longer ones, at most half of the chart."""
    return min(max(150, 20 + 7 * max((len(label) for label in labels), default=0)), WIDTH // 2)


def _svg(name: str, height: float, parts: Sequence[Markup]) -> Markup:
    head = Markup('<svg viewBox="0 0 {} {:.0f}" role="img" aria-label="{}">').format(WIDTH, height, name)
    return head + Markup("").join(parts) + Markup("</svg>")


def _group(title: str, *parts: Markup) -> Markup:
    return Markup("<g><title>{}</title>{}</g>").format(title, Markup("").join(parts))


def _rect(x: float, y: float, width: float, height: float, css: str) -> Markup:
    template = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="{}"/>')
    return template.format(x, y, width, height, css)


def _line(x1: float, y1: float, x2: float, y2: float, css: str) -> Markup:
    template = Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>')
    return template.format(x1, y1, x2, y2, css)


def _path(shape: str, points: Sequence[tuple[float, float]], css: str) -> Markup:
    coordinates = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return Markup('<{} points="{}" class="{}"/>').format(shape, coordinates, css)


def _dot(x: float, y: float, css: str) -> Markup:
    return Markup('<circle cx="{:.1f}" cy="{:.1f}" r="2.5" class="{}"/>').format(x, y, css)


def _text(x: float, y: float, text: str, css: str = "tick", *, anchor: str = "start") -> Markup:
    template = Markup('<text x="{:.1f}" y="{:.1f}" class="{}" text-anchor="{}">{}</text>')
    return template.format(x, y, css, anchor, text)


def _turns(count: int) -> str:
    return f"{count} turn" if count == 1 else f"{count} turns"


def _ticks(highest: float) -> list[float]:
    """Round numbers from 0 to the first one at or above ``highest``, four to six of them."""
    if not 0 < highest < math.inf:
        return [0.0, 1.0]
    raw = highest / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999)
    return [round(step * i, 10) for i in range(math.ceil(highest / step - 1e-9) + 1)]


def _spread(ys: Sequence[float], fixed: Sequence[float], distance: float = 16.0) -> list[float]:
    """Label positions moved upwards until none is closer than ``distance`` to one below it or a fixed one."""
    placed = list(fixed)
    result = list(ys)
    for index in sorted(range(len(ys)), key=lambda i: -ys[i]):
        y = ys[index]
        while any(abs(y - other) < distance for other in placed):
            y -= 1.0
        placed.append(y)
        result[index] = y
    return result
