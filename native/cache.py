"""The user's cache folder. Imports neither numba nor anything else that is slow to load."""

import os
import sys
from pathlib import Path


def cache_root() -> Path:
    r"""The folder that suffixspec keeps derived files in; not created here.

    ``SUFFIXSPEC_CACHE`` wins; else ``$XDG_CACHE_HOME/suffixspec`` (or ``~/.cache/suffixspec``) on Linux,
    ``~/Library/Caches/suffixspec`` on macOS, ``%LOCALAPPDATA%\suffixspec`` on Windows. A relative
    ``XDG_CACHE_HOME`` is ignored, as its specification asks.
    """
    override = os.environ.get("SUFFIXSPEC_CACHE")
    if override:
        return Path(override).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "suffixspec"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "suffixspec"
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(xdg) if Path(xdg).is_absolute() else Path.home() / ".cache") / "suffixspec"
