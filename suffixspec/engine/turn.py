"""One model call in the making."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from suffixspec.draft import DraftSession, DraftTree
from suffixspec.draft.alignment import Alignment
from suffixspec.engine.branch import Branch
from suffixspec.engine.memory import with_retry
from suffixspec.engine.reply import Counts, Timings
from suffixspec.engine.step import step
from suffixspec.verify.acceptance import Acceptance, FinishReason
from suffixspec.verify.constraint import ConstraintState
from suffixspec.verify.generation import Generation
from suffixspec.verify.rejection import ProposalsAt
from suffixspec.verify.sampling import SamplingParams

if TYPE_CHECKING:
    from suffixspec.engine.engine import Engine

T = TypeVar("T")
OnPrefill = Callable[[int, int], None]
"""``on_prefill(done, total)``: so many of the prompt's tokens have their KV now."""


class Verifier(Protocol):
    """What says which tokens come out of a step: ``verify.Generation``, or a record."""

    token_ids: list[int]
    """The output so far."""

    @property
    def params(self) -> SamplingParams:
        """What was asked for; its ``max_tokens`` bounds the output."""
        ...

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the output ended, or None while it goes on."""
        ...

    def accept(self, draft: DraftTree, logits: torch.Tensor) -> Acceptance:
        """One step, given the logits [k + 1, V] of a draft of k nodes."""
        ...


class Turn:
    """What a model call carries from step to step.

    Args:
        engine: whose target and branches.
        owner: whose branch may be continued.
        prompt_ids: int32 [n], n >= 1.
        generation: the acceptance rule, with its random state and its end.
        drafting: the drafter's side of the session; a ``SampledDraftSession`` is verified by the general rule.
        prediction: where the output stands in what was predicted for it; ``drafting`` follows it.
        constraint: says which tokens may come.
    """

    def __init__(
        self,
        engine: Engine,
        owner: tuple[str, str],
        prompt_ids: NDArray[np.int32],
        generation: Verifier,
        drafting: DraftSession,
        *,
        prediction: Alignment | None = None,
        constraint: ConstraintState | None = None,
    ) -> None:
        self.engine = engine
        self.owner = owner
        self.prompt_ids = prompt_ids
        self.generation = generation
        self.drafting = drafting
        self.prediction = prediction
        self.constraint = constraint
        self._proposals_at: ProposalsAt | None = getattr(drafting, "proposals_at", None)
        self.pending = int(prompt_ids[-1])
        """The last token emitted; its KV is not there yet."""
        self.counts = Counts()
        self.timings = Timings()
        self.cached_tokens = 0
        self.accepted_flags: list[bool] = []
        self.branch: Branch

    def run(self, on_prefill: OnPrefill | None) -> Generator[Acceptance | None, None, None]:
        """Prefill what is new, then step until the output ends; yields after each chunk and each step.

        May be closed wherever it yields. Nothing is locked while a step's outcome is looked at.
        """
        engine = self.engine
        begun = False
        try:
            with engine.lock:
                started = time.perf_counter()
                params = self.generation.params
                self.drafting.sync(
                    self.prompt_ids, temperature=params.temperature, learn=params.lenience == 1.0
                )
                begun = True
                self.timings.index_prompt += time.perf_counter() - started
                self.branch = engine.branches.take(self.owner, self.prompt_ids, self._new_branch)
                engine.branches.pin(self.branch)
                self.cached_tokens = len(self.branch)
            yield from self._prefill(on_prefill)
            while self.generation.finish_reason is None:
                with engine.lock:
                    accepted = step(self)
                yield accepted
        finally:
            with engine.lock:
                if hasattr(self, "branch"):
                    engine.branches.unpin(self.branch)
                if begun and engine.saved is None:
                    self.drafting.end_turn()
            if begun and engine.saved is not None:
                self.drafting.end_turn()  # takes the lock itself, for a piece of the output at a time

    def _prefill(self, on_prefill: OnPrefill | None) -> Generator[None, None, None]:
        """Everything but the last token of the prompt, chunk by chunk."""
        engine, branch = self.engine, self.branch
        total = len(self.prompt_ids)
        while len(branch) < total - 1:
            chunk = self.prompt_ids[len(branch) : min(len(branch) + engine.prefill_chunk, total - 1)]
            started = time.perf_counter()
            with engine.lock:
                self._with_room(len(chunk), partial(branch.prefill, engine.target, chunk))
            self.timings.prefill += time.perf_counter() - started
            self.counts.prefilled += len(chunk)
            self.counts.prefill_forwards += 1
            if on_prefill is not None:
                on_prefill(len(branch), total)
            yield

    def most_nodes(self) -> int | None:
        """The most nodes of the next draft; None leaves it to the drafter."""
        room = (self.generation.params.max_tokens or 1 << 30) - len(self.generation.token_ids) - 1
        control = self.engine.control
        most = control.max_nodes(len(self.branch))
        if control.paused and not (self.prediction is None and self.constraint is None):
            most = None  # what did not pay before was drafted without them
        # No node lies deeper than the tree has nodes, so none comes to lie beyond the last position.
        most = room if most is None else min(most, room)
        return None if most >= self.engine.max_nodes else most

    def draft(self) -> DraftTree:
        """What the drafter proposes; under a constraint without what it forbids, and with what it forces."""
        most = self.most_nodes()
        draft = self.drafting.draft(most)
        return draft if self.constraint is None else self.constraint.extend(draft, most)

    def accept(self, draft: DraftTree, logits: torch.Tensor) -> Acceptance:
        """What the target says of the draft (k nodes), given logits [k + 1, V]; tokens that are not allowed aside."""
        if self.constraint is None and self._proposals_at is None:
            return self.generation.accept(draft, logits)
        if not isinstance(self.generation, Generation):
            raise TypeError(f"expected a Generation, got {type(self.generation).__name__}")
        if self.constraint is None:
            return self.generation.accept(draft, logits, self._proposals_at)
        # What a constraint took out of a draft, or put in, was not drawn: all of it is verified as proposed.
        accepted = self.generation.accept(draft, self.constraint.allowed(draft, logits))
        self.constraint.accept(accepted.token_ids)
        return accepted

    def forward(self, token_ids: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
        """Logits [n, V] of a tree (int64 [n] each) behind the branch; commits nothing."""
        target = self.engine.target
        width = target.padded(token_ids.shape[0])
        return self._with_room(width, partial(target.forward_tree, self.branch.cache, token_ids, parents))

    def note(self, nodes: int, accepted: Acceptance, draft: float, forward: float, index: float) -> None:
        """Count a step that is committed; times in seconds."""
        self.counts.note(nodes, len(accepted.path))
        self.accepted_flags += [i < len(accepted.path) for i in range(len(accepted.token_ids))]
        self.timings.draft += draft
        self.timings.forward += forward
        self.timings.index += index
        emitted = len(accepted.token_ids)
        before = len(self.branch) - len(accepted.path) - 1
        self.engine.control.observe(nodes, emitted, forward, draft, context_length=before)

    def _new_branch(self) -> Branch:
        # Room for the prompt and some output at once; later it grows by a fifth at a time.
        output = min(self.generation.params.max_tokens or 256, 256)
        slots = self.engine.capacity(len(self.prompt_ids) + output)
        return self.engine.new_branch(self.owner, slots)

    def _with_room(self, more: int, forward: Callable[[], T]) -> T:
        """A forward over ``more`` tokens, with room for them; once more where memory runs out."""
        engine, branch = self.engine, self.branch

        def attempt() -> T:
            engine.reserve(branch, len(branch) + more)
            return forward()

        return with_retry(attempt, engine.branches, branch)
