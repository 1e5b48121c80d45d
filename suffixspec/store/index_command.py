"""``suffixspec index``: a repository's files as draft material."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from suffixspec.store.options import SAVED, add_eviction_option, budget_of, history_folder

if TYPE_CHECKING:
    from suffixspec.store.history_store import HistoryStore
    from suffixspec.store.repository import Repository

_DESCRIPTION = """\
Put the text files of a repository into a history, so that a model's first edit of a file is drafted from it. Run it
again after changes: only files whose content changed are read in, and what is gone from the folder is taken out.
"""

_EPILOG = """\
examples:
  suffixspec index .
      this repository, into this user's history
  suffixspec index ~/src/project --history history/ --namespace project
      then: suffixspec replay loop.jsonl --history history/, with sessions of that namespace
  suffixspec history forget --namespace project
      take it out again, with all that was kept in that namespace

Ignored by git is ignored here; without git, .gitignore files are read. Binary files, large ones, links and files that
usually hold keys (.env, *.pem, ...) are left out, and counted.
"""


def add_parser(subparsers: Any) -> None:
    """Register the subcommand."""
    parser = subparsers.add_parser(
        "index",
        help="put a repository's files into a history, to draft from",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", metavar="PATH", help="folder of the repository")
    parser.add_argument(
        "--history", default=SAVED, metavar="FOLDER", help="folder of the history (default: this user's)"
    )
    add_eviction_option(parser)
    parser.add_argument("--namespace", default="default", metavar="NAME", help="default: default")
    parser.add_argument(
        "--tokenizer",
        metavar="ID|PATH",
        help="of the model: a folder, a file or a hub id (default: SmolLM2's)",
    )
    parser.add_argument(
        "--max-kib",
        type=_positive,
        default=256,
        metavar="N",
        help="leave out larger files (default: 256 KiB)",
    )
    parser.set_defaults(run=run)


@dataclass(frozen=True, slots=True)
class Indexed:
    """What an indexing changed."""

    added: int
    changed: int
    removed: int
    unchanged: int
    tokens: int


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status.

    Raises:
        InputError: no such folder, or no history there.
    """
    from suffixspec.store.history_store import HistoryStore
    from suffixspec.store.repository import Repository
    from suffixspec.text.tokenizer import load_tokenizer

    repository = Repository(args.path, most_bytes=args.max_kib << 10)
    with HistoryStore(
        history_folder(args.history),
        tokenizer=load_tokenizer(args.tokenizer),
        budget=budget_of(args, kept=True),
    ) as store:
        started = time.perf_counter()
        done = index(store, args.namespace, repository)
        seconds = time.perf_counter() - started
    sys.stdout.write(
        f"{repository.root}: {done.added:,} files added, {done.changed:,} changed, {done.removed:,} removed, "
        f"{done.unchanged:,} unchanged; {done.tokens:,} tokens written in {seconds:.1f} s\n"
    )
    skipped = repository.skipped
    for why, paths in (
        (f"larger than {args.max_kib} KiB", skipped.large),
        ("binary", skipped.binary),
        ("named like a key", skipped.secret),
        ("unreadable", skipped.unreadable),
    ):
        if paths:
            sys.stdout.write(f"left out, {why}: {len(paths):,}\n")
    return 0


def index(store: HistoryStore, namespace: str, repository: Repository) -> Indexed:
    """Bring the files of a repository in a namespace up to date, and seal them.

    A file that changed replaces its old text on disk; processes that have read that keep it until they end.

    Cost: reads every file, and the namespace once; encodes what changed, about 2 MB of text a second.
    """
    from suffixspec.store.namespace_log import as_array
    from suffixspec.store.record import Record

    store.admit(namespace)
    log = store.log(namespace)
    log.seal()
    prefix = f"file:{repository.root}/"
    known = {
        record.session: record.digest
        for record in store.records(namespace)
        if record.kind == "file" and record.session.startswith(prefix)
    }
    fresh: list[Record] = []
    seen: set[str] = set()
    for file in repository.files():
        name = prefix + file.path
        seen.add(name)
        if known.get(name) == file.digest:
            continue
        assert store.tokenizer is not None
        tokens = as_array(store.tokenizer.encode(file.text, continues=True))
        fresh.append(Record(name, tokens, time=time.time(), text=file.text, kind="file", digest=file.digest))
    gone = known.keys() - seen
    stale = gone | {record.session for record in fresh if record.session in known}
    if stale:
        with log.lock:
            log.rewrite(lambda record: record.session not in stale)
    if fresh:
        store.append(namespace, fresh)
    store.seal(namespace)
    changed = len(stale) - len(gone)
    tokens_written = sum(len(record.tokens) for record in fresh)
    return Indexed(len(fresh) - changed, changed, len(gone), len(seen) - len(fresh), tokens_written)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return int(text)
