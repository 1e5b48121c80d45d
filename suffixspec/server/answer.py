"""The response to a model call, over HTTP: as a whole, or as a stream of events."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

from starlette.types import Receive, Scope, Send

from suffixspec.server.call import Ended, Event, Failed, Gone, Piece, Silent
from suffixspec.server.errors import ApiError, Shape
from suffixspec.server.sse import encode
from suffixspec.server.wire import Writer

if TYPE_CHECKING:
    from suffixspec.server.service import Service

_LOG = logging.getLogger("suffixspec.server")
CLIENT_GONE = 499
IGNORED_HEADER = "x-suffixspec-ignored"


def headers_of(more: dict[str, str], *, kind: str = "application/json") -> list[tuple[bytes, bytes]]:
    """Headers as ASGI takes them."""
    return [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in {"content-type": kind, **more}.items()
    ]


class Answer:
    """An ASGI application for one call: listens to its events and to the client at the same time.

    A client that goes away ends its call after the step under way. The status of a stream is not sent before
    the call has begun, so that a call that is refused, by whomever, has an error's status.

    Args:
        writer: of the call, which was submitted.
        service: whose.
        request_id: for the response's header.
        request: for the record: the path, the headers and the body.
    """

    def __init__(self, writer: Writer, service: Service, *, request_id: str, request: Any) -> None:
        self._writer = writer
        self._service = service
        self._call = writer.call
        self._request = request
        self._shape: Shape = "anthropic" if self._call.api == "messages" else "openai"
        self._headers = {"x-request-id": request_id}
        if self._call.ignored:
            self._headers[IGNORED_HEADER] = _header_text(", ".join(self._call.ignored))
        self._status = CLIENT_GONE
        self._error: ApiError | None = None
        self._started = time.time()
        self._sent = False
        self._settled = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Answer."""
        events = self._call.connect()
        watch = asyncio.ensure_future(self._watch(receive))
        try:
            await (self._stream if self._call.stream else self._whole)(events, send)
        except Exception:
            _LOG.exception("a response could not be written")
            if self._sent:
                raise  # the client sees a response that was cut off
            await self._fail(
                ApiError("the server failed on this request; its log says why", status=500), send
            )
        finally:
            watch.cancel()
            self._service.scheduler.cancel(self._call)
            self._settle()

    async def _watch(self, receive: Receive) -> None:
        with contextlib.suppress(Exception):
            while (await receive())["type"] != "http.disconnect":
                pass
            self._service.scheduler.cancel(self._call)

    async def _whole(self, events: asyncio.Queue[Event], send: Send) -> None:
        writer = self._writer
        while not writer.complete:
            event = await events.get()
            if isinstance(event, Gone):
                return
            if isinstance(event, Failed):
                await self._fail(event.error, send)
                return
            self._note(event)
            writer.take(event)
        self._status = 200
        await self._send(encode(writer.body()), send)

    async def _stream(self, events: asyncio.Queue[Event], send: Send) -> None:
        event = await events.get()
        if isinstance(event, Gone):
            return
        if isinstance(event, Failed):
            await self._fail(event.error, send)
            return
        headers = headers_of(
            {"cache-control": "no-cache", "x-accel-buffering": "no", **self._headers},
            kind="text/event-stream; charset=utf-8",
        )
        self._sent = True
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        silence = _Silence(events, self._service.settings.ping_seconds)
        try:
            await self._pass_on(event, events, silence, send)
        finally:
            silence.end()

    async def _pass_on(
        self, event: Event, events: asyncio.Queue[Event], silence: _Silence, send: Send
    ) -> None:
        writer = self._writer
        while True:
            if isinstance(event, Gone):
                return
            if isinstance(event, Failed):
                self._error, self._status = event.error, event.error.status
                chunks = writer.failed(event.error)
            else:
                self._note(event)
                chunks = writer.take(event)
            ends = isinstance(event, Failed) or (isinstance(event, Ended) and writer.complete)
            if isinstance(event, Ended) and ends:
                self._status = 200
                chunks += writer.finish()
            if ends:
                self._settle()
            if chunks or ends:
                await send({"type": "http.response.body", "body": b"".join(chunks), "more_body": not ends})
            if isinstance(event, Piece):
                self._call.sent()
            if ends:
                return
            silence.broken()
            while isinstance(event := await events.get(), Silent):
                await send({"type": "http.response.body", "body": writer.ping(), "more_body": True})

    def _note(self, event: Event) -> None:
        if isinstance(event, Piece) and not any(output.token_ids for output in self._writer.outputs):
            self._service.metrics.first_text.observe(time.monotonic() - self._call.arrived)

    async def _fail(self, error: ApiError, send: Send) -> None:
        self._error, self._status = error, error.status
        self._headers |= error.headers
        await self._send(encode(error.body(self._shape)), send)

    async def _send(self, body: bytes, send: Send) -> None:
        headers = headers_of({"content-length": str(len(body)), **self._headers})
        self._sent = True
        self._settle()
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _settle(self) -> None:
        """Count the call and write it down, finished or not.

        Before its last bytes go out: who has them finds it counted and written.
        """
        if self._settled:
            return
        self._settled = True
        self._service.metrics.request_ended(self._call.api, self._status)
        if self._service.recorder is None:
            return
        request, call = self._request, self._call
        complete = self._writer.complete and self._error is None
        body = self._error.body(self._shape) if self._error is not None else self._writer.body()
        self._service.record(
            api=call.api,
            request=request["body"],
            response=body,
            started=self._started,
            ended=time.time(),
            status=self._status,
            streamed=call.stream,
            complete=complete,
            headers=request["headers"],
            path=request["path"],
            session=None if call.hints else call.session,
            error=None if self._error is None else self._error.message,
        )


class _Silence:
    """Puts ``Silent`` among a call's events where there have been none for so long.

    One timer for the whole stream: a timeout of each event would cost more than all else that is done for it.
    """

    def __init__(self, events: asyncio.Queue[Event], seconds: float) -> None:
        self._events = events
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self._timer = self._loop.call_later(seconds, self._look)

    def broken(self) -> None:
        """Something was sent."""
        self._since = self._loop.time()

    def end(self) -> None:
        """The stream has ended."""
        self._timer.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        if now >= self._since + self._seconds:
            self._since = now
            self._events.put_nowait(Silent())
        self._timer = self._loop.call_at(self._since + self._seconds, self._look)


def _header_text(text: str) -> str:
    """Text that is fit for a header: visible ASCII, not too long."""
    return "".join(char if " " <= char <= "~" else "?" for char in text)[:1000]
