"""What a drafter inside another project's engine has to do when its process begins, and when it ends."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing.util
import weakref
from typing import Protocol

import numpy as np

from suffixspec.draft.indexed import IndexDrafter


class Closable(Protocol):
    """What has an end."""

    def close(self) -> None:
        """End; may be called again."""


def compile_kernels(max_nodes: int) -> None:
    """Compile the kernels, or load them: half a minute on a machine's first start, else under a second."""
    # A drafter of its own: nothing of this is learned.
    session = IndexDrafter(max_nodes=max_nodes).session()
    session.sync(np.arange(4096) ** 2 % 251)  # long enough for the tables to grow
    session.draft()
    session.accept(np.array([3, 1], np.int32))
    session.end_turn()
    session.close()


def close_at_exit(drafter: Closable) -> None:
    """Have it closed when the process ends, unless it is gone by then."""
    # A process that multiprocessing began may end without the first, any other one without the second.
    this = weakref.ref(drafter)
    atexit.register(_close, this)
    multiprocessing.util.Finalize(None, _close, args=(this,), exitpriority=10)


def _close(drafter: weakref.ref[Closable]) -> None:
    with contextlib.suppress(Exception):
        this = drafter()
        if this is not None:
            this.close()
