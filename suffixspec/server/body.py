"""Reading a request's JSON within limits."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from suffixspec.server.errors import ApiError
from suffixspec.server.settings import Settings


async def read_body(request: Request, settings: Settings) -> bytes:
    """A request's body, for ``parse_json``.

    Raises:
        ApiError: too long (413), too slow (408), or of another type (415).
        ClientDisconnect: nobody waits for an answer any more.
    """
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    # Also keeps out web pages of other sites: without this type a browser asks nobody before it sends.
    if kind != "application/json" and not kind.endswith("+json"):
        raise ApiError(
            f"expected the header Content-Type: application/json, got {kind[:60]!r}; do not send a form",
            status=415,
        )
    if request.headers.get("content-encoding", "identity").lower() not in {"", "identity"}:
        raise ApiError("expected a body that is not compressed; leave Content-Encoding out", status=415)
    try:
        async with asyncio.timeout(settings.read_seconds):
            return await _read(request, settings.body_bytes)
    except TimeoutError:
        raise ApiError(
            f"expected the body within {settings.read_seconds:g} s, got a part of it", status=408
        ) from None


def parse_json(text: bytes) -> Any:
    """JSON in UTF-8, as strictly as the standard has it.

    Raises:
        ApiError: something else.
    """
    try:
        return json.loads(text.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise ApiError("expected JSON that is not nested as deeply; flatten it") from None
    except UnicodeDecodeError as error:
        raise ApiError(f"expected a body in UTF-8, got other bytes at {error.start}") from None
    except ValueError as error:
        raise ApiError(f"We could not parse the JSON body of your request: {error}") from None


async def _read(request: Request, most: int) -> bytes:
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > most:
        raise _too_long(most)
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            raise _too_long(most)
        pieces.append(piece)
    return b"".join(pieces)


def _too_long(most: int) -> ApiError:
    return ApiError(
        f"expected a body of at most {most:,} bytes; shorten it, or raise --max-body-mib", status=413
    )


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


__all__ = ["ClientDisconnect", "parse_json", "read_body"]
