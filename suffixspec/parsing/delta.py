"""Pieces of a model's message as they become certain, and the message that they add up to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class ContentDelta:
    """More of what the model says."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of what it thinks beforehand."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """A call of a tool begins."""

    index: int
    """0 for the message's first call, and so on."""
    id: str
    """For the tool's answer to refer to."""
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallArguments:
    """More of a call's arguments: JSON text as the model wrote it, whatever it wrote."""

    index: int
    """The call that has started with this index."""
    text: str


Delta: TypeAlias = ContentDelta | ReasoningDelta | ToolCallStart | ToolCallArguments


def merge(deltas: Iterable[Delta]) -> list[Delta]:
    """The same deltas with neighbours of one kind put together. Cost: O(deltas and their text)."""
    merged: list[Delta] = []
    texts: list[str] = []  # of the last one

    def close() -> None:
        if texts:
            last = merged.pop()
            text = "".join(texts)
            if isinstance(last, ToolCallArguments):
                merged.append(ToolCallArguments(last.index, text))
            else:
                merged.append(type(last)(text))  # type: ignore[call-arg, arg-type]
            texts.clear()

    for delta in deltas:
        if isinstance(delta, ToolCallStart):
            close()
            merged.append(delta)
            continue
        last = merged[-1] if merged else None
        same = type(last) is type(delta) and getattr(last, "index", 0) == getattr(delta, "index", 0)
        if not same:
            close()
            merged.append(delta)
        texts.append(delta.text)
    close()
    return merged


def message_of(deltas: Iterable[Delta]) -> dict[str, Any]:
    """The message that deltas add up to, in OpenAI's form.

    Returns:
        ``{"role": "assistant", "content": str or None}``, with ``"reasoning_content"`` (str) where the model
        reasoned and ``"tool_calls"`` (list of ``{"id", "type": "function", "function": {"name",
        "arguments"}}``) where it called tools. The content is None only beside calls; else ``""``.
    """
    content: list[str] = []
    reasoning: list[str] = []
    calls: list[dict[str, Any]] = []
    for delta in merge(deltas):
        if isinstance(delta, ContentDelta):
            content.append(delta.text)
        elif isinstance(delta, ReasoningDelta):
            reasoning.append(delta.text)
        elif isinstance(delta, ToolCallStart):
            function = {"name": delta.name, "arguments": ""}
            calls.append({"id": delta.id, "type": "function", "function": function})
        else:
            calls[delta.index]["function"]["arguments"] += delta.text
    message: dict[str, Any] = {"role": "assistant", "content": "".join(content)}
    if reasoning:
        message["reasoning_content"] = "".join(reasoning)
    if calls:
        message["tool_calls"] = calls
        message["content"] = message["content"] or None
    return message
