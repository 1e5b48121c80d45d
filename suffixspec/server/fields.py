"""Fields of a request's JSON, read one by one: each is checked when it is read, and errors name it."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from typing import Any

from suffixspec.server.errors import ApiError

_SHOWN = 60


def shown(value: Any) -> str:
    """A value of a request for an error message, cut to some sixty characters."""
    if isinstance(value, (dict, list)):
        kind = "an object" if isinstance(value, dict) else "an array"
        return f"{kind} of {len(value)}"
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


class Fields:
    """A JSON object of a request. A field that is null counts as left out, as in OpenAI's API.

    Args:
        value: the object.
        where: its own name in errors, with a point behind; "" for the body.

    Raises:
        ApiError: not an object; and from each method, a field of another type or out of its range.
    """

    def __init__(self, value: Any, where: str = "") -> None:
        if not isinstance(value, dict):
            name = where.rstrip(".") or "the request's body"
            raise ApiError(
                f"expected {name} to be an object, got {shown(value)}", param=where.rstrip(".") or None
            )
        self.value: dict[str, Any] = value
        self._where = where

    def __contains__(self, name: str) -> bool:
        return self.value.get(name) is not None

    def path(self, name: str) -> str:
        """A field's full name."""
        return f"{self._where}{name}"

    def get(self, name: str) -> Any:
        """A field as it came, None where it is left out."""
        return self.value.get(name)

    def refuse(self, name: str, expected: str) -> ApiError:
        """The error for a field that is not what it should be."""
        got = shown(self.value[name]) if name in self.value else "nothing"
        path = self.path(name)
        return ApiError(f"expected {path} to be {expected}, got {got}", param=path)

    def known(self, names: Collection[str], *, tolerant: bool = False) -> list[str]:
        """The fields that are none of ``names``: returned if ``tolerant``, else refused, as OpenAI does.

        Raises:
            ApiError: an unknown field.
        """
        unknown = [self.path(name) for name in self.value if name not in names]
        if unknown and not tolerant:
            raise ApiError(
                f"Unknown parameter: {shown(unknown[0])}. Leave it out, or start the server with "
                "--ignore-unknown-fields.",
                param=unknown[0][:_SHOWN],
                code="unknown_parameter",
            )
        return unknown

    def number(self, name: str, least: float = -math.inf, most: float = math.inf) -> float | None:
        """A number in a range."""
        value = self.value.get(name)
        if value is None:
            return None
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not least <= value <= most:
            raise self.refuse(name, f"a number{_range(least, most)}")
        return float(value)

    def whole(self, name: str, least: int, most: int | None = None) -> int | None:
        """A whole number in a range; one that is written as 3.0 counts."""
        value = self.value.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is None:
            return None
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or value < least or (most is not None and value > most):
            raise self.refuse(name, f"a whole number{_range(least, math.inf if most is None else most)}")
        return int(value)

    def flag(self, name: str) -> bool:
        """True or false; false where it is left out."""
        value = self.value.get(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.refuse(name, "true or false")
        return value

    def text(self, name: str) -> str | None:
        """A string."""
        value = self.value.get(name)
        if value is not None and not isinstance(value, str):
            raise self.refuse(name, "a string")
        return value

    def one_of(self, name: str, options: Sequence[str]) -> str | None:
        """One of some strings."""
        value = self.value.get(name)
        if value is not None and (not isinstance(value, str) or value not in options):
            raise self.refuse(name, f"one of {', '.join(options)}")
        return value

    def items(self, name: str) -> list[Any] | None:
        """An array."""
        value = self.value.get(name)
        if value is not None and not isinstance(value, list):
            raise self.refuse(name, "an array")
        return value

    def object(self, name: str) -> Fields | None:
        """An object within this one."""
        value = self.value.get(name)
        return None if value is None else Fields(value, f"{self.path(name)}.")

    def texts(self, name: str, most: int) -> list[str]:
        """A string or an array of some strings, none of them empty."""
        value = self.value.get(name)
        if value is None:
            return []
        texts = [value] if isinstance(value, str) else value
        listed = isinstance(texts, list) and all(isinstance(text, str) and text for text in texts)
        if not listed or len(texts) > most:
            raise self.refuse(name, f"a string or an array of at most {most} strings, none of them empty")
        return list(texts)


def text_parts(parts: Sequence[Any], where: str, *, first: int = 0, expected: str = '"text"') -> list[str]:
    """The texts of an array of parts ``{"type": "text", "text": …}``.

    Args:
        parts: the array.
        where: its name in errors.
        first: number of the first part there.
        expected: what the error says that a part's type has to be.

    Raises:
        ApiError: a part of another type, or one without a text.
    """
    texts = []
    for number, value in enumerate(parts, start=first):
        part = Fields(value, f"{where}[{number}].")
        if part.get("type") != "text":
            raise part.refuse("type", expected)
        text = part.text("text")
        if text is None:
            raise part.refuse("text", "a string")
        texts.append(text)
    return texts


def _range(least: float, most: float) -> str:
    if least == -math.inf and most == math.inf:
        return ""
    if most == math.inf:
        return f" from {least:,}"
    return f" from {least:,} to {most:,}"
