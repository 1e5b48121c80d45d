"""The file of a recording: append-only JSON lines that survive crashes and several writers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType
from typing import Any

from suffixspec.errors import InputError
from suffixspec.recorder.call import REDACTED, map_texts, without_credentials
from suffixspec.trace.importers.recording import VERSION, VERSION_KEY

_TAIL_BYTES = 1 << 16
_HEAD = f'{{"{VERSION_KEY}"'.encode("ascii")
"""What every line begins with."""


class Recorder:
    """Appends model calls to a file, a line each. May be shared by threads; processes may share the file.

    A line is written in one piece under a lock, so that lines of several writers never mix. It is handed to
    the operating system at once: what was written survives a crash or ``kill -9`` of the process, and a kill
    in the middle of a write loses that line alone. What survives a power cut is up to the operating system
    (seconds), or with ``fsync`` everything. An unfinished last line is cut off, or completed where only its
    end is missing, before the next one is written. The file only grows: nothing is rotated or dropped.

    Args:
        path: the file; begun, readable by its owner only, where there is none.
        redact: regular expressions; what they match in any text of a call becomes ``[redacted]``.
        fsync: wait after every line until it is on the disk.

    Raises:
        InputError: the file cannot be written to, or an expression is none.
    """

    def __init__(self, path: str | PathLike[str], *, redact: Sequence[str] = (), fsync: bool = False) -> None:
        self.path = fspath(path)
        self._fsync = fsync
        self._thread_lock = threading.Lock()
        self._closed = False
        try:
            self._redact = re.compile("|".join(f"(?:{pattern})" for pattern in redact)) if redact else None
        except re.error as error:
            raise InputError(f"expected a regular expression to redact, got {redact!r}: {error}") from None
        self._fd = self._open()
        self._pid = os.getpid()
        with self._thread_lock, self._file_lock():
            head = self._read(0, len(_HEAD)) if self._end() else b""
            is_recording = _HEAD.startswith(head)
            if is_recording:
                self._mend()
        if not is_recording:
            os.close(self._fd)
            raise InputError(
                "expected a recording to append to, or no such file yet, got another kind of file",
                path=self.path,
            )

    def write(self, call: Mapping[str, Any]) -> None:
        """Append one call, as `suffixspec.recorder.new_call` makes it.

        Credentials are left out: headers other than session hints, and fields such as ``api_key``.

        Raises:
            InputError: the call holds what JSON cannot say.
            OSError: the disk is full, or the like; the file is as it was before.
            ValueError: the recorder is closed.
        """
        clean = without_credentials({VERSION_KEY: VERSION, **call})
        if self._redact is not None:
            pattern = self._redact
            clean = map_texts(clean, lambda text: pattern.sub(REDACTED, text))
        try:
            # Escaped to ASCII: half a character, cut in two by a client, is no error here.
            line = json.dumps(clean).encode("ascii") + b"\n"
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"expected a call of JSON values, got: {error}") from None
        with self._thread_lock:
            if self._closed:
                raise ValueError(f"expected an open recorder, got one that was closed ({self.path})")
            if self._pid != os.getpid():  # after a fork both would hold one and the same lock
                self._fd, self._pid = self._open(), os.getpid()
            with self._file_lock():
                self._append(line)

    def close(self) -> None:
        """Wait until everything is on the disk, and close the file. May be called again."""
        with self._thread_lock:
            if self._closed:
                return
            self._closed = True
            if self._pid == os.getpid():
                try:
                    with contextlib.suppress(OSError):  # a pipe, /dev/null
                        os.fsync(self._fd)
                finally:
                    os.close(self._fd)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> int:
        flags = (
            os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        )
        try:
            return os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            raise InputError(
                f"expected the folder {str(Path(self.path).parent)!r} to exist, got none; create it first",
                path=self.path,
            ) from None
        except OSError as error:
            raise InputError(
                f"expected a file that can be written, got: {error.strerror}", path=self.path
            ) from error

    def _append(self, line: bytes) -> None:
        end = self._mend()
        try:
            written = 0
            while written < len(line):  # once, but for signals and full disks
                written += os.write(self._fd, line[written:])
            if self._fsync:
                os.fsync(self._fd)
        except OSError:
            if end is not None:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, end)
            raise

    def _mend(self) -> int | None:
        """Cut off or complete an unfinished last line; return the file's end, None where it is no regular file.

        Cost: reads one byte where the file is whole.
        """
        end = self._end()
        if not end or self._read(end - 1, 1) == b"\n":
            return end
        start, tail = end, b""
        while start > 0 and b"\n" not in tail:
            size = min(_TAIL_BYTES, start)
            start -= size
            tail = self._read(start, size) + tail
        tail = tail[tail.rfind(b"\n") + 1 :]
        if _is_whole(tail):
            os.write(self._fd, b"\n")
            return end + 1
        os.ftruncate(self._fd, end - len(tail))
        return end - len(tail)

    def _end(self) -> int | None:
        try:
            return os.lseek(self._fd, 0, os.SEEK_END)
        except OSError:  # a pipe
            return None

    def _read(self, start: int, size: int) -> bytes:
        os.lseek(self._fd, start, os.SEEK_SET)
        data = b""
        while len(data) < size:
            piece = os.read(self._fd, size - len(data))
            if not piece:
                break
            data += piece
        return data

    @contextlib.contextmanager
    def _file_lock(self) -> Iterator[None]:
        """Keep other processes out. The system lifts it when this process dies."""
        try:
            import fcntl
        except ImportError:
            yield from _windows_lock(self._fd)
            return
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)


def _windows_lock(fd: int) -> Iterator[None]:
    """Lock a byte far beyond the end: locked bytes of the content could not be read by others."""
    import msvcrt

    lock: Any = msvcrt
    far = 1 << 62
    os.lseek(fd, far, os.SEEK_SET)
    lock.locking(fd, lock.LK_LOCK, 1)
    try:
        yield
    finally:
        os.lseek(fd, far, os.SEEK_SET)
        lock.locking(fd, lock.LK_UNLCK, 1)


def _is_whole(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
