"""The arguments of tool calls as the model wrote them, for an API that sends back objects.

Anthropic's API has a call's input as an object; a client that sends it back has parsed what the model wrote, and
the white space and escapes of the text are lost. Written anew, the conversation would depart from the model's own
tokens at the first call, and nothing behind it could be reused. So the text of each call is kept, and where a
client sends back the same value under the same id, the conversation has the model's own text.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from typing import Any

_MOST_BYTES = 1 << 26


class Arguments:
    """Texts of calls' arguments by namespace and id; the oldest leave first. May be shared by threads.

    Args:
        most_bytes: upper bound of all texts together.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most_bytes
        self._texts: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def note(self, namespace: str, call_id: str, text: str) -> None:
        """Keep the text of a call."""
        with self._lock:
            self._bytes += len(text) - len(self._texts.pop((namespace, call_id), ""))
            self._texts[namespace, call_id] = text
            while self._bytes > self._most:
                self._bytes -= len(self._texts.popitem(last=False)[1])

    def text(self, namespace: str, call_id: str, value: Any) -> str:
        """The text of a call's arguments: the model's own if ``value`` is what it says, else written anew."""
        with self._lock:
            text = self._texts.get((namespace, call_id))
        if text is not None and _says(text, value):
            return text
        return json.dumps(value, ensure_ascii=False)


def _says(text: str, value: Any) -> bool:
    try:
        # Compared as text: in Python 1 == 1.0 == True.
        return json.dumps(json.loads(text), sort_keys=True) == json.dumps(value, sort_keys=True)
    except ValueError:
        return False
