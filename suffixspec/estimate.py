"""``suffixspec estimate``: what speculation can gain, worked out without a model or a trace."""

import argparse
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from suffixspec.errors import SuffixspecError

if TYPE_CHECKING:
    from rich.console import Console

_GAMMAS = (1, 2, 3, 4, 5, 7, 10, 16, 32)
"""Draft lengths that the table shows beside the chosen one."""

_LONGEST_SEARCH = 1_000_000

_DESCRIPTION = """\
How much faster would decoding be with speculation, and how fast can it be without?

Give alpha (how often a drafted token is right) to see the speed-up of each draft length, and the best
one. Give the model's size and the memory bandwidth to see the least time that a token can take. Give both
to see the two together.
"""

_EPILOG = """\
examples:
  A draft model that is right 3 times out of 4 and takes 2 % of a target forward per token:
    suffixspec estimate --alpha 0.75 --gamma 7 --c 0.02        speed-up 3.16x
  The same, with the best draft length looked for:
    suffixspec estimate --alpha 0.75 --c 0.02
  A drafter without a model (c = 0), whose replay gave 2.4 tokens per step with chains of 5:
    suffixspec estimate --tokens-per-step 2.4 --gamma 5
  The memory floor of a 70B model in bf16 on an H100, plain and with speculation:
    suffixspec estimate --params 70e9 --bandwidth 3.35e12 --alpha 0.8 --gamma 5

words:
  alpha   probability that a drafted token is accepted given that the one before it was
  gamma   draft length in tokens; a forward then emits between 1 and gamma + 1 tokens
  c       time to draft one token / time of one target forward; about 0 for suffixspec's own drafters
  E[T]    expected tokens per forward, (1 - alpha^(gamma+1)) / (1 - alpha)

The formulas are those of Leviathan et al. (2023), who take a forward over a draft to be as long as one over
a single token. That holds on a GPU at batch 1; elsewhere, replay a trace with the target's own cost curve:
suffixspec replay TRACE --cost cpu.
"""


@dataclass(frozen=True, slots=True)
class _Row:
    """One draft length."""

    gamma: int
    tokens: float
    speedup: float
    operations: float


@dataclass(frozen=True, slots=True)
class _Speculation:
    """The answer for one alpha, c and c_hat."""

    alpha: float
    c: float
    c_hat: float
    chosen: _Row
    best: _Row
    pays: bool
    unlimited: bool
    """No draft length is the best one: every longer draft is better."""
    open_ended: bool
    """The best length lies beyond ``max_gamma``, or nowhere: ``best`` is the best that was looked at."""
    max_gamma: int
    searched: bool
    """The chosen draft length was looked for, not given."""
    rows: tuple[_Row, ...]

    def to_json(self) -> dict[str, object]:
        return {
            "alpha": self.alpha,
            "c": self.c,
            "c_hat": self.c_hat,
            "gamma": self.chosen.gamma,
            "expected_tokens": self.chosen.tokens,
            "speedup": self.chosen.speedup,
            "operations_growth": self.chosen.operations,
            "pays": self.pays,
            "best_gamma": None if self.open_ended else self.best.gamma,
            "best_speedup": None if self.open_ended else self.best.speedup,
        }


@dataclass(frozen=True, slots=True)
class _Memory:
    """The least time per token that the memory allows."""

    params: float
    bytes_per_param: float
    bandwidth: float
    weight_bytes: float
    plain_ms: float
    speculative_ms: float | None

    def to_json(self) -> dict[str, object]:
        return {
            "params": self.params,
            "bytes_per_param": self.bytes_per_param,
            "bandwidth": self.bandwidth,
            "weight_bytes": self.weight_bytes,
            "ms_per_token": self.plain_ms,
            "tokens_per_second": 1e3 / self.plain_ms,
            "ms_per_token_speculative": self.speculative_ms,
        }


def add_parser(subparsers: "argparse._SubParsersAction[Any]") -> argparse.ArgumentParser:
    """Add ``estimate`` to the command line. Its options are read by ``run``."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "estimate",
        help="work out speed-up, best draft length and memory floor from a formula",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    draft = parser.add_argument_group("speculation")
    rate = draft.add_mutually_exclusive_group()
    rate.add_argument("--alpha", type=float, metavar="A", help="acceptance probability per token, 0 to 1")
    rate.add_argument(
        "--tokens-per-step",
        type=float,
        metavar="TAU",
        help="instead of --alpha: measured tokens per forward of chains of --gamma tokens",
    )
    draft.add_argument("--gamma", type=int, metavar="G", help="draft length (default: the best one)")
    draft.add_argument(
        "--c",
        type=float,
        metavar="C",
        default=0.0,
        help="drafting time per token / forward time (default: 0)",
    )
    draft.add_argument(
        "--c-hat",
        type=float,
        metavar="C",
        default=0.0,
        help="arithmetic per drafted token / per target token (default: 0)",
    )
    draft.add_argument(
        "--max-gamma",
        type=int,
        metavar="G",
        default=64,
        help="longest draft in the search for the best one (default: 64)",
    )
    memory = parser.add_argument_group("memory floor")
    memory.add_argument(
        "--params", type=float, metavar="N", help="parameters that a token uses, such as 70e9"
    )
    memory.add_argument(
        "--bandwidth", type=float, metavar="B", help="bytes per second, such as 3.35e12 (H100)"
    )
    memory.add_argument(
        "--bytes-per-param", type=float, metavar="B", default=2.0, help="2 for bf16 (default), 0.5 for 4-bit"
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the estimate that ``args`` (from ``add_parser``) ask for on stdout; returns the exit code 0.

    Raises:
        SuffixspecError: a value is out of range or a needed option is missing.
    """
    try:
        speculation = _speculation(args)
        memory = _memory(args, speculation)
    except (ValueError, OverflowError) as error:
        raise SuffixspecError(str(error)) from error
    if speculation is None and memory is None:
        raise SuffixspecError(
            "expected --alpha (or --tokens-per-step), or --params with --bandwidth, got neither; "
            "see 'suffixspec estimate --help' for examples"
        )
    if args.output == "json":
        import json

        answer: dict[str, object] = {"version": 1}
        answer |= {"speculation": speculation.to_json()} if speculation else {}
        answer |= {"memory": memory.to_json()} if memory else {}
        sys.stdout.write(json.dumps(answer, indent=2, allow_nan=False) + "\n")
        return 0

    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False, markup=False)
    if speculation:
        _print_speculation(console, speculation)
    if memory:
        _print_memory(console, memory, speculation)
    return 0


def _speculation(args: argparse.Namespace) -> _Speculation | None:
    from suffixspec import analysis

    alpha = args.alpha
    if args.tokens_per_step is not None:
        if args.gamma is None:
            raise SuffixspecError(
                "expected --gamma with --tokens-per-step (how long were the drafted chains?), got none"
            )
        alpha = float(analysis.alpha_from_tokens(args.tokens_per_step, args.gamma))
    if alpha is None:
        if args.gamma is not None:
            raise SuffixspecError("expected --alpha or --tokens-per-step with --gamma, got neither")
        return None

    def row(gamma: int) -> _Row:
        return _Row(
            gamma,
            float(analysis.expected_tokens(alpha, gamma)),
            float(analysis.speedup(alpha, gamma, args.c)),
            float(analysis.operations_growth(alpha, gamma, args.c_hat)),
        )

    if args.max_gamma > _LONGEST_SEARCH:
        raise SuffixspecError(f"expected --max-gamma of at most {_LONGEST_SEARCH}, got {args.max_gamma}")
    best = row(int(analysis.best_gamma(alpha, args.c, max_gamma=args.max_gamma)))
    chosen = best if args.gamma is None else row(args.gamma)
    gammas = sorted({*_GAMMAS, chosen.gamma, best.gamma} - {0})
    return _Speculation(
        alpha=alpha,
        c=args.c,
        c_hat=args.c_hat,
        chosen=chosen,
        best=best,
        pays=bool(analysis.pays(alpha, args.c)),
        unlimited=bool(analysis.is_unlimited(alpha, args.c)),
        open_ended=bool(
            analysis.is_unlimited(alpha, args.c)
            or analysis.speedup(alpha, args.max_gamma + 1, args.c) > best.speedup
        ),
        max_gamma=args.max_gamma,
        searched=args.gamma is None,
        rows=tuple(row(gamma) for gamma in gammas),
    )


def _memory(args: argparse.Namespace, speculation: _Speculation | None) -> _Memory | None:
    from suffixspec import analysis

    if args.params is None and args.bandwidth is None:
        return None
    if args.params is None or args.bandwidth is None:
        missing, given = (
            ("--bandwidth", "--params") if args.bandwidth is None else ("--params", "--bandwidth")
        )
        raise SuffixspecError(f"expected {missing} with {given}, got none")
    floor = float(analysis.memory_floor_ms(args.params, args.bandwidth, bytes_per_param=args.bytes_per_param))
    return _Memory(
        params=args.params,
        bytes_per_param=args.bytes_per_param,
        bandwidth=args.bandwidth,
        weight_bytes=float(analysis.weight_bytes(args.params, bytes_per_param=args.bytes_per_param)),
        plain_ms=floor,
        speculative_ms=floor / speculation.chosen.speedup if speculation else None,
    )


def _print_speculation(console: "Console", s: _Speculation) -> None:
    from rich.table import Table

    title = f"Speculation at alpha = {s.alpha:.4g}, c = {s.c:.4g}"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2))
    for heading in ("draft length", "tokens per forward", "speed-up", "operations"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for row in s.rows:
        notes = ["best"] * (row.gamma == s.best.gamma and not s.open_ended)
        notes += ["given"] * (row.gamma == s.chosen.gamma and not s.searched)
        table.add_row(
            str(row.gamma),
            f"{row.tokens:.2f}",
            f"{row.speedup:.2f}x",
            f"{row.operations:.2f}x",
            ", ".join(notes),
            style="bold" if row.gamma == s.chosen.gamma else "",
        )
    console.print(table)
    console.print()
    console.print(_verdict(s), soft_wrap=True)


def _verdict(s: _Speculation) -> str:
    if not s.pays:
        return (
            f"No draft pays: alpha = {s.alpha:.4g} does not exceed c = {s.c:.4g}, so drafting a token costs "
            "at least what it saves. Plain decoding is the fastest."
        )
    gives = "give" if s.chosen.speedup >= 1 else "would slow decoding down to"
    answer = (
        f"Drafts of {s.chosen.gamma} {gives} {s.chosen.speedup:.2f}x: {s.chosen.tokens:.2f} tokens per "
        f"forward, for {s.chosen.operations:.2f}x the arithmetic per token."
    )
    if s.unlimited:
        reason = "drafting is free (c = 0)" if s.c == 0 else "nothing is rejected (alpha = 1)"
        limit = "" if s.alpha == 1 else f", towards {1 / (1 - s.alpha):.2f}x"
        return f"{answer} As {reason}, every longer draft helps{limit}."
    if s.open_ended:
        return f"{answer} Drafts longer than --max-gamma {s.max_gamma} would be faster still."
    if s.chosen.gamma == s.best.gamma:
        return f"{answer} No other draft length is faster."
    return f"{answer} The best are drafts of {s.best.gamma}: {s.best.speedup:.2f}x."


def _print_memory(console: "Console", m: _Memory, s: _Speculation | None) -> None:
    if s:
        console.print()
    console.print(
        f"Memory floor: {m.params / 1e9:.4g} billion parameters of {m.bytes_per_param:.3g} bytes are "
        f"{_si(m.weight_bytes)}B; at {_si(m.bandwidth)}B/s a forward takes at least {m.plain_ms:.3g} ms.",
        soft_wrap=True,
    )
    console.print(f"Plain decoding: at least {m.plain_ms:.3g} ms per token, {1e3 / m.plain_ms:.3g} tokens/s.")
    if s and m.speculative_ms:
        console.print(
            f"With drafts of {s.chosen.gamma}: at least {m.speculative_ms:.3g} ms per token, "
            f"{1e3 / m.speculative_ms:.3g} tokens/s."
        )


def _si(value: float) -> str:
    """A number with three digits and an SI prefix, such as ``140 G``."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {prefix}"
    return f"{value:.3g} "
