"""One output in the making: what its acceptance rule carries from step to step."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike

from suffixspec.draft.tree import DraftTree
from suffixspec.verify.acceptance import Acceptance, FinishReason
from suffixspec.verify.chance import SeededChance
from suffixspec.verify.detokenizer import Decode
from suffixspec.verify.greedy import accept_choices, accept_greedy, greedy_choices
from suffixspec.verify.lenient import accept_lenient, accept_lenient_greedy
from suffixspec.verify.logprobs import TokenLogprobs, token_logprobs
from suffixspec.verify.rejection import ProposalsAt, accept_rejection
from suffixspec.verify.sampled import accept_sampled
from suffixspec.verify.sampling import SamplingParams, process_logits
from suffixspec.verify.stopping import Stopping

LogitsAt: TypeAlias = Callable[[int], torch.Tensor]
"""``logits_at(node)``: float [V], the model's logits of the token that follows ``node``, -1 for the context."""


class Generation:
    """The rule that the parameters ask for, with its random state, token counts and end, for one output.

    Each step hands ``accept`` a draft and the logits of its nodes. Plain decoding is the same with empty
    drafts, so that both have the same tokens, random draws and calls of processors by construction.

    After an exception (a processor that raises, a grammar that allows no token) the generation is over:
    ``token_ids`` are those of the steps before.

    Args:
        params: what the user asks for; ``n`` > 1 takes one Generation for each ``params.output(i)``.
        prompt_ids: int [n], the context that the output follows; may be empty.
        vocab_size: V, the width of the logits.
        eos_ids: the model's own end tokens.
        decode: token ids to text, see ``Detokenizer``; None where no text is wanted.
        device: where the logits will lie.

    Raises:
        ValueError: several outputs at once, or stop strings without ``decode``.
    """

    def __init__(
        self,
        params: SamplingParams,
        prompt_ids: ArrayLike,
        *,
        vocab_size: int,
        eos_ids: Collection[int] = (),
        decode: Decode | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        if params.n != 1:
            raise ValueError(
                f"expected parameters of one output (n = 1), got n = {params.n}; use params.output(i)"
            )
        self.params = params
        self.stopping = Stopping(
            end_ids={*eos_ids, *params.stop_token_ids},
            max_tokens=params.max_tokens,
            stop=params.stop,
            decode=decode,
        )
        self.token_ids: list[int] = []
        """The output's tokens, of all complete steps."""
        self.logprobs: list[TokenLogprobs] = []
        """One for each of ``token_ids`` where ``params.logprobs`` asks for them, else empty."""
        self._chance = SeededChance(params.seed, device)
        prompt = np.array(prompt_ids, np.int64).reshape(-1)
        self._prompt_length = prompt.shape[0]
        # int64 [capacity]: prompt and output, then free. Kept only where something looks at it.
        self._ids = torch.from_numpy(prompt if params.needs_ids else prompt[:0]).to(device)
        # int64 [V]: how often each token was generated.
        self._counts = (
            torch.zeros(vocab_size, dtype=torch.int64, device=device) if params.needs_counts else None
        )

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the output ended, or None while it goes on."""
        return self.stopping.reason

    def accept(
        self,
        draft: DraftTree,
        logits: torch.Tensor | LogitsAt,
        proposals_at: ProposalsAt | None = None,
    ) -> Acceptance:
        """One step: the tokens that the target emits, given what it says about the draft.

        Args:
            draft: the draft tree, k nodes; empty for a plain step.
            logits: float [k + 1, V], of the token after the context and after each node; or a function that
                gives one row, asked for visited nodes only.
            proposals_at: for drafts that were sampled, what from, see ``accept_rejection``. Without effect
                at temperature 0, where nothing is left to chance.

        Raises:
            RuntimeError: the output has ended.
            SuffixspecError: no token can be chosen.
            ValueError: the logits do not fit the draft, or ``proposals_at`` under lenience.

        Cost: ``process_logits`` and the choice, once per emitted token.
        """
        if self.finish_reason is not None:
            raise RuntimeError(f"expected no step after the end of the output ({self.finish_reason})")
        if isinstance(logits, torch.Tensor) and logits.shape[:-1] != (len(draft) + 1,):
            raise ValueError(f"expected logits of shape ({len(draft) + 1}, V), got {tuple(logits.shape)}")
        rows: list[torch.Tensor] = []  # float [V] of each visited node
        accepted = self._accept(draft, logits, proposals_at, rows)
        self._note(accepted.token_ids[-1], len(self.token_ids) + len(accepted.token_ids) - 1)
        self.token_ids += accepted.token_ids
        if self.params.logprobs is not None:
            self.logprobs += token_logprobs(torch.stack(rows), accepted.token_ids, self.params.logprobs)
        return accepted

    def _accept(
        self,
        draft: DraftTree,
        logits: torch.Tensor | LogitsAt,
        proposals_at: ProposalsAt | None,
        rows: list[torch.Tensor],
    ) -> Acceptance:
        params, finish = self.params, self.stopping

        def scores_at(node: int, emitted: tuple[int, ...]) -> torch.Tensor:
            row = logits[node + 1] if isinstance(logits, torch.Tensor) else logits(node)  # [V]
            if params.logprobs is not None:
                rows.append(row)
            if emitted:  # the step's last token is noted when it is complete
                self._note(emitted[-1], len(self.token_ids) + len(emitted) - 1)
            ids = self._ids[: self._prompt_length + len(self.token_ids) + len(emitted)]
            return process_logits(row, ids, params, self._counts)

        if params.lenience < 1.0 and proposals_at is not None:
            raise ValueError("expected lenience 1 for drafts with a distribution of their own")
        if params.temperature == 0.0:
            if params.lenience < 1.0:
                return accept_lenient_greedy(draft, scores_at, params.lenience, finish)
            if params.keeps_argmax and isinstance(logits, torch.Tensor) and _reads_slowly(logits.device):
                accepted = accept_choices(draft, greedy_choices(logits), finish)
                rows += [logits[node + 1] for node in accepted.visited]
                return accepted
            return accept_greedy(draft, scores_at, finish)
        if params.lenience < 1.0:
            return accept_lenient(draft, scores_at, self._chance, params.lenience, finish)
        if proposals_at is not None:
            return accept_rejection(draft, scores_at, proposals_at, self._chance, finish)
        return accept_sampled(draft, scores_at, self._chance, finish)

    def _note(self, token_id: int, index: int) -> None:
        """Enter the output's token ``index`` where processors and penalties look."""
        if self._counts is not None:
            self._counts[token_id] += 1
        if self.params.needs_ids:
            at = self._prompt_length + index
            if at >= self._ids.shape[0]:  # grow by an eighth; what processors have kept of it stays as it was
                room = self._ids.new_zeros(self._ids.shape[0] // 8 + 256)
                self._ids = torch.cat((self._ids, room))
            self._ids[at] = token_id


def _reads_slowly(device: torch.device) -> bool:
    """Whether one pass over all nodes costs less than reading a number from the device per emitted token."""
    return device.type != "cpu"
