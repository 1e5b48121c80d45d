"""What was learned of repeats, kept from one run to the next."""

from __future__ import annotations

import hashlib
import io
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from suffixspec.errors import SuffixspecWarning
from suffixspec.store.epoch import digest
from suffixspec.store.files import Files

_VERSION = 1
_LAYOUT = "layout"


class Learned(Protocol):
    """A ``Calibration``: its state is its arrays; a new one holds the prior."""

    def __init__(self) -> None: ...


C = TypeVar("C", bound=Learned)


class CalibrationFile:
    """Calibrations on disk, one file per target, one calibration per range of temperatures.

    A file says what the prior was when it was written: where the arrays, their shapes or the prior differ now,
    the numbers mean something else, and the prior is used. It holds counters and no text; all namespaces share
    it, as they share the calibration in memory.

    Args:
        folder: where the files lie; exists.
        files: the disk.
    """

    def __init__(self, folder: Path, *, files: Files) -> None:
        self._folder = folder
        self._files = files
        self._said: set[Path] = set()

    def path(self, target: str) -> Path:
        """The file of a target."""
        return self._folder / f"{digest(target)}.npz"

    def save(self, target: str, calibrations: Mapping[str, Learned]) -> None:
        """Write a target's calibrations (by a name of their temperatures), in place of what was there.

        Raises:
            OSError: the disk is full, or the like; the old file stays.
        """
        arrays = {_LAYOUT: np.array(f"{_VERSION} {_layout(next(iter(calibrations.values())))}")}
        for name, calibration in calibrations.items():
            arrays |= {f"{name}/{key}": value for key, value in _arrays(calibration).items()}
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        self._files.write_whole(self.path(target), buffer.getvalue())

    def load(self, target: str, kind: type[C]) -> dict[str, C]:
        """A target's calibrations by name; none where there is no file, or one of another layout (said once)."""
        path = self.path(target)
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
                return _read(arrays, kind)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            if path not in self._said:
                self._said.add(path)
                warnings.warn(
                    f"{path}: expected a calibration of this version, got {error}; beginning from the prior",
                    SuffixspecWarning,
                    stacklevel=2,
                )
            return {}


def _arrays(calibration: Learned) -> dict[str, NDArray[np.float32]]:
    return {key: value for key, value in vars(calibration).items() if isinstance(value, np.ndarray)}


def _layout(calibration: Learned) -> str:
    """Names, types, shapes and the prior itself, as a digest."""
    state = hashlib.sha256()
    for key, value in sorted(_arrays(type(calibration)()).items()):
        state.update(f"{key} {value.dtype} {value.shape}".encode())
        state.update(value.tobytes())
    return state.hexdigest()[:24]


def _names(keys: list[str]) -> list[str]:
    return list(dict.fromkeys(key.partition("/")[0] for key in keys if key != _LAYOUT))


def _read(arrays: np.lib.npyio.NpzFile, kind: type[C]) -> dict[str, C]:
    if str(arrays[_LAYOUT]) != f"{_VERSION} {_layout(kind())}":
        raise ValueError("one of another version")
    return {name: _filled(kind(), name, arrays) for name in _names(arrays.files)}


def _filled(calibration: C, name: str, arrays: np.lib.npyio.NpzFile) -> C:
    for key, value in _arrays(calibration).items():
        saved = arrays[f"{name}/{key}"]
        if saved.shape != value.shape or saved.dtype != value.dtype or not np.isfinite(saved).all():
            raise ValueError(f"{name}/{key} of shape {saved.shape}")
        value[...] = saved
    return calibration
