"""The sealed index: text that no longer changes, at some 16 bytes per token, mapped into memory from one file.

A worked example, the text ``1 2 1 2 3 $`` (positions 0 to 5; ``$`` is -1, which ends the text)::

    sa    5        0          2        1        3      4
          $     12123$      123$     2123$    23$     3$
                |- 1 2 ------|       |- 2 ----|

``1 2`` occurs at positions 0 and 2: the interval from 1 to 3 of ``sa``, so its count is 2. It went on with 1
once and with 3 once. Where an interval is frequent, a *record* says so at once: its most frequent next tokens
with their counts, and where their own records are. The layout is told in ``native.sealed``.

The file, little-endian::

    header   512 bytes: magic, version, sizes, where each array starts, its items and its CRC-32, and the
             header's own CRC-32 at the end
    arrays   text, sa, nodes: int32, each at a multiple of 4096 bytes
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suffixspec.atomic_file import replacing
from suffixspec.errors import InputError
from suffixspec.index.suffix_order import StoppedError, shared_prefixes, slices, suffix_array
from suffixspec.index.suffix_tree import as_tokens, known_tokens
from suffixspec.native import sealed as native

__all__ = ["SealedContext", "SealedCursor", "SealedIndex", "StoppedError"]

MOST_TOKENS = native.MOST_TOKENS
BYTES_PER_TOKEN = 20
"""Upper bound of the arrays, 16 KiB apart."""
LEAST = 8
"""Occurrences of a string that has a record, where the bytes allow it."""

_MAGIC = b"SFXINDEX"
_VERSION = 1
_HEADER = 512
_FIXED = struct.Struct("<8sIIQQQI")  # magic, version, header's size, file's size, tokens, records, least
_ARRAY = struct.Struct("<QQI")  # start, items, CRC-32
_CRC = struct.Struct("<I")
_PAGE = 4096
_NOTHING = (1, 0, 0, 0, 0)
"""Nodes of an empty text: where the root's record starts, and the record, without branches."""
_NAMES = ("text", "sa", "nodes")
_ROOM = 16384  # bytes beyond BYTES_PER_TOKEN that a small text may take
_FED = 256  # tokens of a block that a cursor looks at
_READ = 1 << 23  # bytes that are read between two looks at `stop`


@dataclass(frozen=True, slots=True)
class SealedContext:
    """A string that occurs in an index."""

    length: int
    """Number of tokens."""
    count: int
    """Occurrences; exact."""
    row: NDArray[np.int32]
    """int32 [1, 6], as the kernels take it."""


@dataclass(frozen=True, slots=True)
class _Header:
    tokens: int
    records: int
    least: int
    starts: tuple[int, ...]
    items: tuple[int, ...]
    checksums: tuple[int, ...]

    @property
    def size(self) -> int:
        return self.starts[-1] + 4 * self.items[-1]

    def encode(self) -> bytes:
        data = _FIXED.pack(_MAGIC, _VERSION, _HEADER, self.size, self.tokens, self.records, self.least)
        for start, items, checksum in zip(self.starts, self.items, self.checksums, strict=True):
            data += _ARRAY.pack(start, items, checksum)
        data = data.ljust(_HEADER - _CRC.size, b"\0")
        return data + _CRC.pack(zlib.crc32(data))


class SealedIndex:
    """Every string of a text, how often it occurs, and what followed it; immutable.

    Safe for any number of threads, and of processes that open the same file. Use ``build`` or ``open``.

    Memory: 8 bytes per token for the text and its suffix array, and 2 to 12 for the records of frequent strings:
    at most ``BYTES_PER_TOKEN`` together.
    """

    def __init__(
        self,
        arrays: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]],
        header: _Header,
        *,
        path: Path | None = None,
        mapped: mmap.mmap | None = None,
    ) -> None:
        # Read-only ones are another type to the kernels: with all of them so, there is one type.
        for array in arrays:
            array.flags.writeable = False
        self._arrays = arrays
        self._header = header
        self._path = path
        self._mapped = mapped
        self._resident = mapped is None

    # -- construction -----------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        tokens: ArrayLike,
        *,
        stop: Callable[[], bool] | None = None,
        bytes_per_token: float = BYTES_PER_TOKEN,
        least: int = LEAST,
    ) -> SealedIndex:
        """Index a text.

        Args:
            tokens: int [n], each below 2**31; a negative one ends a text, and nothing is matched across it.
            stop: asked several times a second whether to give up.
            bytes_per_token: upper bound of the arrays, 16 KiB apart. Where it is not enough, fewer strings have
                records: the counts are the same, and take longer. (8 for the text and its suffix array, and the
                empty string's record, 12 per different token, are always there.)
            least: occurrences of a string that has a record, at least 2; more where the bytes do not suffice.

        Cost: O(n), about a second per million tokens; the GIL is released for nearly all of it. Up to 40 bytes
        per token meanwhile.

        Raises:
            StoppedError: ``stop`` said so.
            TypeError: not integers.
            ValueError: not one-dimensional, a token out of range, or more than 134 million of them.
        """
        given = as_tokens(tokens, allow_negative=True)
        n = given.shape[0]
        if n >= MOST_TOKENS:
            raise ValueError(
                f"expected fewer than {MOST_TOKENS} tokens in one index, got {n}; build several indexes"
            )
        text = np.empty(n + 1, np.int32)
        np.maximum(given, -1, out=text[:n])
        text[n] = -1
        if n == 0:  # every drafter without a sealed text has this one: no kernel is loaded for it
            sa, nodes = np.zeros(1, np.int32), np.array(_NOTHING, np.int32)
            return cls._of(text, sa, nodes, tokens=0, records=1, least=max(2, least))
        sa = suffix_array(text, stop)
        lcp = shared_prefixes(text, sa, native.MOST_DEPTH + 1, stop)
        most_words = int((bytes_per_token * n - text.nbytes - sa.nbytes + _ROOM) / 4)
        sizes = _sizes(text, sa, lcp, stop)
        least, words = _least(sizes, max(2, least), most_words)
        nodes = np.empty(words, np.int32)
        records = _write(text, sa, lcp, nodes, least, stop)
        return cls._of(text, sa, nodes, tokens=n, records=records, least=least)

    @classmethod
    def _of(
        cls,
        text: NDArray[np.int32],
        sa: NDArray[np.int32],
        nodes: NDArray[np.int32],
        *,
        tokens: int,
        records: int,
        least: int,
    ) -> SealedIndex:
        starts, at = [], _PAGE
        for array in (text, sa, nodes):
            starts.append(at)
            at += -(-array.nbytes // _PAGE) * _PAGE
        items = (text.shape[0], sa.shape[0], nodes.shape[0])
        return cls((text, sa, nodes), _Header(tokens, records, least, tuple(starts), items, (0, 0, 0)))

    # -- files ------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write the index to one file, which appears whole or not at all, and is on the disk afterwards.

        Cost: O(bytes).

        Raises:
            OSError: it cannot be written; nothing is left behind.
        """
        with replacing(Path(path), private=True) as file:
            file.write(bytes(_HEADER))  # no header, no index
            checksums = []
            for start, array in zip(self._header.starts, self._arrays, strict=True):
                file.seek(start)
                data = array.view(np.uint8).data
                file.write(data)
                checksums.append(zlib.crc32(data))
            old = self._header
            header = _Header(old.tokens, old.records, old.least, old.starts, old.items, tuple(checksums))
            file.seek(0)
            file.write(header.encode())

    @classmethod
    def open(cls, path: Path) -> SealedIndex:
        """Map a saved index into memory, read-only. Processes that open the same file share its pages.

        Only the header is read, and checked: the arrays are read, and checked, by ``prefault`` or ``verify``. Until
        one of them has been through, a damaged file is not noticed, and what the index answers may be wrong.

        Cost: O(1).

        Raises:
            InputError: the file is not an index, is not whole, is damaged, or comes from a later version.
            OSError: it cannot be read; ``FileNotFoundError`` where there is none.
        """
        path = Path(path)
        if sys.byteorder != "little":
            raise InputError("expected a little-endian machine, got a big-endian one", path=str(path))
        with path.open("rb") as file:
            header = _read_header(file.read(_HEADER), os.fstat(file.fileno()).st_size, path)
            mapped = mmap.mmap(file.fileno(), header.size, access=mmap.ACCESS_READ)
        text, sa, nodes = (
            np.frombuffer(mapped, "<i4", count=items, offset=start)
            for start, items in zip(header.starts, header.items, strict=True)
        )
        return cls((text, sa, nodes), header, path=path, mapped=mapped)

    def prefault(self, stop: Callable[[], bool] | None = None) -> None:
        """Read every page once, so that no later look has to wait for the disk, and check what is read.

        Afterwards ``resident`` is true. When ``stop`` says so, it returns early and ``resident`` stays false.
        Does nothing for an index that was built here.

        Cost: O(bytes), some 1 GB per second from the page cache; in slices of 8 MiB, the GIL released.

        Raises:
            InputError: the arrays are not what was written; drop the index.
        """
        if self._resident:
            return
        try:
            self._check(stop)
        except StoppedError:
            return
        self._resident = True

    def verify(self, stop: Callable[[], bool] | None = None) -> None:
        """Check every byte of the arrays. Cost: as ``prefault``; nothing for an index that was built here.

        Raises:
            InputError: the arrays are not what was written; drop the index.
            StoppedError: ``stop`` said so.
        """
        if self._mapped is not None:
            self._check(stop)

    def _check(self, stop: Callable[[], bool] | None) -> None:
        for name, array, checksum in zip(_NAMES, self._arrays, self._header.checksums, strict=True):
            data = array.view(np.uint8).data
            crc = 0
            for first, last in slices(0, len(data), stop, size=_READ):
                crc = zlib.crc32(data[first:last], crc)
            if crc != checksum:
                raise InputError(
                    f"expected the checksum {checksum:08x} of its array {name!r}, got {crc:08x}: the file is "
                    "damaged; remove it and build the index again",
                    path=str(self._path),
                )

    @property
    def resident(self) -> bool:
        """Whether every page has been read once; at once for an index that was built here."""
        return self._resident

    @property
    def path(self) -> Path | None:
        """The file that it was opened from; None for one that was built here."""
        return self._path

    # -- sizes ------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Tokens it was built from, negative ones included."""
        return self._header.tokens

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self._arrays)

    @property
    def records(self) -> int:
        """Strings that have a record: those that branch, up to 128 tokens long, seen ``least`` times or more."""
        return self._header.records

    @property
    def least(self) -> int:
        """Occurrences of a string that has a record: as asked for, or more where the bytes did not suffice."""
        return self._header.least

    @property
    def arrays(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """(text, sa, nodes) as the kernels take them: read-only."""
        return self._arrays

    @property
    def tokens(self) -> NDArray[np.int32]:
        """int32 [len]: the text, read-only; what was negative is -1."""
        return self._arrays[0][: len(self)]

    # -- strings ----------------------------------------------------------------------------------

    def find(self, tokens: ArrayLike) -> SealedContext | None:
        """Look a string up; None where it does not occur. Cost: O(length × log n)."""
        wanted = as_tokens(tokens, allow_negative=True)
        if (wanted < 0).any():
            return None  # the end of a text is nobody's text
        row = np.zeros((1, native.CONTEXT_FIELDS), np.int32)
        if int(native.find(*self._arrays, wanted, row)) < wanted.shape[0]:
            return None
        return _context(row)

    def count(self, tokens: ArrayLike) -> int:
        """Occurrences of a string; of the empty one, all positions. Cost: as ``find``."""
        found = self.find(tokens)
        return 0 if found is None else found.count

    def successors(self, context: SealedContext) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The tokens that followed most often, and how often, most frequent first.

        Returns:
            (token ids int32 [k], counts int32 [k]), at most 8 of a string that has a record, 12 of another.

        Cost: O(1) with a record, else O(k × log count).
        """
        branches = np.zeros((native.MOST_BRANCHES, 2), np.int32)
        found = native.successors(*self._arrays, context.row, branches)
        return branches[:found, 0].copy(), branches[:found, 1].copy()

    def cursor(self) -> SealedCursor:
        """A cursor for matching another text."""
        return SealedCursor(self)


class SealedCursor:
    """The suffixes of another text that occur in an index, by how often they do.

    Exact for suffixes of fewer than 64 tokens. Of longer ones, the shortest is known, and another one that was the
    longest for as long as it goes on.

    Cost: O(contexts) per token, usually 5 to 10.
    """

    def __init__(self, index: SealedIndex) -> None:
        self.index = index
        self._rows = np.zeros((native.CURSOR_ROWS, native.CONTEXT_FIELDS), np.int32)

    def advance(self, token: int) -> None:
        """Feed one token; a negative one resets the cursor."""
        self.extend([token])

    def extend(self, tokens: ArrayLike, *, checked: bool = False) -> None:
        """Feed tokens, int [k]; a negative one resets the cursor. Of a long block only the end is looked at.

        Args:
            tokens: what to feed.
            checked: they come from ``as_tokens``, which is not asked again.

        Raises:
            TypeError: not integers.
            ValueError: not one-dimensional, or above 2**31 - 1.
        """
        self._feed(known_tokens(tokens, checked, allow_negative=True))

    def _feed(self, fed: NDArray[np.int32]) -> None:
        if fed.shape[0] > _FED:
            fed = fed[-_FED:]
            self.reset()
        native.advance(*self.index.arrays, self._rows, fed)

    def reset(self) -> None:
        """Forget what was fed."""
        self._rows[0, 0] = 0

    @property
    def state(self) -> NDArray[np.int32]:
        """int32 [CURSOR_ROWS, 6] as the kernels take it: row 0 starts with the number of contexts that follow."""
        return self._rows

    @property
    def contexts(self) -> list[SealedContext]:
        """The suffixes that occur, the longest first, each one seen more often than the one before it.

        Those that are left out occur where the next longer one in the list does, and nowhere else.
        """
        return [_context(self._rows[i : i + 1].copy()) for i in range(1, int(self._rows[0, 0]) + 1)]

    @property
    def match_length(self) -> int:
        """Length of the longest suffix that occurs; exact below 64, and at least 64 where it is more."""
        return int(self._rows[1, native.LENGTH]) if self._rows[0, 0] else 0


def _context(row: NDArray[np.int32]) -> SealedContext:
    return SealedContext(int(row[0, native.LENGTH]), int(row[0, native.SEEN]), row)


def _sizes(
    text: NDArray[np.int32], sa: NDArray[np.int32], lcp: NDArray[np.uint8], stop: Callable[[], bool] | None
) -> NDArray[np.int64]:
    """Words that records take: int64 [SIZES], by the number of occurrences; the root's in the first entry."""
    sizes = np.zeros(native.SIZES, np.int64)
    _pass(text, sa, lcp, np.zeros(0, np.int32), sizes, 2, stop)
    return sizes


def _least(sizes: NDArray[np.int64], least: int, most_words: int) -> tuple[int, int]:
    """Occurrences from which on the records fit, at least ``least``; and the words that they take with the root's."""
    always = 1 + int(sizes[0])
    above = np.cumsum(sizes[:0:-1])[::-1]  # entry i: of i + 1 occurrences or more
    for i in range(least - 1, above.shape[0]):
        if always + int(above[i]) <= most_words:
            return i + 1, always + int(above[i])
    return MOST_TOKENS, always


def _write(
    text: NDArray[np.int32],
    sa: NDArray[np.int32],
    lcp: NDArray[np.uint8],
    nodes: NDArray[np.int32],
    least: int,
    stop: Callable[[], bool] | None,
) -> int:
    """Write the records of strings that occur ``least`` times; return how many."""
    state = _pass(text, sa, lcp, nodes, np.zeros(native.SIZES, np.int64), least, stop)
    return int(state[native.B_RECORDS])


def _pass(
    text: NDArray[np.int32],
    sa: NDArray[np.int32],
    lcp: NDArray[np.uint8],
    nodes: NDArray[np.int32],
    sizes: NDArray[np.int64],
    least: int,
    stop: Callable[[], bool] | None,
) -> NDArray[np.int64]:
    """Run the kernel over all slices; return its state."""
    stack = np.zeros((native.MOST_DEPTH + 3, native.STACK_FIELDS), np.int32)
    pending = np.empty((0, native.BRANCH), np.int32)
    chosen = np.zeros(native.TOP, np.int32)
    state = np.zeros(native.BUILD_FIELDS, np.int64)
    state[native.B_WORDS] = 1
    for first, last in slices(1, sa.shape[0] + 1, stop):
        used = int(state[native.B_USED])
        needed = used + last - first + 2
        if needed > pending.shape[0]:
            grown = np.empty((needed + needed // 4, native.BRANCH), np.int32)
            grown[:used] = pending[:used]
            pending = grown
        native.build(text, sa, lcp, nodes, stack, pending, chosen, sizes, state, least, first, last)
    return state


def _read_header(data: bytes, size: int, path: Path) -> _Header:
    """Check and decode a header.

    Raises:
        InputError: it is not one, or not one of a whole file.
    """

    def refuse(expected: str, got: str, do: str) -> InputError:
        return InputError(f"expected {expected}, got {got}; {do}", path=str(path))

    again = "remove the file and build the index again"
    if data[: len(_MAGIC)] != _MAGIC:
        got = "an empty one" if not data else f"one that begins with {data[: len(_MAGIC)]!r}"
        raise refuse(
            "the file of a sealed index", got, "name another file, or remove it and build the index again"
        )
    if len(data) < _HEADER:
        raise refuse(f"a header of {_HEADER} bytes", f"{len(data)} bytes", again)
    _, version, _, whole, tokens, records, least = _FIXED.unpack_from(data)
    if version > _VERSION:
        raise refuse(
            f"a sealed index of version {_VERSION} or less",
            f"version {version}",
            "update suffixspec, or " + again,
        )
    (checksum,) = _CRC.unpack_from(data, _HEADER - _CRC.size)
    if zlib.crc32(data[: -_CRC.size]) != checksum:
        raise refuse(
            f"a header with the checksum {checksum:08x}", f"{zlib.crc32(data[: -_CRC.size]):08x}", again
        )
    parts = [_ARRAY.unpack_from(data, _FIXED.size + i * _ARRAY.size) for i in range(len(_NAMES))]
    starts, items, checksums = (tuple(part[i] for part in parts) for i in range(3))
    header = _Header(tokens, records, least, starts, items, checksums)
    if not size == whole == header.size:
        raise refuse(f"a file of {whole} bytes", f"{size}", again)
    return header
