"""The user's data folder. Imports nothing that is slow to load."""

import os
import sys
from pathlib import Path


def data_root() -> Path:
    r"""The folder that suffixspec keeps what cannot be made again in; not created here.

    ``SUFFIXSPEC_DATA`` wins; else ``$XDG_DATA_HOME/suffixspec`` (or ``~/.local/share/suffixspec``) on Linux,
    ``~/Library/Application Support/suffixspec`` on macOS, ``%LOCALAPPDATA%\suffixspec\data`` on Windows. A
    relative ``XDG_DATA_HOME`` is ignored, as its specification asks.
    """
    override = os.environ.get("SUFFIXSPEC_DATA")
    if override:
        return Path(override).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "suffixspec"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "suffixspec" / "data"
    xdg = os.environ.get("XDG_DATA_HOME", "")
    return (Path(xdg) if Path(xdg).is_absolute() else Path.home() / ".local" / "share") / "suffixspec"


def default_history() -> Path:
    """Where a history lies that was given no other place."""
    return data_root() / "history"
