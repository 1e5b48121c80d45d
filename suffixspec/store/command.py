"""``suffixspec history``: look at what is kept, and forget it."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suffixspec.store.options import add_eviction_option, budget_of
from suffixspec.store.sealed_file import LEAST_SEALED

if TYPE_CHECKING:
    from suffixspec.store.budget import Budget
    from suffixspec.store.history_store import HistoryStore
    from suffixspec.text.tokenizer import Tokenizer

_DESCRIPTION = """\
Outputs of earlier sessions, kept in a folder, so that the second day drafts from the first. Commands that keep a
history (replay, chat, generate: --history FOLDER) share it, also while they run.
"""

_EPILOG = """\
examples:
  suffixspec replay monday.jsonl --history history/
  suffixspec replay tuesday.jsonl --history history/
      what Monday is worth on Tuesday
  suffixspec history list --history history/
      namespaces, their sizes and dates; without --history: this user's folder
  suffixspec history show default --session fix-issue-123
      what one session wrote
  suffixspec history forget --session fix-issue-123
      gone from disk and from the memory of every process that drafts from it
  suffixspec history forget --before 30d
      what is older than thirty days, in every namespace

words:
  namespace   who shares a history; text never crosses from one to another
  segment     a file of the log; complete and checked once it is sealed, gone as a whole when the budget is full
  eviction    over the budget, segments leave whole: the oldest first, or with --history-eviction least-useful the
              one that drafts were accepted from least, for its size
  forgetting  rewrites the segments concerned, then waits until every running process has dropped its copy. An
              agent loop under way keeps its own conversation. What a disk keeps of deleted files, and what was
              backed up or exported, is beyond it.
"""

_AGE = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def add_parser(subparsers: Any) -> None:
    """Register the subcommand."""
    parser = subparsers.add_parser(
        "history",
        help="look at the outputs that are kept, and forget them",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add(commands, "list", _list, "the namespaces: sizes, dates, tokenizers")
    show = _add(commands, "show", _show, "the sessions of a namespace, or what one of them wrote")
    show.add_argument("namespace", nargs="?", default="default", metavar="NAMESPACE", help="default: default")
    show.add_argument("--session", metavar="NAME", help="print what this session wrote")
    verify = _add(
        commands, "verify", _verify, "read every byte and name what is damaged; ends with 1 if any is"
    )
    verify.add_argument("--namespace", metavar="NAME", help="only this one")
    compact = _add(
        commands,
        "compact",
        _compact,
        "merge small segments, index large namespaces, finish what killed processes left",
    )
    compact.add_argument("--namespace", metavar="NAME", help="only this one")
    compact.add_argument(
        "--retokenize",
        action="store_true",
        help="write what is of another tokenizer anew, from its texts, for --tokenizer (2 MB of text a second)",
    )
    add_eviction_option(compact)
    _add_tokenizer(compact)
    export = _add(commands, "export", _export, "write a namespace as JSON lines")
    export.add_argument(
        "namespace", nargs="?", default="default", metavar="NAMESPACE", help="default: default"
    )
    export.add_argument("-o", "--output", default="-", metavar="FILE", help="default: -, stdout")
    load = _add(commands, "import", _import, "append what export wrote; what is there already is passed over")
    load.add_argument("file", metavar="FILE", help="- reads stdin")
    load.add_argument("--namespace", metavar="NAME", help="into this one (default: where it came from)")
    add_eviction_option(load)
    _add_tokenizer(load)
    forget = _add(commands, "forget", _forget, "remove text for good, from disk and from running processes")
    forget.add_argument("--session", metavar="NAME", help="what this session wrote")
    forget.add_argument("--namespace", metavar="NAME", help="of this namespace only; alone: all of it")
    forget.add_argument(
        "--before",
        type=moment,
        metavar="WHEN",
        help="what is older: 2026-01-31, 2026-01-31T18:00 or an age, 30d",
    )
    forget.add_argument(
        "--timeout", type=float, default=10.0, metavar="S", help="seconds to wait for processes (default: 10)"
    )


def _add(commands: Any, name: str, run: Any, about: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=about, description=about[0].upper() + about[1:]
    )
    parser.add_argument(
        "--history", metavar="FOLDER", help="folder of the history (default: this user's)", default=None
    )
    parser.set_defaults(run=run)
    return parser


def _add_tokenizer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tokenizer",
        metavar="ID|PATH",
        help="whose ids are stored: a folder, a file or a hub id (default: SmolLM2's)",
    )


def open_store(
    history: str | None,
    tokenizer: Tokenizer | None = None,
    *,
    budget: Budget | None = None,
    retokenize: bool = False,
) -> HistoryStore:
    """The history of a command, which has to be there.

    Raises:
        InputError: there is none.
    """
    from suffixspec.store.history_store import HistoryStore, exists
    from suffixspec.store.options import SAVED

    folder = exists(None if history in {None, SAVED} else history)
    return HistoryStore(folder, tokenizer=tokenizer, budget=budget, retokenize=retokenize)


def moment(text: str) -> float:
    """A date, a date with a time, or an age before now, as seconds since 1970."""
    age = _AGE.fullmatch(text)
    if age:
        return time.time() - float(age[1]) * _SECONDS[age[2]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"expected a date (2026-01-31), a time (2026-01-31T18:00) or an age (30d, 12h), got {text!r}"
        ) from None


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Lines of aligned columns: text to the left, numbers to the right."""
    from suffixspec.text.visible import visible

    cells = [
        [f"{cell:,}" if isinstance(cell, int) else visible(cell) for cell in row] for row in [head, *rows]
    ]
    right = [bool(rows) and isinstance(cell, int) for cell in (rows[0] if rows else head)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    return "".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, right, strict=True)
        ).rstrip()
        + "\n"
        for row in cells
    )


def _say(text: str) -> None:
    sys.stdout.write(text)


def _date(when: float) -> str:
    return datetime.fromtimestamp(when).strftime("%Y-%m-%d %H:%M") if when else "-"


def _list(args: argparse.Namespace) -> int:
    with open_store(args.history) as store:
        rows = [
            (
                one.name,
                one.tokens,
                one.records,
                one.segments,
                one.nbytes,
                _date(one.oldest),
                _date(one.newest),
                one.tokenizer,
            )
            for one in store.summaries()
        ]
        head = ("namespace", "tokens", "records", "segments", "bytes", "oldest", "newest", "tokenizer")
        _say(table(head, rows) if rows else f"{store.path}: nothing is kept there yet\n")
    return 0


def _show(args: argparse.Namespace) -> int:
    from suffixspec.text.visible import visible

    with open_store(args.history) as store:
        _check_namespace(store, args.namespace)
        sessions: dict[str, list[float]] = {}
        for record in store.records(args.namespace):
            if args.session is None:
                row = sessions.setdefault(record.session, [0, 0, record.time, record.time])
                row[0] += 1
                row[1] += len(record.tokens)
                row[3] = record.time
            elif record.session == args.session:
                sessions.setdefault(record.session, [])
                text = " ".join(map(str, record.tokens.tolist())) if record.text is None else record.text
                _say(f"--- {_date(record.time)}, {len(record.tokens):,} tokens ---\n{visible(text)}\n")
    if args.session is not None and not sessions:
        from suffixspec.errors import InputError

        raise InputError(
            f"expected a session of namespace {args.namespace!r}, got {args.session!r}; nothing is kept of it"
        )
    if args.session is None:
        rows = [
            (name, int(row[0]), int(row[1]), _date(row[2]), _date(row[3])) for name, row in sessions.items()
        ]
        _say(table(("session", "records", "tokens", "first", "last"), rows))
    return 0


def _verify(args: argparse.Namespace) -> int:
    with open_store(args.history) as store:
        findings = store.verify(args.namespace)
        for finding in findings:
            _say(f"{finding.path}: {finding.problem}\n")
        names = [name for name in store.names() if args.namespace in {None, name}]
    spaces = "1 namespace" if len(names) == 1 else f"{len(names):,} namespaces"
    _say(f"{spaces}, {len(findings):,} {'problem' if len(findings) == 1 else 'problems'}\n")
    return 1 if findings else 0


def _compact(args: argparse.Namespace) -> int:
    tokenizer = None
    if args.retokenize:
        from suffixspec.text.tokenizer import load_tokenizer

        tokenizer = load_tokenizer(args.tokenizer)
    budget = budget_of(args, kept=True)
    with open_store(args.history, tokenizer, budget=budget, retokenize=args.retokenize) as store:
        if args.namespace is not None:
            _check_namespace(store, args.namespace)
        if args.retokenize:
            for name in store.names() if args.namespace is None else [args.namespace]:
                store.admit(name)
        store.compact(args.namespace)
        for name in store.names() if args.namespace is None else [args.namespace]:
            _seal_index(store, name)
        for one in store.summaries():
            _say(f"{one.name}: {one.tokens:,} tokens in {one.segments} segments, {one.nbytes:,} bytes\n")
    return 0


def _seal_index(store: HistoryStore, namespace: str) -> None:
    """Build the sealed index of a large namespace, so that the next process to open it has it at once."""
    log = store.log(namespace)
    if sum(info.footer.tokens for info in log.segments()) >= LEAST_SEALED:
        from suffixspec.store.sealer import build

        if build(store, log, least=LEAST_SEALED, stop=lambda: False):
            _say(f"{namespace}: sealed index built, {log.sealed.nbytes:,} bytes\n")


def _export(args: argparse.Namespace) -> int:
    from suffixspec.store.transfer import export_lines

    with open_store(args.history) as store:
        _check_namespace(store, args.namespace)
        lines = export_lines(store, args.namespace)
        if args.output == "-":
            for line in lines:
                _say(line)
            return 0
        with Path(args.output).open("w", encoding="ascii") as file:
            file.writelines(lines)
    return 0


def _import(args: argparse.Namespace) -> int:
    from suffixspec.errors import InputError
    from suffixspec.store.history_store import HistoryStore
    from suffixspec.store.options import SAVED
    from suffixspec.store.transfer import import_lines
    from suffixspec.text.tokenizer import load_tokenizer

    folder = None if args.history in {None, SAVED} else args.history
    try:
        with (
            HistoryStore(
                folder, tokenizer=load_tokenizer(args.tokenizer), budget=budget_of(args, kept=True)
            ) as store,
            sys.stdin if args.file == "-" else Path(args.file).open(encoding="utf-8") as lines,
        ):
            done = import_lines(store, lines, namespace=args.namespace, path=args.file)
    except FileNotFoundError:
        raise InputError("expected a file of 'suffixspec history export', got none", path=args.file) from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"expected a file of 'suffixspec history export', got {error}", path=args.file
        ) from error
    _say(f"{done.namespace}: {done.added:,} records added, {done.known:,} were there\n")
    return 0


def _forget(args: argparse.Namespace) -> int:
    from suffixspec.errors import InputError

    if args.session is None and args.namespace is None and args.before is None:
        raise InputError(
            "expected --session, --namespace or --before, got none of them; forgetting all is said by name"
        )
    with open_store(args.history) as store:
        if args.namespace is not None:
            _check_namespace(store, args.namespace)
        report = store.forget(
            session=args.session, namespace=args.namespace, before=args.before, timeout=args.timeout
        )
    _say(f"{report.records:,} {'record' if report.records == 1 else 'records'} forgotten\n")
    if report.unacknowledged:
        processes = ", ".join(map(str, report.unacknowledged))
        sys.stderr.write(
            f"suffixspec: no answer from process {processes} within {args.timeout:g} s: it is stopped or busy. It "
            "drops its copy before its next draft.\n"
        )
        return 1
    return 0


def _check_namespace(store: HistoryStore, namespace: str) -> None:
    from suffixspec.errors import InputError

    names = store.names()
    if namespace not in names:
        known = ", ".join(map(repr, names[:20])) or "none"
        raise InputError(
            f"expected a namespace of this history ({known}), got {namespace!r}", path=str(store.path)
        )
