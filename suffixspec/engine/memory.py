"""Out of memory: what it looks like, and what to do about it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

import torch

from suffixspec.engine.branch import Branch
from suffixspec.engine.branches import Branches
from suffixspec.engine.errors import OutOfMemoryError

T = TypeVar("T")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that the host or a device has no memory left."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    # The CPU allocator raises a plain RuntimeError.
    text = str(error)
    return isinstance(error, RuntimeError) and ("can't allocate memory" in text or "out of memory" in text)


def with_retry(action: Callable[[], T], branches: Branches, branch: Branch) -> T:
    """``action()``; where memory runs out, evict all branches that are not in use and try once more.

    ``action`` must be one that can be repeated: it commits nothing before it has all its memory.

    Raises:
        OutOfMemoryError: it did not help; says what to lower.
    """
    try:
        return action()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
    # Outside of the handler: the exception's traceback holds the frames, and they hold tensors.
    evicted = branches.evict_others(branch)
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    try:
        return action()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemoryError(
            f"expected memory to go on behind {len(branch):,} tokens, got none, even after evicting "
            f"{evicted} other branches; lower prefill_chunk, max_nodes or kv_bytes, shorten the prompt, or "
            f"load the model in a smaller dtype ({error})"
        ) from error
