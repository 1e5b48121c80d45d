"""Turns raw value text into Python values."""

import re

QUOTES = "\"'"
ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
WORDS = {
    "yes": True,
    "on": True,
    "true": True,
    "no": False,
    "off": False,
    "false": False,
    "none": None,
}
_INT = re.compile(r"[+-]?\d+(_\d+)*\Z")
_FLOAT = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?\Z")


class Plain(str):
    """A string in which ``${…}`` references are replaced."""


class Literal(str):
    """A string that is taken as it is (single quotes)."""


def strip_comment(line):
    """Cut an inline comment: '#' or ';' after white space and outside quotes."""
    quote = None
    for i, char in enumerate(line):
        if quote:
            if char == quote:
                quote = None
        elif char in QUOTES:
            quote = char
        elif char in "#;" and i > 0 and line[i - 1].isspace():
            return line[:i].rstrip()
    return line


def bracket_depth(text):
    """How many list brackets are open at the end of a value, quotes considered."""
    if not text.startswith("["):
        return 0
    depth = 0
    quote = None
    for char in text:
        if quote:
            if char == quote:
                quote = None
        elif char in QUOTES:
            quote = char
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
    return depth


def unescape(body):
    """Replace the escapes of a double-quoted string."""
    out = []
    chars = iter(body)
    for char in chars:
        if char == "\\":
            following = next(chars, "\\")
            out.append(ESCAPES.get(following, "\\" + following))
        else:
            out.append(char)
    return "".join(out)


def split_items(body):
    """Split the inside of a list at its top-level commas."""
    items = []
    depth = 0
    quote = None
    current = ""
    for char in body:
        if quote:
            if char == quote:
                quote = None
        elif char in QUOTES:
            quote = char
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
        elif char == "," and depth == 0:
            items.append(current.strip())
            current = ""
            continue
        current += char
    if current.strip():
        items.append(current.strip())
    return items


def parse_value(raw):
    """Type a raw value."""
    if len(raw) >= 2 and raw[0] == raw[-1] and raw[0] in QUOTES:
        body = raw[1:-1]
        return Literal(body) if raw[0] == "'" else Plain(unescape(body))
    if raw.startswith("[") and raw.endswith("]"):
        return [parse_value(item) for item in split_items(raw[1:-1])]
    if raw.lower() in WORDS:
        return WORDS[raw.lower()]
    if _INT.match(raw):
        return int(raw.replace("_", ""))
    if _FLOAT.match(raw):
        return float(raw)
    return Plain(raw)
