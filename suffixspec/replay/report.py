"""The HTML page of a replay: one self-contained file that shows how much was copied, from where, and when."""

from collections.abc import Iterable, Sequence
from importlib.resources import files
from itertools import groupby
from pathlib import Path

import numpy as np
from markupsafe import Markup, escape

from suffixspec import __version__
from suffixspec.atomic_file import replacing
from suffixspec.errors import InputError
from suffixspec.replay import charts
from suffixspec.replay.figures import NO_VALUE, figures
from suffixspec.replay.findings import findings, headline, notices, scope
from suffixspec.replay.metrics import DrafterMetrics, RunMetrics, SessionMetrics
from suffixspec.replay.result import DrafterResult, OutputSpan, ReplayResult
from suffixspec.text.visible import visible

SOURCE_WORDS = {
    "session": "copied from the session",
    "history": "copied from history",
    "ngram": "from short n-grams",
    "target": "by the target itself",
}
_MOST_POSITIONS = 40
_MOST_SESSIONS = 5
_FEWEST_TURNS = 3
_MOST_CHARACTERS = 20_000
_LINE_STYLES = ("first", "second", "third")


def write_report(path: str | Path, result: ReplayResult, metrics: RunMetrics) -> None:
    """Write the page to ``path``, whole or not at all: a reader never sees half of it.

    The page needs no network and holds no script; every text that came from a trace is escaped.

    Args:
        path: the file to write; replaced if it exists.
        result: the raw result, for its samples of real output.
        metrics: the figures of the same result.

    Raises:
        InputError: the file cannot be written.
    """
    text = render_report(result, metrics)
    try:
        _write_atomically(Path(path), text)
    except OSError as error:
        raise InputError(f"expected a file that can be written: {error.strerror}", path=str(path)) from error


def render_report(result: ReplayResult, metrics: RunMetrics) -> str:
    """The page as text. Arguments as for ``write_report``."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["visible"] = visible
    source = files("suffixspec.replay").joinpath("report.html.j2").read_text(encoding="utf-8")
    best = metrics.best
    settings = dict(metrics.to_json()["settings"])
    command = settings.pop("command", None)
    return environment.from_string(source).render(
        version=__version__,
        paths=metrics.trace.paths,
        scope=scope(metrics),
        headline=headline(metrics),
        findings=findings(metrics),
        notices=notices(metrics),
        best=best,
        tiles=_tiles(best) if best else (),
        drafters=metrics.drafters,
        figures=figures(metrics.drafters),
        speedup_chart=_speedup_chart(metrics),
        retries_chart=_retries_chart(best) if best else None,
        loop_chart=_loop_chart(metrics),
        histogram_chart=_histogram_chart(best) if best else None,
        long_steps=_long_steps(best) if best else "",
        source_chart=_source_chart(metrics),
        source_words=SOURCE_WORDS,
        sessions=_extreme_sessions(best.per_session) if best else (),
        samples=_samples(result, best),
        settings=settings,
        command=command,
        no_value=NO_VALUE,
    )


def _tiles(best: DrafterMetrics) -> list[tuple[str, str, str]]:
    """Value, name and explanation of the figures at the top of the page."""
    by_name = {figure.label: figure.text(best) for figure in figures((best,))}
    drafted = sum(source.share_of_output or 0.0 for source in best.sources if source.name != "target")
    tiles = [
        (by_name.get("modelled speed-up", NO_VALUE), "speed-up", f"modelled, with {best.name}"),
        (by_name.get("tokens per step (τ)", NO_VALUE), "tokens per step", "accepted, and one more"),
        (f"{drafted:.0%}" if best.tokens else NO_VALUE, "of the output", "was drafted correctly"),
        (
            by_name.get("drafted per step", NO_VALUE),
            "drafted per step",
            f"{by_name.get('accepted of drafted', 'none')} of it accepted",
        ),
    ]
    if best.draft_us_p50 is not None:
        c = "" if best.c is None else f"mean {best.c:.2%} of a plain step"
        tiles.append((f"{best.draft_us_p50:.1f} µs", "to draft, median", c))
    return tiles


def _speedup_chart(metrics: RunMetrics) -> Markup | None:
    rows = [
        charts.Bar(
            drafter.name,
            drafter.modelled_speedup,
            f"{drafter.modelled_speedup:.2f}x",
            drafter is metrics.best,
        )
        for drafter in metrics.drafters
        if drafter.modelled_speedup is not None
    ]
    if not rows:
        return None
    return charts.bars(
        rows, name="Modelled speed-up by drafter", reference=1.0, reference_label="plain decoding"
    )


def _retries_chart(best: DrafterMetrics) -> Markup | None:
    if best.retries is None:
        return None
    groups = (
        ("first tries", best.retries.contrast.first.tokens_per_step, False),
        ("later tries", best.retries.contrast.later.tokens_per_step, True),
    )
    rows = [
        charts.Bar(name, value, f"{value:.2f} tokens per step", strong)
        for name, value, strong in groups
        if value is not None
    ]
    return charts.bars(rows, name="Tokens per step of first and later tries")


def _source_chart(metrics: RunMetrics) -> Markup | None:
    rows = [
        (
            drafter.name,
            [
                charts.Segment(
                    source.name,
                    source.share_of_output or 0.0,
                    f"{drafter.name}: {source.share_of_output or 0.0:.1%} {SOURCE_WORDS[source.name]}",
                )
                for source in drafter.sources
            ],
        )
        for drafter in metrics.drafters
        if drafter.tokens and drafter.name != "none"
    ]
    return charts.stacks(rows, name="Where the output came from, by drafter") if rows else None


def _loop_chart(metrics: RunMetrics) -> Markup | None:
    """Tokens per step over the turns of a loop: the best drafter first, others for comparison.

    Turns that only a few sessions reach are left out, and long loops are drawn several turns to a point.
    """
    best = metrics.best
    if best is None or not best.by_turn_number:
        return None
    counts = [position.pool.turns for position in best.by_turn_number]
    fewest = max(_FEWEST_TURNS, max(counts) // 6) if max(counts) >= 2 * _FEWEST_TURNS else 1
    last = max(p.turn for p in best.by_turn_number if p.pool.turns >= fewest)
    width = -(-(last + 1) // _MOST_POSITIONS)
    others = [d for d in metrics.drafters if d is not best and d.name != "none"]
    series = []
    for drafter, css in zip([best, *others], _LINE_STYLES, strict=False):
        series.append(charts.Line(drafter.name, css, _points(drafter, last, width)))
    # An interrupted run may hold fewer turns for one drafter than for another.
    series = [line for line in series if len(line.points) == len(series[0].points)]
    if len(series[0].points) < 2:
        return None
    return charts.lines(
        series,
        name="Tokens per step over the turns of a loop",
        y_label="tokens per step",
        reference=1.0,
        reference_label="plain decoding",
    )


def _points(drafter: DrafterMetrics, last: int, width: int) -> list[charts.Point]:
    groups: dict[int, list[tuple[int, int]]] = {}
    for turn in drafter.per_turn:
        if turn.turn <= last and turn.pool.steps:
            groups.setdefault(turn.turn // width, []).append((turn.pool.tokens, turn.pool.steps))
    points = []
    for position, pairs in sorted(groups.items()):
        low, high = np.percentile([tokens / steps for tokens, steps in pairs], [25, 75])
        first = position * width + 1
        points.append(
            charts.Point(
                first=first,
                last=min(first + width - 1, last + 1),
                value=sum(tokens for tokens, _ in pairs) / sum(steps for _, steps in pairs),
                count=len(pairs),
                low=float(low),
                high=float(high),
            )
        )
    return points


def _histogram_chart(best: DrafterMetrics) -> Markup | None:
    counts = np.array(best.accepted_length_histogram, np.float64)
    if not counts.sum():
        return None
    counts = counts[: int(np.flatnonzero(counts)[-1]) + 1]
    tokens = counts * (np.arange(len(counts)) + 1)
    width = -(-len(counts) // _MOST_POSITIONS)
    columns = []
    for first in range(0, len(counts), width):
        last = min(first + width, len(counts)) - 1
        label = f"{first}" if last == first else f"{first}-{last}"
        steps = counts[first : last + 1].sum()
        steps_share, tokens_share = steps / counts.sum(), tokens[first : last + 1].sum() / tokens.sum()
        columns.append(
            charts.Column(
                label,
                float(steps_share),
                float(tokens_share),
                f"{label} accepted: {steps:,.0f} steps, {steps_share:.1%} of all, "
                f"with {tokens_share:.1%} of the tokens",
            )
        )
    return charts.columns(columns, name="Accepted tokens per step", x_label="accepted tokens in a step")


def _long_steps(best: DrafterMetrics) -> str:
    """How unevenly the gain is spread: the steps that accepted the most."""
    counts = np.array(best.accepted_length_histogram, np.float64)
    if counts.sum() == 0 or len(counts) <= 4:
        return ""
    tokens = counts * (np.arange(len(counts)) + 1)
    steps_share, tokens_share = counts[4:].sum() / counts.sum(), tokens[4:].sum() / tokens.sum()
    return (
        f"{counts[0] / counts.sum():.0%} of the steps accept nothing; the {steps_share:.0%} that accept four "
        f"or more yield {tokens_share:.0%} of the tokens."
    )


def _extreme_sessions(sessions: Sequence[SessionMetrics]) -> list[tuple[str, list[SessionMetrics]]]:
    """The fastest and the slowest sessions, or all of them where they are few."""
    ranked = sorted(
        (session for session in sessions if session.pool.speedup is not None),
        key=lambda session: -(session.pool.speedup or 0.0),
    )
    if len(ranked) <= 2 * _MOST_SESSIONS:
        return [("All sessions, fastest first", ranked)] if ranked else []
    return [("Fastest", ranked[:_MOST_SESSIONS]), ("Slowest", ranked[: -_MOST_SESSIONS - 1 : -1])]


def _samples(result: ReplayResult, best: DrafterMetrics | None) -> list[dict[str, object]]:
    """One coloured output per drafter that drafts and has one, the best drafter's first."""
    ordered = sorted(result.drafters, key=lambda drafter: best is None or drafter.name != best.name)
    return [_sample(drafter) for drafter in ordered if drafter.sample and drafter.name != "none"]


def _sample(drafter: DrafterResult) -> dict[str, object]:
    length = sum(len(span.text) for span in drafter.sample)
    own = sum(len(span.text) for span in drafter.sample if span.kind == "bonus")
    return {
        "name": drafter.name,
        "title": drafter.sample_title,
        "share": f"{1 - own / length:.0%}" if length else NO_VALUE,
        "text": _coloured(drafter.sample),
        "left_out": max(0, length - _MOST_CHARACTERS),
    }


def _coloured(spans: Iterable[OutputSpan]) -> Markup:
    """The text with a ``<span>`` around each run of one kind; a line's end is marked so that it shows too."""
    room = _MOST_CHARACTERS
    parts = []
    for kind, group in groupby(spans, key=lambda span: "target" if span.kind == "bonus" else span.kind):
        text = "".join(span.text for span in group)[:room]
        room -= len(text)
        lines = Markup("<i></i>\n").join(escape(visible(line)) for line in text.split("\n"))
        if text:
            parts.append(Markup('<span class="{kind}">{lines}</span>').format(kind=kind, lines=lines))
    return Markup("").join(parts)


def _write_atomically(path: Path, text: str) -> None:
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")  # a pipe or a terminal: nothing to replace
        return
    with replacing(path) as file:
        file.write(text.encode("utf-8"))
