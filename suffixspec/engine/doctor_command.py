"""``suffixspec doctor``: what a model runs on, what its forwards cost, and what follows from it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from suffixspec.engine.options import add_model_options, load_engine

if TYPE_CHECKING:
    from suffixspec.engine.engine import Engine

_DESCRIPTION = """\
Load a model, measure t(n), the time of a forward over n tokens, and say what is on and why.
"""

_EPILOG = """\
examples:
  suffixspec doctor
      the default model, SmolLM2-135M-Instruct
  suffixspec doctor Qwen/Qwen2.5-Coder-7B-Instruct --dtype bfloat16 --device cuda
"""
_PROBS = (0.9, 0.7, 0.5)


def add_parser(subparsers: Any) -> None:
    """Register the subcommand."""
    parser = subparsers.add_parser(
        "doctor",
        help="measure a model on this machine and say what drafting is worth",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="folder or hub id (default: SmolLM2-135M-Instruct)"
    )
    add_model_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status.

    Raises:
        SuffixspecError: no such model, or one that cannot be verified.
    """
    from suffixspec.text.visible import visible

    engine = load_engine(args)
    for line in report(engine, drafting=not args.no_draft):
        sys.stdout.write(visible(line) + "\n")
    return 0


def report(engine: Engine, *, drafting: bool = True) -> list[str]:
    """The lines of the report."""
    import torch
    import transformers

    target = engine.target
    rows = [
        ("model", target.name),
        ("device", _device(target.device)),
        ("dtype", str(target.dtype).removeprefix("torch.")),
        ("attention", target.attention),
        ("layers", str(target.n_layers)),
        ("vocabulary", f"{target.vocab_size:,}"),
        ("context", f"{target.max_positions:,} tokens"),
        ("padding", f"widths {', '.join(map(str, target.buckets))}" if target.buckets else "none"),
        (
            "KV",
            f"{target.slot_bytes:,} bytes a token; budget {engine.branches.budget_bytes / (1 << 30):.2f} GiB",
        ),
        ("threads", str(torch.get_num_threads())),
        ("versions", f"torch {torch.__version__}, transformers {transformers.__version__}"),
    ]
    lines = [f"{name:<11} {value}" for name, value in rows]
    return [*lines, "", *_cost_lines(engine, drafting=drafting)]


def _device(device: Any) -> str:
    import torch

    return f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else str(device)


def _cost_lines(engine: Engine, *, drafting: bool) -> list[str]:
    from suffixspec.cost import best_prefix

    if not drafting:
        return ["drafting    off: asked for"]
    cost = engine.control.cost
    if cost is None:
        return ["drafting    on, everything found is checked: t(n) was not measured"]
    behind = " ".join(f"{f'{length:,}':>16}" for length, _ in cost.curves)
    lines = [
        "t(n)        ms of a forward over n tokens, a draft of n - 1 nodes among them, and in plain steps",
        f"{'context':>11} {behind}",
    ]
    for n in (n for n, _ in cost.curves[0][1].points if n <= engine.max_nodes + 1):
        cells = (f"{curve.ms(n):9.2f} {curve.ms(n) / curve.t1_ms:5.2f}x" for _, curve in cost.curves)
        lines.append(f"{n:>11} {' '.join(cells)}")
    shortest, curve = cost.curves[0]
    table = curve.table(engine.max_nodes)
    lines += ["", f"behind {shortest:,} tokens:"]
    pays = False
    for prob in _PROBS:
        probs = [prob ** (i + 1) for i in range(engine.max_nodes)]
        nodes = best_prefix(probs, table)
        if nodes == 0:
            lines.append(f"a path whose tokens are accepted with {prob:.0%} each: plain steps, no draft pays")
            continue
        pays = True
        gain = (1 + sum(probs[:nodes])) / float(table[nodes])
        lines.append(
            f"a path whose tokens are accepted with {prob:.0%} each: {nodes} nodes, {gain:.2f}x plain decoding"
        )
    sure = max((k + 1) / float(table[k]) for k in range(len(table)))
    lines.append(f"a text that repeats exactly: {sure:.2f}x at most")
    state = "on: drafts pay where text repeats" if pays or sure > 1 else "on, and no draft will ever pay here"
    lines.append(
        f"drafting    {state}; drafts are as wide as t(n) makes worth while, {engine.max_nodes} nodes at most"
    )
    return lines
