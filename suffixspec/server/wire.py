"""What the APIs have in common: a request becomes a call, and the call's events become a response."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from suffixspec.parsing import OutputParser
from suffixspec.server.call import Begun, Call, Ended, Event, Piece
from suffixspec.server.errors import ApiError
from suffixspec.server.fields import Fields
from suffixspec.server.output import Change, Output
from suffixspec.server.sessions import hints_of
from suffixspec.server.sse import DONE, KEEP_ALIVE, data
from suffixspec.server.system_prompt import DROPPED

if TYPE_CHECKING:
    from suffixspec.server.service import Service

SESSION_FIELDS = frozenset({"prompt_cache_key", "session_id"})
"""Fields of a body that are hints at the session."""


@dataclass
class Request:
    """A request that was let in."""

    body: Fields
    headers: Mapping[str, str]
    namespace: str
    service: Service

    @property
    def hints(self) -> list[str]:
        """The client's names for its loop."""
        return hints_of(self.headers, self.body.value)

    def known(self, names: Iterable[str]) -> list[str]:
        """The unknown fields that are let through; see ``Fields.known``."""
        return self.body.known(set(names), tolerant=self.service.settings.ignore_unknown_fields)


class Writer(ABC):
    """Writes the response to a call, in pieces as it comes or as a whole.

    Args:
        call: what is answered.
        service: whose.
        parsers: one for each output of the call; None: text is text.
    """

    def __init__(
        self, call: Call, service: Service, parsers: Sequence[OutputParser | None] | None = None
    ) -> None:
        self.call = call
        self.service = service
        self.begun = Begun(0, 0)
        each = parsers or [None] * call.outputs
        self.outputs = [Output(index, parser) for index, parser in enumerate(each)]

    def take(self, event: Event) -> list[bytes]:
        """Take an event in; what a stream sends for it."""
        if isinstance(event, Begun):
            self.begun = event
            return self.begin()
        if isinstance(event, Piece):
            output = self.outputs[event.output]
            return self.changed(output, output.feed(event), event)
        if isinstance(event, Ended):
            output = self.outputs[event.output]
            sent = self.changed(output, output.end(event), None)
            return sent + self.ended(output)
        return []

    @property
    def complete(self) -> bool:
        """Whether all outputs have ended."""
        return all(output.ended is not None for output in self.outputs)

    @property
    def replies(self) -> list[Any]:
        """How the outputs that have ended were made."""
        return [output.reply for output in self.outputs if output.ended is not None]

    @abstractmethod
    def begin(self) -> list[bytes]:
        """The stream's first chunks."""

    @abstractmethod
    def changed(self, output: Output, changes: Iterable[Change], piece: Piece | None) -> list[bytes]:
        """Chunks for more of an output; without a piece it was held back until the end."""

    @abstractmethod
    def ended(self, output: Output) -> list[bytes]:
        """Chunks for the end of an output."""

    @abstractmethod
    def finish(self) -> list[bytes]:
        """The stream's last chunks."""

    @abstractmethod
    def body(self) -> dict[str, Any]:
        """The response as a whole."""

    def failed(self, error: ApiError) -> list[bytes]:
        """The stream's last chunks where the call came to no good end."""
        return [data(error.body("openai")), DONE]

    def ping(self) -> bytes:
        """A sign of life."""
        return KEEP_ALIVE


Reader = Callable[[Request], Writer]
"""Reads a request of one API: checks it, makes the call and its writer. Run in a thread of its own.

Raises ``ApiError``: the request is not in order."""


def dropped(before: Any, after: Any) -> list[str]:
    """What to tell the client where the line for the API's accounting was left out of a system prompt."""
    return [] if before == after else [DROPPED]


def new_id(prefix: str) -> str:
    """An id that nobody can guess."""
    return f"{prefix}{secrets.token_hex(12)}"
