"""The filters."""

import html


def default(value, fallback=""):
    return value if value else fallback


def join(value, separator=""):
    return str(separator).join(str(item) for item in value)


def truncate(value, length, end="..."):
    """Shorten a text to the length, the end mark included."""
    text = str(value)
    return text[:length] + end if len(text) > length else text


FILTERS = {
    "default": default,
    "escape": lambda value: html.escape(str(value)),
    "join": join,
    "length": len,
    "lower": lambda value: str(value).lower(),
    "title": lambda value: str(value).title(),
    "truncate": truncate,
    "upper": lambda value: str(value).upper(),
}
