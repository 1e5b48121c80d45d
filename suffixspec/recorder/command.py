"""``suffixspec record``: the recording proxy on a port."""

from __future__ import annotations

import argparse
import contextlib
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suffixspec.recorder.writer import Recorder

_DESCRIPTION = """\
Record an agent's model calls: a proxy that passes every request on to a server and every answer back as it
comes, and appends the calls of OpenAI's and Anthropic's APIs to a file, one JSON line each.
"""

_EPILOG = """\
examples:
  suffixspec record --upstream http://127.0.0.1:8000/v1 --output calls.jsonl
      then point the agent at http://127.0.0.1:8001/v1 instead (OPENAI_BASE_URL; for Anthropic's API
      ANTHROPIC_BASE_URL=http://127.0.0.1:8001)
  suffixspec record --upstream https://api.example.com/v1 --redact 'sk-[A-Za-z0-9]+'
  suffixspec replay calls.jsonl
      how much faster would these loops run?
  suffixspec convert calls.jsonl -o loops.jsonl.zst
      the calls, joined into sessions

Keys pass and are never written: of the headers only session ids are recorded, fields like api_key are left
out of the bodies, and a key that the client sent is taken out wherever a conversation or an error repeats it.
What the conversations say is written as it is, but for --redact. The file belongs to its owner alone, only
grows, and survives a crash; several processes may append to it.
"""


def add_parser(subparsers: Any) -> None:
    """Register the subcommand."""
    parser = subparsers.add_parser(
        "record",
        help="record an agent's model calls through a proxy",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--upstream", required=True, metavar="URL", help="the server that does the work")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="NAME", help="default: 127.0.0.1, this machine only"
    )
    parser.add_argument(
        "--port", type=_port, default=8001, metavar="N", help="default: 8001; 0 takes a free one"
    )
    parser.add_argument(
        "--output",
        "-o",
        default="suffixspec-calls.jsonl",
        metavar="FILE",
        help="appended to (default: suffixspec-calls.jsonl)",
    )
    parser.add_argument(
        "--redact", action="append", default=[], metavar="REGEX", help="write [redacted] for what matches"
    )
    parser.add_argument("--fsync", action="store_true", help="wait after every call until it is on the disk")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command until it is interrupted; return the exit status.

    Raises:
        InputError: no URL, a file that cannot be written, a port that is taken.
        MissingExtraError: without the extra ``serve``.
    """
    from importlib.util import find_spec

    from suffixspec.errors import MissingExtraError

    for package in ("httpx", "uvicorn"):
        if find_spec(package) is None:
            raise MissingExtraError(
                f"expected the package {package} for the proxy, got none; pip install 'suffixspec[serve]'"
            )
    from suffixspec.recorder.writer import Recorder

    with Recorder(args.output, redact=args.redact, fsync=args.fsync) as recorder:
        return _serve(args, recorder)


def _serve(args: argparse.Namespace, recorder: Recorder) -> int:
    import uvicorn

    from suffixspec.errors import InputError
    from suffixspec.recorder.proxy import Proxy
    from suffixspec.text.visible import note

    proxy = Proxy(args.upstream, recorder)
    try:
        family = socket.AF_INET6 if ":" in args.host else socket.AF_INET
        listener = socket.create_server((args.host, args.port), family=family, backlog=128)
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"expected a free port {args.port} on {args.host}, got: {getattr(error, 'strerror', None) or error}; "
            "choose another --port or --host"
        ) from None
    with listener:
        name = f"[{args.host}]" if ":" in args.host else args.host
        where = f"http://{name}:{listener.getsockname()[1]}"
        note(
            f"recording to {args.output}; point the agent at {where}/v1 (Anthropic's API: {where}); Ctrl-C ends it"
        )
        config = uvicorn.Config(
            proxy, log_level="warning", access_log=False, server_header=False, date_header=False, ws="none",
            timeout_graceful_shutdown=3,
        )  # fmt: skip
        with contextlib.suppress(KeyboardInterrupt):  # which uvicorn passes on when it is done
            uvicorn.Server(config).run(sockets=[listener])
    note(f"{proxy.recorded:,} {'call' if proxy.recorded == 1 else 'calls'} recorded")
    return 0


def _port(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r}")
    return value
