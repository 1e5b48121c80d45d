"""Trying in a process that can be ended whether a grammar compiles: one that takes for ever harms nobody."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import Any

from suffixspec.errors import InputError, SuffixspecError

_MOST = 2
_START_SECONDS = 120.0
_MEMORY = 2 << 30
_CODE = "from suffixspec.verify.compile_process import serve; serve(int(__import__('sys').argv[1]))"
_DONE, _REFUSED, _UNKNOWN = b"+", b"-", b"?"
_FORK, _LEARN = b"f", b"l"
_MOST_VOCABULARIES = 4


class CompileBusyError(SuffixspecError):
    """Others are being compiled; later it may go."""


class CompileProcess:
    """Tries grammars, each in a process of its own that ends after a while, done or not.

    Native code cannot be stopped in a thread. What has compiled there may be compiled here, which is cheaper than
    to hand over what was compiled (hundreds of MB of JSON for some). A first process imports what is needed and
    knows the last few vocabularies; it forks for each grammar. So an attempt costs a fork (some ms), and no more
    than a time and a memory limit; at most two run at once.

    Cost: the first process starts with the first grammar (seconds, some 300 MB, most of it shared with its forks),
    and ends with this one.
    """

    def __init__(self) -> None:
        self._free = threading.Semaphore(_MOST)
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def possible() -> bool:
        """Whether this system has what it takes."""
        return hasattr(os, "fork") and hasattr(socket, "send_fds")

    def check(self, vocabulary: str, request: dict[str, Any], *, seconds: float) -> None:
        """Return if the grammar compiles.

        Args:
            vocabulary: xgrammar's ``TokenizerInfo``, serialised.
            request: ``{"ebnf": …}``, or ``{"schema": …}`` with arguments of ``compile_json_schema``.
            seconds: time limit, from the moment on when it is its turn.

        Raises:
            ValueError: it cannot be compiled; as xgrammar puts it.
            InputError: not within the limits.
            CompileBusyError: it was not its turn for as long.
        """
        if not self._free.acquire(timeout=seconds):
            raise CompileBusyError(
                f"expected to compile a grammar within {seconds:g} s, got others that are compiled; try again later"
            )
        try:
            text = vocabulary.encode()
            asked = {**request, "seconds": seconds, "vocabulary": hashlib.sha256(text).hexdigest()}
            answer = self._ask(_FORK, json.dumps(asked).encode(), seconds)
            if answer == _UNKNOWN:
                self._ask(_LEARN, text, seconds)
                answer = self._ask(_FORK, json.dumps(asked).encode(), seconds)
        finally:
            self._free.release()
        if not answer and self._process is not None and self._process.poll() is not None:
            raise SuffixspecError(
                "expected a process that compiles grammars, got one that ended; see its messages"
            )
        if not answer:
            raise InputError(
                f"expected a schema or grammar that compiles within {seconds:g} s and {_MEMORY >> 30} GiB, got one "
                "that does not; make it smaller: less nesting, fewer members and values, lower bounds of repetition"
            )
        if answer[:1] == _REFUSED:
            raise ValueError(answer[1:].decode())

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            self._end()

    def _ask(self, what: bytes, request: bytes, seconds: float) -> bytes:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs, self._lock:
                self._send(what, theirs)
            # The process ends itself in time; this one does not hang even where it should not.
            ours.settimeout(seconds + _START_SECONDS)
            with contextlib.suppress(OSError):
                _write(ours, request)
                return _read(ours)
            return b""

    def _send(self, what: bytes, theirs: socket.socket) -> None:
        """Hand one end of a connection to the first process; start it where there is none (any more)."""
        for attempt in (1, 2):
            if self._control is None:
                self._start()
            assert self._control is not None
            try:
                socket.send_fds(self._control, [what], [theirs.fileno()])
            except OSError as error:
                self._end()
                if attempt == 2:
                    raise SuffixspecError(
                        f"expected a process that compiles grammars, got {error}"
                    ) from error
            else:
                return

    def _start(self) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CODE, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                start_new_session=True,  # an interrupt from the keyboard is the server's
            )

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._control = self._process = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._end()


def serve(fd: int) -> None:
    """The first process: forks for each connection that it is handed, until the other side closes."""
    import xgrammar

    known: dict[str, Any] = {}
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    with socket.socket(fileno=fd) as control:
        while True:
            what, fds, _, _ = socket.recv_fds(control, 1, 1)
            if not fds:
                return
            with socket.socket(fileno=fds[0]) as connection, contextlib.suppress(OSError):
                if what == _LEARN:
                    text = _read(connection)
                    while len(known) >= _MOST_VOCABULARIES:
                        del known[next(iter(known))]
                    known[hashlib.sha256(text).hexdigest()] = xgrammar.TokenizerInfo.deserialize_json(
                        text.decode()
                    )
                    _write(connection, _DONE)
                elif os.fork() == 0:
                    try:
                        control.close()
                        request = json.loads(_read(connection))
                        info = known.get(request.pop("vocabulary"))
                        _write(connection, _UNKNOWN if info is None else _try(info, request))
                    finally:
                        os._exit(0)


def _try(info: Any, request: dict[str, Any]) -> bytes:
    """In a fork. Its end by the signal is the system's: it comes inside native code too."""
    import resource

    import xgrammar

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, request.pop("seconds"))
    with contextlib.suppress(OSError, ValueError):
        most = _size() + _MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    try:
        if "ebnf" in request:
            compiler.compile_grammar(request["ebnf"])
        else:
            compiler.compile_json_schema(request.pop("schema"), **request)
    except (RuntimeError, ValueError, TypeError) as error:
        return _REFUSED + str(error).encode()
    except MemoryError:
        return b""
    return _DONE


def _size() -> int:
    """Bytes of address space in use."""
    with open("/proc/self/statm") as file:  # noqa: PTH123 - no paths where every byte counts
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _write(connection: socket.socket, data: bytes) -> None:
    connection.sendall(struct.pack("<Q", len(data)) + data)


def _read(connection: socket.socket) -> bytes:
    """What was written; empty where the other side ended before."""
    ends = time.monotonic() + (connection.gettimeout() or 1e9)
    (size,) = struct.unpack("<Q", _exactly(connection, 8, ends) or bytes(8))
    return _exactly(connection, size, ends)


def _exactly(connection: socket.socket, size: int, ends: float) -> bytes:
    data = bytearray()
    while len(data) < size and time.monotonic() < ends:
        piece = connection.recv(min(size - len(data), 1 << 20))
        if not piece:
            return b""
        data += piece
    return bytes(data) if len(data) == size else b""
