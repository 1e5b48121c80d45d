"""Renderers."""

import csv
import io


def widths(table):
    """The width of every column."""
    result = []
    for index, name in enumerate(table.header):
        cells = [name, *table.column(index)]
        result.append(max(len(cell) for cell in cells))
    return result


def render_markdown(table):
    """The table as Markdown."""
    sizes = [max(3, size) for size in widths(table)]
    lines = ["| " + " | ".join(name.ljust(size) for name, size in zip(table.header, sizes)) + " |"]
    lines.append("| " + " | ".join("-" * size for size in sizes) + " |")
    for row in table.rows:
        lines.append("| " + " | ".join(cell.ljust(size) for cell, size in zip(row, sizes)) + " |")
    return "\n".join(lines) + "\n"


def render_plain(table):
    """The table as plain text with a line under the header."""
    sizes = widths(table)
    lines = ["  ".join(name.ljust(size) for name, size in zip(table.header, sizes)).rstrip()]
    lines.append("  ".join("-" * size for size in sizes))
    for row in table.rows:
        lines.append("  ".join(cell.ljust(size) for cell, size in zip(row, sizes)).rstrip())
    return "\n".join(lines) + "\n"


def render_csv(table, delimiter=","):
    """The table as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(table.header)
    writer.writerows(table.rows)
    return out.getvalue()
