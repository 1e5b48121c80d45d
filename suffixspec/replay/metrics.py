"""Every published figure of a replay, derived from its raw counts: each has one definition, here.

``measure`` turns a ``ReplayResult`` into ``RunMetrics``; the output modules print those. A figure that has
no value (an acceptance rate where nothing was drafted) is None, and null in JSON: never 0, NaN or infinity.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, TypeVar

import numpy as np

from suffixspec.cost import CostCurve
from suffixspec.replay.result import SOURCES, DrafterResult, ReplayResult, TurnResult

SCHEMA_VERSION = 1
LONG_OUTPUT = 8_000
"""Tokens above which ``tokens_per_step_capped`` leaves a turn out: one looping reply must not rule it."""

_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class Pool:
    """Sums over some turns, and the ratios of those sums."""

    turns: int
    tokens: int
    steps: int
    drafted: int
    accepted: int
    plain_ms: float
    """Modelled time of decoding the tokens one by one."""
    speculative_ms: float
    """Modelled time of the forwards, and the measured time of drafting and of indexing the output."""

    @property
    def tokens_per_step(self) -> float | None:
        """Tokens emitted per target forward, τ."""
        return _ratio(self.tokens, self.steps)

    @property
    def speedup(self) -> float | None:
        """How many times as fast as plain decoding."""
        return _ratio(self.plain_ms, self.speculative_ms)


@dataclass(frozen=True, slots=True)
class TurnMetrics:
    """One model call of the recorded loop."""

    session_id: str
    turn: int
    task: str
    attempt: int
    context_tokens: int
    pool: Pool

    def to_json(self) -> dict[str, object]:
        """The entry of ``per_turn``."""
        return {
            "session_id": self.session_id,
            "turn": self.turn,
            "task": self.task,
            "attempt": self.attempt,
            "context_tokens": self.context_tokens,
            "tokens": self.pool.tokens,
            "steps": self.pool.steps,
            "drafted": self.pool.drafted,
            "accepted": self.pool.accepted,
            "tokens_per_step": self.pool.tokens_per_step,
            "modelled_speedup": self.pool.speedup,
        }


@dataclass(frozen=True, slots=True)
class TurnPosition:
    """All turns with the same number within their sessions: how the loop develops."""

    turn: int
    pool: Pool
    quartiles: tuple[float, float, float] | None
    """Lower quartile, median and upper quartile of the single turns' tokens per step."""

    def to_json(self) -> dict[str, object]:
        """The entry of ``by_turn_number``."""
        low, median, high = self.quartiles or (None, None, None)
        return {
            "turn": self.turn,
            "turns": self.pool.turns,
            "tokens": self.pool.tokens,
            "steps": self.pool.steps,
            "tokens_per_step": self.pool.tokens_per_step,
            "tokens_per_step_p25": low,
            "tokens_per_step_p50": median,
            "tokens_per_step_p75": high,
        }


@dataclass(frozen=True, slots=True)
class SessionMetrics:
    """One session."""

    session_id: str
    task: str
    attempt: int
    pool: Pool

    def to_json(self) -> dict[str, object]:
        """The entry of ``per_session``."""
        return {
            "session_id": self.session_id,
            "task": self.task,
            "attempt": self.attempt,
            "turns": self.pool.turns,
            "tokens": self.pool.tokens,
            "steps": self.pool.steps,
            "tokens_per_step": self.pool.tokens_per_step,
            "modelled_speedup": self.pool.speedup,
        }


@dataclass(frozen=True, slots=True)
class SourceMetrics:
    """What one source of drafts gave."""

    name: str
    """One of ``SOURCES``, or ``"target"``: what the target produced itself."""
    drafted: int | None
    accepted: int | None
    acceptance_rate: float | None
    share_of_output: float | None
    """Share of the emitted tokens that came from here; over all sources with ``"target"`` it sums to 1."""

    def to_json(self) -> dict[str, object]:
        """The value under this source's name in ``sources``."""
        return {
            "drafted": self.drafted,
            "accepted": self.accepted,
            "acceptance_rate": self.acceptance_rate,
            "share_of_output": self.share_of_output,
        }


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two groups of turns side by side: the first and the later ones."""

    first: Pool
    later: Pool


@dataclass(frozen=True, slots=True)
class RetryMetrics:
    """First against later tries, over the tasks that were tried more than once."""

    tasks: int
    first_sessions: int
    later_sessions: int
    contrast: Contrast

    def to_json(self) -> dict[str, object]:
        """The value of ``retries``."""
        return {
            "tasks": self.tasks,
            "first_sessions": self.first_sessions,
            "later_sessions": self.later_sessions,
            "tokens_per_step_first": self.contrast.first.tokens_per_step,
            "tokens_per_step_later": self.contrast.later.tokens_per_step,
            "modelled_speedup_first": self.contrast.first.speedup,
            "modelled_speedup_later": self.contrast.later.speedup,
        }


@dataclass(frozen=True, slots=True)
class DrafterMetrics:
    """All figures of one drafter. The fields up to ``overhead_us_per_token`` are those of the JSON output, in order."""

    name: str
    tokens: int
    steps: int
    tokens_per_step: float | None
    """Tokens emitted per target forward, τ: Σ tokens ÷ Σ steps over all turns."""
    drafted_per_step: float | None
    acceptance_rate: float | None
    """Accepted ÷ drafted nodes."""
    draft_us_p50: float | None
    draft_us_p99: float | None
    append_us_per_token: float | None
    index_bytes_per_token: float | None
    modelled_speedup: float | None
    """Plain time, tokens · t(1), over the time of the forwards, of drafting and of indexing the output."""
    per_turn: tuple[TurnMetrics, ...]
    accepted_length_histogram: tuple[int, ...]
    """Number of steps that accepted 0, 1, 2, … nodes."""
    tokens_per_step_session_mean: float | None
    """Mean over sessions of each one's tokens ÷ steps."""
    tokens_per_step_capped: float | None
    """τ without the turns whose output is longer than ``LONG_OUTPUT``."""
    alpha_chain: float | None
    """Share accepted of the nodes on a draft's most probable path whose parent was accepted."""
    c: float | None
    """Mean drafting time per step ÷ t(1)."""
    ops_growth: float | None
    """Tokens that the target works on per token emitted: (drafted per step + 1) ÷ τ."""
    overhead_us_per_token: float | None
    """Time of drafting and of all indexing, the prompts' included, per token emitted."""
    sources: tuple[SourceMetrics, ...]
    retries: RetryMetrics | None
    """None where no task was tried twice."""
    by_turn_number: tuple[TurnPosition, ...]
    halves: Contrast | None
    """First against second half of each session; the same sessions stand on both sides. None where no
    session has two turns."""
    per_session: tuple[SessionMetrics, ...]

    @property
    def drafted_any(self) -> bool:
        """Whether any node was drafted at all."""
        return any(turn.pool.drafted for turn in self.per_turn)

    @property
    def accepted_any(self) -> bool:
        """Whether any drafted node was accepted."""
        return any(turn.pool.accepted for turn in self.per_turn)

    def to_json(self) -> dict[str, object]:
        """The entry of ``drafters``."""
        return {
            "name": self.name,
            "tokens": self.tokens,
            "steps": self.steps,
            "tokens_per_step": self.tokens_per_step,
            "drafted_per_step": self.drafted_per_step,
            "acceptance_rate": self.acceptance_rate,
            "draft_us_p50": self.draft_us_p50,
            "draft_us_p99": self.draft_us_p99,
            "append_us_per_token": self.append_us_per_token,
            "index_bytes_per_token": self.index_bytes_per_token,
            "modelled_speedup": self.modelled_speedup,
            "per_turn": [turn.to_json() for turn in self.per_turn],
            "accepted_length_histogram": list(self.accepted_length_histogram),
            "tokens_per_step_session_mean": self.tokens_per_step_session_mean,
            "tokens_per_step_capped": self.tokens_per_step_capped,
            "alpha_chain": self.alpha_chain,
            "c": self.c,
            "ops_growth": self.ops_growth,
            "overhead_us_per_token": self.overhead_us_per_token,
            "sources": {source.name: source.to_json() for source in self.sources},
            "retries": None if self.retries is None else self.retries.to_json(),
            "halves": None
            if self.halves is None
            else {
                "tokens_per_step_first": self.halves.first.tokens_per_step,
                "tokens_per_step_second": self.halves.later.tokens_per_step,
            },
            "by_turn_number": [position.to_json() for position in self.by_turn_number],
            "per_session": [session.to_json() for session in self.per_session],
        }


@dataclass(frozen=True, slots=True)
class TraceMetrics:
    """What was replayed. Where a run was interrupted, what the furthest drafter came to."""

    paths: tuple[str, ...]
    sessions: int
    turns: int
    output_tokens: int
    context_tokens: int
    """Σ over turns of the prompt's tokens: what a server without a prefix cache would have to read."""
    skipped: int

    def to_json(self) -> dict[str, object]:
        """The value of ``trace``."""
        return {
            "paths": list(self.paths),
            "sessions": self.sessions,
            "turns": self.turns,
            "output_tokens": self.output_tokens,
            "context_tokens": self.context_tokens,
            "skipped": self.skipped,
        }


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """All figures of one run of ``suffixspec replay``."""

    trace: TraceMetrics
    settings: dict[str, object]
    drafters: tuple[DrafterMetrics, ...]
    curve: CostCurve
    interrupted: bool

    @property
    def best(self) -> DrafterMetrics | None:
        """The drafter with the greatest modelled speed-up, the first of equals; None where none drafts."""
        drafting = [d for d in self.drafters if d.name != "none" and d.modelled_speedup is not None]
        return max(drafting, key=lambda d: d.modelled_speedup or 0.0, default=None)

    def to_json(self) -> dict[str, Any]:
        """The document that ``-o json`` prints: its keys, their order and their meaning are stable.

        All values are what ``json`` can write: no NaN, no infinity, no NumPy scalar.
        """
        return _plain(
            {
                "version": SCHEMA_VERSION,
                "trace": self.trace.to_json(),
                "settings": self.settings,
                "drafters": [drafter.to_json() for drafter in self.drafters],
                "cost": self.curve.to_json() | {"t1_ms": self.curve.t1_ms},
                "interrupted": self.interrupted,
            }
        )


def measure(result: ReplayResult, curve: CostCurve) -> RunMetrics:
    """Derive all figures of a replay.

    Args:
        result: the raw counts; not changed.
        curve: the cost curve that ``TurnResult.target_ms`` was modelled with.

    Returns:
        The figures. Cost: O(turns log turns + steps).
    """
    drafters = tuple(_measure_drafter(drafter, curve.t1_ms) for drafter in result.drafters)
    furthest = max((d.turns for d in result.drafters), key=len, default=[])
    trace = TraceMetrics(
        paths=tuple(result.paths),
        sessions=result.sessions,
        turns=len(furthest),
        output_tokens=sum(turn.tokens for turn in furthest),
        context_tokens=sum(turn.context_tokens for turn in furthest),
        skipped=result.skipped,
    )
    return RunMetrics(trace, dict(result.settings), drafters, curve, result.interrupted)


def _measure_drafter(result: DrafterResult, t1_ms: float) -> DrafterMetrics:
    turns = result.turns
    total = _pool(turns, t1_ms)
    sessions = _sessions(turns, t1_ms)
    session_taus = [tau for s in sessions if (tau := s.pool.tokens_per_step) is not None]
    draft_us = result.draft_us[np.isfinite(result.draft_us)]
    drafted_per_step = _ratio(total.drafted, total.steps)
    tau = total.tokens_per_step
    draft_ms_per_step = _ratio(sum(turn.draft_us for turn in turns) / 1e3, total.steps)
    return DrafterMetrics(
        name=result.name,
        tokens=total.tokens,
        steps=total.steps,
        tokens_per_step=tau,
        drafted_per_step=drafted_per_step,
        acceptance_rate=_ratio(total.accepted, total.drafted),
        draft_us_p50=float(np.percentile(draft_us, 50)) if len(draft_us) else None,
        draft_us_p99=float(np.percentile(draft_us, 99)) if len(draft_us) else None,
        append_us_per_token=_ratio(
            sum(turn.append_us for turn in turns), sum(turn.appended_tokens for turn in turns)
        ),
        index_bytes_per_token=_ratio(result.index_bytes, result.index_tokens),
        modelled_speedup=total.speedup,
        per_turn=tuple(
            TurnMetrics(
                turn.session_id,
                turn.turn,
                turn.task_key,
                turn.attempt,
                turn.context_tokens,
                _pool([turn], t1_ms),
            )
            for turn in turns
        ),
        accepted_length_histogram=tuple(int(count) for count in result.accepted_length_histogram),
        tokens_per_step_session_mean=_ratio(sum(session_taus), len(session_taus)),
        tokens_per_step_capped=_pool((t for t in turns if t.tokens <= LONG_OUTPUT), t1_ms).tokens_per_step,
        alpha_chain=_ratio(result.chain_accepted, result.chain_tested),
        c=None if draft_ms_per_step is None else _ratio(draft_ms_per_step, t1_ms),
        ops_growth=None if drafted_per_step is None or not tau else (drafted_per_step + 1) / tau,
        overhead_us_per_token=_ratio(sum(turn.draft_us + turn.append_us for turn in turns), total.tokens),
        sources=_sources(result, total),
        retries=_retries(turns, sessions, t1_ms),
        by_turn_number=_by_turn_number(turns, t1_ms),
        halves=_halves(turns, t1_ms),
        per_session=sessions,
    )


def _pool(turns: Iterable[TurnResult], t1_ms: float) -> Pool:
    turns = list(turns)
    tokens = sum(turn.tokens for turn in turns)
    overhead_us = sum(turn.draft_us + turn.append_us - turn.prompt_append_us for turn in turns)
    return Pool(
        turns=len(turns),
        tokens=tokens,
        steps=sum(turn.steps for turn in turns),
        drafted=sum(turn.drafted for turn in turns),
        accepted=sum(turn.accepted for turn in turns),
        plain_ms=tokens * t1_ms,
        speculative_ms=sum(turn.target_ms for turn in turns) + overhead_us / 1e3,
    )


def _sessions(turns: list[TurnResult], t1_ms: float) -> tuple[SessionMetrics, ...]:
    """In the order in which they were replayed. Two files may use one id for two tries of a task."""
    groups = _grouped((((turn.session_id, turn.task_key, turn.attempt), turn)) for turn in turns)
    return tuple(SessionMetrics(*key, _pool(group, t1_ms)) for key, group in groups.items())


def _sources(result: DrafterResult, total: Pool) -> tuple[SourceMetrics, ...]:
    sources = []
    for name, drafted, accepted in zip(
        SOURCES, result.drafted_by_source.tolist(), result.accepted_by_source.tolist(), strict=True
    ):
        sources.append(
            SourceMetrics(name, drafted, accepted, _ratio(accepted, drafted), _ratio(accepted, total.tokens))
        )
    own = total.tokens - sum(source.accepted or 0 for source in sources)
    return (*sources, SourceMetrics("target", None, None, None, _ratio(own, total.tokens)))


def _retries(
    turns: list[TurnResult], sessions: tuple[SessionMetrics, ...], t1_ms: float
) -> RetryMetrics | None:
    tried_again = {session.task for session in sessions if session.attempt > 1}
    # An interrupted or limited run may hold a later try whose first one it does not hold.
    tasks = tried_again & {session.task for session in sessions if session.attempt == 1}
    if not tasks:
        return None
    attempts = [session.attempt for session in sessions if session.task in tasks]
    of_tasks = [turn for turn in turns if turn.task_key in tasks]
    return RetryMetrics(
        tasks=len(tasks),
        first_sessions=sum(attempt == 1 for attempt in attempts),
        later_sessions=sum(attempt > 1 for attempt in attempts),
        contrast=Contrast(
            _pool((turn for turn in of_tasks if turn.attempt == 1), t1_ms),
            _pool((turn for turn in of_tasks if turn.attempt > 1), t1_ms),
        ),
    )


def _by_turn_number(turns: list[TurnResult], t1_ms: float) -> tuple[TurnPosition, ...]:
    positions = []
    for number, group in sorted(_grouped((turn.turn, turn) for turn in turns).items()):
        taus = [turn.tokens / turn.steps for turn in group if turn.steps]
        quartiles = tuple(float(q) for q in np.percentile(taus, [25, 50, 75])) if taus else None
        positions.append(TurnPosition(number, _pool(group, t1_ms), quartiles))  # type: ignore[arg-type]
    return tuple(positions)


def _halves(turns: list[TurnResult], t1_ms: float) -> Contrast | None:
    """The middle turn of an odd number stands on neither side."""
    first: list[TurnResult] = []
    second: list[TurnResult] = []
    for group in _grouped(((turn.session_id, turn.task_key, turn.attempt), turn) for turn in turns).values():
        half = len(group) // 2
        first += group[:half]
        second += group[len(group) - half :]
    return Contrast(_pool(first, t1_ms), _pool(second, t1_ms)) if first else None


def _grouped(pairs: Iterable[tuple[_Key, TurnResult]]) -> dict[_Key, list[TurnResult]]:
    groups: dict[_Key, list[TurnResult]] = {}
    for key, turn in pairs:
        groups.setdefault(key, []).append(turn)
    return groups


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator else None


def _plain(value: Any) -> Any:
    """The value in the types that JSON has; what has no value there (NaN, infinity) is None."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"expected a value that JSON can hold, got {type(value).__name__}: {value!r}")
