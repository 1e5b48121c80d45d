"""Where a model's reasoning ends, and with it where its answer begins."""

from __future__ import annotations

from dataclasses import dataclass

REASONING = {"<think>": "</think>", "[THINK]": "[/THINK]"}
"""What opens reasoning at the start of a message, and what closes it."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The reasoning that an output may begin with."""

    opens: str | None
    """The marker that the model writes before it; None where the prompt has written it."""
    closes: str
    """The marker behind it."""


def open_reasoning(prompt_text: str) -> str:
    """The marker that closes the reasoning which a prompt has opened at its end; "" where it has not."""
    end = prompt_text.rstrip()
    return next((close for opened, close in REASONING.items() if end.endswith(opened)), "")


def reasonings(prompt_text: str) -> list[Reasoning]:
    """The reasonings that the output of a prompt may begin with; none where the prompt has closed one at its end."""
    closes = open_reasoning(prompt_text)
    if closes:
        return [Reasoning(None, closes)]
    if prompt_text.rstrip().endswith(tuple(REASONING.values())):
        return []
    return [Reasoning(opens, closes) for opens, closes in REASONING.items()]
