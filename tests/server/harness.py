"""The real server on loopback, over a tiny model in float64, and clients for it."""

from __future__ import annotations

import http.client
import json
import threading
import time
from typing import Any

import anthropic
import openai
import pytest
from engine.tiny import EOS, TOKENIZER, CountingTarget

from suffixspec.engine import Engine
from suffixspec.engine.turn import Turn
from suffixspec.server.apart_drafter import ApartDrafter
from suffixspec.server.command import listen
from suffixspec.server.http_server import HttpServer
from suffixspec.server.service import Service
from suffixspec.server.settings import Settings

LONG = {"logit_bias": {str(EOS): -100}}
"""No end before ``max_tokens``."""


GREEDY = {"temperature": 0}
"""For Anthropic's client, which has no parameter for it."""


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


class Running:
    """A server in a thread of its own, on a free port."""

    def __init__(self, target: CountingTarget, settings: Settings | None = None, **more: Any) -> None:
        recorder, tokenizer = more.pop("recorder", None), more.pop("tokenizer", TOKENIZER)
        options = {"kv_bytes": 1 << 26, "prefill_chunk": 64, "drafter": ApartDrafter(max_nodes=32)}
        self.engine = Engine(target, tokenizer, **{**options, **more})
        self.service = Service(self.engine, settings or Settings(), recorder=recorder)
        self.http = HttpServer(self.service)
        self._socket = listen("127.0.0.1", 0)
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self.http.run, args=([self._socket],), daemon=True)

    def __enter__(self) -> Running:
        self._thread.start()
        until(lambda: self.http.started)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join(600)
        assert not self._thread.is_alive(), "the server did not stop"

    def stop(self) -> None:
        """Tell it to stop; returns at once."""
        self.http.should_exit = True

    def openai(self, key: str = "none", **more: Any) -> openai.OpenAI:
        """OpenAI's client for it, without retries."""
        return openai.OpenAI(
            base_url=f"{self.url}/v1", api_key=key, **{"max_retries": 0, "timeout": 600, **more}
        )

    def anthropic(self, key: str = "none", **more: Any) -> anthropic.Anthropic:
        """Anthropic's client for it, without retries."""
        return anthropic.Anthropic(
            base_url=self.url, api_key=key, **{"max_retries": 0, "timeout": 600, **more}
        )

    def ask(
        self,
        path: str,
        body: Any = None,
        *,
        method: str | None = None,
        headers: dict[str, str] | None = None,
        raw: Any = None,
    ) -> tuple[int, dict[str, str], Any]:
        """A request without a client's help: status, headers, JSON or text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        try:
            connection.request(
                method or ("GET" if data is None else "POST"),
                path,
                data,
                {"content-type": "application/json", **(headers or {})},
            )
            response = connection.getresponse()
            text = response.read().decode()
            got = {name.lower(): value for name, value in response.getheaders()}
        finally:
            connection.close()
        json_type = got.get("content-type", "").startswith("application/json")
        return response.status, got, json.loads(text) if json_type and text else text

    def plain(self, prompt_ids: Any, **options: Any) -> Any:
        """What plain decoding writes."""
        return self.engine.plain(prompt_ids, **options)

    def metric(self, name: str) -> float:
        """The value of a metric without labels."""
        lines = self.service.metrics.exposition().decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


class Gate:
    """Holds the scheduler in a step of decoding until it is opened.

    Args:
        patch: undone by the test.
        after: so many steps, of all calls together, are let through before.
    """

    def __init__(self, patch: pytest.MonkeyPatch, after: int = 0) -> None:
        self._open = threading.Event()
        self._left = after
        self._held = False
        forward = Turn.forward

        def held(*arguments: Any) -> Any:
            self._left -= 1
            if self._left < 0 and not self._open.is_set():
                self._held = True
                assert self._open.wait(600)
                self._held = False
            return forward(*arguments)

        patch.setattr(Turn, "forward", held)

    def hold(self, after: int) -> None:
        """Hold after so many steps more."""
        self._left = after
        self._open.clear()

    def holds(self) -> bool:
        """Whether a step is held now."""
        return self._held

    def open(self) -> None:
        """Let everything go."""
        self._open.set()


def until(condition: Any, seconds: float = 600.0) -> None:
    """Wait for something that happens in another thread."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)
