"""A repository's text files, as draft material."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from suffixspec.errors import InputError
from suffixspec.store.ignore import IgnoreRules

SECRET = (
    ".env",
    ".env.*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    ".netrc",
)
"""Names of files that hold keys more often than text: left out wherever they lie."""

_PROBE = 8192


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A text file of a repository."""

    path: str
    """Relative to the root, with /."""
    text: str
    digest: str
    """SHA-256 of its bytes, hexadecimal."""


@dataclass
class Skipped:
    """Files that were left out, and why."""

    large: list[str] = field(default_factory=list)
    binary: list[str] = field(default_factory=list)
    secret: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


class Repository:
    """The text files below a folder that git does not ignore.

    In a git work tree, git says which they are (tracked files, and new ones that are not ignored); elsewhere the
    ``.gitignore`` files do. Links are not followed.

    Args:
        root: the folder, or a single file's.
        most_bytes: larger files are left out.

    Raises:
        InputError: no such folder.
    """

    def __init__(self, root: str | os.PathLike[str], *, most_bytes: int = 256 << 10) -> None:
        self.root = Path(root).expanduser().resolve()
        if not self.root.is_dir():
            got = "a file" if self.root.exists() else "no such folder"
            raise InputError(f"expected a folder, got {got}", path=os.fspath(root))
        self._most_bytes = most_bytes
        self.skipped = Skipped()

    def files(self) -> Iterator[SourceFile]:
        """The files by path; what is left out is in ``skipped`` afterwards. Holds one file in memory."""
        self.skipped = Skipped()
        for path in sorted(self.paths()):
            if any(fnmatch.fnmatch(path.rpartition("/")[2], pattern) for pattern in SECRET):
                self.skipped.secret.append(path)
                continue
            place = self.root / path
            try:
                if place.is_symlink() or not place.is_file():
                    continue
                if place.stat().st_size > self._most_bytes:
                    self.skipped.large.append(path)
                    continue
                data = place.read_bytes()
            except OSError:
                self.skipped.unreadable.append(path)
                continue
            text = _text(data)
            if text is None:
                self.skipped.binary.append(path)
            elif text:
                yield SourceFile(path, text, hashlib.sha256(data).hexdigest())

    def paths(self) -> list[str]:
        """Paths of the files that are not ignored, relative to the root."""
        listed = self._from_git()
        return list(self._walk("", IgnoreRules())) if listed is None else listed

    def _from_git(self) -> list[str] | None:
        command = [
            "git",
            "-C",
            str(self.root),
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]
        try:
            done = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
        except OSError:
            return None
        if done.returncode != 0:  # no work tree, or one that git does not trust
            return None
        return list(dict.fromkeys(os.fsdecode(name) for name in done.stdout.split(b"\0") if name))

    def _walk(self, folder: str, rules: IgnoreRules) -> Iterator[str]:
        try:
            entries = sorted(os.scandir(self.root / folder), key=lambda entry: entry.name)
        except OSError:
            self.skipped.unreadable.append(folder)
            return
        if any(entry.name == ".gitignore" and entry.is_file(follow_symlinks=False) for entry in entries):
            text = (self.root / folder / ".gitignore").read_text(encoding="utf-8", errors="replace")
            rules = rules.within(folder, text)
        for entry in entries:
            path = folder + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git" or rules.ignores(path, is_folder=is_folder):
                continue
            if is_folder:
                yield from self._walk(f"{path}/", rules)
            else:
                yield path


def _text(data: bytes) -> str | None:
    if b"\0" in data[:_PROBE]:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
