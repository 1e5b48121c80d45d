"""How a server is set up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Limits, defaults and names of a server; all of them are options of ``suffixspec serve``."""

    model_name: str | None = None
    """The model's name for clients; None takes the tokenizer's."""
    api_keys: Sequence[str] = field(default=(), repr=False)
    """One of them is needed; none: anybody may ask."""
    most_active: int = 8
    """Calls that take turns."""
    most_waiting: int = 64
    """Calls that wait; more are refused with 429."""
    body_bytes: int = 16 << 20
    """Longest body of a request."""
    read_seconds: float = 60.0
    """In which a body must have come."""
    request_seconds: float = 1800.0
    """From a request's arrival until its output ends, finished or not."""
    compile_seconds: float = 10.0
    """For the compilation of a schema or grammar; it goes on beside everything else."""
    shutdown_seconds: float = 30.0
    """For calls under way when the server is told to stop."""
    ping_seconds: float = 10.0
    """After so long without an event a stream gets a sign of life."""
    sessions: int = 32
    """Sessions at a time."""
    idle_seconds: float = 600.0
    """A session that was not used for so long is closed when another one begins."""
    drafting: bool = True
    """False decodes plainly."""
    sampling: dict[str, Any] = field(default_factory=lambda: {"temperature": 1.0})
    """What holds for requests that do not say: temperature, top_p, top_k, min_p."""
    ignore_unknown_fields: bool = False
    """Name unknown fields of requests in a header of the response instead of refusing them."""
    stored_responses: int = 256
    """Responses that ``previous_response_id`` can go on from."""

    def __post_init__(self) -> None:
        for name, least in (("most_active", 1), ("most_waiting", 0), ("body_bytes", 1), ("sessions", 1)):
            value = getattr(self, name)
            if value < least:
                raise ValueError(f"expected {name} of at least {least}, got {value}")
