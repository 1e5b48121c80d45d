"""``suffixspec replay``: how much faster would this recorded agent loop run?"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import stat
import sys
from pathlib import Path
from typing import Any

from suffixspec.cost import NAMES as COST_NAMES
from suffixspec.engine.options import add_device_options, nodes, positive
from suffixspec.replay.decode import (
    DRAFTERS,
    decode,
    drafter_names,
    load_prior,
    make_drafter,
    peers,
    rendered,
)
from suffixspec.replay.peers import PEERS
from suffixspec.store.options import HistoryAction, add_eviction_option, budget_of, history_folder

_DESCRIPTION = """\
Decode recorded agent loops again, token by token, with a drafter and without a model: the recorded text
decides what is accepted. Prints how much faster the loop would run, and why.
"""

_EPILOG = """\
examples:
  suffixspec replay traces/swebench.jsonl
      one trace, the default drafter, the cost of a GPU at batch 1
  suffixspec replay traces/swebench.jsonl --drafter all --cost cpu --report report.html
      every drafter, the cost of a small model on a CPU, and a page to look at
  suffixspec replay traces/swebench.jsonl --compare prompt-lookup,vllm-ngram,automaton
      other model-free drafters beside ours: same tokens, same acceptance rule, same number of nodes
  suffixspec replay today.jsonl --warm yesterday.jsonl
      what a history of yesterday's sessions is worth today
  suffixspec replay today.jsonl --history history/
      the same from one run to the next: outputs are kept in a folder (suffixspec history --help)
  suffixspec replay run.traj.json ~/.claude/projects/*/*.jsonl -o json
      logs of agents are read as they are (see suffixspec convert --help); JSON on stdout
  suffixspec replay traces/swebench.jsonl --limit 10 --turns 8 --forced --model
      the recorded text decides and a model pays: measured times beside the modelled ones

words:
  tokens per step   tokens that one forward of the target yields: accepted draft tokens and one of its own
  history           off: every turn stands alone; session: the index is carried over a session's turns;
                    namespace: the outputs of earlier sessions are drafted from as well; a folder (or 'saved',
                    this user's): they are kept in it, and those of earlier runs are drafted from too
  cost              t(n), the time of a forward over n tokens; decides how many nodes pay, and the speed-up

several processes (--jobs N):
  Each process has an index, a history and a calibration of its own, so a session is drafted from fewer earlier
  ones than with --jobs 1; figures depend on N, and not on which process is faster (measured times do). With
  --history FOLDER the processes share that folder: each reads, before a session, what the others have finished
  until then, and figures differ a little from run to run. --warm is decoded by every process. Memory grows with N.

peers of --compare, with their options (NAME:OPTION=VALUE:OPTION=VALUE…; what they are by default without):
PEERS
  Peers draft what their rule says, up to --max-nodes: only ours looks at the cost. 'arctic' needs a package that
  is compiled when it is installed; the message of a run without it says how. It registers every prompt anew, as
  in serving: see 'drafting and indexing per output token'.
"""


def add_parser(subparsers: Any) -> None:
    """Register the subcommand."""
    parser = subparsers.add_parser(
        "replay",
        help="measure drafters on recorded agent loops, without a model",
        description=_DESCRIPTION,
        epilog=_EPILOG.replace("PEERS", "\n".join(f"  {name:<16}{about}" for name, about in PEERS.items())),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="trace or agent log; plain, .gz or .zst")
    parser.add_argument(
        "--drafter",
        action="append",
        choices=(*DRAFTERS, "all"),
        help="what proposes the drafts (default: suffix); may be given more than once",
    )
    parser.add_argument(
        "--compare",
        action="append",
        default=[],
        metavar="PEER,…",
        help=f"show other drafters beside ours: {', '.join(PEERS)} (see below)",
    )
    parser.add_argument(
        "--max-nodes", type=nodes, default=32, metavar="N", help="most nodes of a draft (default: 32)"
    )
    parser.add_argument(
        "--cost",
        default="gpu",
        metavar="CURVE",
        help=f"what the target's forwards cost: {', '.join(COST_NAMES)}, or a JSON file of measured points"
        " (default: gpu)",
    )
    parser.add_argument(
        "--tokenizer",
        metavar="ID|PATH",
        help="tokenizer and chat template: a folder, a file or a hub id (default: SmolLM2's, offline)",
    )
    parser.add_argument(
        "--history",
        action=HistoryAction,
        default="namespace",
        metavar="MODE|FOLDER",
        help="what a draft may be copied from besides the turn's own context: off, session, namespace (the "
        "default), or a folder: as namespace, and the outputs are kept there for the next run",
    )
    parser.set_defaults(history_store=None)
    add_eviction_option(parser)
    parser.add_argument(
        "--prior",
        choices=("python", "none"),
        default="python",
        help="text that suffix drafters know from the start: the sources of Python and of the packages that"
        " suffixspec requires, indexed once per tokenizer (half a minute, 140 MB of cache), or nothing"
        " (default: python)",
    )
    parser.add_argument(
        "--warm",
        action="append",
        default=[],
        metavar="FILE",
        help="decode these sessions first, unmeasured, so that history and calibration are warm",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="stop after N sessions")
    parser.add_argument(
        "--jobs",
        type=positive,
        default=1,
        metavar="N",
        help="decode in N processes, session i in process i mod N (default: 1; see below)",
    )
    parser.add_argument("--skip-bad", action="store_true", help="pass over malformed sessions and count them")
    parser.add_argument(
        "-o", "--output", choices=("table", "json", "md", "csv"), default="table", help="form of the result"
    )
    parser.add_argument("--report", metavar="FILE.html", help="write one self-contained page with plots")
    _add_model_options(parser)
    parser.set_defaults(run=run)


def _add_model_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "with a model", "each turn is decoded twice, with drafts and plainly, in alternating order"
    )
    group.add_argument(
        "--model",
        nargs="?",
        const="",
        metavar="ID|PATH",
        help="decode with this model, the prompts from the trace (without a name: SmolLM2-135M-Instruct)",
    )
    group.add_argument("--forced", action="store_true", help="the recorded text decides, the model pays")
    group.add_argument("--turns", type=positive, metavar="N", help="the first N turns of each session")
    group.add_argument(
        "--max-tokens",
        type=positive,
        default=64,
        metavar="N",
        help="tokens of each output that the model decides (default: 64)",
    )
    group.add_argument(
        "--verify-lossless",
        action="store_true",
        help="compare what the model writes with plain decoding; ends with 1 if a difference is no near-tie",
    )
    add_device_options(group)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status.

    Raises:
        SuffixspecError: bad input; nothing has been written.
    """
    from suffixspec.cost import CostCurve
    from suffixspec.errors import InputError
    from suffixspec.replay.jobs import check_files, decode_in_parallel
    from suffixspec.replay.metrics import measure
    from suffixspec.replay.output import write_output
    from suffixspec.replay.progress import ReplayProgress
    from suffixspec.replay.report import write_report
    from suffixspec.replay.result import ReplayResult
    from suffixspec.text.tokenizer import load_tokenizer

    # What can be found wrong at once is not found after an hour's work.
    _check_options(args)
    cost = CostCurve.load(args.cost)
    names = drafter_names(args.drafter)
    compared = peers(args.compare, args.max_nodes, args.history)
    if args.jobs > 1:
        check_files([*args.warm, *args.paths])
    if args.report:
        _check_writable(args.report)
    if not args.skip_bad:
        for path in (*args.warm, *args.paths):
            _check_readable(path)
    if args.model is not None:
        return _run_with_model(args, names)
    with ReplayProgress() as progress:
        progress.note("loading the tokenizer")
        tokenizer = load_tokenizer(args.tokenizer)
        for sentence in tokenizer.traits.notes():
            progress.say(sentence)
        one = args.jobs == 1
        share = decode(args, tokenizer, cost, progress) if one else decode_in_parallel(args, progress)
    done, interrupted = share.done, share.interrupted
    if not done and not interrupted:
        raise InputError(
            f"expected at least one session, got none that can be replayed; {share.skipped} skipped"
        )
    result = ReplayResult(
        paths=list(args.paths),
        sessions=done,
        settings={
            "command": shlex.join(["suffixspec", *sys.argv[1:]]),
            "drafters": list(names),
            "compare": [peer.name for peer in compared],
            "max_nodes": args.max_nodes,
            "cost": args.cost,
            "cost_points": [list(point) for point in cost.points],
            "tokenizer": tokenizer.name,
            "tokenizer_fingerprint": tokenizer.fingerprint,
            "history": args.history,
            "history_store": args.history_store,
            "prior": args.prior,
            "warm": list(args.warm),
            "limit": args.limit,
            "skip_bad": args.skip_bad,
            "jobs": args.jobs,
        },
        drafters=share.results,
        skipped=share.skipped,
        interrupted=interrupted,
    )
    metrics = measure(result, cost)
    if (
        args.report
    ):  # first: where it fails, stdout stays empty, and a reader that stops early does not stop it
        write_report(args.report, result, metrics)
    write_output(metrics, args.output)
    if args.report:
        print(f"report: {args.report}", file=sys.stderr)
    return 130 if interrupted else 0


def _run_with_model(args: argparse.Namespace, names: tuple[str, ...]) -> int:
    """Decode with a model; return the exit status: 1 for a difference that is no near-tie, 130 interrupted."""
    from suffixspec.draft import IndexDrafter
    from suffixspec.engine.engine import Engine
    from suffixspec.errors import InputError
    from suffixspec.native.warm_up import warm_up
    from suffixspec.replay.progress import ReplayProgress
    from suffixspec.replay.simulate import Simulation, replay
    from suffixspec.replay.with_model import ModelReplay, lines
    from suffixspec.target.load import load_target

    interrupted = False
    replays: list[ModelReplay] = []
    folder = None if args.history_store is None else history_folder(args.history_store)
    budget = budget_of(args, kept=folder is not None)
    with ReplayProgress() as progress:
        progress.note("loading the model")
        target, tokenizer = load_target(args.model or None, device=args.device, dtype=args.dtype)
        for sentence in tokenizer.traits.notes():
            progress.say(sentence)
        progress.note("compiling the kernels (once on this machine)")
        warm_up()
        prior = load_prior(args.prior, names, tokenizer, progress)
        progress.note("measuring t(n)")
        cost = target.measure_cost()
        curve = cost.at(0)
        for name in names:
            drafter = make_drafter(
                name, max_nodes=args.max_nodes, cost=curve, history=args.history, prior=prior
            )
            engine = Engine(
                target,
                tokenizer,
                drafter=drafter,
                max_nodes=args.max_nodes,
                cost=cost,
                history_store=folder if isinstance(drafter, IndexDrafter) else None,
                history_budget=budget,
            )
            decoded = ModelReplay(
                engine,
                forced=args.forced,
                max_tokens=args.max_tokens,
                verify=args.verify_lossless,
                cost=cost,
                max_turns=args.turns,
            )
            replays.append(decoded)
            try:
                if args.warm:
                    sessions = rendered(args.warm, args, tokenizer, progress, limit=None)
                    progress.begin("warming up", 1)
                    _, interrupted = replay(
                        (session for _, session in sessions), [Simulation(drafter, curve)]
                    )
                progress.begin(f"decoding with {name}", 1)
                if not interrupted:
                    for _, session in rendered(args.paths, args, tokenizer, progress, limit=args.limit):
                        decoded.run(session)
            except KeyboardInterrupt:
                interrupted = True
            if interrupted:
                break
    figures = [decoded.figures() for decoded in replays]
    if not interrupted and not any(row["turns"] for row in figures):
        raise InputError(
            "expected at least one turn that fits into the model's context of "
            f"{target.max_positions:,} tokens, got none; {replays[0].dropped} turns dropped"
        )
    if args.output == "json":
        settings = {
            "command": shlex.join(["suffixspec", *sys.argv[1:]]),
            "model": target.name,
            "device": str(target.device),
            "dtype": str(target.dtype),
            "attention": target.attention,
            "max_positions": target.max_positions,
            "cost_points": {length: [list(point) for point in at.points] for length, at in cost.curves},
            "history": args.history,
            "max_nodes": args.max_nodes,
            "limit": args.limit,
            "turns": args.turns,
            "max_tokens": None if args.forced else args.max_tokens,
        }
        print(json.dumps({"settings": settings, "drafters": figures, "interrupted": interrupted}, indent=1))
    else:
        for line in lines(figures):
            print(line)
        dropped = figures[0]["dropped_turns"]
        if dropped:
            print(
                f"{dropped:,} turns dropped: longer than the model's context, {target.max_positions:,} tokens"
            )
    for decoded in replays:
        for check in decoded.checks:
            for sentence in check.sentences(decoded.engine)[:-1]:
                print(sentence, file=sys.stderr)
        if decoded.checks:
            row = decoded.figures()
            print(
                f"lossless, {row['drafter']}: {row['compared_tokens']:,} tokens compared with plain decoding, "
                f"{row['near_ties']} near-ties, {row['other_differences']} other differences",
                file=sys.stderr,
            )
    if interrupted:
        return 130
    return 1 if any(row["other_differences"] for row in figures) else 0


def _check_options(args: argparse.Namespace) -> None:
    """Raise InputError for options that do not go together."""
    from suffixspec.errors import InputError

    budget_of(args, kept=args.history_store is not None)
    if args.model is None:
        for name in ("forced", "verify_lossless", "turns", "device", "dtype"):
            if getattr(args, name):
                raise InputError(f"expected --model with --{name.replace('_', '-')}, got none")
        return
    if args.history_store is not None and len(drafter_names(args.drafter)) > 1:
        raise InputError(
            "expected one --drafter with --model and a folder of --history: they would read one another"
        )
    if args.jobs > 1:
        raise InputError("expected no --jobs with --model: its processes would share one machine's forwards")
    if args.compare:
        raise InputError("expected no --compare with --model: peers are replayed without one")
    if args.tokenizer:
        raise InputError("expected no --tokenizer with --model: the model's own is used")
    if args.report or args.output not in {"table", "json"}:
        raise InputError("expected -o table or -o json, and no --report, with --model")
    if args.forced and args.verify_lossless:
        raise InputError(
            "expected --verify-lossless without --forced: a recorded text is not the model's own"
        )


def _check_readable(path: str) -> None:
    """Raise InputError for a file that is not there or cannot be opened."""
    from suffixspec.trace.source import Source

    try:
        mode = Path(path).stat().st_mode
    except OSError:
        mode = stat.S_IFREG  # opening it says what is wrong
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # a pipe's bytes can be read once
        with Source(path):
            pass


def _check_writable(path: str) -> None:
    """Raise InputError where a report could not be written in the end."""
    from suffixspec.errors import InputError

    target = Path(path)
    try:
        folder = target.resolve().parent
        if target.is_dir():
            raise InputError("expected a file name for the report, got a directory", path=path)
        if not folder.is_dir():
            raise InputError("expected the report's folder to exist, got none; create it first", path=path)
        place = target if target.exists() and not target.is_file() else folder
        if not os.access(place, os.W_OK):
            raise InputError(
                "expected a place for the report that can be written, got no permission", path=path
            )
    except OSError as error:
        raise InputError(
            f"expected a report that can be written, got: {error.strerror}", path=path
        ) from error
