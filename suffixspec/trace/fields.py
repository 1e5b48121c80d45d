"""Typed access to parsed JSON, with errors that say which field was expected to be what."""

from collections.abc import Mapping
from typing import Any

from suffixspec.errors import InputError

_KINDS: tuple[tuple[type, str], ...] = (
    (list, "an array"),
    (dict, "an object"),
)


def shown(value: Any) -> str:
    """Return the value as an error message shows it: its kind, or the string itself when it is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {value!r:.40}"
    if isinstance(value, str):
        return repr(value) if len(value) <= 40 else f"a string of {len(value):,} characters"
    return next((words for kind, words in _KINDS if isinstance(value, kind)), type(value).__name__)


def expected(what: str, value: Any, where: str) -> InputError:
    """Build the error "expected WHERE to be WHAT, got VALUE"."""
    return InputError(f"expected {where} to be {what}, got {shown(value)}")


def an_object(value: Any, where: str) -> dict[str, Any]:
    """Return the value if it is an object.

    Raises:
        InputError: it is something else.
    """
    if not isinstance(value, dict):
        raise expected("an object", value, where)
    return value


def a_list(value: Any, where: str) -> list[Any]:
    """Return the value if it is an array.

    Raises:
        InputError: it is something else.
    """
    if not isinstance(value, list):
        raise expected("an array", value, where)
    return value


def a_string(value: Any, where: str) -> str:
    """Return the value if it is a string.

    Raises:
        InputError: it is something else.
    """
    if not isinstance(value, str):
        raise expected("a string", value, where)
    return value


def optional_string(record: Mapping[str, Any], key: str, where: str = "") -> str | None:
    """Return the string under the key, or None where it is missing or null.

    Raises:
        InputError: it is something else.
    """
    value = record.get(key)
    if value is None or isinstance(value, str):
        return value
    raise expected("a string or null", value, f"{where}{key}")


def text_or_none(value: Any) -> str | None:
    """Return the value if it is a non-empty string, else None: for labels that nothing depends on."""
    return value if isinstance(value, str) and value else None
