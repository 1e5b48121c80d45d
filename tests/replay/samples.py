"""Replay results to test with: one small enough to work out by hand, one like a real run."""

import numpy as np

from suffixspec.replay.result import DrafterResult, OutputSpan, ReplayResult, TurnResult


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
