"""Tables from CSV or Markdown to Markdown, CSV or plain text."""

from .model import Table
from .parse import parse_csv, parse_markdown
from .render import render_csv, render_markdown, render_plain

__all__ = ["Table", "parse_csv", "parse_markdown", "render_csv", "render_markdown", "render_plain"]
