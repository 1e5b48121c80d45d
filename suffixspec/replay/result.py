"""What a replay measures: raw counts per turn and per drafter, and nothing derived.

The simulation fills these; ``metrics`` derives the published figures from them; the output modules print
those. Keeping the raw counts apart means that every figure has one definition.
"""

from dataclasses import dataclass, field

import numpy as np

SOURCES = ("session", "history", "ngram")
"""Where a drafted node's probability came from, in the order of the columns of ``accepted_by_source``."""


@dataclass(slots=True)
class TurnResult:
    """One model call of the recorded loop, decoded again with one drafter."""

    session_id: str
    turn: int
    """0-based number of the model call within its session."""
    task_key: str
    attempt: int
    """1 for the first session of this task in the run, 2 for the second, and so on."""
    context_tokens: int
    """Tokens of the prompt of this turn, the re-used prefix included."""
    tokens: int = 0
    """Output tokens emitted, the end-of-turn token included."""
    steps: int = 0
    """Target forwards."""
    drafted: int = 0
    """Draft nodes proposed, over all steps."""
    accepted: int = 0
    """Draft nodes accepted, over all steps: ``tokens == accepted + bonus tokens``."""
    target_ms: float = 0.0
    """Modelled time of the target's forwards under the run's cost curve, in ms."""
    draft_us: float = 0.0
    """Measured time of the draft calls, in µs."""
    append_us: float = 0.0
    """Measured time of indexing the output, for the session and as history, and the new part of the prompt, in µs."""
    prompt_append_us: float = 0.0
    """The part of ``append_us`` spent on the prompt: it falls into the prefill, which is not modelled, so the
    modelled speed-up leaves it out. Where the two are not measured apart, 0: then all of it is charged."""
    appended_tokens: int = 0
    """Tokens that ``append_us`` was spent on."""
    seconds: float = 0.0
    """Measured wall time of simulating the turn, in s."""


@dataclass(slots=True)
class OutputSpan:
    """A piece of one turn's output for the coloured page of the report."""

    text: str
    kind: str
    """``"session"``, ``"history"`` or ``"ngram"`` for accepted draft tokens, ``"bonus"`` for the target's."""


@dataclass(slots=True)
class DrafterResult:
    """All turns of one replay with one drafter."""

    name: str
    turns: list[TurnResult] = field(default_factory=list)
    draft_us: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    """float32 [steps]: duration of each draft call in µs."""
    draft_nodes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    """int32 [steps]: nodes of each draft, from which the time under another cost curve follows."""
    accepted_length_histogram: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    """int64 [longest + 1]: number of steps that accepted i draft nodes."""
    accepted_by_source: np.ndarray = field(default_factory=lambda: np.zeros(len(SOURCES), np.int64))
    """int64 [3]: accepted nodes by source, in the order of ``SOURCES``."""
    drafted_by_source: np.ndarray = field(default_factory=lambda: np.zeros(len(SOURCES), np.int64))
    """int64 [3]: drafted nodes by source, in the order of ``SOURCES``."""
    chain_tested: int = 0
    """Nodes on the most probable path of a draft whose parent was accepted."""
    chain_accepted: int = 0
    """Those of them that were accepted: their share is alpha for a chain."""
    index_bytes: int = 0
    """Allocated capacity of all indexes at the end of the run, or at their largest, in bytes."""
    index_tokens: int = 0
    """Live tokens in those indexes at that moment."""
    sample: list[OutputSpan] = field(default_factory=list)
    """The output of one turn, piece by piece, for the report."""
    sample_title: str = ""


@dataclass(slots=True)
class ReplayResult:
    """One run of ``suffixspec replay``."""

    paths: list[str]
    sessions: int
    """Sessions decoded."""
    settings: dict[str, object]
    """The effective configuration, echoed: every option with the value that was in force."""
    drafters: list[DrafterResult]
    skipped: int = 0
    """Malformed sessions passed over (``--skip-bad``)."""
    interrupted: bool = False
    """True when the run was stopped early: the figures cover what was measured until then."""
