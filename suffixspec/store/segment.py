"""A segment of the log: a header, records, and once it is sealed a footer.

::

    header   8 bytes magic "SFXHIST" and the version, length and CRC-32 of what follows, JSON: the namespace,
             the tokenizer, the segments that this one replaces
    record   length, CRC-32, payload (see ``record``); any number of them
    footer   8 bytes magic, records, tokens, oldest and newest time, CRC-32 of all before it, CRC-32 of the footer

An open segment (``.open``) has one writer, which holds a lock on it as long as it lives; what is whole in it
survives a crash. A sealed one (``.seg``) never changes. Numbers are little-endian.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from suffixspec.file_lock import lock_descriptor
from suffixspec.store.files import Files
from suffixspec.store.pace import STRETCH, give_way
from suffixspec.store.record import DamagedError, Record, decode

MAGIC = b"SFXHIST\x01"
OPEN, SEALED = ".open", ".seg"

_HEAD = struct.Struct("<8sII")
_FOOT = struct.Struct("<8sQQddII")
_FOOT_MAGIC = (
    b"SFXSEAL\x01"  # as the length of a record it would be over a gigabyte: no record begins like it
)
_MOST_HEADER = 1 << 20


class VersionError(DamagedError):
    """A segment that a later version of the program wrote."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a segment says about itself."""

    namespace: str
    tokenizer: str
    """Fingerprint of the tokenizer that its token ids belong to."""
    tokenizer_name: str
    created: float
    replaces: tuple[str, ...] = ()
    """Names of the segments whose records it took over: where one is still there, it does not count."""

    def encode(self) -> bytes:
        """The header as it lies on disk."""
        body = json.dumps(asdict(self)).encode("ascii")
        return _HEAD.pack(MAGIC, len(body), zlib.crc32(body)) + body


@dataclass(frozen=True, slots=True)
class Footer:
    """What a sealed segment holds."""

    records: int = 0
    tokens: int = 0
    oldest: float = 0.0
    newest: float = 0.0

    def with_record(self, record: Record) -> Footer:
        """With one record more."""
        first = self.records == 0
        return Footer(
            self.records + 1,
            self.tokens + len(record.tokens),
            record.time if first else min(self.oldest, record.time),
            record.time if first else max(self.newest, record.time),
        )

    def encode(self, checksum: int) -> bytes:
        """The footer as it lies on disk, behind bytes of this CRC-32."""
        values = (_FOOT_MAGIC, self.records, self.tokens, self.oldest, self.newest, checksum)
        return _FOOT.pack(*values, zlib.crc32(_FOOT.pack(*values, 0)))


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """A segment's name, size, header and footer; read without its records."""

    path: Path
    nbytes: int
    header: Header
    footer: Footer

    @property
    def name(self) -> str:
        """Its name in the folder, and in the ``replaces`` of others."""
        return self.path.stem


def read_info(path: Path) -> SegmentInfo:
    """Header and footer of a sealed segment. Cost: two small reads, whatever its size.

    Raises:
        DamagedError: one of them is not what was written.
        OSError: it cannot be read; ``FileNotFoundError`` when it has been replaced meanwhile.
    """
    with path.open("rb") as file:
        header, start = _read_header(file.read(_HEAD.size + _MOST_HEADER))
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - _FOOT.size))
        footer, _ = _read_footer(file.read())
    if start + _FOOT.size > size:
        raise DamagedError("expected a footer, got a shorter file")
    return SegmentInfo(path, size, header, footer)


def read_sealed(path: Path) -> tuple[Header, list[Record]]:
    """All of a sealed segment, every checksum verified. Cost: O(bytes).

    Raises:
        DamagedError: it is not what was written.
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    header, at = _read_header(data)
    end = len(data) - _FOOT.size
    footer, checksum = _read_footer(data[max(end, 0) :])
    if end < at or zlib.crc32(memoryview(data)[:end]) != checksum:
        raise DamagedError("expected the checksum of its footer, got another")
    records = []
    body = memoryview(data)[:end]
    while at < end:
        record, at = decode(body, at)
        records.append(record)
        if len(records) % STRETCH == 0:
            give_way()
    if len(records) != footer.records:
        raise DamagedError(f"expected {footer.records} records, got {len(records)}")
    return header, records


def read_open(path: Path) -> tuple[Header | None, list[Record], int]:
    """What is whole in a segment that was not sealed: header, records, and where the whole part ends.

    Returns:
        None for the header where not even that is whole.

    Raises:
        DamagedError: the header is complete, and not what was written.
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    if len(data) < _HEAD.size or len(data) < _HEAD.size + _HEAD.unpack_from(data)[1]:
        if not MAGIC.startswith(data[: len(MAGIC)]) and any(data):
            raise DamagedError("expected a segment's header, got other bytes")
        return None, [], 0
    header, at = _read_header(data)
    records: list[Record] = []
    while True:
        try:
            record, at = decode(data, at)
        except DamagedError:
            return header, records, at
        records.append(record)


def _read_header(data: bytes) -> tuple[Header, int]:
    if len(data) < _HEAD.size:
        raise DamagedError("expected a segment's header, got a shorter file")
    magic, length, checksum = _HEAD.unpack_from(data)
    if magic[:7] == MAGIC[:7] and magic[7] > MAGIC[7]:
        raise VersionError(f"expected a segment of version {MAGIC[7]}, got {magic[7]}; update suffixspec")
    body = data[_HEAD.size : _HEAD.size + length]
    if magic != MAGIC or len(body) < length or zlib.crc32(body) != checksum:
        raise DamagedError("expected a segment's header, got other bytes")
    try:
        fields = json.loads(body)
        fields["replaces"] = tuple(fields["replaces"])
        return Header(**fields), _HEAD.size + length
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"expected a segment's header, got {error}") from error


def _read_footer(data: bytes) -> tuple[Footer, int]:
    if len(data) != _FOOT.size:
        raise DamagedError("expected a footer, got a shorter file")
    magic, records, tokens, oldest, newest, checksum, _ = _FOOT.unpack(data)
    footer = Footer(records, tokens, oldest, newest)
    if magic != _FOOT_MAGIC or footer.encode(checksum) != data:
        raise DamagedError("expected a footer, got other bytes")
    return footer, checksum


class SegmentWriter:
    """Appends records to one open segment, and seals it.

    Every ``append`` hands its records to the operating system: they survive ``kill -9`` of the process. A power
    cut may take what is not sealed.

    Args:
        path: ends in ``.open``; there is none yet.
        header: what it says about itself.
        files: the disk.
    """

    def __init__(self, path: Path, header: Header, *, files: Files) -> None:
        self.path = path
        self.header = header
        self._files = files
        self._fd = files.create(path)
        try:
            lock_descriptor(self._fd, wait=False)
            data = header.encode()
            files.write(self._fd, data)
        except BaseException:
            os.close(self._fd)
            raise
        # One assignment, so that an interrupt (Ctrl-C) finds all of it or none: (bytes, their CRC-32, footer).
        self._written = len(data), zlib.crc32(data), Footer()

    @property
    def nbytes(self) -> int:
        """Bytes that count; what an interrupted write left behind them is cut off by the next one."""
        return self._written[0]

    @property
    def footer(self) -> Footer:
        """What it holds."""
        return self._written[2]

    @property
    def gone(self) -> bool:
        """Whether somebody removed the file (to forget what is in it), so that nothing more may go there."""
        return os.fstat(self._fd).st_nlink == 0

    def append(self, records: Sequence[Record]) -> None:
        """Write records behind what is there; all of them or, where this raises ``OSError``, none."""
        data = b"".join(record.encode() for record in records)
        nbytes, checksum, footer = self._written
        for record in records:
            footer = footer.with_record(record)
        self._write(data)
        self._written = nbytes + len(data), zlib.crc32(data, checksum), footer

    def _write(self, data: bytes) -> None:
        try:
            if os.fstat(self._fd).st_size != self.nbytes:
                self._files.truncate(self._fd, self.nbytes)
            self._files.write(self._fd, data)
        except OSError:
            self._files.truncate(self._fd, self.nbytes)
            raise

    def seal(self) -> Path:
        """Write the footer, wait for the disk, and give the segment its final name.

        Raises:
            OSError: it stays open, as it was; or it is complete, ``closed``, and recovery will name it.
        """
        self._write(self.footer.encode(self._written[1]))
        try:
            self._files.sync(self._fd)
        except OSError:
            self._files.truncate(self._fd, self.nbytes)
            raise
        self.close()  # first: Windows renames no open file
        sealed = self.path.with_suffix(SEALED)
        self._files.rename(self.path, sealed)
        self._files.sync_folder(sealed.parent)
        return sealed

    @property
    def closed(self) -> bool:
        """Whether nothing more can be appended."""
        return self._fd < 0

    def close(self) -> None:
        """Let go of the file. May be called again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def write_sealed(path: Path, header: Header, records: Sequence[Record], *, files: Files) -> Path:
    """A sealed segment of these records, complete from the moment it has its name (``.seg``).

    Raises:
        OSError: nothing has changed.
    """
    footer = Footer()
    parts = [header.encode()]
    for number, record in enumerate(records, start=1):
        parts.append(record.encode())
        footer = footer.with_record(record)
        if number % STRETCH == 0:
            give_way()
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    files.write_whole(path, b"".join((*parts, footer.encode(checksum))))
    return path
