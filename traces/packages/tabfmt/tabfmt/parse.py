"""Parsers."""

import csv
import io
import re

from .model import Table

_RULE = re.compile(r":?-+:?\Z")


def parse_csv(text, delimiter=","):
    """A table of CSV text; blank lines are left out."""
    rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]
    if not rows:
        raise ValueError("expected a header line, got an empty text")
    return Table(rows[0], rows[1:])


def split_row(line):
    """The cells of one Markdown table line."""
    line = line.strip()
    if line.startswith("|"):
        line = line[1:]
    if line.endswith("|"):
        line = line[:-1]
    return [cell.strip() for cell in line.split("|")]


def parse_markdown(text):
    """A table of Markdown text; the second line must be the rule under the header."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2:
        raise ValueError("expected a header line and a rule, got fewer than two lines")
    header = split_row(lines[0])
    rule = split_row(lines[1])
    if len(rule) != len(header) or not all(_RULE.match(cell) for cell in rule):
        raise ValueError(f"expected a rule of {len(header)} columns, got {lines[1]!r}")
    return Table(header, [split_row(line) for line in lines[2:]])
