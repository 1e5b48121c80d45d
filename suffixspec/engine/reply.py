"""What one model call comes to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from suffixspec.verify.logprobs import TokenLogprobs

EndReason = Literal["stop", "length", "cancelled"]
"""Why a reply ended: an end token or stop string; the token limit or the end of the context; cancelled."""


@dataclass
class Timings:
    """Wall time of one model call, in seconds."""

    render: float = 0.0
    """Messages to token ids."""
    prefill: float = 0.0
    """Forwards over the new part of the prompt, all but its last token."""
    index_prompt: float = 0.0
    """Indexing the new part of the prompt."""
    index: float = 0.0
    """Indexing the output, and committing its KV."""
    draft: float = 0.0
    """Drafting."""
    forward: float = 0.0
    """The steps' forwards, acceptance included: on a device, only a choice that was read is known to be done."""

    @property
    def decode(self) -> float:
        """All steps."""
        return self.index + self.draft + self.forward


@dataclass
class Counts:
    """What the steps of one model call came to."""

    steps: int = 0
    """Target forwards after the prefill."""
    drafted: int = 0
    """Draft nodes checked."""
    accepted: int = 0
    """Draft nodes accepted."""
    accepted_lengths: list[int] = field(default_factory=list)
    """Histogram: ``accepted_lengths[i]`` steps accepted i draft nodes."""
    drafted_widths: list[int] = field(default_factory=list)
    """Histogram: ``drafted_widths[k]`` steps checked k draft nodes, 0 in a plain step."""
    prefilled: int = 0
    """Prompt tokens that went through the prefill."""
    prefill_forwards: int = 0
    """Forwards that this took."""

    def note(self, drafted: int, accepted: int) -> None:
        """Count a step."""
        self.steps += 1
        self.drafted += drafted
        self.accepted += accepted
        _count(self.accepted_lengths, accepted)
        _count(self.drafted_widths, drafted)


def _count(histogram: list[int], value: int) -> None:
    histogram += [0] * (value + 1 - len(histogram))
    histogram[value] += 1


@dataclass
class Reply:
    """The output of one model call, and how it was made."""

    text: str
    """The output without its end token, tool calls as the model wrote them."""
    token_ids: list[int]
    """Every token emitted, the end token included."""
    finish_reason: EndReason
    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens whose KV was there already."""
    counts: Counts
    timings: Timings
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    """One for each of ``token_ids`` where they were asked for."""
    spliced: list[str] = field(default_factory=list)
    """How each earlier output came into the prompt as the very tokens that were produced: ``"bytes"``, the
    template wrote it byte for byte; ``"json"``, it was equal as JSON only, which changed the prompt."""
    accepted_flags: list[bool] = field(default_factory=list)
    """For each of ``token_ids``: whether it came from a draft."""
    prediction_accepted: int = 0
    """Tokens of the call's prediction that are in the output, in its order; each counts once."""
    prediction_rejected: int = 0
    """Tokens of the prediction that are not in the output. They are no part of ``token_ids``."""

    @property
    def tokens_per_step(self) -> float:
        """Tokens that one forward of the target yielded; 0 without a step."""
        return len(self.token_ids) / self.counts.steps if self.counts.steps else 0.0

    @property
    def message(self) -> dict[str, Any]:
        """The reply as a message to append to the conversation."""
        return {"role": "assistant", "content": self.text}
