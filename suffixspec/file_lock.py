"""A lock between processes that the system lifts when its holder dies. Imports nothing of the project."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Any


def lock_descriptor(fd: int, *, wait: bool) -> bool:
    """Lock an open file against other descriptors of it; return whether it was to be had.

    The lock goes with the descriptor, so ``os.close`` and the end of the process lift it.
    """
    try:
        import fcntl
    except ImportError:
        return _windows_lock(fd, wait=wait)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _windows_lock(fd: int, *, wait: bool) -> bool:
    """Lock a byte far beyond the end: locked bytes of the content could not be read by others."""
    import msvcrt

    module: Any = msvcrt
    place = os.lseek(fd, 0, os.SEEK_CUR)
    os.lseek(fd, 1 << 62, os.SEEK_SET)
    try:
        while True:
            try:
                module.locking(fd, module.LK_LOCK if wait else module.LK_NBLCK, 1)
            except OSError:  # LK_LOCK gives up after ten seconds
                if not wait:
                    return False
            else:
                return True
    finally:
        os.lseek(fd, place, os.SEEK_SET)


class FileLock:
    """Holds a lock file while in a ``with`` block; may be entered again by the same thread.

    The file is never removed: whoever waits for it would hold a lock that nobody else sees.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._threads = threading.RLock()
        self._depth = 0
        self._fd = -1

    def __enter__(self) -> FileLock:
        self._threads.acquire()
        try:
            if self._depth == 0:
                flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
                self._fd = os.open(self._path, flags, 0o600)
                lock_descriptor(self._fd, wait=True)
            self._depth += 1
        except BaseException:
            self._threads.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            os.close(self._fd)
        self._threads.release()
