"""One recorded model call: what a line of a recording holds, and what never gets into it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from suffixspec.trace.importers.recording import VERSION, VERSION_KEY

Api = Literal["chat", "completions", "responses", "messages"]
"""Which API a call belongs to: OpenAI's three, and Anthropic's messages."""

SESSION_HEADERS = (
    "x-claude-code-session-id",
    "session-id",
    "session_id",
    "x-session-id",
    "x-session-affinity",
    "x-litellm-session-id",
)
"""The only headers that are recorded."""

REDACTED = "[redacted]"
"""Stands in place of what was taken out."""

_SECRET_KEYS = frozenset(
    {
        "api_key",
        "apikey",
        "api-key",
        "x-api-key",
        "authorization",
        "authorization_token",
        "headers",
        "extra_headers",
        "default_headers",
    }
)
"""Fields of a request, of its tools and of its MCP servers that may carry credentials."""

_SHORTEST_SECRET = 16
"""Shorter keys are dummies ("none", "EMPTY"): taking them out everywhere would cut up the conversation."""

_CREDENTIAL_HEADERS = ("authorization", "proxy-authorization", "x-api-key", "api-key", "cookie")


def new_call(
    api: Api,
    request: Mapping[str, Any],
    response: Mapping[str, Any] | None,
    *,
    started: float | None = None,
    ended: float | None = None,
    status: int = 200,
    streamed: bool = False,
    complete: bool = True,
    headers: Mapping[str, str] | None = None,
    path: str | None = None,
    session: str | None = None,
    error: str | None = None,
) -> dict[str, Any]:
    """One line of a recording, as `Recorder.write` takes it.

    Keys that ``headers`` carry are taken out of both bodies, wherever these repeat them.

    Args:
        api: what kind of bodies these are.
        request: the request's body.
        response: the response's body, put together where it was streamed; None where none came.
        started: seconds since 1970 when the request came; None: now.
        ended: when the response ended; None: now.
        status: the HTTP status.
        streamed: whether the response came in pieces.
        complete: False where the response was cut off: a client or a server went away.
        headers: of the request, in any case; all but `SESSION_HEADERS` are left out.
        path: of the URL, without its query.
        session: the client's name for the loop; None: looked for in headers and body, see `session_hint`.
        error: in words, what went wrong.
    """
    now = time.time()
    lower = {name.lower(): value for name, value in (headers or {}).items()}
    call: dict[str, Any] = {
        VERSION_KEY: VERSION,
        "api": api,
        "path": path,
        "started": now if started is None else started,
        "ended": now if ended is None else ended,
        "status": status,
        "streamed": streamed,
        "complete": complete,
        "model": request.get("model"),
        "session": session_hint(lower, request) if session is None else session,
        "headers": {name: lower[name] for name in SESSION_HEADERS if name in lower},
        "request": dict(request),
        "response": None if response is None else dict(response),
    }
    if error is not None:
        call["error"] = error
    return _scrubbed(call, _credentials(lower))


def session_hint(headers: Mapping[str, str], body: Mapping[str, Any]) -> str | None:
    """The client's own name for the loop that a call belongs to, or None: many clients send none.

    A hint only: calls are joined by what they say. In the order in which clients are to be believed: Claude
    Code's header, ``metadata.user_id``, the session headers, ``session_id`` in the body, then routing keys
    that may be shared by several loops.

    Args:
        headers: with names in lower case.
        body: of the request.
    """
    metadata = body.get("metadata")
    inner = metadata if isinstance(metadata, Mapping) else {}
    hints = (
        headers.get("x-claude-code-session-id"),
        inner.get("user_id"),
        headers.get("session-id"),
        headers.get("session_id"),
        body.get("session_id"),
        headers.get("x-session-id"),
        headers.get("x-session-affinity"),
        headers.get("x-litellm-session-id"),
        body.get("prompt_cache_key"),
    )
    return next((hint for hint in hints if isinstance(hint, str) and hint), None)


def without_credentials(call: Mapping[str, Any]) -> dict[str, Any]:
    """The call without fields that carry credentials and without headers that are no session hints.

    Looks at the request's own fields and at those of its tools and MCP servers; what a conversation says and
    the parameters of a tool stay as they are. Cost: O(tools); changes nothing in place.
    """
    clean = dict(call)
    headers = clean.get("headers")
    if isinstance(headers, Mapping):
        clean["headers"] = {
            name.lower(): value for name, value in headers.items() if name.lower() in SESSION_HEADERS
        }
    request = clean.get("request")
    if isinstance(request, Mapping):
        request = _without_secret_keys(request)
        for key in ("tools", "mcp_servers"):
            if isinstance(request.get(key), (list, tuple)):
                request[key] = [
                    _without_secret_keys(item) if isinstance(item, Mapping) else item for item in request[key]
                ]
        clean["request"] = request
    return clean


def _credentials(headers: Mapping[str, str]) -> list[str]:
    """The keys that a request carried, to be taken out of a body that repeats them.

    Args:
        headers: with names in lower case.
    """
    values = [headers[name] for name in _CREDENTIAL_HEADERS if headers.get(name)]
    return sorted({value.split(" ", 1)[-1].strip() for value in values}, key=len, reverse=True)


def _scrubbed(call: dict[str, Any], secrets: Iterable[str]) -> dict[str, Any]:
    """The call with keys taken out of its texts: long ones everywhere, any out of a failure's response.

    Servers repeat a refused key in their message, and agents read it from files.
    """
    known = [secret for secret in secrets if secret]
    if not known:
        return call
    long = [secret for secret in known if len(secret) >= _SHORTEST_SECRET]
    scrubbed = dict(call)
    if long:
        take_out = _replacer(long)
        for key in ("request", "response", "error", "session"):
            scrubbed[key] = map_texts(scrubbed.get(key), take_out)
    if scrubbed.get("status", 200) >= 400:
        for key in ("response", "error"):
            scrubbed[key] = map_texts(scrubbed.get(key), _replacer(known))
    return scrubbed


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with ``change`` applied to every string that is no key. Cost: O(characters)."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: map_texts(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [map_texts(item, change) for item in value]
    return value


def _replacer(secrets: list[str]) -> Callable[[str], str]:
    pattern = re.compile("|".join(map(re.escape, secrets)))
    return lambda text: pattern.sub(REDACTED, text)


def _without_secret_keys(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if str(key).lower() not in _SECRET_KEYS}
