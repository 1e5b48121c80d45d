"""An output as its client will see it: blocks of text, reasoning and calls of tools, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from suffixspec.parsing import ContentDelta, Delta, OutputParser, ToolCallArguments, ToolCallStart, merge
from suffixspec.server.call import Ended, Piece

if TYPE_CHECKING:
    from suffixspec.engine.reply import Reply
    from suffixspec.verify.logprobs import TokenLogprobs


@dataclass
class Block:
    """A stretch of one kind."""

    kind: Literal["text", "reasoning", "call"]
    text: str = ""
    """Of a call: its arguments, JSON as the model wrote it."""
    id: str = ""
    """Of a call."""
    name: str = ""
    """The called tool."""


@dataclass
class Change:
    """What a delta did to a block."""

    index: int
    """The block's place in the output."""
    block: Block
    new: bool
    """Whether the block begins here."""
    text: str
    """What was added to it."""


class Output:
    """One output in the making.

    Args:
        index: its number in the call.
        parser: says what the model's text means; None: it is text and nothing else.
    """

    def __init__(self, index: int, parser: OutputParser | None) -> None:
        self.index = index
        self.blocks: list[Block] = []
        self.token_ids: list[int] = []
        """Without an end token."""
        self.logprobs: list[TokenLogprobs] = []
        self.ended: Ended | None = None
        self._parser = parser
        self._calls: list[int] = []  # places of the calls' blocks

    def feed(self, piece: Piece) -> Iterator[Change]:
        """Take in a step's text; what it changes."""
        self.token_ids += piece.token_ids
        self.logprobs += piece.logprobs
        deltas: list[Delta] = (
            [ContentDelta(piece.text)] if self._parser is None else self._parser.feed(piece.text)
        )
        return self._apply(deltas)

    def end(self, ended: Ended) -> Iterator[Change]:
        """The output is complete; what had been held back."""
        self.ended = ended
        return self._apply([] if self._parser is None else self._parser.finish())

    def text(self, kind: Literal["text", "reasoning"] = "text") -> str:
        """All text of a kind."""
        return "".join(block.text for block in self.blocks if block.kind == kind)

    @property
    def calls(self) -> list[Block]:
        """The calls of tools."""
        return [block for block in self.blocks if block.kind == "call"]

    @property
    def reply(self) -> Reply:
        """How it was made."""
        if self.ended is None:
            raise RuntimeError("expected an output that has ended")
        return self.ended.reply

    def message(self) -> dict[str, Any]:
        """The output as an assistant's message in OpenAI's form."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text(), "refusal": None}
        reasoning = self.text("reasoning")
        if reasoning:
            message["reasoning_content"] = reasoning
        if self.calls:
            message["content"] = message["content"] or None
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.text}}
                for call in self.calls
            ]
        return message

    def _apply(self, deltas: list[Delta]) -> Iterator[Change]:
        # Not lazily: an output is complete whether or not anybody reads the changes.
        return iter([self._change(delta) for delta in merge(deltas)])

    def _change(self, delta: Delta) -> Change:
        if isinstance(delta, ToolCallStart):
            self._calls.append(len(self.blocks))
            self.blocks.append(Block("call", id=delta.id, name=delta.name))
            return Change(len(self.blocks) - 1, self.blocks[-1], True, "")
        if isinstance(delta, ToolCallArguments):
            place = self._calls[delta.index]
            self.blocks[place].text += delta.text
            return Change(place, self.blocks[place], False, delta.text)
        kind: Literal["text", "reasoning"] = "text" if isinstance(delta, ContentDelta) else "reasoning"
        new = not self.blocks or self.blocks[-1].kind != kind
        if new:
            self.blocks.append(Block(kind))
        self.blocks[-1].text += delta.text
        return Change(len(self.blocks) - 1, self.blocks[-1], new, delta.text)
