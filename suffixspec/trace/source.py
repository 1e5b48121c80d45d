"""The lines of a plain, gzip or zstandard file or pipe, in bounded memory."""

import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from suffixspec.errors import InputError, MissingExtraError

MAX_LINE_BYTES = 256 << 20
"""The longest line, and the longest JSON document over several lines, that is read: 256 MiB."""

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_READ_BYTES = 1 << 18
# A zstandard block can expand 32,000-fold and its decoder has no output limit: feed it in small pieces.
_ZSTD_READ_BYTES = 1 << 12
_INFLATE_BYTES = 1 << 20


class Source:
    """A file's lines, decompressed by content (the first bytes decide, not the name).

    A line of a pipe comes as soon as it is complete; of a compressed one, as soon as its compressor has let go
    of it. Use as a context manager. Memory: a few times the longest line.

    Args:
        path: the file.
        on_bytes: called with the number of bytes of the file (compressed, if it is) read since the last call.

    Raises:
        InputError: there is no such file, it is a directory, or it cannot be read.
    """

    def __init__(self, path: str, *, on_bytes: Callable[[int], None] | None = None) -> None:
        self.path = path
        self.line = 0
        """1-based number of the line that is being read."""
        self._on_bytes = on_bytes
        try:
            self._file = Path(path).open("rb")  # noqa: SIM115  (closed by __exit__)
        except FileNotFoundError:
            raise InputError("expected a trace file, got no file of this name", path=path) from None
        except IsADirectoryError:
            raise InputError(
                "expected a trace file, got a directory; name the files in it", path=path
            ) from None
        except ValueError as error:  # a NUL in the name
            raise InputError(f"expected a file name, got {error}", path=repr(path)) from None
        except OSError as error:
            raise InputError(f"expected a readable file, got: {error.strerror}", path=path) from None

    def __enter__(self) -> "Source":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def lines(self) -> Iterator[tuple[int, bytes]]:
        r"""Yield (1-based number, bytes without ``\n`` or ``\r\n``) of every line, blank ones included.

        Cost: O(bytes).

        Raises:
            InputError: the compressed data is damaged or ends early, or a line is over `MAX_LINE_BYTES`.
        """
        pieces: list[bytes] = []
        size = 0
        self.line = 1
        for chunk in self._chunks():
            head, *rest = chunk.split(b"\n")
            pieces.append(head)
            size += len(head)
            self._check(size)
            if rest:
                line = b"".join(pieces)
                pieces = [rest.pop()]
                size = len(pieces[0])
                yield self.line, line.removesuffix(b"\r")
                del line
                for line in rest:
                    self.line += 1
                    self._check(len(line))
                    yield self.line, line.removesuffix(b"\r")
                self.line += 1
                self._check(size)
        if size:
            yield self.line, b"".join(pieces).removesuffix(b"\r")

    def _check(self, size: int) -> None:
        if size > MAX_LINE_BYTES:
            raise self._error(f"expected a line of at most {MAX_LINE_BYTES >> 20} MiB, got a longer one")

    def _error(self, message: str) -> InputError:
        return InputError(message, path=self.path, line=self.line)

    def _read(self, size: int) -> bytes:
        try:
            data = self._file.read1(size)  # what is there: a pipe may say no more for a long time
        except OSError as error:
            raise InputError(f"expected a readable file, got: {error.strerror}", path=self.path) from None
        if self._on_bytes:
            self._on_bytes(len(data))
        return data

    def _chunks(self) -> Iterator[bytes]:
        start = more = self._read(_ZSTD_READ_BYTES)
        while more and any(
            magic.startswith(start) and magic != start for magic in (_GZIP_MAGIC, _ZSTD_MAGIC)
        ):
            more = self._read(_ZSTD_READ_BYTES)
            start += more
        if start.startswith(_GZIP_MAGIC):
            return self._gunzip(start)
        if start.startswith(_ZSTD_MAGIC):
            return self._unzstd(start)
        return self._plain(start)

    def _plain(self, data: bytes) -> Iterator[bytes]:
        while data:
            yield data
            data = self._read(_READ_BYTES)

    def _gunzip(self, data: bytes) -> Iterator[bytes]:
        decoder = None
        try:
            while data:
                if decoder is None:
                    data = data.lstrip(b"\0")  # padding between the members of a tape or of `cat a.gz b.gz`
                    if data:
                        decoder = zlib.decompressobj(wbits=31)
                while decoder is not None:
                    # The output limit keeps a highly compressed file from filling the memory.
                    output = decoder.decompress(data, _INFLATE_BYTES)
                    if output:
                        yield output
                    data = decoder.unconsumed_tail
                    if decoder.eof:
                        data, decoder = decoder.unused_data, None
                    elif not data and len(output) < _INFLATE_BYTES:
                        break
                data = data or self._read(_READ_BYTES)
        except zlib.error as error:
            raise self._error(f"expected valid gzip data, got damaged data ({error})") from None
        if decoder is not None:
            raise self._error("expected more gzip data, got the end of the file: the file is truncated")

    def _unzstd(self, data: bytes) -> Iterator[bytes]:
        try:
            import zstandard
        except ImportError:
            raise MissingExtraError(
                f"{self.path}: expected the package zstandard to read it, got none; pip install zstandard"
            ) from None
        decoder = None
        try:
            while data:
                decoder = decoder or zstandard.ZstdDecompressor().decompressobj()
                output = decoder.decompress(data)
                if output:
                    yield output
                data = b""
                if decoder.eof:
                    data, decoder = decoder.unused_data, None
                data = data or self._read(_ZSTD_READ_BYTES)
        except zstandard.ZstdError as error:
            raise self._error(f"expected valid zstandard data, got damaged data ({error})") from None
        if decoder is not None:
            raise self._error("expected more zstandard data, got the end of the file: the file is truncated")


def size_of(path: str) -> int:
    """Return the size of a regular file in bytes, or 0 where there is none. Cost: one stat call."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
