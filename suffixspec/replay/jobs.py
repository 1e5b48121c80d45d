"""A replay in several processes, each with a part of the sessions.

Session i goes to process i mod N, in each process in the order of the input. The parent shows the progress of all
and puts their figures together; it alone hears Ctrl-C, and asks the others to stop after the turn they are in.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import signal
import stat
import threading
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suffixspec.errors import InputError, SuffixspecError

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess
    from multiprocessing.synchronize import Event

    from suffixspec.replay.progress import ReplayProgress
    from suffixspec.replay.result import TurnResult
    from suffixspec.replay.share import Share

_FIRST_ONLY = ("note", "begin", "say", "bytes_read")
"""What all processes say alike, or each of its own part: the first one's stands for all."""


def decode_in_parallel(args: argparse.Namespace, progress: ReplayProgress) -> Share:
    """Decode the sessions in ``args.jobs`` processes; what they have measured together.

    Interrupted once, what was decoded until then; a second time ends the processes at once.

    Raises:
        SuffixspecError: bad input, or a process that was killed.
        KeyboardInterrupt: interrupted a second time.
    """
    from suffixspec.replay.share import merged

    processes = multiprocessing.get_context("spawn")
    stop = processes.Event()
    running: dict[Connection, BaseProcess] = {}
    shares: dict[int, Share] = {}
    numbers: dict[Connection, int] = {}
    try:
        with _interrupts_ignored():  # inherited: only the parent hears Ctrl-C
            for number in range(args.jobs):
                here, there = processes.Pipe(duplex=False)
                running[here] = processes.Process(target=_work, args=(args, number, there, stop), daemon=True)
                running[here].start()
                numbers[here] = number
                there.close()
        with _interrupts_asking(stop):
            while running:
                _listen(running, numbers, shares, progress)
    finally:
        stop.set()
        for connection, process in running.items():
            process.terminate()
            process.join()
            connection.close()
    return merged([shares[number] for number in sorted(shares)])


def check_files(paths: list[str]) -> None:
    """Raise InputError for what cannot be read by every process: a pipe."""
    for path in paths:
        with contextlib.suppress(OSError):
            mode = Path(path).stat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise InputError(
                    "expected a file with --jobs, got a pipe, which only one process can read; write it to a "
                    "file first, or leave --jobs out",
                    path=path,
                )


def _listen(
    running: dict[Connection, BaseProcess],
    numbers: dict[Connection, int],
    shares: dict[int, Share],
    progress: ReplayProgress,
) -> None:
    """Take what has come from the processes; waits for something to come."""
    for ready in wait(list(running)):
        assert isinstance(ready, Connection)
        number, process = numbers[ready], running[ready]
        try:
            kind, *values = ready.recv()
        except EOFError:
            process.join()
            raise SuffixspecError(
                f"expected process {number + 1} of {len(numbers)} to end with its figures, got exit status "
                f"{process.exitcode}; where the system ended it for want of memory, use fewer --jobs"
            ) from None
        if kind == "share":
            shares[number] = values[0]
            del running[ready]
            process.join()
            ready.close()
        elif kind == "error":
            raise values[0]
        elif kind == "crash":
            raise RuntimeError(f"in process {number + 1} of {len(numbers)}:\n{values[0]}")
        elif kind not in _FIRST_ONLY or number == 0:
            getattr(progress, kind)(*values)


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _interrupts_asking(stop: Event) -> Iterator[None]:
    """Ctrl-C sets ``stop`` first: an exception could tear a message in two. The second time it is one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# -- in the other processes -----------------------------------------------------------------------------------


class _Relay:
    """Passes progress on to the parent; where that asks to stop, a turn ends as by Ctrl-C."""

    def __init__(self, connection: Connection, stop: Event) -> None:
        self.skipped = 0
        self._connection = connection
        self._stop = stop

    def _send(self, *message: Any) -> None:
        self._connection.send(message)

    def note(self, what: str) -> None:
        self._send("note", what)

    def say(self, sentence: str) -> None:
        self._send("say", sentence)

    def begin(self, what: str, drafters: int) -> None:
        self.skipped = 0
        self._send("begin", what, drafters)

    def bytes_read(self, done: int, total: int) -> None:
        self._send("bytes_read", done, total)

    def turn(self, drafter: str, turn: TurnResult) -> None:
        self._send("turn", drafter, turn)
        if self._stop.is_set():
            raise KeyboardInterrupt

    def session(self) -> None:
        self._send("session")

    def skip(self, message: str) -> None:
        self.skipped += 1
        self._send("skip", message)


def _work(args: argparse.Namespace, number: int, connection: Connection, stop: Event) -> None:
    """One process: decode its part, and send what it has measured."""
    from suffixspec.cost import CostCurve
    from suffixspec.replay.decode import Part, decode
    from suffixspec.text.tokenizer import load_tokenizer

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # again: the main module may have set something else
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the parent has gone: nobody wants it
        try:
            share = decode(
                args,
                load_tokenizer(args.tokenizer),
                CostCurve.load(args.cost),
                _Relay(connection, stop),
                Part(number, args.jobs),
            )
            connection.send(("share", share))
        except (BrokenPipeError, ConnectionResetError):
            raise
        except InputError as error:
            connection.send(("error", InputError(error.message, path=error.path, line=error.line)))
        except (SuffixspecError, OSError) as error:
            connection.send(("error", SuffixspecError(str(error))))
        except Exception:  # noqa: BLE001 (shown by the parent)
            connection.send(("crash", traceback.format_exc()))
        finally:
            connection.close()
