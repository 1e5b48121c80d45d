"""Command-line options that the commands with a model share. Imports nothing heavy."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from suffixspec.store.options import budget_of, history_folder
from suffixspec.text.visible import note

if TYPE_CHECKING:
    from suffixspec.engine.engine import Engine
    from suffixspec.engine.reply import Reply

_MOST_NODES = 1024  # as ``native.draft.POOL``, which is not imported for --help


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """How a model is loaded and drafted for."""
    group = parser.add_argument_group("model")
    add_device_options(group)
    group.add_argument("--attn", metavar="NAME", help="attention implementation of transformers: sdpa, eager")
    group.add_argument(
        "--max-nodes", type=nodes, default=32, metavar="N", help="most nodes of a draft (default: 32)"
    )
    group.add_argument(
        "--kv-gib", type=_gib, metavar="X", help="memory for KV, in GiB (default: a third of what is free)"
    )
    group.add_argument("--no-draft", action="store_true", help="plain decoding, through the same code")
    group.add_argument(
        "--prior",
        choices=("python", "none"),
        default="python",
        help="what may be drafted from where nothing was read or written before: the sources of Python and of the"
        " packages that suffixspec requires, indexed once per tokenizer (half a minute), or nothing"
        " (default: python)",
    )


def add_device_options(group: argparse._ArgumentGroup) -> None:
    """Where a model runs, and in which type."""
    group.add_argument(
        "--device", metavar="NAME", help="cpu, cuda, cuda:1 … (default: a GPU where there is one)"
    )
    group.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "float16", "float64"),
        help="type of the weights (default: float32 on a CPU, else the model's own)",
    )


def add_sampling_options(parser: argparse.ArgumentParser, *, max_tokens: int) -> None:
    """How tokens are chosen, and where the output ends."""
    group = parser.add_argument_group("sampling")
    group.add_argument(
        "--max-tokens", type=positive, default=max_tokens, metavar="N", help=f"default: {max_tokens}"
    )
    group.add_argument("--temperature", type=float, default=0.0, metavar="T", help="default: 0, greedy")
    group.add_argument("--top-p", type=float, default=1.0, metavar="P", help="default: 1, all tokens")
    group.add_argument("--top-k", type=int, default=0, metavar="K", help="default: 0, all tokens")
    group.add_argument("--min-p", type=float, default=0.0, metavar="P", help="default: 0, all tokens")
    group.add_argument("--seed", type=int, metavar="N", help="the same seed gives the same output")
    group.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end before this text")


def sampling_of(args: argparse.Namespace) -> dict[str, Any]:
    """The sampling options as arguments of ``Session.chat``.

    Raises:
        InputError: one is out of its range.
    """
    from suffixspec.errors import InputError
    from suffixspec.verify.sampling import SamplingParams

    options = {
        name: getattr(args, name)
        for name in ("max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "stop")
    }
    try:
        SamplingParams(**options)
    except ValueError as error:
        raise InputError(str(error)) from error
    return options


def load_engine(args: argparse.Namespace, **more: Any) -> Engine:
    """The engine that the options ask for; says on stderr what takes time."""
    from suffixspec.engine.engine import Engine

    kept = getattr(args, "history", None)
    budget = budget_of(args, kept=kept is not None)
    note(f"loading {args.model or 'SmolLM2-135M-Instruct'}")
    return Engine.from_pretrained(
        args.model,
        device=args.device,
        dtype=args.dtype,
        attn=args.attn,
        max_nodes=args.max_nodes,
        measure=not args.no_draft,
        prior=args.prior == "python" and not args.no_draft,
        kv_bytes=None if args.kv_gib is None else int(args.kv_gib * (1 << 30)),
        history_store=None if kept is None else history_folder(kept),
        history_budget=budget,
        **more,
    )


def figures(reply: Reply) -> str:
    """One line about how a reply was made."""
    counts, timings = reply.counts, reply.timings
    decode = max(timings.decode, 1e-9)
    cached = f"{reply.cached_tokens:,} cached, {counts.prefilled:,} prefilled in {timings.prefill:.2f} s"
    return (
        f"prompt {reply.prompt_tokens:,} tokens ({cached}); output {len(reply.token_ids):,} tokens in "
        f"{timings.decode:.2f} s ({len(reply.token_ids) / decode:.1f}/s), {counts.steps:,} steps, "
        f"{reply.tokens_per_step:.2f} tokens a step, {counts.accepted:,} of {counts.drafted:,} drafted accepted"
    )


def prefill_progress() -> Callable[[int, int], None] | None:
    """Shows how far a long prompt is, on a terminal; None elsewhere."""
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        ends = done >= total - 1
        sys.stderr.write("\r\033[K" if ends else f"\rreading {done:,} of {total:,} tokens")
        sys.stderr.flush()

    return show


def positive(text: str) -> int:
    """An argument that is a whole number from 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return value


def nodes(text: str) -> int:
    """An argument that is a number of draft nodes."""
    value = positive(text)
    if value > _MOST_NODES:
        raise argparse.ArgumentTypeError(f"expected at most {_MOST_NODES} nodes, got {value}")
    return value


def _gib(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"expected a number of GiB above 0, got {text!r}")
    return value
