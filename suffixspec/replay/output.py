"""The result of a replay on stdout: as a table for people, as JSON, Markdown or CSV for other tools."""

import csv
import html
import io
import json
import sys
from collections.abc import Callable
from typing import Any, TextIO

from suffixspec.replay.figures import figures
from suffixspec.replay.findings import findings, headline, notices, scope
from suffixspec.replay.metrics import RunMetrics
from suffixspec.text.visible import visible

_PIPE_WIDTH = 100


def write_output(
    metrics: RunMetrics, form: str, *, out: TextIO | None = None, err: TextIO | None = None
) -> None:
    """Write the figures in one of ``FORMS``.

    Every form says when the run was interrupted or sessions were skipped; CSV, which has no place for
    sentences, says it on ``err``.

    Args:
        metrics: the figures.
        form: ``"table"``, ``"json"``, ``"md"`` or ``"csv"``.
        out: where to; ``sys.stdout`` if None.
        err: where the notices of CSV go; ``sys.stderr`` if None.

    Raises:
        ValueError: there is no such form.
    """
    if form not in FORMS:
        raise ValueError(f"expected an output form of {', '.join(FORMS)}, got {form!r}")
    FORMS[form](metrics, out or sys.stdout, err or sys.stderr)


def _write_table(metrics: RunMetrics, out: TextIO, _: TextIO) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=out, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = max(console.width, _PIPE_WIDTH)
    console.print(Text(f"{_names(metrics)}: {scope(metrics)}", "dim"))
    best = metrics.best
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("")
    for drafter in metrics.drafters:
        table.add_column(
            drafter.name, justify="right", style="bold" if drafter is best else "", overflow="fold"
        )
    for figure in figures(metrics.drafters):
        label = Text(f"  {figure.label}", "dim") if figure.detail else Text(figure.label)
        table.add_row(label, *(figure.text(drafter) for drafter in metrics.drafters))
    if metrics.drafters:
        console.print(table)
    slower = best is not None and (best.modelled_speedup or 0) < 1
    console.print(Text(headline(metrics), "bold yellow" if slower else "bold"))
    for sentence in findings(metrics):
        console.print(Text(sentence))
    for sentence in notices(metrics):
        console.print(Text(sentence, "yellow"))


def _write_json(metrics: RunMetrics, out: TextIO, _: TextIO) -> None:
    out.write(_dump(metrics.to_json(), "") + "\n")


def _write_markdown(metrics: RunMetrics, out: TextIO, _: TextIO) -> None:
    lines = [f"# Replay of {_escaped(_names(metrics))}", "", f"**{_escaped(headline(metrics))}**", ""]
    lines += [f"> {_escaped(sentence)}\n" for sentence in notices(metrics)]
    if metrics.drafters:
        lines.append("| | " + " | ".join(_escaped(drafter.name) for drafter in metrics.drafters) + " |")
        lines.append("|---|" + "---:|" * len(metrics.drafters))
        for figure in figures(metrics.drafters):
            label = f"… {figure.label}" if figure.detail else figure.label
            lines.append(f"| {label} | " + " | ".join(figure.text(d) for d in metrics.drafters) + " |")
        lines.append("")
    lines += [f"{_escaped(sentence)}\n" for sentence in findings(metrics)]
    lines.append(f"{_escaped(scope(metrics))}.\n")
    settings = metrics.to_json()["settings"]
    lines += [f"- {_escaped(name)}: `{_in_code(value)}`" for name, value in settings.items()]
    out.write("\n".join(lines).rstrip("\n") + "\n")


def _write_csv(metrics: RunMetrics, out: TextIO, err: TextIO) -> None:
    document = metrics.to_json()
    rows = [
        {key: value for key, value in drafter.items() if not isinstance(value, list | dict)}
        | {f"share_{name}": source["share_of_output"] for name, source in drafter["sources"].items()}
        | {f"tokens_per_step_{which}_tries": _tries(drafter, which) for which in ("first", "later")}
        | {"sessions": metrics.trace.sessions, "turns": len(drafter["per_turn"])}
        | {"cost": visible(metrics.curve.name), "t1_ms": metrics.curve.t1_ms}
        for drafter in document["drafters"]
    ]
    for row in rows:
        row.pop("retries", None)
        row.pop("halves", None)
    if rows:
        # Built apart and written at once: the csv module wants to end its lines itself, the stream does too.
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        out.write(text.getvalue())
    for sentence in notices(metrics):
        err.write(f"suffixspec: {sentence}\n")


FORMS: dict[str, Callable[[RunMetrics, TextIO, TextIO], None]] = {
    "table": _write_table,
    "json": _write_json,
    "md": _write_markdown,
    "csv": _write_csv,
}
"""The forms of the output by name."""


def _tries(drafter: dict[str, Any], which: str) -> float | None:
    return drafter["retries"] and drafter["retries"][f"tokens_per_step_{which}"]


def _names(metrics: RunMetrics) -> str:
    """The replayed files, the first three by name."""
    paths = [visible(path) for path in metrics.trace.paths]
    more = len(paths) - 3
    return ", ".join(paths[:3]) + (f" and {more} more" if more > 0 else "")


def _escaped(text: object) -> str:
    """Text for a paragraph or table cell of Markdown."""
    text = html.escape(visible(text).replace("\n", " "), quote=False)
    for character in "\\`*_[]|~#":
        text = text.replace(character, f"\\{character}")
    return text


def _in_code(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return visible(text).replace("`", "'").replace("\n", " ")


def _dump(value: Any, indent: str) -> str:
    """JSON that a person can read too: a list of numbers, and each object within a list, on one line."""
    inner = indent + "  "
    if isinstance(value, dict) and value:
        items = [f"{inner}{json.dumps(key)}: {_dump(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        items = [
            f"{inner}{json.dumps(item, allow_nan=False) if _is_flat(item) else _dump(item, inner)}"
            for item in value
        ]
        return "[\n" + ",\n".join(items) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)


def _is_flat(value: Any) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not any(isinstance(item, dict | list) for item in items)
