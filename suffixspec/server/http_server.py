"""The HTTP server: uvicorn, told about the scheduler's way to shut down."""

from __future__ import annotations

import socket
from types import FrameType

import uvicorn

from suffixspec.server.app import build_app
from suffixspec.server.service import Service

_BACKLOG = 2048
_KEEP_ALIVE_SECONDS = 75  # an agent thinks and runs tools between its calls: longer than its clients keep one
_GRACE_SECONDS = 5.0  # for the last bytes, after the calls have ended


class HttpServer(uvicorn.Server):
    """Serves a service until it is told to stop.

    A shutdown takes no more calls, refuses those that wait, lets those that run go on for
    ``shutdown_seconds``, and then ends them. A second Ctrl-C ends them at once.

    Args:
        service: what is served.
        host: the address to listen at.
        port: 0 takes a free one.
    """

    def __init__(self, service: Service, *, host: str = "127.0.0.1", port: int = 8000) -> None:
        self._service = service
        config = uvicorn.Config(
            build_app(service),
            host=host,
            port=port,
            http="h11",
            ws="none",
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=_BACKLOG,
            timeout_graceful_shutdown=int(service.settings.shutdown_seconds + _GRACE_SECONDS),
        )
        super().__init__(config)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: uvicorn waits until all responses have ended, and the scheduler sees to it that they do."""
        self._service.scheduler.shut_down(self._service.settings.shutdown_seconds)
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal to stop."""
        if self.should_exit:
            self._service.scheduler.shut_down(0.0)
        super().handle_exit(sig, frame)
