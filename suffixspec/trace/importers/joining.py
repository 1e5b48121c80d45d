"""Calls to sessions: each call repeats the whole conversation, and those that go on from each other are one."""

import json
from collections.abc import Sequence
from typing import Any

from suffixspec.trace.session import Message

Print = tuple[Any, ...]
"""What is compared of a message."""

_VOLATILE = "x-anthropic-billing-header:"
"""Begins a line of some clients' system prompts that is another one in every call."""


class Joined:
    """A session that is being joined."""

    def __init__(self, hint: str | None, line: int) -> None:
        self.hint = hint
        """The client's name for it, if it sent one."""
        self.line = line
        """Of its first call."""
        self.model: str | None = None
        self.tools: tuple[dict[str, Any], ...] | None = None
        self.messages: list[Message] = []
        self.cut_node: _Node | None = None
        """Where it ends, if its last output was cut off: a retry takes that output back."""


class Joiner:
    """Joins calls by the longest common prefix of their messages, in whatever order loops come in between.

    A call whose messages begin with everything a session holds so far continues that session; any other call
    (a sub-agent, a title, a rewound or compacted conversation) starts one, with what it was shown as context.
    Of several sessions that hold the same, the one with the same hint goes on, else the oldest. What the
    model wrote is compared as a client may send it back: without outer white space, with arguments compared
    as JSON. The session keeps the response's own text.

    An output that was cut off stays, unless the conversation goes on without it: a retry takes its place.
    """

    def __init__(self) -> None:
        self.sessions: list[Joined] = []
        """In the order of their first calls."""
        self.taken_back = 0
        """Cut outputs that a retry replaced."""
        self._root = _Node()

    def add(
        self,
        messages: Sequence[Message],
        outputs: Sequence[Message],
        *,
        line: int,
        hint: str | None = None,
        model: str | None = None,
        tools: tuple[dict[str, Any], ...] | None = None,
        complete: bool = True,
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
        """
        prints = [fingerprint(message) for message in messages]
        for index, output in enumerate(outputs):
            depth, session = self._root.continued(prints, hint) if index == 0 else (0, None)
            if session is None:
                session = Joined(hint, line)
                session.model, session.tools = model, tools
                self.sessions.append(session)
            elif session.cut_node is not None:
                self._settle(session, depth)
            session.messages += [message.as_context() for message in messages[depth:]]
            before = self._root.insert(prints)
            after = before.child(fingerprint(output))
            session.messages.append(output)
            after.ended.append(session)
            if not complete:
                before.cut.append(session)
                session.cut_node = after

    def _settle(self, session: Joined, depth: int) -> None:
        """A session with a cut output goes on: with it, or from before it."""
        if depth < len(session.messages):
            session.messages.pop()
            self.taken_back += 1
        session.cut_node = None


class _Node:
    """A message in the tree of all conversations."""

    __slots__ = ("children", "cut", "ended")

    def __init__(self) -> None:
        self.children: dict[Print, _Node] = {}
        self.ended: list[Joined] = []
        """Sessions that end here."""
        self.cut: list[Joined] = []
        """Sessions that end one message later, with an output that was cut off."""

    def continued(self, prints: Sequence[Print], hint: str | None) -> tuple[int, Joined | None]:
        """Take out (number of messages, session) of the longest session that the messages begin with."""
        path = [self]
        for fingerprint_ in prints:
            child = path[-1].children.get(fingerprint_)
            if child is None:
                break
            path.append(child)
        for depth in range(len(path) - 1, 0, -1):
            node = path[depth]
            session = _chosen(node.ended, hint) or _chosen(node.cut, hint)
            if session is None:
                continue
            if session in node.ended:
                node.ended.remove(session)
                if session.cut_node is node:
                    path[depth - 1].cut.remove(session)
            else:
                node.cut.remove(session)
                if session.cut_node is not None:
                    session.cut_node.ended.remove(session)
            return depth, session
        return 0, None

    def child(self, fingerprint_: Print) -> "_Node":
        """The node of the next message, made if need be."""
        return self.children.setdefault(fingerprint_, _Node())

    def insert(self, prints: Sequence[Print]) -> "_Node":
        """The node of this conversation, made if need be."""
        node = self
        for fingerprint_ in prints:
            node = node.child(fingerprint_)
        return node


def fingerprint(message: Message) -> Print:
    """What makes two messages the same one, sent again."""
    if message.role == "assistant":
        calls = tuple((call.name, _canonical(call.arguments)) for call in message.tool_calls)
        return ("assistant", message.content.strip(), calls)
    content = message.content
    if message.role == "system" and _VOLATILE in content:
        content = "\n".join(line for line in content.split("\n") if not line.startswith(_VOLATILE))
    return (message.role, content)


def _chosen(sessions: list[Joined], hint: str | None) -> Joined | None:
    return next((s for s in sessions if s.hint == hint), sessions[0] if sessions else None)


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except ValueError:
        return arguments
