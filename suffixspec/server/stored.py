"""Conversations that ``previous_response_id`` goes on from."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any


class StoredResponses:
    """The last responses' conversations, by namespace and id; the oldest leave first. Shared by threads.

    Args:
        most: how many are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._conversations: OrderedDict[tuple[str, str], list[dict[str, Any]]] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, namespace: str, response_id: str, messages: list[dict[str, Any]]) -> None:
        """Keep a conversation, its last reply included."""
        with self._lock:
            self._conversations[namespace, response_id] = list(messages)
            while len(self._conversations) > self._most:
                self._conversations.popitem(last=False)

    def get(self, namespace: str, response_id: str) -> list[dict[str, Any]] | None:
        """The conversation of a response of the namespace; None where there is none."""
        with self._lock:
            return self._conversations.get((namespace, response_id))
