"""What one verified draft comes to: the nodes that were accepted and the tokens that come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

FinishReason: TypeAlias = Literal["stop", "length"]
"""Why a generation ended: "stop" (an end token, stop token or stop string), "length" (its token limit)."""


@dataclass(frozen=True)
class Acceptance:
    """The outcome of one step. A frozen value.

    ``token_ids`` are the tokens of ``path`` and then at most one more, the *bonus*: the target's own choice
    after the last accepted node, which no node proposed. There is none where the generation ended on an
    accepted node.
    """

    path: tuple[int, ...]
    """Indices of the accepted nodes from the context downwards; their KV stays."""
    token_ids: tuple[int, ...]
    """What the step emits; at least one token."""
    finish_reason: FinishReason | None = None
    """Why the last emitted token ended the generation, or None where it goes on."""
    child_probs: Mapping[int, float] = field(default_factory=dict)
    """For each node whose parent was visited: the probability with which the target follows it (under
    greedy decoding 1 or 0). What a drafter's calibration learns from; empty under lenience, whose
    acceptance is not the target's."""

    @property
    def visited(self) -> tuple[int, ...]:
        """The node after which each emitted token was chosen, -1 for the context; as long as ``token_ids``."""
        return (-1, *self.path)[: len(self.token_ids)]

    @property
    def bonus(self) -> int | None:
        """The emitted token that is not in the draft, the next step's pending token; None if there is none."""
        return self.token_ids[-1] if len(self.token_ids) > len(self.path) else None
