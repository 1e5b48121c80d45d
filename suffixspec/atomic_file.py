"""Files that appear whole or not at all. Imports nothing of the project: anything may use it."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

TEMPORARY = ".tmp"
"""Suffix of files that are not complete yet; they are called as the final one, between a dot and a random number."""


def scratch_of(path: Path) -> Path:
    """Where a file is written before it takes its place: beside it, under a name that nobody else has."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")


@contextlib.contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """Open a file that takes the place of ``path`` when the block ends, or vanishes when it raises.

    Until then, and after any error, Ctrl-C or ``kill -9`` before, what was there is there as it was. The file and
    its name are on the disk when this ends.

    Args:
        path: its folder exists; a link is replaced, not what it points to.
        private: readable by its owner only; else as the user's other files are.

    Raises:
        OSError: no such folder, a full disk, or the like.
    """
    scratch = scratch_of(path)
    mode = 0o600 if private else 0o666  # less what the user's mask takes
    try:
        with open(scratch, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system can do so."""
    with contextlib.suppress(OSError):  # Windows opens no folders
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
