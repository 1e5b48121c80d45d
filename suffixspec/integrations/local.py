"""The server of ``suffixspec serve`` within this process, for plug-ins of frameworks that speak OpenAI's API."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import threading
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any

from suffixspec.errors import MissingExtraError, SuffixspecError

if TYPE_CHECKING:
    from suffixspec.engine.engine import Engine

RECORD_VARIABLE = "SUFFIXSPEC_RECORD"
"""Environment variable: the file that plug-ins record to."""
MODEL_VARIABLE = "SUFFIXSPEC_MODEL"
"""Environment variable: the folder or hub id of the plug-ins' model."""
DEFAULT_NAMES = ("", "default", "local", "suffixspec")
"""Names that mean the environment's model, or SmolLM2."""

_START_SECONDS = 60.0


class LocalServer:
    """Serves an engine on a free port of loopback, from a thread; only who has its key may ask.

    It ends with the process, if it is not closed before: every recorded call is in its file by then.

    Args:
        engine: whose model answers.
        record: a file that all calls are recorded to.
        temperature: of requests that do not say.

    Raises:
        MissingExtraError: without the extra ``serve``.
        InputError: ``record`` cannot be written.
    """

    def __init__(
        self, engine: Engine, *, record: str | PathLike[str] | None = None, temperature: float = 0.0
    ) -> None:
        try:
            from suffixspec.server.http_server import HttpServer
            from suffixspec.server.service import Service
            from suffixspec.server.settings import Settings
        except ImportError as error:
            raise MissingExtraError(
                f"expected the package {error.name} for the server, got none; pip install 'suffixspec[serve]'"
            ) from None
        from suffixspec.recorder.writer import Recorder

        self.engine = engine
        self.api_key = f"sk-local-{secrets.token_hex(16)}"
        self._recorder = None if record is None else Recorder(record)
        settings = Settings(
            api_keys=(self.api_key,), sampling={"temperature": temperature}, shutdown_seconds=1.0,
            ignore_unknown_fields=True,
        )  # fmt: skip
        service = Service(engine, settings, recorder=self._recorder)
        self.model_name: str = service.model_name
        self._http: Any = HttpServer(service)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = run_in_thread(self._http, self._socket)

    @property
    def base_url(self) -> str:
        """For clients of OpenAI's API."""
        return f"{self.url}/v1"

    def close(self) -> None:
        """Stop. May be called again."""
        self._http.should_exit = True
        self._thread.join(_START_SECONDS)
        self._socket.close()
        if self._recorder is not None:
            self._recorder.close()

    def __enter__(self) -> LocalServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_servers: dict[str, LocalServer] = {}
_lock = threading.Lock()


def local_server(model: str | None = None, **options: Any) -> LocalServer:
    """The one server of this process for a model, begun when it is first asked for.

    Args:
        model: a folder or hub id; one of `DEFAULT_NAMES` or None: the environment's ``SUFFIXSPEC_MODEL``, else
            SmolLM2-135M-Instruct from the extra ``local``.
        options: of ``Engine.from_pretrained`` and of `LocalServer`, for the first to ask; ``record`` is by
            default the environment's ``SUFFIXSPEC_RECORD``.

    Raises:
        InputError: no such model.
        MissingExtraError: a package is missing; says which.
    """
    spec = model.removeprefix("suffixspec/") if model else ""
    if spec in DEFAULT_NAMES:
        spec = os.environ.get(MODEL_VARIABLE, "")
    key = json.dumps([spec, options], sort_keys=True, default=str)
    with _lock:
        if key not in _servers:
            from suffixspec.engine.engine import Engine

            given = dict(options)
            own = {name: given.pop(name) for name in ("record", "temperature") if name in given}
            own.setdefault("record", os.environ.get(RECORD_VARIABLE) or None)
            _servers[key] = LocalServer(Engine.from_pretrained(spec or None, **given), **own)
        return _servers[key]


def close_servers() -> None:
    """Stop all servers of this process and free their models."""
    with _lock:
        while _servers:
            _servers.popitem()[1].close()


def run_in_thread(server: Any, listener: socket.socket) -> threading.Thread:
    """Run a ``uvicorn.Server`` in a thread; returns when it takes requests.

    Raises:
        SuffixspecError: it did not start.
    """
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="suffixspec server", daemon=True
    )
    thread.start()
    waiting = threading.Event()
    for _ in range(int(_START_SECONDS / 0.01)):
        if server.started:
            return thread
        if not thread.is_alive():
            break
        waiting.wait(0.01)
    with contextlib.suppress(OSError):
        listener.close()
    raise SuffixspecError("expected the server to start, got none; run suffixspec serve to see why")
