"""The one decorator that compiles a kernel."""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba

from .cache import cache_root


def kernel(function: Callable[..., Any], *, inline: bool = False) -> Any:
    """Compile ``function`` lazily, release the GIL while it runs, and cache the result on disk.

    Reference counting of arrays is off (``_nrt``): a kernel allocates nothing and keeps nothing, and Numba
    would otherwise count every array up and down at every helper, atomically: that was three quarters of the
    time of a draft.

    The cache lies in the user's cache folder (``cache_root``; ``NUMBA_CACHE_DIR`` where the user gave one),
    not beside the source: pip would leave such files behind, and the leftover folder would shadow a later
    editable install.
    """
    before = numba.config.CACHE_DIR
    # Numba reads this while it decorates; it is put back at once, so that no other library's kernels move.
    numba.config.CACHE_DIR = str(_cache_folder(before))
    try:
        return numba.njit(nogil=True, cache=True, error_model="numpy", forceinline=inline, _nrt=False)(
            function
        )
    finally:
        numba.config.CACHE_DIR = before


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a helper into each of its callers: a call would pass every array as seven or more words."""
    return kernel(function, inline=True)


@cache
def _cache_folder(users: str) -> Path:
    """One folder per version of all kernels together.

    Numba's own key is the stamp of the file that holds a kernel: it would not notice an edit of a callee in
    another file, and it does not know bounds checking from none. Both are in this folder's name.
    """
    digest = hashlib.sha256(f"boundscheck={numba.config.BOUNDSCHECK}".encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    root = Path(users) if users else cache_root()
    return root / "kernels" / digest.hexdigest()[:16]
