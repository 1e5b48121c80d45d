"""Where a model's reasoning ends, and with it where its answer begins."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

REASONING = {"<think>": "</think>", "[THINK]": "[/THINK]"}
"""What opens reasoning at the start of a message, and what closes it."""

CHANNEL, MESSAGE, START = "<|channel|>", "<|message|>", "<|start|>"
"""Harmony (gpt-oss): a message is a header, which names a channel, and a text; reasoning is a message by itself."""
FINAL = f"{CHANNEL}final"
"""What the header of the answer has."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The reasoning that an output may begin with."""

    opens: str | None
    """The marker that the model writes before it; None where the prompt has written it."""
    closes: str
    """The marker behind it."""
    header: str | None = None
    """Text that comes before that marker where the answer begins behind it; None: it begins behind the first one."""


def open_reasoning(prompt_text: str) -> str:
    """The marker that closes the reasoning which a prompt has opened at its end; "" where it has not."""
    end = prompt_text.rstrip()
    return next((close for opened, close in REASONING.items() if end.endswith(opened)), "")


def reasonings(prompt_text: str, special_tokens: Container[str] = ()) -> list[Reasoning]:
    """The reasonings that the output of a prompt may begin with; none where the prompt has closed one at its end.

    Args:
        prompt_text: the prompt.
        special_tokens: the tokenizer's: they tell whether the model writes to channels. All that comes before
            the text of the final one is then reasoning.
    """
    if has_channels(special_tokens):
        header = prompt_text[prompt_text.rfind(START) + 1 :]
        if FINAL not in header:
            return [Reasoning(None, MESSAGE, FINAL)]
        return [] if MESSAGE in header[header.rindex(FINAL) :] else [Reasoning(None, MESSAGE)]
    closes = open_reasoning(prompt_text)
    if closes:
        return [Reasoning(None, closes)]
    if prompt_text.rstrip().endswith(tuple(REASONING.values())):
        return []
    return [Reasoning(opens, closes) for opens, closes in REASONING.items()]


def has_channels(special_tokens: Container[str]) -> bool:
    """Whether a tokenizer with these special tokens is of a model that writes to channels."""
    return CHANNEL in special_tokens and MESSAGE in special_tokens
