"""The recording proxy within this process, for any framework that takes a base URL."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from os import PathLike


@contextlib.contextmanager
def recording(path: str | PathLike[str], upstream: str) -> Iterator[str]:
    """Record every call that goes to the URL which is yielded, and pass it on to ``upstream``.

    Example:
        >>> with recording("calls.jsonl", "http://127.0.0.1:8000/v1") as base_url:    # doctest: +SKIP
        ...     ChatOpenAI(base_url=base_url, api_key="none").invoke("Hello")

    ``suffixspec replay calls.jsonl`` then replays the loops.

    Args:
        path: the file; appended to.
        upstream: the server's URL.

    Yields:
        A base URL for clients of OpenAI's API; without its ``/v1`` it is one for Anthropic's.

    Raises:
        InputError: no URL, or a file that cannot be written.
        ImportError: without the extra ``serve``.
    """
    import uvicorn

    from suffixspec.integrations.local import run_in_thread
    from suffixspec.recorder.proxy import Proxy
    from suffixspec.recorder.writer import Recorder

    with Recorder(path) as recorder, socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            Proxy(upstream, recorder), log_config=None, access_log=False, server_header=False,
            date_header=False, ws="none", timeout_graceful_shutdown=3,
        )  # fmt: skip
        server = uvicorn.Server(config)
        thread = run_in_thread(server, listener)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            server.should_exit = True
            thread.join()
