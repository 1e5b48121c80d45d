"""Calls to sessions: each call repeats the whole conversation, and those that go on from each other are one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from suffixspec.trace.session import Message

Print = tuple[Any, ...]
"""What is compared of a message."""
Tools = tuple[dict[str, Any], ...]

_VOLATILE = "x-anthropic-billing-header:"
"""Begins a line of some clients' system prompts that is another one in every call."""
_CERTAIN = 16
"""Characters of an output that another message begins with only where it is that output."""


class Joined:
    """A session that is being joined.

    Args:
        hint: the client's name for it, if it sent one.
        line: of its first call.
        model: the model's name.
        tools: what the model was shown of them.
    """

    def __init__(self, hint: str | None, line: int, model: str | None, tools: Tools | None) -> None:
        self.hint = hint
        self.line = line
        self.model = model
        self.tools = tools
        self.messages: list[Message] = []


class Joiner:
    """Joins calls by the longest common prefix of their messages, in whatever order loops come in between.

    A call whose messages begin with everything a session holds so far continues that session; any other call
    (a sub-agent, a title, a rewound or compacted conversation) starts one, with what it was shown as context.
    Of several sessions that hold the same, the one with the same hint goes on, else the oldest. What the
    model wrote is compared as a client may send it back: without outer white space, with arguments compared
    as JSON. The session keeps the response's own text. A client may have added to it, a stop string or a note
    of its own: that becomes a message of context behind it.

    An output that was cut off is taken back by a retry of its call, unless some call goes on with just that.

    Memory: every message once, however often it was sent.
    """

    def __init__(self) -> None:
        self.taken_back = 0
        """Cut outputs that a retry replaced; known after `sessions`."""
        self._root = _Node(None, None)
        self._calls: list[_Call] = []
        self._tools: dict[str, Tools] = {}

    def add(
        self,
        messages: Sequence[Message],
        outputs: Sequence[Message],
        *,
        line: int,
        hint: str | None = None,
        model: str | None = None,
        tools: Tools | None = None,
        complete: bool = True,
        stops: Sequence[str] = (),
    ) -> None:
        """Take one call. Cost: O(its messages).

        Args:
            messages: what the model was shown.
            outputs: what it wrote: of several choices the first goes on with the session, the others leave it.
            line: where it was recorded.
            hint: the client's name for the loop.
            model: the model's name.
            tools: what the model was shown of them.
            complete: False where the output was cut off.
            stops: stop strings of the call: the model wrote one, and the server cut it off.
        """
        before = self._root
        for message in messages:
            for part in before.parts(message):
                before = before.child(part)
                before.is_asked = True
        if tools is not None:
            tools = self._tools.setdefault(json.dumps(tools), tools)
        for index, output in enumerate(outputs):
            session = Joined(hint, line, model, tools)
            after = before.child(output)
            after.is_whole = after.is_whole or complete
            after.stops = (*after.stops, *stops)
            before.outputs.append(after)
            self._calls.append(_Call(session, before, output, complete, goes_on=index == 0))

    def sessions(self) -> list[Joined]:
        """All sessions in the order of their first calls. To be called once, after the last call."""
        found: list[Joined] = []
        for call in self._calls:
            before, after = call.before, call.before.child(call.output)
            taken = before.take(call.session.hint) if call.goes_on else None
            if taken is None:
                session, depth = call.session, 0
                found.append(session)
            else:
                session, depth = taken
                if depth < len(session.messages):
                    session.messages.pop()
                    self.taken_back += 1
            path = list(before.path())
            session.messages += [message.as_context() for message in path[depth:]]
            session.messages.append(call.output)
            after.ended.append(session)
            if not call.complete and (after.is_whole or not after.is_asked):
                before.cut.append((session, after))
        return found


class _Call:
    """One output of one call."""

    __slots__ = ("before", "complete", "goes_on", "output", "session")

    def __init__(
        self, session: Joined, before: _Node, output: Message, complete: bool, *, goes_on: bool
    ) -> None:
        self.session = session
        self.before = before
        self.output = output
        self.complete = complete
        self.goes_on = goes_on


class _Node:
    """A message in the tree of all conversations."""

    __slots__ = (
        "children",
        "cut",
        "depth",
        "ended",
        "is_asked",
        "is_whole",
        "message",
        "outputs",
        "parent",
        "stops",
    )

    def __init__(self, parent: _Node | None, message: Message | None) -> None:
        self.parent = parent
        self.message = message
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.children: dict[Print, _Node] = {}
        self.outputs: list[_Node] = []
        """Children that are outputs."""
        self.stops: tuple[str, ...] = ()
        """Stop strings of the calls that gave this output."""
        self.is_asked = False
        """Whether it is part of a request."""
        self.is_whole = False
        """Whether it is an output that was not cut off."""
        self.ended: list[Joined] = []
        """Sessions that end here."""
        self.cut: list[tuple[Joined, _Node]] = []
        """Sessions that end one message later, there, with an output that was cut off."""

    def child(self, message: Message) -> _Node:
        """The node of the next message, made if need be."""
        key = _fingerprint(message)
        if key not in self.children:
            self.children[key] = _Node(self, message)
        return self.children[key]

    def parts(self, message: Message) -> list[Message]:
        """The message, or where it is an output that the client added to: that output, and what was added.

        Cost: O(1), but O(outputs here) for a message of the model that is new.
        """
        if message.role != "assistant" or _fingerprint(message) in self.children:
            return [message]
        content = message.content.lstrip()
        for node in reversed(self.outputs):
            output = node.message
            text = "" if output is None or output.tool_calls else output.content.strip()
            if not text or not content.startswith(text):
                continue
            rest = content[len(text) :].lstrip()
            stop = next((stop for stop in node.stops if rest.startswith(stop.strip())), None)
            if output is not None and (stop is not None or len(text) >= _CERTAIN):
                rest = rest.removeprefix("" if stop is None else stop.strip()).strip()
                added = replace(message, content=rest, reasoning=None)
                return [output, added] if rest or added.tool_calls else [output]
        return [message]

    def path(self) -> Iterator[Message]:
        """The messages down to here."""
        found: list[Message] = []
        node: _Node | None = self
        while node is not None and node.message is not None:
            found.append(node.message)
            node = node.parent
        return reversed(found)

    def take(self, hint: str | None) -> tuple[Joined, int] | None:
        """Take out the session that goes on here, with the number of its messages that do.

        That is the longest of those that end on the way here, with an output that was cut off not counted.
        """
        node: _Node | None = self
        while node is not None and node.parent is not None:
            session = _chosen(node.ended, hint)
            if session is not None:
                node.ended.remove(session)
                node.parent.cut = [item for item in node.parent.cut if item[0] is not session]
                return session, node.depth
            session = _chosen([item[0] for item in node.cut], hint)
            if session is not None:
                (after,) = (item[1] for item in node.cut if item[0] is session)
                after.ended.remove(session)
                node.cut = [item for item in node.cut if item[0] is not session]
                return session, node.depth
            node = node.parent
        return None


def _fingerprint(message: Message) -> Print:
    """What makes two messages the same one, sent again."""
    if message.role == "assistant":
        calls = tuple((call.name, _canonical(call.arguments)) for call in message.tool_calls)
        return ("assistant", message.content.strip(), calls)
    content = message.content
    if message.role == "system" and _VOLATILE in content:
        content = "\n".join(line for line in content.split("\n") if not line.startswith(_VOLATILE))
    return (message.role, content, message.tool_call_id)


def _chosen(sessions: list[Joined], hint: str | None) -> Joined | None:
    return next((s for s in sessions if s.hint == hint), sessions[0] if sessions else None)


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except ValueError:
        return arguments
