"""What a client is told when its request cannot be served, in the shape that its API has for that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from suffixspec.errors import SuffixspecError

Shape = Literal["openai", "anthropic"]
"""Whose error objects: OpenAI's for all endpoints but Anthropic's ``/v1/messages``."""

_OPENAI_TYPES = {401: "authentication_error", 429: "rate_limit_error"}
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
_CODES = {
    401: "invalid_api_key",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "request_too_large",
    415: "unsupported_media_type",
    429: "rate_limit_exceeded",
    503: "unavailable",
}


class ApiError(SuffixspecError):
    """A request that is not served: a sentence, an HTTP status and where it helps the name of a field.

    Args:
        message: what was expected, what came, what to do.
        status: the HTTP status.
        param: the field of the request that is to blame.
        code: a word for programs.
        retry_after: seconds after which the same request may succeed.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.param = param
        self.code = code or _CODES.get(status)
        self.headers: dict[str, str] = {} if retry_after is None else {"retry-after": str(retry_after)}

    def body(self, shape: Shape) -> dict[str, Any]:
        """The JSON object that the API sends."""
        if shape == "anthropic":
            kind = _ANTHROPIC_TYPES.get(
                self.status, "api_error" if self.status >= 500 else "invalid_request_error"
            )
            return {"type": "error", "error": {"type": kind, "message": self.message}}
        kind = _OPENAI_TYPES.get(
            self.status, "server_error" if self.status >= 500 else "invalid_request_error"
        )
        return {
            "error": {"message": self.message, "type": kind, "param": self.param, "code": self.code},
        }


class ContextTooLongError(ApiError):
    """The prompt leaves no room for an output; worded so that agents recognise it and compact.

    Args:
        tokens: of the prompt.
        most: the model's context.
        shape: agents look for their API's own words.
        param: the field with the prompt.
    """

    def __init__(self, tokens: int, most: int, *, shape: Shape, param: str) -> None:
        if shape == "anthropic":
            message = f"prompt is too long: {tokens} tokens > {most - 1} maximum; shorten the conversation"
        else:
            message = (
                f"This model's maximum context length is {most} tokens. However, your {param} resulted in "
                f"{tokens} tokens, which leaves no room for an output; shorten the conversation."
            )
        super().__init__(message, param=param, code="context_length_exceeded")


def shape_of(path: str, headers: Mapping[str, str]) -> Shape:
    """The shape that the client of a path expects; both APIs have ``/v1/models``."""
    if path.startswith("/v1/messages"):
        return "anthropic"
    return "anthropic" if path.startswith("/v1/models") and "anthropic-version" in headers else "openai"
