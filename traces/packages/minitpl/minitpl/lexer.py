"""Splits a template into text, output, tag and comment pieces."""

import re
from dataclasses import dataclass

from .errors import TemplateError

_OPEN = re.compile(r"\{([{%#])(-?)")
_CLOSE = {"{": "}}", "%": "%}", "#": "#}"}
_KIND = {"{": "output", "%": "tag", "#": "comment"}


@dataclass
class Piece:
    kind: str
    text: str
    line: int


def pieces(source):
    """The pieces of a template, white-space control applied, comments left out."""
    result = []
    position = 0
    strip_next = False
    while True:
        match = _OPEN.search(source, position)
        text = source[position : match.start() if match else len(source)]
        line = source.count("\n", 0, position) + 1
        if strip_next:
            text = text.lstrip()
        if match and match.group(2):
            text = text.rstrip()
        if text:
            result.append(Piece("text", text, line))
        if match is None:
            return result
        line = source.count("\n", 0, match.start()) + 1
        close = _CLOSE[match.group(1)]
        end = source.find(close, match.end())
        if end < 0:
            raise TemplateError(f"expected {close!r}", line)
        body = source[match.end() : end]
        strip_next = body.endswith("-")
        if strip_next:
            body = body[:-1]
        position = end + len(close)
        if match.group(1) != "#":
            result.append(Piece(_KIND[match.group(1)], body.strip(), line))
