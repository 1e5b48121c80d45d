"""Splits an INI text into logical lines."""

from dataclasses import dataclass

from .errors import ParseError
from .values import bracket_depth, strip_comment


@dataclass(frozen=True)
class Section:
    name: str
    line: int


@dataclass(frozen=True)
class Pair:
    key: str
    raw: str
    line: int


def is_comment(line):
    """True for blank lines and for lines that hold nothing but a comment."""
    stripped = line.strip()
    return not stripped or stripped[0] in "#;"


def tokens(text):
    """Yield a Section or Pair for every logical line of the text.

    A value with an open bracket is continued on the following lines until the
    bracket is closed; the parts are joined by single spaces.
    """
    lines = text.splitlines()
    i = 0
    while i < len(lines):
        line = lines[i]
        number = i + 1
        i += 1
        if is_comment(line):
            continue
        stripped = strip_comment(line).strip()
        if stripped.startswith("["):
            if not stripped.endswith("]"):
                raise ParseError("section header is not closed", number)
            yield Section(stripped[1:-1].strip(), number)
            continue
        key, sep, raw = stripped.partition("=")
        if not sep:
            raise ParseError(f"expected 'key = value', got {stripped!r}", number)
        if not key.strip():
            raise ParseError("empty key", number)
        raw = raw.strip()
        while bracket_depth(raw) > 0:
            if i == len(lines):
                raise ParseError("list is not closed", number)
            raw += " " + lines[i].strip()
            i += 1
        yield Pair(key.strip(), raw, number)
