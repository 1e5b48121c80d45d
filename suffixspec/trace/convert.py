"""``suffixspec convert``: other tools' logs to the native trace format."""

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from suffixspec.errors import InputError
from suffixspec.trace.reader import TraceFile
from suffixspec.trace.session import TraceSession
from suffixspec.trace.source import size_of
from suffixspec.trace.writer import write_lines, write_sessions

_DESCRIPTION = """\
Convert recorded agent loops to suffixspec's trace format: JSON Lines, one session a line.

The format of each input is recognised by its content, whatever its name is, and so is gzip or zstandard
compression. Known formats:
  suffixspec traces and recordings · SWE-agent .traj (0.x, 1.x) · mini-swe-agent .traj.json (v1, v2) ·
  OpenHands output.jsonl and event lists · OpenAI chat JSONL and request/response logs · ShareGPT · tau-bench ·
  tau2-bench · Claude Code logs · Codex rollouts · pi sessions · aider chat histories · ATIF
"""

_EPILOG = """\
examples:
  suffixspec convert runs/*/*.traj -o swe.jsonl.gz
  suffixspec convert ~/.claude/projects/*/*.jsonl -o mine.jsonl.zst --skip-bad
  suffixspec convert proxy-log.jsonl -o - | head -1

What the model wrote is kept verbatim: texts, reasoning, and the arguments of tool calls as the strings they
were (a format that keeps only parsed arguments gets them back as JSON in the same key order). Messages which
the model did not write in that session (greetings, demonstrations, copied context) are kept as context.

Session ids stay as they are; when one occurs again, it becomes ID#2, ID#3, … in the order of the inputs.

The output is written only when everything was read: on an error or Ctrl-C nothing is left behind, and an
existing file stays as it was. Exit code 2 means bad input; the message says FILE:LINE: expected …, got ….
"""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the ``convert`` command to the subparsers of an `argparse.ArgumentParser`.

    Returns:
        The command's parser, whose default ``run`` is `run`.
    """
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "convert",
        help="convert other tools' logs to suffixspec's trace format",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("inputs", nargs="+", metavar="IN", help="a log or trace file of any known format")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="the trace to write: OUT.jsonl, OUT.jsonl.gz or OUT.jsonl.zst; - writes plain lines to stdout",
    )
    parser.add_argument(
        "--skip-bad",
        action="store_true",
        help="go on after malformed records and files; they are reported and counted",
    )
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Convert ``args.inputs`` to ``args.output``; progress and a summary go to stderr.

    Returns:
        0.

    Raises:
        InputError: bad input without ``--skip-bad``, or no session at all; nothing is written then.
    """
    conversion = _Conversion(args.inputs, skip_bad=args.skip_bad)
    if args.output == "-":
        try:
            count = write_lines(sys.stdout.buffer, conversion.sessions())
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            # The reader has seen enough. Python would complain again when it closes stdout.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
    else:
        count = write_sessions(args.output, conversion.sessions())
    conversion.say(f"{args.output}: wrote {_counted(count, 'session')}{conversion.skipped()}")
    return 0


class _Conversion:
    """The sessions of all inputs, with progress and a summary of each on stderr."""

    def __init__(self, inputs: list[str], *, skip_bad: bool) -> None:
        self._inputs = inputs
        self._skip_bad = skip_bad
        self._ids: set[str] = set()
        self._bad = 0

    def say(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def skipped(self) -> str:
        return f"; skipped {_counted(self._bad, 'bad record')}" if self._bad else ""

    def sessions(self) -> Iterator[TraceSession]:
        found = 0
        with _Progress(sum(map(size_of, self._inputs))) as progress:
            for path in self._inputs:
                for session in self._file(path, progress):
                    yield self._with_own_id(session)
                    found += 1
        if not found:
            raise InputError("expected at least one session in the input, got none; nothing was written")

    def _file(self, path: str, progress: "_Progress") -> Iterator[TraceSession]:
        trace = TraceFile(
            path,
            skip_bad=self._skip_bad,
            on_bad=lambda error: progress.say(f"skipped: {error}"),
            on_bytes=progress.advance,
        )
        sessions = turns = 0
        for session in trace.sessions():
            yield session
            sessions += 1
            turns += session.turns
        summary = f"{path}: {_counted(sessions, 'session')}, {_counted(turns, 'model turn')}"
        if trace.format is not None:
            summary += f" ({trace.format})"
        if trace.bad:
            summary += f", skipped {_counted(trace.bad, 'bad record')}"
        if trace.notes:
            summary += f", left out {_counted(trace.notes, 'record')} without conversation"
        progress.say(summary)
        self._bad += trace.bad

    def _with_own_id(self, session: TraceSession) -> TraceSession:
        name, number = session.session_id, 1
        while name in self._ids:
            number += 1
            name = f"{session.session_id}#{number}"
        self._ids.add(name)
        return session if number == 1 else replace(session, session_id=name)


class _Progress:
    """A progress bar over bytes on stderr, shown on a terminal only."""

    def __init__(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

        self._console = Console(stderr=True)
        self._bar = Progress(
            "reading", BarColumn(), DownloadColumn(), TimeRemainingColumn(),
            console=self._console, transient=True, disable=not self._console.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task("reading", total=total or None)

    def __enter__(self) -> "_Progress":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, size: int) -> None:
        self._bar.advance(self._task, size)

    def say(self, text: str) -> None:
        """Print a line above the bar, as it is: no markup, no wrapping."""
        if self._console.is_terminal:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            sys.stderr.write(text + "\n")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
