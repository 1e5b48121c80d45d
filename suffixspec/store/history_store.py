"""A history on disk: namespaces, each with a log, under one budget."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from suffixspec.errors import InputError
from suffixspec.store.budget import Budget
from suffixspec.store.calibration_file import CalibrationFile
from suffixspec.store.epoch import Epoch, digest
from suffixspec.store.files import Files
from suffixspec.store.folder import default_history
from suffixspec.store.identity import TokenizerIdentity
from suffixspec.store.namespace_log import ASIDE, Finding, NamespaceLog, is_void, name_of
from suffixspec.store.record import Record

if TYPE_CHECKING:
    from suffixspec.text.tokenizer import Tokenizer

_FORMAT = "suffixspec history 1\n"
_FOLDERS = ("namespaces", "locks", "calibration", "sealed", "useful")


@dataclass(frozen=True, slots=True)
class NamespaceSummary:
    """What one namespace holds that is sealed."""

    name: str
    tokenizer: str
    segments: int
    records: int
    tokens: int
    nbytes: int
    oldest: float
    newest: float


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """What a forgetting did."""

    records: int
    """Records removed from disk."""
    epoch: int
    unacknowledged: list[int]
    """Processes that did not answer in time. They cannot draft from what was forgotten either: each looks at
    the epoch before every draft, and these have not come to one."""


class HistoryStore:
    """Outputs of earlier sessions in a folder that many processes share.

    ::

        format           one line: what this folder is, and its version
        epoch            8 bytes, mapped by every process: raised by each forgetting
        forgotten.json   what the last forgettings were about, as digests
        readers/         a file per process that drafts from here: the epoch it has seen
        locks/           a lock per namespace
        namespaces/D/    D: digest of the namespace's name; see ``NamespaceLog`` and ``segment``
        sealed/D/        the sealed index of a namespace; see ``SealedFile``
        useful/          per namespace, how much was accepted from each segment, where the budget asks for it
        calibration/     what was learned of repeats, per target
        aside/           segments that were damaged

    Everything is readable by its owner only. A store may be used from several threads.

    Args:
        path: the folder; made where there is none. None: the user's data folder.
        tokenizer: whose ids are stored. A namespace written with another one is refused. None can look at any
            history, and append to none.
        budget: how much may be kept.
        retokenize: write a namespace of another tokenizer anew, from its texts, instead of refusing it.
        files: the disk; for tests.

    Raises:
        InputError: the folder is something else, of a later version, or cannot be written.
    """

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        tokenizer: Tokenizer | None = None,
        budget: Budget | None = None,
        retokenize: bool = False,
        files: Files | None = None,
    ) -> None:
        self.path = default_history() if path is None else Path(path).expanduser()
        self.tokenizer = tokenizer
        self.identity = None if tokenizer is None else TokenizerIdentity.of(tokenizer)
        self.budget = budget or Budget()
        self.retokenizes = retokenize
        self._files = files or Files()
        self._make()
        self.epoch = Epoch(self.path, files=self._files)
        self.calibration = CalibrationFile(self.path / "calibration", files=self._files)
        self._logs: dict[str, NamespaceLog] = {}
        self._logs_lock = threading.Lock()
        self.attached: WeakSet[Any] = WeakSet()
        """What drafts from this store in this process; each has ``catch_up()`` and ``close()``."""

    # -- looking ----------------------------------------------------------------------------------------------

    def log(self, namespace: str) -> NamespaceLog:
        """The log of a namespace; nothing is made on disk. Cost: O(1)."""
        with self._logs_lock:
            if namespace not in self._logs:
                self._logs[namespace] = NamespaceLog(
                    self.path, namespace, budget=self.budget, files=self._files
                )
            return self._logs[namespace]

    def names(self) -> list[str]:
        """The namespaces on disk, sorted. Cost: a small file each."""
        folders = [folder for folder in (self.path / "namespaces").iterdir() if folder.is_dir()]
        return sorted(name for folder in folders if (name := name_of(folder)) is not None)

    def summaries(self) -> list[NamespaceSummary]:
        """What each namespace holds, by name. Cost: two small reads per segment."""
        return [self.summary(name) for name in self.names()]

    def summary(self, namespace: str) -> NamespaceSummary:
        """What a namespace holds that is sealed."""
        segments = self.log(namespace).segments()
        names = dict.fromkeys(
            f"{info.header.tokenizer_name} ({info.header.tokenizer[:12]})" for info in segments
        )
        return NamespaceSummary(
            name=namespace,
            tokenizer=", ".join(names),
            segments=len(segments),
            records=sum(info.footer.records for info in segments),
            tokens=sum(info.footer.tokens for info in segments),
            nbytes=sum(info.nbytes for info in segments),
            oldest=min((info.footer.oldest for info in segments), default=0.0),
            newest=max((info.footer.newest for info in segments), default=0.0),
        )

    def records(self, namespace: str) -> Iterator[Record]:
        """What is sealed in a namespace, oldest first. Holds one segment in memory."""
        return self.log(namespace).records()

    def verify(self, namespace: str | None = None) -> list[Finding]:
        """Read everything and name what is damaged or missing; changes nothing. Cost: reads every byte."""
        findings = []
        for folder in sorted((self.path / "namespaces").iterdir()):
            name = name_of(folder)
            if name is None:
                if namespace is None and not is_void(folder):
                    findings.append(
                        Finding(folder, "expected a namespace, got a folder without a whole segment")
                    )
            elif namespace in {None, name}:
                findings += self.log(name).verify()
        with contextlib.suppress(FileNotFoundError):
            for path in sorted((self.path / ASIDE).iterdir()):
                if namespace is None or path.name.startswith(digest(namespace)):
                    findings.append(Finding(path, "damaged, and set aside; delete it when it is of no use"))
        return findings

    # -- changing ---------------------------------------------------------------------------------------------

    def admit(self, namespace: str) -> None:
        """Check that a namespace is of this tokenizer, or make it so where that was asked for.

        Raises:
            TokenizerMismatchError: it was written with another one.
        """
        log = self.log(namespace)
        tokenizer = self.tokenizer
        if self.retokenizes and tokenizer is not None and self.identity is not None:
            log.retokenize(self.identity, lambda text: tokenizer.encode(text, continues=True))
        log.expect(self.identity)

    def append(self, namespace: str, records: Sequence[Record]) -> str | None:
        """Write records; the name of their segment, which others see when it is sealed.

        Waits for the disk's cache, not the disk.

        Raises:
            InputError: the store has no tokenizer.
            TokenizerMismatchError: the namespace was written with another one.
            OSError: a full disk, or the like; none was written.
        """
        if self.identity is None:
            raise InputError("expected a history opened with a tokenizer to append to, got one without")
        return self.log(namespace).append(records, self.identity)

    def seal(self, namespace: str | None = None) -> None:
        """Make what was appended here visible to other processes, and keep to the budget."""
        for log in self._all_logs() if namespace is None else [self.log(namespace)]:
            log.seal()
        self.keep_to_budget()

    def keep_to_budget(self) -> None:
        """Remove segments, whosever they are, while all namespaces together are over the budget; see ``Budget``."""
        while True:
            summaries = self.summaries()
            tokens = sum(summary.tokens for summary in summaries)
            nbytes = sum(summary.nbytes for summary in summaries)
            if tokens <= self.budget.total_tokens and nbytes <= self.budget.total_bytes:
                return
            leaving = [
                (ahead[0], summary.name)
                for summary in summaries
                if (ahead := self.log(summary.name).next_to_leave())
            ]
            if not leaving:
                return
            log = self.log(min(leaving)[1])
            with log.lock:
                ahead = log.next_to_leave()
                if ahead is None:
                    return
                log.drop(ahead[1])

    def compact(self, namespace: str | None = None) -> None:
        """Finish what dead processes left, merge small segments, keep to the budget."""
        for name in self.names() if namespace is None else [namespace]:
            self.log(name).compact()
        self.keep_to_budget()

    def forget(
        self,
        *,
        namespace: str | None = None,
        session: str | None = None,
        before: float | None = None,
        timeout: float = 10.0,
    ) -> ForgetReport:
        """Remove text for good: from disk, and from the memory of every process that drafts from this store.

        When this returns, the bytes are in no file of the folder, and no process drafts from them: each looks
        at the epoch before every draft, drops its history when that has changed, and reads it anew. What a
        process had not written yet is dropped too. An agent loop that is under way keeps its own conversation.

        Args:
            namespace: only of this namespace; alone: all of it.
            session: what this session wrote, in one namespace or in all.
            before: what was written before this time, seconds since 1970.
            timeout: seconds to wait for the acknowledgement of other processes.

        Raises:
            ValueError: nothing was said of what to forget.
            OSError: a full disk: rewriting a segment takes its size once more. Nothing is lost, some may have been
                removed already.
        """
        if namespace is None and session is None and before is None:
            raise ValueError("expected a namespace, a session or a time before which to forget, got none")
        records = 0
        with self.epoch.lock:
            if namespace is None:
                # First: what is on no disk yet has no namespace to be found by, and is not written from now on.
                self.epoch.advance(None, session, before)
            for name in self.names() if namespace is None else [namespace]:
                log = self.log(name)
                with log.lock:
                    if session is None and before is None:
                        records += log.remove()
                    else:
                        records += log.rewrite(lambda one: not _is_meant(one, session, before))
                    # Still under the lock: nobody writes what was meant between the rewriting and the new epoch.
                    self.epoch.advance(name, session, before)
            epoch = self.epoch.value
            for attached in list(self.attached):
                attached.catch_up()
            late = self.epoch.wait(epoch, timeout)
        return ForgetReport(records, epoch, late)

    def close(self) -> None:
        """Seal what was appended, and let go of the files; what drafts from it is closed first. May be called again."""
        for attached in list(self.attached):
            attached.close()
        try:
            for log in self._all_logs():
                log.close()
            if any(log.own for log in self._all_logs()):
                self.keep_to_budget()
        finally:
            self.epoch.close()

    def __enter__(self) -> HistoryStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- within -----------------------------------------------------------------------------------------------

    def _all_logs(self) -> list[NamespaceLog]:
        with self._logs_lock:
            return list(self._logs.values())

    def _make(self) -> None:
        shown = str(self.path)
        try:
            if self.path.is_dir() and not (self.path / "format").exists():
                names = {entry.name for entry in self.path.iterdir()} - set(_FOLDERS)
                others = [name for name in names if not name.startswith(".format.")]
                # Ours are there where a process was killed while it made the folder, or makes it just now: then
                # it is marked by the time that anything else is in it.
                if others and not (self.path / "format").exists():
                    raise InputError(
                        "expected a folder of suffixspec's history, an empty one or none, got another folder",
                        path=shown,
                    )
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            for name in _FOLDERS:
                (self.path / name).mkdir(exist_ok=True, mode=0o700)
            mark = self.path / "format"
            if not mark.exists():
                scratch = self.path / f".format.{secrets.token_hex(4)}.tmp"
                scratch.write_text(_FORMAT, encoding="ascii")
                scratch.replace(mark)
            found = mark.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return self._make()  # two processes made it at the same time
        except OSError as error:
            raise InputError(
                f"expected a folder for the history that can be written, got: {error.strerror or error}",
                path=shown,
            ) from error
        if found != _FORMAT:
            raise InputError(
                f"expected {_FORMAT.strip()!r} in its file 'format', got {found[:40]!r}; update suffixspec, or "
                "choose another folder",
                path=shown,
            )
        return None


def _is_meant(record: Record, session: str | None, before: float | None) -> bool:
    return (session is None or record.session == session) and (before is None or record.time < before)


def exists(path: str | PathLike[str] | None) -> Path:
    """The folder of a history that is there.

    Raises:
        InputError: there is none.
    """
    folder = default_history() if path is None else Path(path).expanduser()
    if not (folder / "format").is_file():
        raise InputError(
            "expected a history, got no such folder; 'suffixspec replay TRACE --history FOLDER' writes one",
            path=os.fspath(folder),
        )
    return folder
