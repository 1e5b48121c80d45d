"""Texts that differ only in how their JSON is written."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any


class _AmbiguousError(ValueError):
    """JSON that readers disagree about."""


def equal_as_json(a: str, b: str) -> bool:
    """Whether two texts are the same but for white space, key order and escapes within their JSON.

    JSON is what stands in brackets: objects and arrays, wherever they are in the text. Outside of them, and
    that is where a number or a string by itself stands, the texts must agree character by character: nothing
    tells it from prose. Values must agree in type: 1 is not 1.0, true is not 1. An object with a duplicate
    key equals nothing, since readers disagree about what it says.
    """
    try:
        return _pieces(a) == _pieces(b)
    except _AmbiguousError:
        return False


def _pieces(text: str) -> list[tuple[str, Any]]:
    """Text between JSON objects and arrays, and these, in order."""
    pieces: list[tuple[str, Any]] = []
    start = at = 0
    while opening := _OPENING.search(text, at):
        at = opening.start()
        try:
            value, end = _DECODER.raw_decode(text, at)
        except _AmbiguousError:
            raise
        except (ValueError, RecursionError):
            at += 1
            continue
        pieces += [("text", text[start:at]), ("json", _typed(value))]
        start = at = end
    pieces.append(("text", text[start:]))
    return pieces


def _typed(value: Any) -> Any:
    """``value`` with types made visible to ``==``."""
    if isinstance(value, dict):
        return ("object", {key: _typed(inner) for key, inner in value.items()})
    if isinstance(value, list):
        return ("array", [_typed(inner) for inner in value])
    return (type(value).__name__, value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _AmbiguousError("duplicate key")
    return found


def _no_constant(name: str) -> Any:
    raise _AmbiguousError(name)


_OPENING = re.compile(r"[{\[]")
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=Decimal, parse_constant=_no_constant)
