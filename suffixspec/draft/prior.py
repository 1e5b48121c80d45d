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
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from suffixspec.index.suffix_tree import SuffixTree
from suffixspec.native import tree as native
from suffixspec.text.cache import build_once, cache_root

MOST_TOKENS = 2_500_000
"""Of the prior's text; some 45 bytes each."""

_FORMAT = 1
_ARRAYS = ("text", "leaf", "inner", "table", "state")
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


def load_prior(tokenizer: Encoder, *, folder: Path | None = None) -> SuffixTree | None:
    """The standard library's sources in a tokenizer's tokens, or None where there are no sources.

    The first call for a tokenizer takes some ten seconds, later ones a tenth of one: they check the files'
    digests (100 MB for SmolLM2's tokenizer, 2.3 million tokens) and map them. The tree is shared: append
    nothing to it.

    Args:
        tokenizer: whose tokens.
        folder: of the library; None: that of the running Python.

    Raises:
        OSError: the cache cannot be written.
    """
    sources = list(_sources(folder or Path(sysconfig.get_paths()["stdlib"])))
    if not sources:
        return None
    version = (native.LEAF_FIELDS, native.INNER_FIELDS, native.STATE_FIELDS, MOST_TOKENS)
    parts = (tokenizer.fingerprint, platform.python_version(), str(folder), _FORMAT, *version)
    key = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    cached = build_once(
        cache_root() / "priors" / key, lambda scratch: _save(_index(sources, tokenizer.encode), scratch)
    )
    # Copy on write: the kernels are compiled for arrays that may be written, and nobody does.
    arrays = [np.asarray(np.load(cached / f"{name}.npy", mmap_mode="c")) for name in _ARRAYS]
    return SuffixTree.of_arrays(*arrays)


def _sources(folder: Path) -> Iterator[Path]:
    """Source files in an order that is the same everywhere."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if name not in _PASSED_OVER and not name.startswith("config-")
        )
        yield from (Path(place, name) for name in sorted(names) if name.endswith(".py"))


def _index(sources: Sequence[Path], encode: Callable[..., list[int]]) -> SuffixTree:
    tree = SuffixTree()
    for source in sources:
        try:
            text = source.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        tokens = np.array(encode(text, special=False), np.int32)
        if len(tree) + tokens.size >= MOST_TOKENS:
            break
        tree.extend(tokens)
        tree.end_sequence()
    return tree


def _save(tree: SuffixTree, folder: Path) -> None:
    """Write what is in use of a tree's arrays; their room for growth stays behind."""
    text, leaf, inner, table = tree.arrays
    inners = int(tree.state[native.S_INNERS])
    parts = (text[: len(tree)], leaf[: len(tree)], inner[:inners], table, tree.state)
    for name, array in zip(_ARRAYS, parts, strict=True):
        np.save(folder / f"{name}.npy", array)
