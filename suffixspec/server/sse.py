"""Server-sent events."""

from __future__ import annotations

import json
from typing import Any

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": still working\n\n"


def encode(value: Any) -> bytes:
    """JSON, as ASCII: half a surrogate pair is no error, and no client takes U+2028 for the end of a line."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def data(value: Any) -> bytes:
    """An event without a name."""
    return b"data: %b\n\n" % encode(value)


def event(value: dict[str, Any]) -> bytes:
    """An event that is named by its ``type``."""
    return b"event: %b\ndata: %b\n\n" % (value["type"].encode("ascii"), encode(value))
