"""Nothing of Python's own runs while a clock does."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Collect garbage now, and not before the block ends."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
