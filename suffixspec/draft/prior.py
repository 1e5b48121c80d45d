"""Text that every machine has, as a source of drafts: the Python standard library.

An agent's first session has no history, and what it writes is often code or prose that reads like code and its
documentation. The standard library's sources are both. They are tokenized and indexed once per tokenizer and
Python version, kept in the user's cache folder and mapped into memory from there: processes share the pages,
and only those that drafts look at are read again.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sysconfig
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from suffixspec.errors import InputError, SuffixspecWarning
from suffixspec.index.sealed import SealedIndex
from suffixspec.text.cache import build_once, cache_root

MOST_TOKENS = 2_500_000
"""Of the prior's text; some 16 bytes each."""

_FORMAT = 2
_FILE = "library.index"
# What nobody writes by hand, or what is not installed everywhere.
_PASSED_OVER = frozenset(
    {"test", "tests", "idle_test", "site-packages", "dist-packages", "idlelib", "lib2to3", "turtledemo"}
    | {"__pycache__", "encodings", "pydoc_data", "ensurepip"}
)


class Encoder(Protocol):
    """What the prior needs of a tokenizer."""

    @property
    def fingerprint(self) -> str:
        """Names the vocabulary and its merges."""
        ...

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Token ids of a text."""
        ...


def load_prior(tokenizer: Encoder, *, folder: Path | None = None) -> SealedIndex | None:
    """The standard library's sources in a tokenizer's tokens, or None where there are no sources.

    The first call for a tokenizer takes some ten seconds, later ones a tenth of one: they map the file (36 MB for
    SmolLM2's tokenizer, 2.3 million tokens), check it, and have it in memory.

    Args:
        tokenizer: whose tokens.
        folder: of the library; None: that of the running Python.

    Raises:
        OSError: the cache cannot be written.
    """
    sources = list(_sources(folder or Path(sysconfig.get_paths()["stdlib"])))
    if not sources:
        return None
    parts = (tokenizer.fingerprint, platform.python_version(), str(folder), _FORMAT, MOST_TOKENS)
    key = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    cached = cache_root() / "priors" / key
    for _ in range(2):
        build_once(cached, lambda scratch: _index(sources, tokenizer.encode).save(scratch / _FILE))
        try:
            index = SealedIndex.open(cached / _FILE)
            index.prefault()
        except (InputError, FileNotFoundError):
            shutil.rmtree(cached, ignore_errors=True)  # damaged: it can be made again
        else:
            return index
    raise OSError(f"the index in {cached} is damaged, and was when it was made again; look at the disk")


def find_prior(tokenizer: Encoder) -> SealedIndex | None:
    """As ``load_prior``; where the cache cannot be written, a warning and None: nothing depends on a prior."""
    try:
        return load_prior(tokenizer)
    except OSError as error:
        warnings.warn(
            f"drafting without the standard library: expected a cache folder that can be written, got {error};"
            " name another one in SUFFIXSPEC_CACHE",
            SuffixspecWarning,
            stacklevel=2,
        )
        return None


def _sources(folder: Path) -> Iterator[Path]:
    """Source files in an order that is the same everywhere."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if name not in _PASSED_OVER and not name.startswith("config-")
        )
        yield from (Path(place, name) for name in sorted(names) if name.endswith(".py"))


def _index(sources: Sequence[Path], encode: Callable[..., list[int]]) -> SealedIndex:
    texts: list[NDArray[np.int32]] = []
    total = 0
    for source in sources:
        try:
            text = source.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        tokens = np.array([*encode(text, special=False), -1], np.int32)
        if total + tokens.size > MOST_TOKENS:
            break
        total += tokens.size
        texts.append(tokens)
    return SealedIndex.build(np.concatenate(texts) if texts else np.zeros(0, np.int32))
