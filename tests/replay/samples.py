"""Replay results to test with: one small enough to work out by hand, one like a real run."""

import numpy as np

from suffixspec.replay.result import DrafterResult, OutputSpan, ReplayResult, TurnResult

DRAFTER_KEYS = [
    "name",
    "tokens",
    "steps",
    "tokens_per_step",
    "drafted_per_step",
    "acceptance_rate",
    "draft_us_p50",
    "draft_us_p99",
    "append_us_per_token",
    "index_bytes_per_token",
    "modelled_speedup",
    "per_turn",
    "accepted_length_histogram",
    "tokens_per_step_session_mean",
    "tokens_per_step_capped",
    "alpha_chain",
    "c",
    "ops_growth",
    "overhead_us_per_token",
    "sources",
    "retries",
    "halves",
    "by_turn_number",
    "per_session",
]
"""What the JSON document says about a drafter, in order."""


def hand_drafter(name: str = "suffix") -> DrafterResult:
    """Three sessions, four turns: a task tried twice, and one reply of 9,000 tokens.

    Totals: 9,080 tokens in 1,015 steps, 10,120 nodes drafted, 8,066 accepted; the forwards take 30,435 ms,
    drafting 20.4 ms, indexing 10.2 ms of which 0.11 ms fall to prompts.
    """
    turns = [
        TurnResult("A", 0, "T", 1, 100, 10, 5, 20, 5, 135.0, 100.0, 60.0, 40.0, 110),
        TurnResult("A", 1, "T", 1, 200, 30, 6, 60, 25, 180.0, 200.0, 50.0, 20.0, 90),
        TurnResult("B", 0, "T", 2, 150, 40, 4, 40, 36, 120.0, 100.0, 90.0, 50.0, 190),
        TurnResult("C", 0, "U", 1, 50, 9000, 1000, 10_000, 8_000, 30_000.0, 20_000.0, 10_000.0, 0.0, 9_050),
    ]
    return DrafterResult(
        name=name,
        turns=turns,
        draft_us=np.arange(1, 1016, dtype=np.float32),
        accepted_length_histogram=np.array([500, 100, 15, 400]),
        accepted_by_source=np.array([6000, 2000, 66]),
        drafted_by_source=np.array([7000, 3000, 120]),
        chain_tested=9000,
        chain_accepted=7200,
        index_bytes=580_000,
        index_tokens=10_000,
        sample=[
            OutputSpan("def f", "session"),
            OutputSpan("(x):\n", "bonus"),
            OutputSpan("    return", "history"),
        ],
        sample_title="B, turn 1",
    )


def plain_drafter() -> DrafterResult:
    """The same turns decoded one token at a time: nothing drafted, nothing indexed."""
    turns = [
        TurnResult(t.session_id, t.turn, t.task_key, t.attempt, t.context_tokens, t.tokens, t.tokens)
        for t in hand_drafter().turns
    ]
    for turn in turns:
        turn.target_ms = 25.0 * turn.tokens
    return DrafterResult(name="none", turns=turns, accepted_length_histogram=np.array([9080]))


def hand_result(*drafters: DrafterResult) -> ReplayResult:
    """A run over two files with the given drafters, or with ``hand_drafter`` and ``plain_drafter``."""
    return ReplayResult(
        paths=["loops.jsonl", "more.jsonl.gz"],
        sessions=3,
        settings={
            "drafter": "all",
            "max_nodes": 32,
            "cost": "mid",
            "command": "suffixspec replay loops.jsonl",
        },
        drafters=list(drafters) or [hand_drafter(), plain_drafter()],
    )


_REWRITE = '''I'll rewrite `ledger/parse.py` so that negative amounts in parentheses are read too.

cat > ledger/parse.py <<'PY'
"""Read a bank's CSV export."""

import csv
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class Entry:
    date: str
    text: str
    amount: Decimal


def parse_amount(cell: str) -> Decimal:
    """'1,234.50' and '(1,234.50)' for a negative amount."""
    cell = cell.strip().replace(",", "")
    if cell.startswith("(") and cell.endswith(")"):
        return -Decimal(cell[1:-1])
    return Decimal(cell)


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return [Entry(row["date"], row["text"], parse_amount(row["amount"])) for row in csv.DictReader(file)]
PY
python -m pytest -q tests/test_parse.py
'''


def _spans(rng: np.random.Generator, mean: float, kinds: dict[str, float]) -> list[OutputSpan]:
    """``_REWRITE`` cut into drafted pieces of about ``mean`` characters, each followed by a short own one."""
    spans, at = [], 0
    while at < len(_REWRITE):
        end = at + 1 + int(rng.exponential(mean))
        if end > at + 4:
            spans.append(OutputSpan(_REWRITE[at:end], str(rng.choice(list(kinds), p=list(kinds.values())))))
            at = end
        spans.append(OutputSpan(_REWRITE[at : at + 4], "bonus"))
        at += 4
    return spans


def run_like(name: str, *, strength: float, seed: int, max_nodes: int = 32) -> DrafterResult:
    """A made-up run of 24 sessions over 18 tasks, six of them tried twice, with the shape of a real one.

    Accepted lengths are geometric with a mean that grows along the loop and on later tries; ``strength``
    scales it.
    """
    rng, structure = np.random.default_rng(seed), np.random.default_rng(5)
    result = DrafterResult(name=name, sample_title="ledger-negative-amounts#2, turn 7", chain_tested=1)
    histogram = np.zeros(max_nodes + 1, np.int64)
    draft_us = []
    for number in range(24):
        attempt = 1 if number < 18 else 2
        task = number % 18
        for turn in range(int(structure.integers(6, 34))):
            wanted, tokens, steps, accepted = int(structure.lognormal(4.6, 0.8)) + 8, 0, 0, 0
            mean = strength * (1.6 + 0.05 * turn + 3.0 * (attempt - 1)) * structure.lognormal(0, 0.4)
            while tokens < wanted:
                length = min(int(rng.exponential(mean)), max_nodes, wanted - tokens - 1) if strength else 0
                histogram[length] += 1
                tokens, steps, accepted = tokens + length + 1, steps + 1, accepted + length
            drafted = int(steps * max_nodes * 0.9) if strength else 0
            took = rng.gamma(4.0, 3.0, steps) if strength else np.zeros(steps)
            draft_us.append(took)
            result.turns.append(
                TurnResult(
                    session_id=f"task-{task:02d}#{attempt}",
                    turn=turn,
                    task_key=f"task-{task:02d}",
                    attempt=attempt,
                    context_tokens=1500 + 900 * turn,
                    tokens=tokens,
                    steps=steps,
                    drafted=drafted,
                    accepted=accepted,
                    target_ms=10.0 * steps + 0.02 * drafted,
                    draft_us=float(took.sum()),
                    append_us=1.4 * (tokens + 700) if strength else 0.0,
                    prompt_append_us=1.4 * 700 if strength else 0.0,
                    appended_tokens=tokens + 700 if strength else 0,
                )
            )
    accepted, drafted = sum(t.accepted for t in result.turns), sum(t.drafted for t in result.turns)
    shares = np.array([0.0, 0.0, 1.0] if name == "ngram" else [0.71, 0.25, 0.04])
    result.accepted_by_source = (accepted * shares).astype(np.int64)
    result.drafted_by_source = (drafted * np.roll(shares, 0)).astype(np.int64)
    result.accepted_length_histogram = histogram
    result.draft_us = np.concatenate(draft_us).astype(np.float32)
    result.chain_tested, result.chain_accepted = max(1, 2 * accepted), int(1.5 * accepted)
    if strength:
        result.index_bytes, result.index_tokens = 41_000_000, 812_000
        kinds = {"ngram": 1.0} if name == "ngram" else {"session": 0.7, "history": 0.25, "ngram": 0.05}
        result.sample = _spans(rng, 11 * strength, kinds)
    return result


def run_like_result() -> ReplayResult:
    """A comparison of all drafters with the shape of a real one, on the cost curve ``gpu``."""
    return ReplayResult(
        paths=["traces/swebench.jsonl"],
        sessions=24,
        settings={
            "drafter": "all",
            "max_nodes": 32,
            "cost": "gpu",
            "history": "namespace",
            "warm": None,
            "tokenizer": "smollm2",
            "seed": 0,
            "command": "suffixspec replay traces/swebench.jsonl --drafter all --report out.html",
        },
        drafters=[
            run_like("combined", strength=1.9, seed=11),
            run_like("suffix", strength=1.7, seed=11),
            run_like("ngram", strength=0.55, seed=11),
            run_like("none", strength=0.0, seed=11),
        ],
    )
