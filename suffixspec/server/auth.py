"""Who may ask, and whose history a request shares."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence

from suffixspec.server.errors import ApiError

NAMESPACE_HEADER = "x-suffixspec-namespace"

_NAMESPACE = re.compile(r"[\x21-\x7e]{1,128}")


class Gate:
    """Checks API keys, and says to which namespace a request belongs.

    Everything that requests may share (sessions, KV, the texts that drafts are copied from, stored
    responses) is kept per namespace, and nothing crosses from one to another. A namespace is an API key's
    together with the header ``X-Suffixspec-Namespace``: a client may divide its own into several, and cannot
    reach another key's. What the drafter learns of repeats is kept apart too (``ApartDrafter``). Shared by all are
    the machine's time and memory (KV that was not used for long leaves for others'), the totals of ``/metrics``,
    what forwards took, and how often predictions came true.

    Keys are compared in constant time: SHA-256 digests of equal length, all of them, whatever matches.

    Args:
        keys: the keys that are accepted; none: anybody may ask.
    """

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._digests = [_digest(key) for key in keys]

    @property
    def closed(self) -> bool:
        """Whether a key is needed."""
        return bool(self._digests)

    def namespace(self, headers: Mapping[str, str]) -> str:
        """The namespace of a request.

        Args:
            headers: with names in lower case, or case-insensitive.

        Raises:
            ApiError: no key, a wrong key, or a malformed namespace.
        """
        owner = self._owner(headers)
        within = headers.get(NAMESPACE_HEADER)
        if within is not None and not _NAMESPACE.fullmatch(within):
            raise ApiError(
                "expected X-Suffixspec-Namespace of 1 to 128 visible ASCII characters without spaces, got "
                f"{len(within)} characters"
            )
        # The owner has no slash, so that no two pairs give the same name.
        return owner if within is None else f"{owner}/{within}"

    def _owner(self, headers: Mapping[str, str]) -> str:
        if not self._digests:
            return "default"
        key = _key(headers)
        if key is None:
            raise ApiError(
                "expected an API key, got none; send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'",
                status=401,
            )
        given = _digest(key)
        matches = [hmac.compare_digest(given, digest) for digest in self._digests]
        if not any(matches):
            raise ApiError("expected a valid API key, got another; check the client's key", status=401)
        return f"key-{given.hex()[:16]}"


def _key(headers: Mapping[str, str]) -> str | None:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key.strip():
        return key.strip()
    return headers.get("x-api-key") or None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
