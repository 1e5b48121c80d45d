"""What a measurement needs beside it to be read later: command, commit, versions, hardware."""

import hashlib
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = ("suffixspec", "numba", "numpy", "tokenizers", "torch", "transformers")


def describe(module: str, *, traces: list[str], seed: int) -> dict[str, Any]:
    """The record that goes in front of every result.

    Args:
        module: the module that was run, ``bench.…``.
        traces: the files that were measured on.
        seed: what random choices were drawn from.
    """
    return {
        "command": shlex.join(["python", "-m", module, *map(_shown, sys.argv[1:])]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in _PACKAGES},
        "hardware": {
            "cpu": _cpu(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "memory_gib": _memory_gib(),
            "system": f"{platform.system()} {platform.machine()}",
            "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        },
        "traces": [{"name": Path(trace).name, "sha256": digest(trace)} for trace in traces],
        "seed": seed,
    }


def write(path: str, document: dict[str, Any]) -> None:
    """Write a result as JSON."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def save(path: str | None, document: dict[str, Any]) -> None:
    """Write a result as JSON, if it is wanted, and say so."""
    if path is not None:
        write(path, document)
        print(f"\nwrote {path}")


def _shown(argument: str) -> str:
    """An argument without the folders of this machine."""
    return Path(argument).name if Path(argument).is_absolute() else argument


def _commit() -> str | None:
    """The commit, with ``-dirty`` where the code differs from it."""
    command = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown")


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def digest(path: str) -> str:
    """The first 16 hexadecimal digits of a file's SHA-256."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
