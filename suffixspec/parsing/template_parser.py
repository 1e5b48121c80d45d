"""Outputs of models whose tokenizer says how to read them: transformers' response templates."""

from __future__ import annotations

import itertools
import json
from typing import Any, TypeAlias, cast

from suffixspec.errors import SuffixspecError
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

_REASONING = ("reasoning_content", "reasoning", "thinking")
_CALLS = "tool_calls"
_Kind: TypeAlias = type[ContentDelta] | type[ReasoningDelta]


class TemplateParser:
    """An ``OutputParser`` over transformers' ``ResponseParser``.

    Content and reasoning come as they are written; a call comes whole, when its region closes: only then has
    the template made a value of it. A region of calls that it cannot read comes out as content, and so do all
    calls where the request looks for none.

    Args:
        template: the tokenizer's ``response_template``.
        choice: which functions there are, and whether calls are looked for.
        ids: makes the calls' ids.
        prompt_text: the prompt; its last message may have begun the model's.
        tools: their schemas, which say what an argument's text is.

    Raises:
        SuffixspecError: transformers does not take the template.
    """

    def __init__(
        self,
        template: dict[str, Any],
        choice: ToolChoice,
        ids: CallIds,
        *,
        prompt_text: str,
        tools: list[dict[str, Any]] | None,
    ) -> None:
        from transformers.utils.chat_parsing import ResponseParser

        self._make = cast(Any, ResponseParser)
        self._template = template
        self._choice = choice
        self._ids = ids
        self._tools = tools
        self._calls = 0
        self._pending = ""  # what was fed and has not come back in an event
        self._marker = ""  # what opened the region of calls that is open
        self._region = ""  # its text
        self._in_call = False
        self._said: set[_Kind] = set()
        self._space = ""  # white space of the content that waits for more of it
        self._finished = False
        try:
            self._parser: Any = self._make(template, prefix=prompt_text, tools=tools)
        except (ValueError, TypeError, KeyError) as error:
            raise SuffixspecError(
                f"expected a response template that transformers can use, got {error}; remove it from the "
                "tokenizer to have the output parsed by the form of its chat template"
            ) from error
        for event in self._parser.initial_events:  # what the prompt has begun; its text is not the output's
            if event["type"] == "region_chunk" and event["text"].strip():
                self._said.add(_kind(event["field"]))

    def feed(self, text: str) -> list[Delta]:
        """See ``OutputParser.feed``."""
        if self._finished:
            raise RuntimeError("expected no text after finish(); make a parser for each output")
        deltas: list[Delta] = []
        # One by one: what cannot be read is lost to transformers' parser with all that came in the same piece.
        for char in text:
            self._pending += char
            try:
                events = self._parser.feed(char)
            except Exception:  # noqa: BLE001 - whatever a template's parsers raise on a malformed region
                deltas += self._unread_region()
                self._parser = self._make(self._template, prefix="", tools=self._tools)
                continue
            deltas += self._read_events(events)
        return merge(deltas)

    def finish(self) -> list[Delta]:
        """See ``OutputParser.finish``."""
        if self._finished:
            return []
        self._finished = True
        try:
            _, events = self._parser.finalize()
        except Exception:  # noqa: BLE001 - as above, or a field that the template requires
            return merge(self._unread_region())
        return merge(self._read_events(events))

    def _read_events(self, events: list[dict[str, Any]]) -> list[Delta]:
        deltas: list[Delta] = []
        for event, following in itertools.pairwise([*events, None]):
            assert event is not None
            kind, field = event["type"], event["field"]
            if kind == "region_chunk":
                text = event["text"]
                self._pending = self._pending[self._pending.find(text) + len(text) :]
                if field == _CALLS:
                    self._region += text
                else:
                    deltas += self._say(_kind(field), text)
            elif field == _CALLS and kind == "region_open":
                # A marker given as a pattern is certain only when more has come.
                more = (
                    following["text"] if following is not None and following["type"] == "region_chunk" else ""
                )
                end = len(self._pending) - len(more)
                self._marker, self._region, self._pending = self._pending[:end], "", self._pending[end:]
                self._in_call = True
            elif field == _CALLS:
                deltas += self._call(event["value"])
                self._in_call, self._pending = False, ""
            elif kind == "region_close":
                if following is None or following["type"] != "region_open":  # else what is pending opens that
                    self._pending = ""
                if _kind(field) is ReasoningDelta:
                    self._said.discard(ReasoningDelta)
                    self._space = ""
        return deltas

    def _say(self, kind: _Kind, text: str) -> list[Delta]:
        """White space around a field is the template's, as the field's value (which is stripped) says."""
        text = self._space + text
        if kind not in self._said:
            text = text.lstrip()
        shown = text.rstrip()
        self._space = text[len(shown) :]
        if not shown:
            return []
        self._said.add(kind)
        return [kind(shown)]

    def _call(self, value: Any) -> list[Delta]:
        calls = value if isinstance(value, list) else [value]
        found = [function for call in calls if (function := _function(call)) is not None]
        if (
            not self._choice.parses
            or not found
            or len(found) < len(calls)
            or not all(self._choice.allows(name, marked=True) for name, _ in found)
        ):
            return self._unread_region()
        deltas: list[Delta] = []
        for name, arguments in found:
            deltas.append(ToolCallStart(self._calls, self._ids.next(), name))
            deltas.append(ToolCallArguments(self._calls, arguments))
            self._calls += 1
        return deltas

    def _unread_region(self) -> list[Delta]:
        """The region of calls that is open, with its markers, as content; or what else is held back."""
        text = self._marker + self._region + self._pending if self._in_call else self._pending
        self._marker = self._region = self._pending = ""
        self._in_call = False
        return self._say(ContentDelta, text)


def _kind(field: str) -> _Kind:
    return ReasoningDelta if field in _REASONING else ContentDelta


def _function(call: Any) -> tuple[str, str] | None:
    """Name and arguments as JSON text."""
    function = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not function["name"]:
        return None
    arguments = function.get("arguments", function.get("parameters"))
    if arguments is None:
        arguments = {}
    if isinstance(arguments, str):
        return function["name"], arguments
    if not isinstance(arguments, dict):
        return None
    return function["name"], json.dumps(arguments, ensure_ascii=False)
