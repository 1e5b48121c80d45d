"""The user's cache folder, and folders in it that are built once.

A folder appears under its final name only when it is complete: it is built beside it under a temporary name
and renamed. So a killed process leaves no half-written folder behind, and of two processes that build the
same one the second finds the first one's. A manifest with the size and digest of each file tells a folder
that was damaged later (a full disk, a power cut) from a sound one: such a folder is built again.
"""

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from suffixspec.errors import SuffixspecError
from suffixspec.native.cache import cache_root

__all__ = ["MANIFEST", "build_once", "cache_root", "is_complete"]

MANIFEST = "complete.json"
_STALE_SECONDS = 3600.0


def is_complete(folder: Path) -> bool:
    """Whether ``folder`` holds exactly what was built: every file of its manifest with its size and digest.

    Reads the files once (a few ms for a tokenizer).
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return bool(manifest) and all(_digest(folder / name) == digest for name, digest in manifest.items())
    except (OSError, ValueError, AttributeError):
        return False


def build_once(folder: Path, build: Callable[[Path], None]) -> Path:
    """Return ``folder``, building it first when it is missing or damaged.

    Safe against other processes doing the same at the same time: all of them return a complete folder.

    Args:
        folder: final place.
        build: fills the empty folder it is given; what it raises passes through and leaves nothing behind.

    Raises:
        OSError: the cache cannot be written.
        SuffixspecError: a damaged folder stands in the way and cannot be moved.
    """
    if is_complete(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale(folder.parent)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        build(scratch)
        manifest = {path.name: _digest(path) for path in sorted(scratch.iterdir()) if path.is_file()}
        (scratch / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        for _ in range(10):
            try:
                scratch.rename(folder)
            except OSError:  # something is there: another process was faster, or a damaged folder
                if is_complete(folder):
                    return folder
                _move_away(folder)
            else:
                return folder
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    raise SuffixspecError(
        f"expected to replace the damaged cache folder {folder}, and it stays in the way; remove it by hand"
    )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _move_away(folder: Path) -> None:
    """Take a damaged folder out of the way in one step, so that no process sees it half removed."""
    trash = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        folder.rename(trash / "damaged")
    except OSError:
        pass  # another process moved it, or holds it open (Windows): the caller looks again
    finally:
        shutil.rmtree(trash, ignore_errors=True)


def _remove_stale(parent: Path) -> None:
    """Remove scratch folders that processes killed in the middle left behind."""
    for path in parent.glob(".*"):
        try:
            if path.is_dir() and time.time() - path.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
        except OSError:  # another process removed it first
            continue
