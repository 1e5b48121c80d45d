"""A transparent proxy in front of a model server, which records the calls that pass."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, cast
from urllib.parse import urlsplit

import httpx

from suffixspec.errors import InputError
from suffixspec.recorder.call import Api, new_call
from suffixspec.recorder.join import StreamJoiner
from suffixspec.recorder.writer import Recorder

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_HOP_BY_HOP = {
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
"""Headers about a connection, which is another one on either side."""

_CONNECT_SECONDS = 20.0


class Proxy:
    """An ASGI application that passes every request on to ``upstream``, and the answer back as it comes.

    Calls of the chat, completions, responses and messages APIs are recorded, failed and cut-off ones too;
    everything else only passes. A client that goes away ends the request to the server. Where the server
    cannot be reached, the answer is 502 with a sentence in the form of the client's API. A recording that
    cannot be written is said on stderr once and stops nothing.

    Args:
        upstream: the server's URL, with or without its ``/v1``.
        recorder: where calls go; closed by its owner.

    Raises:
        InputError: not a URL of http or https.
    """

    def __init__(self, upstream: str, recorder: Recorder) -> None:
        parts = urlsplit(upstream)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"expected an upstream like http://127.0.0.1:8000/v1, got {upstream!r}")
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._shown = f"{parts.scheme}://{parts.netloc.rsplit('@', 1)[-1]}"
        self._prefix = [segment for segment in parts.path.split("/") if segment]
        self._recorder = recorder
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=2.0),
            trust_env=parts.hostname not in ("localhost", "127.0.0.1", "::1"),  # HTTPS_PROXY and the like
        )
        self._client.headers.clear()  # the request's own headers, and nothing of httpx
        self.recorded = 0
        """Calls written so far."""
        self._failed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await _Exchange(self, scope, receive, send).run()
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1011, "reason": "websockets are not passed on"})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                await self._client.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return

    def url(self, path: str, query: str) -> str:
        """Where a request goes: the upstream's path and the request's, with what they share given once."""
        wanted = [segment for segment in path.split("/") if segment]
        shared = next(
            (n for n in range(min(len(self._prefix), len(wanted)), 0, -1) if self._prefix[-n:] == wanted[:n]),
            0,
        )
        whole = "/" + "/".join([*self._prefix, *wanted[shared:]])
        if path.endswith("/") and not whole.endswith("/"):
            whole += "/"
        return f"{self._origin}{whole}{'?' + query if query else ''}"

    async def record(self, call: dict[str, Any]) -> None:
        """Write a call down; a failure is said once."""
        try:
            await asyncio.to_thread(self._recorder.write, call)
            self.recorded += 1
        except (OSError, InputError, ValueError) as error:
            if not self._failed:
                sys.stderr.write(f"suffixspec: calls are not recorded any more: {error}\n")
            self._failed = True


class _Exchange:
    """One request and its answer."""

    def __init__(self, proxy: Proxy, scope: Scope, receive: Receive, send: Send) -> None:
        self._proxy = proxy
        self._receive = receive
        self._send = send
        self._method: str = scope["method"]
        self._path: str = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").split("?")[0]
        self._query: str = scope.get("query_string", b"").decode("latin-1")
        self._headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        self._lower = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self._headers
        }
        self._api = _api_of(self._path) if self._method == "POST" else None
        self._started = time.time()
        self._request: dict[str, Any] | None = None
        self._joined: _Body | None = None
        self._status = 0
        self._error: str | None = None
        self._begun = False  # the answer's head was sent
        self._recording: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Pass the request on and the answer back, until either side goes away."""
        body = await self._body()
        if body is None:
            return
        answering = asyncio.ensure_future(self._answer(body))
        gone = asyncio.ensure_future(self._gone())
        try:
            await asyncio.wait((answering, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Also where this task itself is cancelled: the proxy may be stopping.
            if not answering.done():
                self._error = self._error or "the client went away"
                answering.cancel()
            gone.cancel()
            await asyncio.wait((answering, gone))
        if not answering.cancelled():
            answering.result()

    async def _body(self) -> bytes | None:
        """The request's whole body; None where the client goes away before its end."""
        pieces: list[bytes] = []
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return None
            more = message.get("more_body", False)
            pieces.append(message.get("body") or b"")
        body = b"".join(pieces)
        if self._api is not None:
            with contextlib.suppress(ValueError, RecursionError):
                value = json.loads(body)
                self._request = value if isinstance(value, dict) else None
        return body

    async def _gone(self) -> None:
        """Return when the client has gone away."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _answer(self, body: bytes) -> None:
        proxy = self._proxy
        request = proxy._client.build_request(
            self._method,
            proxy.url(self._path, self._query),
            headers=self._request_headers(),
            content=body or None,  # with its length
        )
        try:
            try:
                try:
                    response = await proxy._client.send(request, stream=True)
                except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                    # Nothing came back: most likely the server closed an idle connection just now.
                    response = await proxy._client.send(request, stream=True)
            except httpx.HTTPError as error:
                await self._refuse(error)
                return
            async with contextlib.aclosing(response):
                await self._pass(response)
        finally:
            await self._record()

    async def _pass(self, response: httpx.Response) -> None:
        self._status = response.status_code
        self._joined = _Body(self._api, response.headers) if self._request is not None and self._api else None
        connection = {name.strip().lower() for name in response.headers.get("connection", "").split(",")}
        headers = [
            (name, value)
            for name, value in response.headers.raw
            if name.decode("latin-1").lower() not in _HOP_BY_HOP | connection
        ]
        await self._send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        self._begun = True
        try:
            whole: list[bytes] = []
            async for piece in response.aiter_raw():
                if self._joined is not None:
                    self._joined.feed(piece)
                    if not self._joined.streamed:
                        whole.append(piece)
                        continue
                    if self._joined.last_event_came:
                        await self._record()  # clients are done with it, and may look for it
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        except httpx.HTTPError as error:
            # The client must not take the half of an answer for the whole: end without its end.
            self._error = f"the server broke off: {_words(error)}"
            return
        if self._joined is not None:
            self._joined.ended = True
        await self._record()  # before the end, for the same reason
        await self._send({"type": "http.response.body", "body": b"".join(whole), "more_body": False})

    async def _refuse(self, error: httpx.HTTPError) -> None:
        """Answer for a server that cannot be reached."""
        self._status = 502
        self._error = (
            f"expected a server at {self._proxy._shown}, got none ({_words(error)}); "
            "start it, or give suffixspec record another --upstream"
        )
        if self._api == "messages" or "anthropic-version" in self._lower:
            body: dict[str, Any] = {"type": "error", "error": {"type": "api_error", "message": self._error}}
        else:
            fields = {"type": "upstream_error", "param": None, "code": "upstream_unreachable"}
            body = {"error": {"message": self._error} | fields}
        data = json.dumps(body).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
        await self._send({"type": "http.response.start", "status": 502, "headers": headers})
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    def _request_headers(self) -> list[tuple[bytes, bytes]]:
        named = {name.strip().lower() for name in self._lower.get("connection", "").split(",")}
        left_out = _HOP_BY_HOP | named | {"host", "content-length", "expect"}
        own = []
        if self._api is not None:
            left_out |= {"accept-encoding"}  # what is compressed cannot be recorded in every case
            own = [(b"accept-encoding", b"identity")]
        return [item for item in self._headers if item[0].decode("latin-1").lower() not in left_out] + own

    async def _record(self) -> None:
        """Write the call down, once; whoever waits for it may be cancelled, and the writing goes on."""
        if self._recording is None:
            call = self._call()
            if call is None:
                return
            self._recording = asyncio.ensure_future(self._proxy.record(call))
        await asyncio.shield(self._recording)

    def _call(self) -> dict[str, Any] | None:
        """The call so far; None where it is not to be recorded."""
        request, joined = self._request, self._joined
        if request is None or self._api is None:
            return None
        return new_call(
            self._api,
            request,
            joined.response() if joined is not None else None,
            started=self._started,
            status=self._status or 499,  # as nginx says that the client closed the request
            streamed=joined is not None and joined.streamed,
            complete=joined is not None and joined.complete,
            headers=self._lower,
            path=self._path,
            error=self._error or (joined.error if joined is not None else None),
        )


class _Body:
    """The answer of a recorded call, as it passes."""

    def __init__(self, api: Api | None, headers: httpx.Headers) -> None:
        encoding = headers.get("content-encoding", "identity").lower()
        self._unpack = zlib.decompressobj(wbits=47) if encoding in ("gzip", "deflate") else None
        self._readable = encoding in ("identity", "", "gzip", "deflate")
        self.streamed = "text/event-stream" in headers.get("content-type", "")
        self._joiner = StreamJoiner(cast("Api", api)) if self.streamed else None
        self._pieces: list[bytes] = []
        self.ended = False
        """Whether it came whole."""

    def feed(self, data: bytes) -> None:
        """Take in what passes."""
        if not self._readable:
            return
        if self._unpack is not None:
            try:
                data = self._unpack.decompress(data)
            except zlib.error:
                self._readable = False
                return
        if self._joiner is not None:
            self._joiner.feed(data)
        else:
            self._pieces.append(data)

    @property
    def last_event_came(self) -> bool:
        """Whether no event is left of a stream."""
        return self._joiner is not None and self._joiner.ended

    @property
    def complete(self) -> bool:
        """Whether the model's answer is there to its end."""
        return self._joiner.complete if self._joiner is not None else self.ended

    @property
    def error(self) -> str | None:
        """What is wrong with it."""
        if not self._readable:
            return "the answer was compressed in a way that is not understood"
        return self._joiner.error if self._joiner is not None else None

    def response(self) -> dict[str, Any] | None:
        """The body, or None where there is none of JSON."""
        if self._joiner is not None:
            return self._joiner.response()
        try:
            value = json.loads(b"".join(self._pieces))
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None


def _api_of(path: str) -> Api | None:
    path = path.rstrip("/")
    if path.endswith("/chat/completions"):
        return "chat"
    last = path.rsplit("/", 1)[-1]
    return cast("Api", last) if last in ("completions", "responses", "messages") else None


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
