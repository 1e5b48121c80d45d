"""Messages to channels: Harmony, the form of gpt-oss."""

from __future__ import annotations

import re
from dataclasses import replace

from suffixspec.parsing.call_ids import CallIds
from suffixspec.parsing.choice import ToolChoice
from suffixspec.parsing.delta import (
    ContentDelta,
    Delta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallStart,
    merge,
)
from suffixspec.parsing.hermes import HermesParser
from suffixspec.parsing.reasoning import CHANNEL, MESSAGE, START

_ENDS = ("<|end|>", "<|return|>", "<|call|>", START, CHANNEL)
_BEGINS = (CHANNEL, START, MESSAGE, "to=")
_CHANNEL = re.compile(re.escape(CHANNEL) + r"\s*(\w+)")
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")


class HarmonyParser:
    """An ``OutputParser`` for messages such as ``<|channel|>final<|message|>…<|end|>``.

    The analysis is reasoning, what is addressed to a function (``to=functions.NAME``) a call, and every other
    text content. Where a call is required, the content is read as other forms are: it may be the call, as JSON.

    Args:
        choice: which functions there are, and whether calls are looked for.
        ids: makes the calls' ids.
        prompt_text: the prompt; its last message may have begun the model's.
    """

    def __init__(self, choice: ToolChoice, ids: CallIds, *, prompt_text: str = "") -> None:
        self._choice = choice
        self._ids = ids
        self._calls = 0
        self._bare = HermesParser(choice, ids) if choice.mode == "required" else None
        self._finished = False
        self._inside = False  # a message's text, not its header
        self._call: int | None = None  # the call whose arguments the text is
        self._kind: type[ContentDelta | ReasoningDelta] = ContentDelta
        self._plain = False  # whether the text is content as it stands, never a call
        begun = prompt_text[prompt_text.rfind(START) :] if START in prompt_text else ""
        self._text = begun.removeprefix(f"{START}assistant")
        self._read()  # what the prompt has begun: the header, since no text of it is the output's
        if self._inside:
            self._text = ""

    def feed(self, text: str) -> list[Delta]:
        """See ``OutputParser.feed``."""
        if self._finished:
            raise RuntimeError("expected no text after finish(); make a parser for each output")
        self._text += text
        return merge(self._read())

    def finish(self) -> list[Delta]:
        """See ``OutputParser.finish``."""
        if self._finished:
            return []
        deltas = self._read()
        rest, self._text, self._finished = self._text, "", True
        if self._inside:
            deltas += self._say(rest)
        elif not (CHANNEL in rest or START in rest):  # else a header that was cut off
            self._kind, self._call, self._plain = ContentDelta, None, False
            deltas += self._say(rest)
        if self._bare is not None:
            deltas += self._shifted(self._bare.finish())
        return merge(deltas)

    def _read(self) -> list[Delta]:
        """All that is certain of the text at hand; the rest stays."""
        deltas: list[Delta] = []
        while self._text:
            if not self._inside:
                header, marker, rest = self._text.partition(MESSAGE)
                begin = self._text.lstrip()
                if not begin or (
                    not marker and any(each.startswith(begin) or begin.startswith(each) for each in _BEGINS)
                ):
                    break
                if marker and begin.startswith(_BEGINS):
                    self._text = rest
                    deltas += self._open(header)
                else:  # no header: a text without one
                    self._inside, self._kind, self._call, self._plain = True, ContentDelta, None, False
                continue
            places = [place for end in _ENDS if (place := self._text.find(end)) >= 0]
            if places:
                deltas += self._say(self._text[: min(places)])
                self._text = self._text[min(places) :]
                ended = next(end for end in _ENDS if self._text.startswith(end))
                if ended not in {START, CHANNEL}:
                    self._text = self._text.removeprefix(ended)
                self._inside = False
                continue
            held = _held_back(self._text)
            deltas += self._say(self._text[: len(self._text) - held])
            self._text = self._text[len(self._text) - held :]
            break
        return deltas

    def _open(self, header: str) -> list[Delta]:
        """A message begins."""
        self._inside, self._call, self._plain = True, None, False
        channel, recipient = _CHANNEL.search(header), _RECIPIENT.search(header)
        self._kind = ReasoningDelta if channel is not None and channel[1] == "analysis" else ContentDelta
        if recipient is None:
            return []
        name = recipient[1].removeprefix("functions.")
        if self._choice.parses and self._choice.allows(name, marked=True):
            self._call = self._calls
            self._calls += 1
            return [ToolCallStart(self._call, self._ids.next(), name)]
        self._kind, self._plain = ContentDelta, True
        return [ContentDelta(f"{header}{MESSAGE}")]

    def _say(self, text: str) -> list[Delta]:
        if not text:
            return []
        if self._call is not None:
            return [ToolCallArguments(self._call, text)]
        if self._bare is not None and self._kind is ContentDelta and not self._plain:
            return self._shifted(self._bare.feed(text))
        return [self._kind(text)]

    def _shifted(self, deltas: list[Delta]) -> list[Delta]:
        """Calls in the content are counted behind those that were addressed."""
        return [
            replace(delta, index=delta.index + self._calls)
            if isinstance(delta, (ToolCallStart, ToolCallArguments))
            else delta
            for delta in deltas
        ]


def _held_back(text: str) -> int:
    """How many characters at the end of a text may be the begin of a marker."""
    longest = max(len(end) for end in _ENDS) - 1
    return next(
        (
            size
            for size in range(min(longest, len(text)), 0, -1)
            if any(end.startswith(text[-size:]) for end in _ENDS)
        ),
        0,
    )
