"""Writing sessions in the native format, whole or not at all."""

import contextlib
import gzip
import os
import stat
from collections.abc import Iterable, Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import IO, BinaryIO, cast

from suffixspec.atomic_file import replacing
from suffixspec.errors import InputError
from suffixspec.trace.native import encode_session
from suffixspec.trace.session import TraceSession


def write_sessions(path: str | PathLike[str], sessions: Iterable[TraceSession]) -> int:
    """Write a trace file and return the number of sessions.

    The file appears, or replaces an older one, only when everything is written: it is written beside its
    place under a temporary name first, and removed on any error and on Ctrl-C. A place that is no regular
    file (a pipe,
    ``/dev/null``) is written to directly. The same sessions give the same bytes.

    Args:
        path: where to; ``.gz`` and ``.zst`` at its end choose the compression.
        sessions: what to write; read one at a time.

    Raises:
        InputError: the folder does not exist or cannot be written to, or a session cannot be encoded.
    """
    name = fspath(path)
    try:
        with _opened(name) as raw, _compressing(raw, name) as stream:
            return write_lines(stream, sessions)
    except OSError as error:
        if error.filename is None and error.errno is None:
            raise
        raise InputError(f"expected a file that can be written, got: {error.strerror}", path=name) from error


def write_lines(stream: IO[bytes], sessions: Iterable[TraceSession]) -> int:
    """Write sessions to a binary stream, a line each, and return their number. Cost: O(characters)."""
    count = 0
    for session in sessions:
        stream.write(encode_session(session))
        count += 1
    return count


@contextlib.contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """Open a temporary file beside ``name`` that takes its place at the end, or vanishes on an error."""
    target = Path(os.path.realpath(name))  # a symbolic link stays, what it points to is replaced
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if stat.S_ISDIR(mode):
        raise InputError("expected a file name to write to, got a directory", path=name)
    if not stat.S_ISREG(mode):
        with target.open("wb") as stream:
            yield stream
        return
    if not target.parent.is_dir():
        raise InputError("expected the folder to exist, got none; create it first", path=name)
    with replacing(target) as stream:
        yield stream


@contextlib.contextmanager
def _compressing(raw: BinaryIO, name: str) -> Iterator[IO[bytes]]:
    lower = name.lower()
    if lower.endswith(".gz"):
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as packed:
            yield cast("IO[bytes]", packed)
    elif lower.endswith(".zst"):
        import zstandard

        compressor = zstandard.ZstdCompressor(level=9, write_checksum=True)
        with compressor.stream_writer(raw, closefd=False) as frame:
            yield frame
    else:
        yield raw
