"""Work in the background of threads that draft."""

from __future__ import annotations

import time

STRETCH = 8
"""Records that are read or written, and segments that are looked at, between two pauses: less than a millisecond."""


def give_way() -> None:
    """Let a thread that waits for the interpreter have it now.

    It would wait up to 5 ms otherwise, at every return from a kernel. A pause of no time is not enough: it ends
    before the other has woken up. Cost: some 60 µs.
    """
    time.sleep(1e-6)
