"""The log of one namespace: sealed segments, oldest first, and one open segment per process that writes."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suffixspec.errors import InputError, SuffixspecWarning
from suffixspec.file_lock import FileLock, lock_descriptor
from suffixspec.store.budget import Budget
from suffixspec.store.epoch import digest
from suffixspec.store.files import TEMPORARY, Files
from suffixspec.store.identity import TokenizerIdentity, TokenizerMismatchError
from suffixspec.store.pace import STRETCH, give_way
from suffixspec.store.record import DamagedError, Record
from suffixspec.store.sealed_file import SealedFile
from suffixspec.store.segment import (
    OPEN,
    SEALED,
    Header,
    SegmentInfo,
    SegmentWriter,
    VersionError,
    read_info,
    read_open,
    read_sealed,
    write_sealed,
)
from suffixspec.store.usefulness import UsefulnessFile

MANIFEST = "manifest.json"
ASIDE = "aside"
_MANIFEST_VERSION = 1
_NO_MANIFEST = (OSError, ValueError, KeyError, TypeError)
_MOST_SMALL = 32  # more small segments than that are merged when the next one is sealed


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that verification found."""

    path: Path
    problem: str


class NamespaceLog:
    """The log of one namespace. Changes to it are made by one process at a time, under a lock.

    Which segments there are is what the folder says: every ``.seg`` in it but those that another one replaces,
    so that no crash can leave the list and the files at odds. The manifest names the namespace, and remembers
    what was sealed, so that a segment that disappears is noticed.

    Methods that change something take the lock, and wait for it: milliseconds, unless the log is being rewritten.

    Args:
        root: folder of the store.
        name: of the namespace.
        budget: of the store.
        files: the disk.
    """

    def __init__(self, root: Path, name: str, *, budget: Budget, files: Files) -> None:
        self.name = name
        self.folder = root / "namespaces" / digest(name)
        self._aside = root / ASIDE
        self._budget = budget
        self._files = files
        self.lock = FileLock(root / "locks" / digest(name))
        self.sealed = SealedFile(root / "sealed" / digest(name), files=files)
        """Its sealed index, if there is one."""
        self.useful = UsefulnessFile(root / "useful" / f"{digest(name)}.json", files=files)
        self._writer: SegmentWriter | None = None
        self._opened = 0.0
        self._recovered = False
        self.own: set[str] = set()
        """Names of the segments that this object wrote."""

    # -- reading ----------------------------------------------------------------------------------------------

    def segments(self) -> list[SegmentInfo]:
        """The sealed segments, oldest first. Cost: two small reads each.

        A damaged one is set aside, and said so in a warning.
        """
        found = []
        for number, path in enumerate(self._paths(SEALED), start=1):
            if number % STRETCH == 0:  # what is in the system's cache is read without a pause
                give_way()
            try:
                found.append(read_info(path))
            except FileNotFoundError:  # replaced or dropped meanwhile
                continue
            except DamagedError as error:
                self.set_aside(path, error)
        replaced = {name for info in found for name in info.header.replaces}
        return [info for info in found if info.name not in replaced]

    def records(self, segments: Sequence[SegmentInfo] | None = None) -> Iterator[Record]:
        """The records of sealed segments (all of them by default), oldest first. Holds one segment in memory."""
        for info in self.segments() if segments is None else segments:
            yield from self.read(info)

    def read(self, info: SegmentInfo) -> list[Record]:
        """The records of one segment; none where it has gone or is damaged, which is said in a warning."""
        try:
            return read_sealed(info.path)[1]
        except FileNotFoundError:
            return []
        except DamagedError as error:
            self.set_aside(info.path, error)
            return []

    def expect(self, identity: TokenizerIdentity | None) -> None:
        """Check that every segment is of this tokenizer; None admits any.

        Raises:
            TokenizerMismatchError: says what to do.
        """
        if identity is None:
            return
        for info in self.segments():
            if info.header.tokenizer != identity.fingerprint:
                raise TokenizerMismatchError(self.name, identity, info.header)

    def verify(self) -> list[Finding]:
        """Read everything and name what is damaged or missing. Changes nothing."""
        findings = []
        for path in self._paths(SEALED):
            try:
                read_sealed(path)
            except FileNotFoundError:
                continue
            except DamagedError as error:
                findings.append(Finding(path, str(error)))
        names = {path.stem for path in self._paths(SEALED)}
        findings += [Finding(path, problem) for path, problem in self.sealed.verify(names)]
        try:
            findings += self._missing()
        except FileNotFoundError:
            if self._paths(SEALED):
                findings.append(
                    Finding(self.folder / MANIFEST, "expected a manifest, got none; compact makes one")
                )
        except _NO_MANIFEST as error:
            findings.append(
                Finding(self.folder / MANIFEST, f"expected a manifest, got {error}; compact makes one")
            )
        return findings

    @property
    def nbytes(self) -> int:
        """Bytes of its files on disk, open segments included."""
        sizes = 0
        with contextlib.suppress(FileNotFoundError):
            for path in self.folder.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    sizes += path.stat().st_size
        return sizes

    # -- writing ----------------------------------------------------------------------------------------------

    def append(self, records: Sequence[Record], identity: TokenizerIdentity) -> str | None:
        """Write records to this process's open segment; the segment's name. Begins one, and seals one that is full.

        What was appended survives the death of this process; other processes see it when it is sealed.

        Raises:
            TokenizerMismatchError: the namespace was written with another tokenizer.
            OSError: the disk is full, or the like; none of the records was written.
        """
        if not records:
            return None
        with self.lock:
            writer = self._open_writer(identity)
            writer.append(records)
            footer, budget = writer.footer, self._budget
            full = writer.nbytes >= budget.longest_segment or footer.tokens >= budget.longest_segment_tokens
            if full:
                self.seal()
            return writer.path.stem

    def seal(self) -> str | None:
        """Seal this process's open segment, so that others see it; its name. Keeps to the namespace's budget.

        Raises:
            OSError: it stays open.
        """
        with self.lock:
            writer, sealed = self._writer, None
            if writer is None:
                return None
            if writer.closed or writer.gone:
                writer.close()
                self._writer = None
            else:
                try:
                    sealed = writer.seal().stem
                finally:
                    if writer.closed:
                        self._writer = None
            self._keep_to_budget()
            self._write_manifest()
            return sealed

    def seal_if_old(self) -> None:
        """Seal the open segment when it has been open for ``Budget.seal_seconds``."""
        if self._writer is not None and time.monotonic() - self._opened >= self._budget.seal_seconds:
            self.seal()

    def close(self) -> None:
        """Seal, and let go of the files."""
        try:
            self.seal()
        finally:
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def recover(self) -> None:
        """Seal what dead processes left open, as far as it is whole, and remove what they left half done."""
        if not self.folder.is_dir():
            return
        with self.lock:
            for path in self.folder.glob(f".*{TEMPORARY}"):
                self._files.remove(path)
            self.sealed.sweep()
            with contextlib.suppress(*_NO_MANIFEST):  # it is made anew
                for finding in self._missing():
                    warnings.warn(
                        f"{finding.path}: {finding.problem}; it is lost", SuffixspecWarning, stacklevel=2
                    )
            self._drop_replaced()
            self._recover_open()
            self._recovered = True
            self._write_manifest()

    def take_over(self) -> None:
        """Seal what other processes left open that have died since; what living ones write stays theirs.

        Waits for the lock where others have open segments. Cost: reads the folder, and tries the lock of each.
        """
        if self._others_open():
            with self.lock:
                if self._recover_open():
                    self._write_manifest()

    def _others_open(self) -> list[Path]:
        return [path for path in self._paths(OPEN) if self._writer is None or path != self._writer.path]

    def _missing(self) -> list[Finding]:
        """What the manifest lists and the folder does not have.

        Raises:
            ValueError, KeyError, TypeError, OSError: the manifest is damaged, or there is none.
        """
        listed = _read_manifest(self.folder / MANIFEST)["segments"]
        names = {path.stem for path in self._paths(SEALED)}
        return [
            Finding(self.folder / f"{name}{SEALED}", "expected a sealed segment, got no file")
            for name in listed
            if name not in names and not (self._aside / f"{self.folder.name}-{name}{SEALED}").exists()
        ]

    def _recover_open(self) -> bool:
        """Whether there was an open segment without a living writer. The caller holds the lock."""
        return sum(self._recover_one(path) for path in self._others_open()) > 0

    def _recover_one(self, path: Path) -> bool:
        fd = os.open(path, os.O_RDWR)
        try:
            if not lock_descriptor(fd, wait=False):
                return False  # its writer lives
            header, records, _ = read_open(path)
            if header is not None and records and not path.with_suffix(SEALED).exists():
                write_sealed(path.with_suffix(SEALED), header, records, files=self._files)
            self._files.remove(path)
        except DamagedError as error:
            self.set_aside(path, error)
        finally:
            os.close(fd)
        return True

    def rewrite(self, keep: Callable[[Record], bool]) -> int:
        """Remove the records that are not to be kept, from every file of the namespace; how many they were.

        A segment concerned is written anew without them and put in the old one's place in one step. Open
        segments of other processes too: those begin another one. Segments that were set aside go altogether:
        nobody can tell what is in them. The caller holds the lock.

        Raises:
            OSError: no room for a new segment; the old one is as it was.
        """
        self.recover()
        removed, old = 0, []
        note = self.sealed.note()
        covered = note.segments if note is not None else frozenset[str]()
        for path in [*self._paths(SEALED), *self._paths(OPEN)]:
            try:
                header, records = read_sealed(path) if path.suffix == SEALED else read_open(path)[:2]
            except VersionError as error:
                raise InputError(str(error), path=str(path)) from error
            except DamagedError:
                old.append(path)
                continue
            kept = [record for record in records if keep(record)]
            if len(kept) == len(records):
                continue
            if path.stem in covered:
                self.sealed.remove()  # first: it is quick, and made again from what is left
                covered = frozenset()
            removed += len(records) - len(kept)
            old.append(path)
            name = None
            if kept and header is not None:
                number = path.stem.partition("-")[0]
                # Nothing of the old one may count if both are there for a moment, or after a crash.
                new = replace(header, replaces=(path.stem,))
                name = f"{number}-{_suffix()}"
                write_sealed(self.folder / f"{name}{SEALED}", new, kept, files=self._files)
            self.useful.inherit((path.stem,), name)
        self._remove(old)
        for path in self._aside.glob(f"{digest(self.name)}-*"):
            self._files.remove(path)
        return removed

    def remove(self) -> int:
        """Remove every file of the namespace; how many records were sealed in it. The caller holds the lock."""
        removed = sum(info.footer.records for info in self.segments())
        self.sealed.remove()
        self.useful.remove()
        self._files.remove(self.folder / MANIFEST)
        for path in [*self.folder.glob("*"), *self.folder.glob(f".*{TEMPORARY}")]:
            self._files.remove(path)
        for path in self._aside.glob(f"{digest(self.name)}-*"):
            self._files.remove(path)
        with contextlib.suppress(OSError):
            self.folder.rmdir()
        return removed

    def compact(self) -> None:
        """Merge segments into as few as their size allows, drop what is over the budget, renew the manifest."""
        with self.lock:
            self.seal()
            self.recover()
            if self.sealed.verify([info.name for info in self.segments()]):
                self.sealed.remove()
            self._merge()
            self._keep_to_budget()
            self._write_manifest()

    def retokenize(self, identity: TokenizerIdentity, encode: Callable[[str], list[int]]) -> int:
        """Write segments of another tokenizer anew, from their texts; how many records had no text and left.

        Goes segment by segment, each put in place in one step, so that it may be interrupted and run again. Cost:
        that of encoding, about 2 MB of text a second, and one segment in memory.
        """
        lost = 0
        with self.lock:
            self.seal()
            self.recover()
            for info in self.segments():
                if info.header.tokenizer == identity.fingerprint:
                    continue
                new = []
                for record in self.read(info):
                    if record.text is None:
                        lost += 1
                        continue
                    tokens = as_array(encode(record.text))
                    if tokens.size:
                        new.append(replace(record, tokens=tokens, context=tokens[:0]))
                header = replace(
                    info.header,
                    tokenizer=identity.fingerprint,
                    tokenizer_name=identity.name,
                    replaces=(info.name,),
                )
                number = info.name.partition("-")[0]
                if new:
                    write_sealed(
                        self.folder / f"{number}-{_suffix()}{SEALED}", header, new, files=self._files
                    )
                self._remove([info.path])
        return lost

    def next_to_leave(self) -> tuple[tuple[float, float], SegmentInfo] | None:
        """The sealed segment that a budget takes first, and its rank: the smaller, the sooner."""
        segments = self.segments()
        ranks = self._ranks(segments)
        return min(((ranks[info.name], info) for info in segments), key=lambda pair: pair[0], default=None)

    def drop(self, info: SegmentInfo) -> None:
        """Remove a segment for the budget. The caller holds the lock."""
        self._remove([info.path])
        self.useful.fade()

    def count_accepted(self, more: Mapping[str, float]) -> None:
        """Count tokens that were accepted from drafts of these segments."""
        with self.lock:
            segments = self.segments()
            now = {old: info.name for info in segments for old in info.header.replaces}
            now |= {info.name: info.name for info in segments}
            counted: dict[str, float] = {}
            for name, tokens in more.items():
                if name in now:
                    counted[now[name]] = counted.get(now[name], 0.0) + tokens
            if counted:
                self.useful.add(counted)

    def _ranks(self, segments: Sequence[SegmentInfo]) -> dict[str, tuple[float, float]]:
        """When a segment leaves beside others: first by its usefulness, where that decides, then by age."""
        if self._budget.eviction == "oldest":
            return {info.name: (0.0, info.footer.oldest) for info in segments}
        counted = self.useful.read()
        ranks = {}
        young = 0
        for info in reversed(segments):
            young += info.footer.tokens
            useful = counted.get(info.name, 0.0) / max(1, info.footer.tokens)
            new = young <= self._budget.namespace_tokens // 4
            ranks[info.name] = (float("inf") if new else useful, info.footer.oldest)
        return ranks

    def set_aside(self, path: Path, problem: object) -> None:
        """Move a damaged file out of the way and say so; one that a later version wrote stays where it is."""
        if isinstance(problem, VersionError):
            raise InputError(str(problem), path=str(path)) from problem
        target = self._aside / f"{digest(self.name)}-{path.name}"
        try:
            self._aside.mkdir(exist_ok=True)
            self._files.rename(path, target)
        except FileNotFoundError:
            return
        except OSError:
            target = path  # a folder that cannot be written: it is passed over
        warnings.warn(
            f"{target}: set aside, namespace {self.name!r} opens without it: {problem}",
            SuffixspecWarning,
            stacklevel=2,
        )

    # -- within -----------------------------------------------------------------------------------------------

    def _paths(self, suffix: str) -> list[Path]:
        try:
            return sorted(path for path in self.folder.iterdir() if path.suffix == suffix)
        except FileNotFoundError:
            return []

    def _open_writer(self, identity: TokenizerIdentity) -> SegmentWriter:
        writer = self._writer
        if writer is not None and (
            writer.closed or writer.gone or writer.header.tokenizer != identity.fingerprint
        ):
            if not writer.closed and not writer.gone:
                self.seal()
            writer.close()
            self._writer = None
        if self._writer is None:
            if not self._recovered:
                self.recover()
            self.expect(identity)
            self.folder.mkdir(parents=True, exist_ok=True)
            header = Header(self.name, identity.fingerprint, identity.name, time.time())
            path = self.folder / f"{self._next_number():08d}-{_suffix()}{OPEN}"
            try:
                self._writer = SegmentWriter(path, header, files=self._files)
            except OSError:
                with contextlib.suppress(OSError):
                    self._files.remove(path)
                raise
            self.own.add(path.stem)
            self._opened = time.monotonic()
        return self._writer

    def _next_number(self) -> int:
        numbers = [int(path.stem.partition("-")[0]) for path in [*self._paths(SEALED), *self._paths(OPEN)]]
        return max(numbers, default=0) + 1

    def _drop_replaced(self) -> None:
        counted = {info.path for info in self.segments()}
        replaced = [path for path in self._paths(SEALED) if path not in counted]
        if replaced:
            self._remove(replaced)

    def _merge(self) -> None:
        """Merge runs of neighbours into segments of at most the size at which one is sealed.

        What is in the sealed index stays apart from what is not.
        """
        run: list[SegmentInfo] = []
        note = self.sealed.note()
        covered = note.segments if note is not None else frozenset[str]()
        for info in [*self.segments(), None]:
            fits = (
                info is not None
                and sum(one.nbytes for one in run) + info.nbytes <= self._budget.longest_segment
                and (not run or run[0].header.tokenizer == info.header.tokenizer)
                and (not run or (run[0].name in covered) == (info.name in covered))
            )
            if fits and info is not None:
                run.append(info)
                continue
            if len(run) > 1:
                self._merge_run(run)
            run = [] if info is None else [info]

    def _merge_run(self, run: list[SegmentInfo]) -> None:
        records = [record for info in run for record in self.read(info)]
        number = run[0].name.partition("-")[0]
        header = replace(run[0].header, replaces=tuple(info.name for info in run))
        path = self.folder / f"{number}-{_suffix()}{SEALED}"
        write_sealed(path, header, records, files=self._files)
        if self.own.issuperset(header.replaces):
            self.own.add(path.stem)
        self.sealed.replace(header.replaces, path.stem)
        self.useful.inherit(header.replaces, path.stem)
        self._remove([info.path for info in run])

    def _keep_to_budget(self) -> None:
        segments = self.segments()
        small = sum(info.nbytes < self._budget.longest_segment // 4 for info in segments)
        if small > _MOST_SMALL:
            self._merge()
            segments = self.segments()
        tokens = sum(info.footer.tokens for info in segments)
        nbytes = sum(info.nbytes for info in segments)
        ranks = self._ranks(segments)
        over = []
        for info in sorted(segments, key=lambda info: ranks[info.name]):
            if tokens <= self._budget.namespace_tokens and nbytes <= self._budget.namespace_bytes:
                break
            over.append(info.path)
            tokens -= info.footer.tokens
            nbytes -= info.nbytes
        if over:
            self._remove(over)
            self.useful.fade()

    def _remove(self, paths: Sequence[Path]) -> None:
        """Remove segments; first from the manifest, so that none is ever missed that was removed on purpose."""
        names = [path.stem for path in paths]
        if paths and self.sealed.holds(names):
            self.sealed.remove()
        self.useful.inherit(names, None)
        self._write_manifest(without=paths)
        for path in paths:
            self._files.remove(path)
        if paths:
            self._files.sync_folder(self.folder)
            self._write_manifest()

    def _write_manifest(self, without: Sequence[Path] = ()) -> None:
        if not self.folder.is_dir():
            return
        segments = [info for info in self.segments() if info.path not in without]
        if not segments and not self._paths(SEALED) and not self._paths(OPEN):
            self._files.remove(self.folder / MANIFEST)
            with contextlib.suppress(OSError):
                self.folder.rmdir()
            return
        manifest = {
            "version": _MANIFEST_VERSION,
            "namespace": self.name,
            "segments": {
                info.name: {
                    "bytes": info.nbytes,
                    "records": info.footer.records,
                    "tokens": info.footer.tokens,
                }
                for info in segments
            },
        }
        self._files.write_whole(self.folder / MANIFEST, json.dumps(manifest, indent=1).encode("ascii"))


def name_of(folder: Path) -> str | None:
    """The namespace whose folder this is, by its manifest, or by its segments where that is damaged."""
    with contextlib.suppress(*_NO_MANIFEST):
        name = _read_manifest(folder / MANIFEST)["namespace"]
        if digest(name) == folder.name:
            return str(name)
    for path in sorted(folder.glob("*")):
        with contextlib.suppress(OSError, DamagedError):
            if path.suffix == SEALED:
                return read_info(path).header.namespace
            if path.suffix == OPEN:
                header = read_open(path)[0]
                if header is not None:
                    return header.namespace
    return None


def is_void(folder: Path) -> bool:
    """Whether a folder holds nothing yet: its writer died before even a header was complete."""
    try:
        return not any(
            path.suffix == SEALED or (path.suffix == OPEN and read_open(path)[0] is not None)
            for path in folder.iterdir()
        )
    except (OSError, DamagedError):
        return False


def _read_manifest(path: Path) -> dict[str, Any]:
    manifest = json.loads(path.read_bytes())
    if manifest["version"] > _MANIFEST_VERSION:
        raise ValueError(f"version {manifest['version']}")
    return dict(manifest)


def _suffix() -> str:
    return secrets.token_hex(4)


def as_array(tokens: Sequence[int]) -> NDArray[np.int32]:
    """int32 [k] of token ids."""
    return np.asarray(tokens, np.int32).reshape(-1)
