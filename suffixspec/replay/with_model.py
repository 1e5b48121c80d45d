"""Recorded agent loops decoded again with a real model: measured times beside the modelled ones.

*Forced*: the recorded text decides what is accepted, and the model pays for every forward, over the context
and over the drafts. Otherwise the model writes its own output to each recorded prompt. Either way each turn
is decoded twice on the same branch, with drafts and plainly, in alternating order.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from suffixspec.draft import DraftSession, DraftTree, NoDrafter
from suffixspec.engine.lossless import LosslessReport, check_lossless
from suffixspec.engine.turn import Turn
from suffixspec.verify.acceptance import Acceptance, FinishReason
from suffixspec.verify.generation import Generation
from suffixspec.verify.recorded import accept_recorded
from suffixspec.verify.sampling import SamplingParams

if TYPE_CHECKING:
    from suffixspec.context_cost import ContextCost
    from suffixspec.engine.engine import Engine
    from suffixspec.replay.simulate import RenderedSession


class RecordedOutput:
    """Stands in for the acceptance rule: a recorded output says which tokens come out.

    Args:
        output_ids: int32 [n], n >= 1.
        room: tokens that the model's context has room for, n at least: a draft knows no more than that about
            where the output ends.
    """

    def __init__(self, output_ids: NDArray[np.int32], room: int) -> None:
        self._output = output_ids
        self.token_ids: list[int] = []
        self.params = SamplingParams(max_tokens=room)

    @property
    def finish_reason(self) -> FinishReason | None:
        """The record's end is the output's."""
        return "stop" if len(self.token_ids) == len(self._output) else None

    def accept(self, draft: DraftTree, logits: torch.Tensor) -> Acceptance:
        """What the record confirms of a draft; ``logits`` [k + 1, V] are read as greedy decoding would."""
        rest = self._output[len(self.token_ids) :]
        path = tuple(accept_recorded(draft, rest))
        emitted = tuple(rest[: len(path) + 1].tolist())
        for node in (-1, *path)[: len(emitted)]:
            torch.argmax(logits[node + 1]).item()  # the choice that the model would have paid for
        self.token_ids += emitted
        return Acceptance(path, emitted, self.finish_reason)


@dataclass
class ModelTurn:
    """One turn, decoded with drafts and plainly."""

    session_id: str
    turn: int
    context_tokens: int
    cached_tokens: int
    tokens: int
    steps: int
    drafted: int
    accepted: int
    prefill_s: float
    drafted_s: float
    """Decoding with drafts: drafting, forwards, acceptance, indexing of the output."""
    plain_s: float
    modelled_drafted_ms: float
    """What the cost curve makes of the steps, and the measured drafting."""
    modelled_plain_ms: float


@dataclass
class ModelReplay:
    """A replay with one drafter; valid after every turn.

    Args:
        engine: the model, its drafter and its measured cost curve.
        forced: the recorded text decides; else the model does.
        max_tokens: of an output that the model decides.
        verify: compare what the model wrote with plain decoding, token by token, and classify differences.
        cost: t(n, L), for the modelled times; None leaves them out (0).
        max_turns: turns of each session to decode; None: all.
    """

    engine: Engine
    forced: bool
    max_tokens: int = 64
    verify: bool = False
    cost: ContextCost | None = None
    max_turns: int | None = None
    turns: list[ModelTurn] = field(default_factory=list)
    dropped: int = 0
    """Turns left out, since prompt and output do not fit into the model's context."""
    empty: int = 0
    """Turns left out, since nothing was recorded as their output."""
    checks: list[LosslessReport] = field(default_factory=list)

    def run(self, session: RenderedSession, on_turn: Callable[[ModelTurn], None] = lambda _: None) -> None:
        """Decode the turns of a session that fit; its outputs become history."""
        engine = self.engine
        owner = (session.namespace, f"replay {session.session_id}")
        drafting = engine.drafter.session(session.namespace)
        try:
            for turn in list(session.turns)[: self.max_turns]:
                most = len(turn.output_ids) if self.forced else self.max_tokens
                if not len(turn.output_ids):
                    self.empty += 1
                    continue
                if len(turn.prompt_ids) + most > engine.target.max_positions:
                    self.dropped += 1
                    continue
                on_turn(self._decode_twice(session.session_id, turn, owner, drafting))
        finally:
            for branch in engine.branches.of(owner):
                engine.branches.drop(branch)
            drafting.close()

    def _decode_twice(
        self, session_id: str, turn: Any, owner: tuple[str, str], drafting: DraftSession
    ) -> ModelTurn:
        prompt = np.asarray(turn.prompt_ids, np.int32)
        plain_first = len(self.turns) % 2 == 1
        runs: dict[bool, Turn] = {}
        prefill = 0.0
        cached = 0
        for number, drafts in enumerate((False, True) if plain_first else (True, False)):
            run = self._decode(prompt, turn.output_ids, owner, drafting if drafts else NoDrafter().session())
            runs[drafts] = run
            prefill += run.timings.prefill
            cached = cached if number else run.cached_tokens
        drafted, plain = runs[True], runs[False]
        tokens = drafted.generation.token_ids
        if self.verify and not self.forced:
            params = SamplingParams(max_tokens=self.max_tokens)
            self.checks.append(check_lossless(self.engine, prompt, tokens, params))
        measured = ModelTurn(
            session_id=session_id,
            turn=turn.index,
            context_tokens=len(prompt),
            cached_tokens=cached,
            tokens=len(tokens),
            steps=drafted.counts.steps,
            drafted=drafted.counts.drafted,
            accepted=drafted.counts.accepted,
            prefill_s=prefill,
            drafted_s=drafted.timings.decode,
            plain_s=plain.timings.decode,
            modelled_drafted_ms=self._modelled(drafted),
            modelled_plain_ms=self._modelled(plain),
        )
        self.turns.append(measured)
        return measured

    def _decode(
        self,
        prompt: NDArray[np.int32],
        output: NDArray[np.int32],
        owner: tuple[str, str],
        drafting: DraftSession,
    ) -> Turn:
        engine = self.engine
        verifier: Any
        if self.forced:
            verifier = RecordedOutput(output, engine.target.max_positions - len(prompt))
        else:
            verifier = Generation(
                SamplingParams(max_tokens=self.max_tokens),
                prompt,
                vocab_size=engine.target.vocab_size,
                eos_ids=engine.eos_ids,
                device=engine.target.device,
            )
        run = Turn(engine, owner, prompt, verifier, drafting)
        for _ in run.run(None):
            pass
        return run

    def _modelled(self, run: Turn) -> float:
        if self.cost is None:
            return 0.0
        curve = self.cost.at(len(run.prompt_ids) + len(run.generation.token_ids) // 2)
        forwards = sum(steps * curve.ms(k + 1) for k, steps in enumerate(run.counts.drafted_widths) if steps)
        return forwards + run.timings.draft * 1e3

    def figures(self) -> dict[str, Any]:
        """What it came to; ratios are None where nothing was decoded."""
        turns = self.turns
        ratios = sorted(turn.plain_s / turn.drafted_s for turn in turns if turn.drafted_s > 0)
        tokens, steps = _sum(turns, "tokens"), _sum(turns, "steps")
        drafted_s, plain_s = _sum(turns, "drafted_s"), _sum(turns, "plain_s")
        modelled, modelled_plain = _sum(turns, "modelled_drafted_ms"), _sum(turns, "modelled_plain_ms")
        quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        return {
            "drafter": self.engine.drafter.name,
            "forced": self.forced,
            "turns": len(turns),
            "dropped_turns": self.dropped,
            "empty_turns": self.empty,
            "tokens": tokens,
            "steps": steps,
            "tokens_per_step": tokens / steps if steps else None,
            "drafted": _sum(turns, "drafted"),
            "accepted": _sum(turns, "accepted"),
            "prefill_s": _sum(turns, "prefill_s"),
            "drafted_s": drafted_s,
            "plain_s": plain_s,
            "measured_speedup": plain_s / drafted_s if drafted_s else None,
            "turn_speedup_quartiles": quartiles or None,
            "modelled_speedup": modelled_plain / modelled if modelled else None,
            "compared_tokens": sum(check.compared for check in self.checks),
            "near_ties": sum(check.near_ties for check in self.checks),
            "other_differences": sum(check.errors for check in self.checks),
        }


def lines(figures: Iterable[dict[str, Any]]) -> list[str]:
    """The figures as a table for people."""
    rows = [
        (
            "drafter",
            "turns",
            "dropped",
            "tokens",
            "tokens/step",
            "plain",
            "drafted",
            "measured",
            "quartiles",
            "modelled",
        )
    ]
    for row in figures:
        low, _, high = row["turn_speedup_quartiles"] or (None, None, None)
        rows.append(
            (
                row["drafter"],
                f"{row['turns']:,}",
                f"{row['dropped_turns']:,}",
                f"{row['tokens']:,}",
                _number(row["tokens_per_step"]),
                f"{row['plain_s']:.2f} s",
                f"{row['drafted_s']:.2f} s",
                _number(row["measured_speedup"], "x"),
                f"{_number(low)} to {_number(high)}",
                _number(row["modelled_speedup"], "x"),
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    name, *others = widths
    return [
        "  ".join([row[0].ljust(name), *(cell.rjust(w) for cell, w in zip(row[1:], others, strict=True))])
        for row in rows
    ]


def _sum(turns: list[ModelTurn], name: str) -> Any:
    return sum(getattr(turn, name) for turn in turns)


def _number(value: float | None, unit: str = "") -> str:
    return "-" if value is None else f"{value:.2f}{unit}"
