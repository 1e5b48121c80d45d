"""The ``suffixspec`` command. Parsing and ``--help`` import neither numba nor torch nor transformers."""

import argparse
import sys
from collections.abc import Sequence

from suffixspec import __version__

_DESCRIPTION = """\
suffixspec makes agent loops faster without a draft model: most of what an agent writes it has read or
written before, so a suffix tree proposes it and the target model checks the whole proposal in one pass.
"""

_EPILOG = """\
start here:
  suffixspec replay traces/swebench.jsonl      how much faster would this recorded loop run?
  suffixspec COMMAND --help                    explains a command, with examples
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser with all subcommands."""
    import suffixspec.estimate
    import suffixspec.replay.command
    import suffixspec.trace.convert

    parser = argparse.ArgumentParser(
        prog="suffixspec",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"suffixspec {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    suffixspec.replay.command.add_parser(subparsers)
    suffixspec.trace.convert.add_parser(subparsers)
    suffixspec.estimate.add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status: 0 done, 2 bad input or usage, 130 interrupted."""
    args = build_parser().parse_args(argv)
    from suffixspec.errors import SuffixspecError

    try:
        return int(args.run(args))
    except SuffixspecError as error:
        print(f"suffixspec: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("suffixspec: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away (``| head``): not an error, but nothing more can be printed.
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())
