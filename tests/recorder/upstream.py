"""A server on loopback that does what its script says, and notes what it was sent."""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator

import uvicorn


@contextlib.contextmanager
def serving(app) -> Iterator[str]:
    """Run an ASGI application in a thread; yields its URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="critical", server_header=False, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


class Upstream:
    """Answers every request with ``status``, ``headers`` and the pieces of ``body``."""

    def __init__(self) -> None:
        self.seen: list[dict] = []
        self.status = 200
        self.headers: list[tuple[str, str]] = [("content-type", "application/json"), ("x-own", "yes")]
        self.body: list[bytes] = [b"{}"]
        self.go_on = threading.Event()
        """Set: pieces after the first are sent; else the server waits for it."""
        self.go_on.set()
        self.breaks_off = False
        self.client_gone = threading.Event()

    def says(self, body: dict, status: int = 200) -> None:
        """Answer with a JSON body."""
        self.status, self.body = status, [json.dumps(body).encode()]
        self.headers = [("content-type", "application/json"), ("x-own", "yes")]

    def streams(self, *pieces: bytes) -> None:
        """Answer with server-sent events."""
        self.status, self.body = 200, list(pieces)
        self.headers = [("content-type", "text/event-stream")]

    async def __call__(self, scope, receive, send) -> None:
        """Serve."""
        if scope["type"] != "http":
            return
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self.seen.append(
            {
                "method": scope["method"],
                "path": scope["raw_path"].decode(),
                "query": scope["query_string"].decode(),
                "headers": {name.decode(): value.decode() for name, value in scope["headers"]},
                "body": body,
            }
        )
        headers = [(name.encode(), value.encode()) for name, value in self.headers]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        watcher = asyncio.ensure_future(self._watch(receive))
        for number, piece in enumerate(self.body):
            while number and not self.go_on.is_set() and not self.client_gone.is_set():
                await asyncio.sleep(0.01)
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if self.breaks_off:
            raise RuntimeError
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        watcher.cancel()

    async def _watch(self, receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.client_gone.set()
