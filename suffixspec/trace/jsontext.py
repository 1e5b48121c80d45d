"""Bytes of a file to text and JSON values, with errors that say what was wrong and where."""

import json
from typing import Any

from suffixspec.errors import InputError

_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


def decode(raw: bytes, *, path: str, line: int) -> str:
    """Decode one line, or one whole document that starts on this line.

    Raises:
        InputError: the bytes hold a NUL or are not UTF-8; names the line and the byte within it.
    """
    if raw.startswith(_UTF16_BOMS):
        raise InputError("expected UTF-8 text, got UTF-16; convert the file to UTF-8", path=path, line=line)
    try:
        bad, problem = raw.index(b"\0"), "a NUL byte"
    except ValueError:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            bad, problem = error.start, f"the byte 0x{raw[error.start]:02x} ({error.reason})"
    line += raw.count(b"\n", 0, bad)
    column = bad - raw.rfind(b"\n", 0, bad)
    raise InputError(f"expected UTF-8 text, got {problem} at byte {column} of the line", path=path, line=line)


def parse(raw: bytes, *, path: str, line: int) -> Any:
    """Parse one line, or one whole document that starts on this line.

    Escaped lone surrogates (half of a pair that a logger cut in two) become U+FFFD: no tokenizer and no UTF-8
    file can hold them.

    Raises:
        InputError: not UTF-8, not JSON, or nested too deeply to be parsed.
    """
    text = decode(raw, path=path, line=line)
    try:
        value = json.loads(text)
        return _without_lone_surrogates(value) if _may_hold_surrogates(text) else value
    except json.JSONDecodeError as error:
        message = f"expected valid JSON, got {_problem(error, text)} at column {error.colno}"
        raise InputError(message, path=path, line=line + error.lineno - 1) from None
    except RecursionError:
        raise InputError(
            "expected JSON, got too many nested arrays or objects", path=path, line=line
        ) from None
    except ValueError as error:  # integers of more than 4,300 digits
        raise InputError(f"expected valid JSON, got a bad number: {error}", path=path, line=line) from None


def _problem(error: json.JSONDecodeError, text: str) -> str:
    if error.pos >= len(text.rstrip()):
        return "the end of the text too early"
    reason = error.msg[0].lower() + error.msg[1:]
    return f"{reason!r} before {text[error.pos : error.pos + 20]!r}"


def _may_hold_surrogates(text: str) -> bool:
    return "\\ud" in text or "\\uD" in text


def _without_lone_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return value
    if isinstance(value, list):
        return [_without_lone_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_lone_surrogates(key): _without_lone_surrogates(item) for key, item in value.items()}
    return value
