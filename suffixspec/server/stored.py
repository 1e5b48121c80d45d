"""Conversations that ``previous_response_id`` goes on from."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any


class StoredResponses:
    """The last responses' conversations, by namespace and id; the oldest leave first. Shared by threads.

    Args:
        most: how many are kept.
        most_characters: of all of them together. (The memory is less: turns of a conversation share their texts.)
    """

    def __init__(self, most: int, *, most_characters: int = 1 << 28) -> None:
        self._most = most
        self._most_characters = most_characters
        self._conversations: OrderedDict[tuple[str, str], list[dict[str, Any]]] = OrderedDict()
        self._sizes: dict[tuple[str, str], int] = {}
        self._characters = 0
        self._lock = threading.Lock()

    def put(self, namespace: str, response_id: str, messages: list[dict[str, Any]], characters: int) -> None:
        """Keep a conversation of so many characters, its last reply included. The id is a new one."""
        with self._lock:
            self._conversations[namespace, response_id] = list(messages)
            self._sizes[namespace, response_id] = characters
            self._characters += characters
            while len(self._conversations) > self._most or self._characters > self._most_characters:
                oldest, _ = self._conversations.popitem(last=False)
                self._characters -= self._sizes.pop(oldest)

    def get(self, namespace: str, response_id: str) -> list[dict[str, Any]] | None:
        """The conversation of a response of the namespace; None where there is none."""
        with self._lock:
            return self._conversations.get((namespace, response_id))
