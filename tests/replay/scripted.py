"""Drafters that follow a script, and sessions of token ids, to replay by hand."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from suffixspec.draft import DraftTree
from suffixspec.replay.simulate import RenderedSession
from suffixspec.text import RenderedTurn

Nodes = Iterable[tuple[int, int, float]]


def tree(nodes: Nodes) -> DraftTree:
    """A draft tree of (token, parent, probability)."""
    nodes = list(nodes)
    tokens, parents, probs = zip(*nodes, strict=True) if nodes else ((), (), ())
    return DraftTree(np.array(tokens, np.int32), np.array(parents, np.int32), np.array(probs, np.float32))


def chain(tokens: Iterable[int]) -> list[tuple[int, int, float]]:
    """Nodes of one path."""
    return [(int(token), i - 1, 0.9 ** (i + 1)) for i, token in enumerate(tokens)]


def turns(*pairs: tuple[Sequence[int], Sequence[int]]) -> list[RenderedTurn]:
    """Model calls of (prompt, output)."""
    return [
        RenderedTurn(i, i, np.array(prompt, np.int32), np.array(output, np.int32), "", 0)
        for i, (prompt, output) in enumerate(pairs)
    ]


def session(
    *pairs: tuple[Sequence[int], Sequence[int]], name: str = "s", task: str = "t", namespace: str = "default"
) -> RenderedSession:
    """A session of (prompt, output)."""
    return RenderedSession(name, task, namespace, turns(*pairs))


class ScriptedDrafter:
    """Drafts what ``script`` says for a context; notes every call.

    Args:
        script: from the context's token ids (prompt and output so far) to nodes.
        source: what ``sources`` says of every node.
    """

    name = "scripted"
    nbytes = 1000
    indexed_tokens = 10

    def __init__(self, script: Callable[[list[int]], Nodes], *, source: int = 0) -> None:
        self.script = script
        self.source = source
        self.calls: list[tuple[str, object]] = []

    def session(self, namespace: str = "default") -> "ScriptedSession":
        """Begin a session."""
        self.calls.append(("session", namespace))
        return ScriptedSession(self)


class ScriptedSession:
    """The scripted drafter's side of one session."""

    nbytes = 500
    indexed_tokens = 5

    def __init__(self, drafter: ScriptedDrafter) -> None:
        self.drafter = drafter
        self.context: list[int] = []

    def _note(self, call: str, value: object = None) -> None:
        self.drafter.calls.append((call, value))

    def sync(self, prompt_ids) -> int:
        """Note the prompt; return the length of the prefix that was the context already."""
        prompt = [int(token) for token in prompt_ids]
        self._note("sync", prompt)
        shared = zip(self.context, prompt, strict=False)
        known = next((i for i, (a, b) in enumerate(shared) if a != b), min(len(self.context), len(prompt)))
        self.context = prompt
        return known

    def draft(self, max_nodes=None) -> DraftTree:  # noqa: ARG002 (the protocol's)
        """What the script says."""
        self._note("draft")
        return tree(self.drafter.script(self.context))

    def accept(self, emitted) -> None:
        """Note the tokens."""
        tokens = [int(token) for token in emitted]
        self._note("accept", tokens)
        self.context = self.context + tokens

    def sources(self, nodes: int):
        """The same source for all."""
        return np.full(nodes, self.drafter.source, np.int32)

    def end_turn(self) -> None:
        """Note the call."""
        self._note("end_turn")

    def close(self) -> None:
        """Note the call."""
        self._note("close")
