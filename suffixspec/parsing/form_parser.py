"""The part that all forms of tool calls share: reading characters, reasoning, content, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

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
from suffixspec.parsing.reasoning import REASONING

T = TypeVar("T")
Reading: TypeAlias = Generator[None, str, T]
"""A routine that is sent one character whenever it yields, "" at the end of the text; it returns a T."""


class MalformedError(Exception):
    """What was read is no call."""


class FormParser:
    """An ``OutputParser`` written as a routine that reads one character after the other.

    So nothing depends on where the text is cut. A form (``HermesParser`` …) says how calls are marked: in its
    ``_content_and_calls``. A routine may read on tentatively: what it has read since
    ``_mark`` can be put back by ``_rewind``, up to the moment when a call's start has been reported. From then
    on its arguments are passed on as they come, whatever becomes of them.

    Args:
        choice: which functions there are, and whether calls are looked for.
        ids: makes the calls' ids.
        closes: the marker that ends the reasoning which the prompt has opened; "" where it has not.
    """

    bare = False
    """Whether the form writes calls without markers, at the start of a message."""

    def __init__(self, choice: ToolChoice, ids: CallIds, *, closes: str = "") -> None:
        self._choice = choice
        self._ids = ids
        self._deltas: list[Delta] = []
        self._calls = 0
        self._again: list[str] = []  # characters to be read again, the next one last
        self._tried: list[str] | None = None  # characters read since _mark
        self._space = ""  # white space that is content unless markup follows
        self._behind_markup = False  # whether markup is what stands before it
        self._ended = False
        self._finished = False
        self._routine = self._message(closes)
        next(self._routine)

    def feed(self, text: str) -> list[Delta]:
        """See ``OutputParser.feed``."""
        if self._finished:
            raise RuntimeError("expected no text after finish(); make a parser for each output")
        for char in text:
            self._routine.send(char)
        return self._take()

    def finish(self) -> list[Delta]:
        """See ``OutputParser.finish``."""
        if not self._finished:
            self._finished = True
            try:
                self._routine.send("")
            except StopIteration:
                pass
            else:  # pragma: no cover - a routine that reads on after the end
                raise AssertionError("expected the routine to end with the text")
        return self._take()

    def _take(self) -> list[Delta]:
        deltas, self._deltas = merge(self._deltas), []
        return deltas

    # -- characters -------------------------------------------------------------------------------------------

    def _read(self) -> Reading[str]:
        """The next character, "" at the end."""
        if self._again:
            char = self._again.pop()
        elif self._ended:
            return ""
        else:
            char = yield
            if not char:
                self._ended = True
                return ""
        if self._tried is not None:
            self._tried.append(char)
        return char

    def _unread(self, text: str) -> None:
        """Put back what was just read."""
        self._again.extend(reversed(text))
        if self._tried is not None and text:
            del self._tried[-len(text) :]

    def _mark(self) -> None:
        """What is read from now on may be put back."""
        self._tried = []

    def _commit(self) -> None:
        """What was read since ``_mark`` is used up."""
        self._tried = None

    def _rewind(self) -> None:
        """Put back what was read since ``_mark``."""
        if self._tried is not None:
            self._again.extend(reversed(self._tried))
            self._tried = None

    def _white(self) -> Reading[str]:
        """White space, possibly none."""
        space = ""
        while True:
            char = yield from self._read()
            if not char.isspace():
                self._unread(char)
                return space
            space += char

    def _marker(self, markers: tuple[str, ...]) -> Reading[str]:
        """The one of ``markers`` that stands here, or "" with nothing read; none begins another."""
        seen = ""
        while seen not in markers:
            char = yield from self._read()
            if not char or not any(marker.startswith(seen + char) for marker in markers):
                self._unread(seen + char)
                return ""
            seen += char
        return seen

    def _until(self, markers: tuple[str, ...]) -> Reading[str]:
        """Content up to one of ``markers``, which is read; "" at the end of the text."""
        first = {marker[0] for marker in markers}
        while True:
            char = yield from self._read()
            if not char:
                self._end_content()
                return ""
            if char in first:
                self._unread(char)
                marker = yield from self._marker(markers)
                if marker:
                    return marker
                char = yield from self._read()
            self._say(char)

    # -- message ----------------------------------------------------------------------------------------------

    def _message(self, closes: str) -> Reading[None]:
        if not closes:
            self._space = yield from self._white()
            opened = yield from self._marker(tuple(REASONING))
            closes = REASONING.get(opened, "")
        if closes:
            self._space = ""
            yield from self._reasoning(closes)
        yield from self._body()

    def _reasoning(self, closes: str) -> Reading[None]:
        space = ""
        begun = False
        while True:
            closed = yield from self._marker((closes,))
            if closed:
                # A template puts its own line breaks between the two.
                yield from self._white()
                self._behind_markup = True
                return
            char = yield from self._read()
            if not char or not char.isspace():
                text = space + char if begun else char
                if text:
                    self._deltas.append(ReasoningDelta(text))
                begun, space = True, ""
                if not char:
                    return
            else:
                space += char

    def _body(self) -> Reading[None]:
        """Everything behind the reasoning."""
        if not self._choice.parses:
            yield from self._until(())
            return
        if self.bare or self._choice.mode == "required":
            yield from self._bare_calls(marked=False)
        yield from self._content_and_calls()

    def _content_and_calls(self) -> Reading[None]:
        """Content, and the calls that are marked in it, to the end; the form's."""
        raise NotImplementedError

    def _say(self, text: str) -> None:
        """Content; white space waits for what follows it."""
        for char in text:
            if char.isspace():
                self._space += char
            else:
                self._deltas.append(ContentDelta(self._space + char))
                self._space, self._behind_markup = "", False

    def _end_content(self) -> None:
        if self._space and not self._behind_markup:
            self._deltas.append(ContentDelta(self._space))
        self._space = ""

    # -- calls ------------------------------------------------------------------------------------------------

    def _start(self, name: str) -> int:
        """Report a call; its index. White space before it was a separator."""
        self._commit()
        index, self._calls = self._calls, self._calls + 1
        self._space, self._behind_markup = "", True
        self._deltas.append(ToolCallStart(index, self._ids.next(), name))
        return index

    def _arguments(self, index: int) -> Callable[[str], None]:
        return lambda text: self._deltas.append(ToolCallArguments(index, text))

    def _tentative(self, reading: Reading[None]) -> Reading[bool]:
        """Read a call; False with all put back where it is none.

        Where it goes wrong behind the arguments, the call was made, and the rest is put back.
        """
        before = self._calls
        self._mark()
        try:
            yield from reading
        except MalformedError:
            self._rewind()
        self._commit()
        return self._calls > before

    def _bare_calls(self, *, marked: bool) -> Reading[bool]:
        """One JSON call, several behind one another, or a list of them; False with all put back if none."""
        self._mark()
        char = yield from self._solid()
        self._rewind()
        if char == "[":
            return (yield from self._tentative(self._call_list(marked=marked)))
        if not (yield from self._tentative(self._call_object(marked=marked))):
            return False
        while (yield from self._tentative(self._next_call(marked=marked))):
            pass
        return True

    def _next_call(self, *, marked: bool) -> Reading[None]:
        """A further call behind white space, a semicolon or a comma."""
        char = yield from self._solid()
        if char not in {";", ","}:
            self._unread(char)
        yield from self._call_object(marked=marked)

    def _call_list(self, *, marked: bool) -> Reading[None]:
        """``[{…}, {…}]``."""
        yield from self._expect("[")
        char = ","
        while char == ",":
            yield from self._call_object(marked=marked)
            self._mark()  # of what follows nothing is lost if it is no list
            char = yield from self._solid()
        if char != "]":
            raise MalformedError

    def _call_object(self, *, marked: bool) -> Reading[None]:
        """``{"name": …, "arguments": {…}}``, in any order and with other members, which are left out.

        "parameters" is as good as "arguments", and so is a string that holds the JSON text.
        """
        yield from self._expect("{")
        name: str | None = None
        arguments: str | None = None
        index: int | None = None
        char = ","
        while char == ",":
            key = yield from self._string()
            yield from self._expect(":")
            if key == "name" and name is None:
                name = yield from self._string()
                if not name or not self._choice.allows(name, marked=marked):
                    raise MalformedError
            elif key in {"arguments", "parameters"} and arguments is None:
                char = yield from self._solid()
                self._unread(char)
                if char == "{" and name is not None:
                    index, arguments = self._start(name), ""
                    yield from self._value(self._arguments(index))
                    self._mark()
                else:
                    arguments = yield from self._held_arguments()
            else:
                yield from self._value(_nothing)
            char = yield from self._solid()
        if char != "}":
            raise MalformedError
        if index is None:
            if name is None or (arguments is None and not marked):
                raise MalformedError
            self._arguments(self._start(name))(arguments or "{}")

    def _held_arguments(self) -> Reading[str]:
        """Arguments that cannot be passed on yet, or not as they are."""
        pieces: list[str] = []
        yield from self._value(pieces.append)
        text = "".join(pieces)
        value = _loads(text)
        if isinstance(value, str):
            text = value
            value = _loads(text) if text else {}
        if value is None:
            return "{}"
        if not isinstance(value, dict):
            raise MalformedError
        return text

    # -- JSON -------------------------------------------------------------------------------------------------

    def _solid(self) -> Reading[str]:
        """The next character that is no white space, "" at the end."""
        yield from self._white()
        return (yield from self._read())

    def _expect(self, wanted: str) -> Reading[None]:
        char = yield from self._solid()
        if char != wanted:
            raise MalformedError

    def _string(self) -> Reading[str]:
        """The text of a JSON string."""
        pieces: list[str] = []
        char = yield from self._solid()
        self._unread(char)
        if char != '"':
            raise MalformedError
        yield from self._value(pieces.append)
        value = _loads("".join(pieces))
        if not isinstance(value, str):
            raise MalformedError
        return value

    def _value(self, take: Callable[[str], None]) -> Reading[None]:
        """One JSON value, character by character to ``take``; only its strings and brackets are looked at."""
        char = yield from self._solid()
        depth = 0
        in_string = escaped = False
        scalar = char not in {'"', "{", "["}
        while True:
            if not char or (scalar and (char in ",:]}" or char.isspace())):
                self._unread(char)
                if not scalar or not char:
                    raise MalformedError
                return
            take(char)
            if in_string:
                in_string = escaped or char != '"'
                escaped = char == "\\" and not escaped
            elif char == '"':
                in_string = True
            elif char in "{[":
                depth += 1
            elif char in "}]":
                depth -= 1
            if not scalar and not in_string and depth == 0:
                return
            char = yield from self._read()


def _nothing(_text: str) -> None:
    """Take nothing."""


def _loads(text: str) -> object:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        raise MalformedError from None
