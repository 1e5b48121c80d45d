"""Decode recorded agent loops again, step by step, with the recorded text in the target's place.

The same index, drafter and acceptance rule as with a model; only the verification is a comparison with the
record. Time is modelled: a step with k nodes costs t(k + 1) of the cost curve.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from suffixspec.cost import CostCurve
from suffixspec.draft import Drafter, DraftSession
from suffixspec.replay.result import SOURCES, DrafterResult, OutputSpan, TurnResult
from suffixspec.verify.recorded import accept_recorded

if TYPE_CHECKING:
    from suffixspec.store.saved_history import SavedHistory
    from suffixspec.text.render import RenderedTurn

_SAMPLE_TOKENS = (60, 900)  # a page of real output: long enough to see something, short enough to read


@dataclass(slots=True)
class RenderedSession:
    """A recorded session as token ids."""

    session_id: str
    task_key: str
    namespace: str
    turns: Sequence[RenderedTurn]


@dataclass
class Simulation:
    """One drafter decoding one session after the other; ``result`` is valid after every turn."""

    drafter: Drafter
    cost: CostCurve
    decode: Callable[[Sequence[int]], str] = lambda ids: " ".join(map(str, ids))
    """Turns token ids into text for the sample of the report."""
    saved: SavedHistory | None = None
    """Keeps the drafter's history on disk, if it is kept."""
    result: DrafterResult = field(init=False)

    def __post_init__(self) -> None:
        self.result = DrafterResult(self.drafter.name)
        self._draft_us: list[float] = []
        self._draft_nodes: list[int] = []
        self._lengths: Counter[int] = Counter()
        self._attempts: Counter[str] = Counter()
        self._step_ms: dict[int, float] = {}
        self._sample_score = -1

    def run(self, session: RenderedSession, on_turn: Callable[[TurnResult], None] = lambda _: None) -> None:
        """Decode every turn of a session, and hand its outputs to the drafter's history."""
        self._attempts[session.task_key] += 1
        if self.saved is None:
            drafting = self.drafter.session(session.namespace)
        else:
            drafting = self.saved.session(session.namespace, session.session_id)
        try:
            for turn in session.turns:
                measured = TurnResult(
                    session_id=session.session_id,
                    turn=turn.index,
                    task_key=session.task_key,
                    attempt=self._attempts[session.task_key],
                    context_tokens=len(turn.prompt_ids),
                )
                # Before it is complete: an interrupted turn counts as far as it came.
                self.result.turns.append(measured)
                kinds = self._decode_turn(drafting, turn, measured)
                self._keep_sample(measured, turn, kinds)
                on_turn(measured)
        finally:
            self._measure_memory(drafting)
            drafting.close()

    def _decode_turn(self, drafting: DraftSession, turn: RenderedTurn, measured: TurnResult) -> list[int]:
        """The loop of one turn: draft, verify, accept, commit. Each token's source, -1 = bonus."""
        clock = time.perf_counter
        begun = clock()
        known = drafting.sync(turn.prompt_ids)
        measured.prompt_append_us = (clock() - begun) * 1e6
        measured.append_us += measured.prompt_append_us
        measured.appended_tokens += len(turn.prompt_ids) - known
        output = turn.output_ids
        kinds: list[int] = []
        at = 0
        while at < len(output):
            started = clock()
            draft = drafting.draft()
            drafted = clock()
            path = accept_recorded(draft, output[at:])
            emitted = output[at : at + len(path) + 1]
            sources = drafting.sources(len(draft))
            self._count_step(sources, draft.best_chain(), draft.token_ids, path, output[at:])
            kinds += sources[path].tolist()
            kinds += [-1] * (len(emitted) - len(path))
            accepted = clock()
            drafting.accept(emitted)
            measured.append_us += (clock() - accepted) * 1e6
            measured.appended_tokens += len(emitted)
            measured.draft_us += (drafted - started) * 1e6
            measured.target_ms += self._ms(len(draft))
            measured.tokens += len(emitted)
            measured.steps += 1
            measured.drafted += len(draft)
            measured.accepted += len(path)
            self._draft_us.append((drafted - started) * 1e6)
            self._draft_nodes.append(len(draft))
            self._lengths[len(path)] += 1
            at += len(emitted)
        ended = clock()
        drafting.end_turn()
        done = clock()
        measured.append_us += (done - ended) * 1e6
        measured.seconds = done - begun
        return kinds

    def _ms(self, nodes: int) -> float:
        """t(nodes + 1), looked up once per width."""
        if nodes not in self._step_ms:
            self._step_ms[nodes] = self.cost.ms(nodes + 1)
        return self._step_ms[nodes]

    def _count_step(
        self,
        sources: NDArray[np.int32],
        chain: list[int],
        token_ids: NDArray[np.int32],
        path: list[int],
        target: NDArray[np.int32],
    ) -> None:
        """Count sources, and how far the most probable chain alone would have come."""
        self.result.drafted_by_source += np.bincount(sources, minlength=len(SOURCES))
        self.result.accepted_by_source += np.bincount(sources[path], minlength=len(SOURCES))
        for node, token in zip(chain, target.tolist(), strict=False):
            self.result.chain_tested += 1
            if int(token_ids[node]) != token:
                break
            self.result.chain_accepted += 1

    def _keep_sample(self, measured: TurnResult, turn: RenderedTurn, kinds: list[int]) -> None:
        """Keep the output in which most was copied, as spans of one kind each."""
        low, high = _SAMPLE_TOKENS
        if not low <= measured.tokens <= high or measured.accepted <= self._sample_score:
            return
        self._sample_score = measured.accepted
        spans = []
        start = 0
        for end in range(1, len(kinds) + 1):
            if end == len(kinds) or kinds[end] != kinds[start]:
                kind = "bonus" if kinds[start] < 0 else SOURCES[kinds[start]]
                spans.append(OutputSpan(self.decode(turn.output_ids[start:end].tolist()), kind))
                start = end
        self.result.sample = spans
        self.result.sample_title = f"{measured.session_id}, model call {measured.turn + 1}"

    def _measure_memory(self, drafting: DraftSession) -> None:
        total = self.drafter.nbytes + drafting.nbytes
        if total > self.result.index_bytes:
            self.result.index_bytes = total
            self.result.index_tokens = self.drafter.indexed_tokens + drafting.indexed_tokens

    def finish(self) -> DrafterResult:
        """Complete ``result`` with the distributions over steps; may be called more than once."""
        longest = max(self._lengths, default=0)
        self.result.draft_us = np.array(self._draft_us, np.float32)
        self.result.draft_nodes = np.array(self._draft_nodes, np.int32)
        self.result.accepted_length_histogram = np.array(
            [self._lengths[i] for i in range(longest + 1)], np.int64
        )
        return self.result


def replay(
    sessions: Iterable[RenderedSession],
    simulations: Sequence[Simulation],
    *,
    on_turn: Callable[[Simulation, TurnResult], None] = lambda _s, _t: None,
    on_session: Callable[[RenderedSession], None] = lambda _: None,
) -> tuple[int, bool]:
    """Run every simulation over every session; return (sessions decoded, whether it was interrupted).

    All simulations decode a session before the next one begins, so that stopping early (Ctrl-C) leaves
    figures over the same sessions but for the one that was under way.
    """
    done = 0
    try:
        for session in sessions:
            for simulation in simulations:
                simulation.run(session, partial(on_turn, simulation))
            done += 1
            on_session(session)
    except KeyboardInterrupt:
        return done, True
    finally:
        for simulation in simulations:
            simulation.finish()
    return done, False
