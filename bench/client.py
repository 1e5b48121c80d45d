"""A client that reads streams and looks at the clock; no other work between the socket and the times."""

import http.client
import json
import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Answer:
    """One streamed chat completion. Times are of ``time.monotonic``, which all processes share."""

    sent: float
    first: float = 0.0
    """When the first text came."""
    ended: float = 0.0
    text: str = ""
    usage: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, Any] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """That came out."""
        return int(self.usage["completion_tokens"])

    @property
    def cached(self) -> int:
        """Of the prompt."""
        return int(self.usage["prompt_tokens_details"]["cached_tokens"])


class Client:
    """Asks one server, over one connection.

    Args:
        port: of loopback.
        namespace: whose history and KV.
    """

    def __init__(self, port: int, namespace: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        self._headers = {"Content-Type": "application/json", "X-Suffixspec-Namespace": namespace}

    def chat(self, messages: list[dict[str, Any]], **options: Any) -> Answer:
        """Stream one chat completion to its end."""
        body = {"messages": messages, "stream": True, "stream_options": {"include_usage": True}, **options}
        data = json.dumps(body).encode()
        answer = Answer(time.monotonic())
        self._connection.request("POST", "/v1/chat/completions", data, self._headers)
        response = self._connection.getresponse()
        if response.status != 200:
            raise RuntimeError(f"expected an answer, got {response.status}: {response.read(500)!r}")
        pieces = []
        while line := response.readline():
            if not line.startswith(b"data: {"):
                continue
            now = time.monotonic()
            chunk = json.loads(line[6:])
            if chunk.get("usage"):
                answer.usage, answer.timings = chunk["usage"], chunk["timings"]
            for choice in chunk["choices"]:
                text = choice["delta"].get("content")
                if text:
                    answer.first = answer.first or now
                    pieces.append(text)
        answer.ended = time.monotonic()
        answer.text = "".join(pieces)
        return answer

    def close(self) -> None:
        """Hang up."""
        self._connection.close()
