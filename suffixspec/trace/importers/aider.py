"""aider chat histories (``.aider.chat.history.md``)."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from suffixspec.trace.importers.base import Context, Importer, numbered
from suffixspec.trace.session import Message, TraceSession

_START = re.compile(r"# aider chat started at ")
_MODEL = re.compile(r"(?:Main model|Models?): (\S+)")
_COST = re.compile(r"(?:Tokens: .* sent, .* received|[\d.,k]+ prompt tokens, [\d.,k]+ completion tokens)")
# aider ends every line that is not the model's with two blanks, a line break in Markdown. That tells a user's
# "#### " from a heading, and aider's "> " from a quotation, in what the model wrote.
_BREAK = "  "


class Aider(Importer):
    """One chat is one session; a history holds many.

    aider's own lines (``> ``) stand for what the model was shown after its reply: command output, lint and
    test errors. Its banner and its token counts, which no model sees, are left out. Contents of files in the
    chat are not in these logs. Where an editor removed the blanks at line ends, every ``####`` and ``> ``
    line is taken for the user's or aider's.
    """

    name = "aider"
    title = "aider chat history"
    of_text = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._chats = 0
        self._line = 0
        self._lines: list[str] = []

    @classmethod
    def matches(cls, record: Any) -> bool:
        """A line that starts a chat."""
        return isinstance(record, str) and _START.match(record) is not None

    def feed(self, record: Any, line: int) -> Iterable[TraceSession]:
        """Take one line; a chat is complete when the next one starts."""
        done: Iterable[TraceSession] = ()
        if _START.match(record):
            done = list(self.finish())
            self._chats += 1
            self._line = line
        elif self._chats:
            self._lines.append(record)
        return done

    def finish(self) -> Iterator[TraceSession]:
        """Return the last chat."""
        lines, self._lines = self._lines, []
        if self._chats:
            messages, model = _chat(lines)
            yield self.session(numbered(self.context.stem, self._chats), messages, self._line, model=model)


def _chat(lines: list[str]) -> tuple[list[Message], str | None]:
    exact = any(line.startswith("####") and line.endswith(_BREAK) for line in lines)
    messages: list[Message] = []
    model = None
    for speaker, block in _blocks(lines, exact=exact):
        texts = block
        if speaker == "assistant":
            # aider strips a reply before it writes it, and puts one blank line before and one after.
            messages.append(Message("assistant", "\n".join(texts).strip("\n")))
            continue
        if speaker == "aider":
            for text in texts:
                found = _MODEL.match(text)
                model = model or (found[1] if found else None)
            texts = [text for text in block if not _COST.match(text)]
            if not any(message.role == "user" for message in messages) or not any(texts):
                continue  # the banner
        text = "\n".join(texts)
        if messages and messages[-1].role == "user":
            messages[-1] = Message("user", f"{messages[-1].content}\n{text}")
        else:
            messages.append(Message("user", text))
    return messages, model


def _blocks(lines: list[str], *, exact: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield (speaker, lines without their prefix) of runs of lines of one speaker."""
    speaker, block = "", list[str]()
    after_blank = True
    for line in lines:
        now, text = _speaker(line, exact=exact)
        if not now:
            # A reply follows a blank line; a line right after one of aider's or the user's is its
            # continuation.
            if not line and speaker != "assistant":
                after_blank = True
                continue
            now = "assistant" if after_blank or speaker == "assistant" or not exact else speaker
        if now != speaker:
            if block:
                yield speaker, block
            speaker, block = now, []
        block.append(text)
        after_blank = False
    if block:
        yield speaker, block


def _speaker(line: str, *, exact: bool) -> tuple[str, str]:
    """Return (speaker, text) of a marked line, or ("", line) of an unmarked one."""
    if exact and not line.endswith(_BREAK):
        return "", line
    for speaker, mark in (("user", "####"), ("aider", ">")):
        text = line.removesuffix(_BREAK)
        if text == mark or text.startswith(f"{mark} "):
            return speaker, text.removeprefix(mark).removeprefix(" ")
    return "", line
