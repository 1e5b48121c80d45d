"""What is known before the first session: text that every installation has, and what the target's tokens look like.

An agent's first session has no history, and what it writes is often code or prose that reads like code and its
documentation. The sources of Python's standard library, and of the packages that suffixspec itself requires, are both.
They are tokenized and indexed once per tokenizer and version, kept in the user's cache folder and mapped into memory
from there: processes share the pages, and only those that drafts look at are read again. Another version of Python
or of a package makes another one; those that nobody has opened for a month leave when one is made.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sysconfig
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from suffixspec.errors import InputError, SuffixspecWarning
from suffixspec.file_lock import FileLock
from suffixspec.index.sealed import SealedIndex
from suffixspec.text.cache import build_once, cache_root
from suffixspec.text.token_class import Vocabulary, token_classes

MOST_TOKENS = 10_000_000
"""Of the prior's text; some 16 bytes each."""

_FORMAT = 4
_UNUSED_SECONDS = 30 * 86400.0  # another environment may need it, and makes it again in half a minute
_FILE, _CLASSES_FILE = "prior.index", "classes.npy"
_LOCK = ".building.lock"
_PACKAGES = ("jinja2", "rich", "numpy", "numba", "huggingface_hub", "transformers")
"""Required by suffixspec, or by transformers. Without torch: most of its sources were generated."""
# What nobody writes by hand, what is not installed everywhere, and a thousand variations of one model.
_PASSED_OVER = frozenset(
    {"test", "tests", "idle_test", "site-packages", "dist-packages", "idlelib", "lib2to3", "turtledemo"}
    | {"__pycache__", "encodings", "pydoc_data", "ensurepip", "models"}
)


@dataclass(frozen=True, slots=True)
class Prior:
    """What any session of a tokenizer may draft with; see ``load_prior``."""

    index: SealedIndex
    """Of the text."""
    classes: NDArray[np.uint8]
    """uint8 [vocabulary]: class of each token, see ``text.token_class``; of fewer, the others are of class 0."""

    @property
    def folder(self) -> Path | None:
        """Where it was opened; None where it was not."""
        return None if self.index.path is None else self.index.path.parent

    def save(self, folder: Path) -> None:
        """Write it to files in a folder."""
        self.index.save(folder / _FILE)
        np.save(folder / _CLASSES_FILE, self.classes)

    @classmethod
    def open(cls, folder: Path) -> Prior:
        """Map what ``load_prior`` made; its pages are read as drafts look at them, or by ``index.prefault``.

        Raises:
            InputError: it is damaged.
            FileNotFoundError: there is none.
        """
        index = SealedIndex.open(folder / _FILE)
        try:
            classes = np.load(folder / _CLASSES_FILE)
        except (ValueError, EOFError) as error:
            raise InputError(
                f"expected the classes of tokens, got {error}", path=str(folder / _CLASSES_FILE)
            ) from None
        return cls(index, np.require(classes, np.uint8, ["C_CONTIGUOUS", "WRITEABLE"]))


class Encoder(Vocabulary, Protocol):
    """What the prior needs of a tokenizer."""

    @property
    def fingerprint(self) -> str:
        """Names the vocabulary and its merges."""
        ...

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Token ids of a text."""
        ...


def load_prior(tokenizer: Encoder, *, folders: Sequence[Path] | None = None) -> Prior | None:
    """The sources in a tokenizer's tokens, and the tokens' classes; None where there are no sources.

    The first call for a tokenizer takes about half a minute, later ones a fifth of a second: they map the file
    (140 MB for SmolLM2's tokenizer, 9 million tokens), check it, and have it in memory.

    Args:
        tokenizer: whose tokens.
        folders: of sources; None: the standard library of the running Python, and ``_PACKAGES``.

    Raises:
        OSError: the cache cannot be written.
    """
    versions: Sequence[object] = folders or [_version(package) for package in _PACKAGES]
    parts = (tokenizer.fingerprint, platform.python_version(), *map(str, versions), _FORMAT, MOST_TOKENS)
    key = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    cached = cache_root() / "priors" / key
    for _ in range(2):
        if not cached.exists():
            sources = [file for folder in (folders or _folders()) for file in _sources(folder)]
            if not sources:
                return None
            cached.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(cached.parent / _LOCK):  # of several processes one builds, the others find it
                build_once(cached, partial(_save, sources, tokenizer))
                _remove_unused(cached.parent)
        try:
            with contextlib.suppress(OSError):  # a cache that nobody may write to
                os.utime(cached)  # says that it is in use
            prior = Prior.open(cached)
            prior.index.prefault()
        except (InputError, FileNotFoundError):
            shutil.rmtree(cached, ignore_errors=True)  # damaged: it can be made again
        else:
            return prior
    raise OSError(f"the index in {cached} is damaged, and was when it was made again; look at the disk")


def find_prior(tokenizer: Encoder) -> Prior | None:
    """As ``load_prior``; where the cache cannot be written, a warning and None: nothing depends on a prior."""
    try:
        return load_prior(tokenizer)
    except OSError as error:
        warnings.warn(
            f"drafting without a prior: expected a cache folder that can be written, got {error};"
            " name another one in SUFFIXSPEC_CACHE",
            SuffixspecWarning,
            stacklevel=2,
        )
        return None


def _remove_unused(priors: Path) -> None:
    """Remove what was opened last a month ago or earlier; the folders' times say when.

    A process that has one of them open keeps it: a mapped file stays until it is let go of.
    """
    for path in priors.iterdir():
        with contextlib.suppress(OSError):  # another process removed it first
            if not path.name.startswith(".") and time.time() - path.stat().st_mtime > _UNUSED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _folders() -> list[Path]:
    """Of the standard library and the packages, without importing one."""
    folders = [Path(sysconfig.get_paths()["stdlib"])]
    for package in _PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            folders.append(Path(spec.origin).parent)
    return folders


def _version(package: str) -> str:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"no {package}"


def _sources(folder: Path) -> Iterator[Path]:
    """Source files in an order that is the same everywhere."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if name not in _PASSED_OVER and not name.startswith("config-")
        )
        yield from (Path(place, name) for name in sorted(names) if name.endswith(".py"))


def _save(sources: Sequence[Path], tokenizer: Encoder, folder: Path) -> None:
    texts: list[NDArray[np.int32]] = []
    total = 0
    for source in sources:
        try:
            text = source.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        tokens = np.array([*tokenizer.encode(text, special=False), -1], np.int32)
        if total + tokens.size > MOST_TOKENS:
            break
        total += tokens.size
        texts.append(tokens)
    index = SealedIndex.build(np.concatenate(texts) if texts else np.zeros(0, np.int32))
    Prior(index, token_classes(tokenizer)).save(folder)
