"""File operations that can fail half way; tests put a failing disk in their place."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from suffixspec.atomic_file import TEMPORARY, scratch_of, sync_folder

__all__ = ["TEMPORARY", "Files"]

_PRIVATE = 0o600


class Files:
    """Writes, renames and removals. Everything that the store changes on disk goes through here.

    Every method raises ``OSError`` where the system does; what a method leaves behind then is said there.
    """

    def create(self, path: Path) -> int:
        """A new file, readable by its owner only; its descriptor. Raises where there is one already."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        return os.open(path, flags, _PRIVATE)

    def write(self, fd: int, data: bytes) -> None:
        """Write all of ``data``; some of it may have been written when this raises."""
        view = memoryview(data)
        while view:  # once, but for signals and full disks
            view = view[os.write(fd, view) :]

    def truncate(self, fd: int, size: int) -> None:
        """Cut a file to ``size`` bytes and go on writing there."""
        os.ftruncate(fd, size)
        os.lseek(fd, size, os.SEEK_SET)

    def sync(self, fd: int) -> None:
        """Wait until a file is on the disk."""
        os.fsync(fd)

    def rename(self, source: Path, target: Path) -> None:
        """Rename in one step, over what is there."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file; one that is gone already is no error."""
        path.unlink(missing_ok=True)

    def sync_folder(self, folder: Path) -> None:
        """Wait until the names in a folder are on the disk, where the system can do so."""
        sync_folder(folder)

    def write_whole(self, path: Path, data: bytes) -> None:
        """Put a complete file in place in one step: the old content or the new one, whatever happens.

        As ``atomic_file.replacing`` does, by the operations above, of which each can fail.
        """
        scratch = scratch_of(path)
        try:
            fd = self.create(scratch)
            try:
                self.write(fd, data)
                self.sync(fd)
            finally:
                os.close(fd)
            self.rename(scratch, path)
        except OSError:
            with contextlib.suppress(OSError):
                self.remove(scratch)
            raise
        self.sync_folder(path.parent)
