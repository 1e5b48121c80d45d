"""The ``suffixspec`` command. Parsing and ``--help`` import neither numba nor torch nor transformers."""

import argparse
import contextlib
import io
import os
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
  suffixspec serve                             a server for agents, by OpenAI's and Anthropic's APIs
  suffixspec chat                              talk with a small model, see what it copies
  suffixspec COMMAND --help                    explains a command, with examples
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser with all subcommands."""
    import suffixspec.engine.chat_command
    import suffixspec.engine.doctor_command
    import suffixspec.engine.generate_command
    import suffixspec.estimate
    import suffixspec.recorder.command
    import suffixspec.replay.command
    import suffixspec.server.command
    import suffixspec.store.command
    import suffixspec.store.index_command
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
    suffixspec.recorder.command.add_parser(subparsers)
    suffixspec.server.command.add_parser(subparsers)
    suffixspec.engine.chat_command.add_parser(subparsers)
    suffixspec.engine.generate_command.add_parser(subparsers)
    suffixspec.engine.doctor_command.add_parser(subparsers)
    suffixspec.store.command.add_parser(subparsers)
    suffixspec.store.index_command.add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status.

    0: done; 1: the system failed us (a full disk); 2: bad input or usage; 130: interrupted.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name from a trace must not stop the output on a terminal that cannot show it.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            return _run(argv)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # here, where a failure can be told, and not when Python exits
    except BrokenPipeError:
        # The reader of our output went away (``| head``): it has seen enough, which is not an error.
        _discard_output()
        return 0
    except OSError as error:
        _discard_output()
        print(f"suffixspec: {error}", file=sys.stderr)
        return 1


def _run(argv: Sequence[str] | None) -> int:
    from suffixspec.errors import SuffixspecError

    args = build_parser().parse_args(argv)
    try:
        return int(args.run(args))
    except SuffixspecError as error:
        print(f"suffixspec: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("suffixspec: interrupted", file=sys.stderr)
        return 130
    except SystemExit as ending:
        raise BrokenPipeError from ending  # no command ends like this but rich, when its reader went away


def _discard_output() -> None:
    """Drop what stdout still holds where it cannot be written, so that Python does not try again at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
