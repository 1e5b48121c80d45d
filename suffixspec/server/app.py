"""The ASGI application: which path is served by what, and how everything that goes wrong is told."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from suffixspec.server import chat_wire, completions_wire, messages_wire, responses_wire, tokens_wire
from suffixspec.server.answer import CLIENT_GONE, Answer
from suffixspec.server.body import parse_json, read_body
from suffixspec.server.errors import ApiError, shape_of
from suffixspec.server.fields import Fields
from suffixspec.server.service import Service
from suffixspec.server.sse import encode
from suffixspec.server.wire import Reader, Request, new_id

_LOG = logging.getLogger("suffixspec.server")

T = TypeVar("T")
Endpoint: TypeAlias = Callable[[HttpRequest], Awaitable[ASGIApp]]


def build_app(service: Service) -> Starlette:
    """The application that serves ``service``. Its lifespan starts the scheduler and shuts it down."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.scheduler.start()
        # A thread for each request that may be read at once: none waits for another's schema to be compiled.
        settings = service.settings
        threads = ThreadPoolExecutor(settings.most_active + settings.most_waiting + 8, "suffixspec reader")
        asyncio.get_running_loop().set_default_executor(threads)
        try:
            yield
        finally:
            service.scheduler.shut_down(service.settings.shutdown_seconds)
            await asyncio.to_thread(service.scheduler.join)

    models = Models(service)
    routes = [
        _route("/v1/chat/completions", calls(service, chat_wire.read), "POST"),
        _route("/v1/completions", calls(service, completions_wire.read), "POST"),
        _route("/v1/responses", calls(service, responses_wire.read), "POST"),
        _route("/v1/messages", calls(service, messages_wire.read), "POST"),
        _route("/v1/messages/count_tokens", answers(service, messages_wire.count), "POST"),
        _route("/tokenize", answers(service, tokens_wire.tokenize), "POST"),
        _route("/detokenize", answers(service, tokens_wire.detokenize), "POST"),
        _route("/v1/models", models.list, "GET"),
        _route("/v1/models/{name:path}", models.one, "GET"),
        _route("/health", _health(service), "GET"),
        _route("/metrics", _metrics(service), "GET"),
    ]
    return Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: _http_error},
    )


def calls(service: Service, reader: Reader) -> Endpoint:
    """The endpoint of one API's model calls."""

    async def endpoint(http: HttpRequest) -> ASGIApp:
        namespace = service.gate.namespace(http.headers)
        service.scheduler.reserve()
        submitted = False
        try:
            text = await read_body(http, service.settings)
            writer, body = await asyncio.to_thread(_read, reader, text, http.headers, namespace, service)
            call = writer.call
            call.deadline = call.arrived + service.settings.request_seconds
            submitted = True
            service.scheduler.submit(call)
        finally:
            if not submitted:
                service.scheduler.release()
        record = {"body": body, "headers": dict(http.headers), "path": http.url.path}
        return Answer(writer, service, request_id=http.state.request_id, request=record)

    return endpoint


def answers(service: Service, answer: Callable[[Request], dict[str, Any]]) -> Endpoint:
    """The endpoint of something that no model is needed for."""

    async def endpoint(http: HttpRequest) -> ASGIApp:
        namespace = service.gate.namespace(http.headers)
        text = await read_body(http, service.settings)
        value, _ = await asyncio.to_thread(_read, answer, text, http.headers, namespace, service)
        return json_response(value)

    return endpoint


def _read(
    reader: Callable[[Request], T], text: bytes, headers: Headers, namespace: str, service: Service
) -> tuple[T, Any]:
    """What ``reader`` makes of a body, and its JSON value. In a thread: a long one takes its time."""
    body = parse_json(text)
    try:
        return reader(Request(Fields(body), headers, namespace, service)), body
    except RecursionError:
        raise ApiError("expected JSON that is not nested as deeply; flatten it") from None


class Models:
    """``/v1/models``, in OpenAI's and in Anthropic's form.

    Args:
        service: whose model.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    async def list(self, http: HttpRequest) -> ASGIApp:
        """All models: one."""
        self._service.gate.namespace(http.headers)
        card = self._card(http)
        name = self._service.model_name
        if "anthropic-version" in http.headers:
            return json_response({"data": [card], "has_more": False, "first_id": name, "last_id": name})
        return json_response({"object": "list", "data": [card]})

    async def one(self, http: HttpRequest) -> ASGIApp:
        """The model of a name."""
        self._service.gate.namespace(http.headers)
        name = http.path_params["name"]
        if name != self._service.model_name:
            raise ApiError(
                f"The model {name[:100]!r} does not exist; this server has {self._service.model_name!r}",
                status=404,
                code="model_not_found",
            )
        return json_response(self._card(http))

    def _card(self, http: HttpRequest) -> dict[str, Any]:
        service = self._service
        if "anthropic-version" in http.headers:
            created = "1970-01-01T00:00:00Z"  # Anthropic's own value where it is not known
            return {
                "type": "model",
                "id": service.model_name,
                "display_name": service.model_name,
                "created_at": created,
            }
        return {
            "id": service.model_name,
            "object": "model",
            "created": service.created,
            "owned_by": "suffixspec",
            "max_model_len": service.context,
        }


def _health(service: Service) -> Endpoint:
    async def endpoint(_: HttpRequest) -> ASGIApp:
        if service.scheduler.closing:
            raise ApiError("the server is shutting down", status=503)
        return json_response({"status": "ok"})

    return endpoint


def _metrics(service: Service) -> Endpoint:
    async def endpoint(_: HttpRequest) -> ASGIApp:
        return Response(service.metrics.exposition(), media_type="text/plain; version=0.0.4")

    return endpoint


def json_response(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON value as a response."""
    return Response(encode(value), status_code=status, media_type="application/json", headers=headers)


def _route(path: str, endpoint: Endpoint, method: str) -> Route:
    return Route(path, _Guarded(endpoint), methods=[method])


class _Guarded:
    """An endpoint whose errors are told in the API's own shape."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        http = HttpRequest(scope, receive)
        http.state.request_id = new_id("req_")
        try:
            response = await self._endpoint(http)
        except ApiError as error:
            response = _told(error, http)
        except ClientDisconnect:
            response = Response(status_code=CLIENT_GONE)
        except Exception:  # noqa: BLE001 - a defect must not leave the client without an answer
            _LOG.exception("a request failed")
            failure = ApiError("the server failed on this request; its log says why", status=500)
            response = _told(failure, http)
        await response(scope, receive, send)


def _told(error: ApiError, http: HttpRequest) -> Response:
    headers = {**error.headers, "x-request-id": http.state.request_id}
    return json_response(
        error.body(shape_of(http.url.path, http.headers)), status=error.status, headers=headers
    )


async def _http_error(http: HttpRequest, error: Exception) -> Response:
    """Paths and methods that there are not."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    what = f"{http.method} {http.url.path[:100]}"
    if status == 404:
        message = (
            f"Unknown request URL: {what}. This server has /v1/chat/completions and the like; see /v1/models."
        )
    else:
        message = f"expected another method, got {what}"
    http.state.request_id = new_id("req_")
    return _told(ApiError(message, status=status), http)
