"""Batches whose requests come, go, move, wait and come back."""

from __future__ import annotations

from typing import Any

from bench.vllm.engine import play
from bench.vllm.tiny import TEXTS
from bench.vllm.watch import Watch


def _greedy(tokens: int) -> Any:
    from vllm import SamplingParams

    return SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)


def aborts(engine: Any, watch: Watch) -> dict[str, Any]:  # noqa: ARG001
    """A batch of eight, of which three are given up on the way and two arrive late."""
    params = _greedy(64)
    first = [(f"r{number}", TEXTS[number % 4] * (1 + number // 4), params) for number in range(8)]
    late = [(f"r{number}", TEXTS[number % 4], params) for number in (8, 9)]
    return play(engine, {0: first, 4: late}, aborts={3: "r1", 5: "r2", 9: "r4"})


def rows(engine: Any, watch: Watch) -> dict[str, Any]:  # noqa: ARG001
    """A batch of eight that end one after the other, so that the last rows move up; five more arrive on the way."""
    lengths = (3, 90, 7, 60, 15, 40, 25, 120, 50, 9, 70, 33, 12)
    requests = [
        (f"r{number:02}", f"{number} is next. " + TEXTS[number % 4] * (1 + 2 * (number % 3)), _greedy(tokens))
        for number, tokens in enumerate(lengths)
    ]
    return play(engine, {0: requests[:8], 4: requests[8:10], 9: requests[10:11], 15: requests[11:]})


def chunked(engine: Any, watch: Watch) -> dict[str, Any]:  # noqa: ARG001
    """Prompts of several times what a step prefills, while others decode."""
    short = [(f"short{number}", TEXTS[number], _greedy(100)) for number in range(4)]
    long = [(f"long{number}", f"{number}. " + TEXTS[2] * 9, _greedy(40)) for number in range(2)]
    return play(engine, {0: short, 4: long})


def preemption(engine: Any, watch: Watch) -> dict[str, Any]:  # noqa: ARG001
    """Long and short requests that together want more KV blocks than there are: some leave, and come back."""
    requests = [
        (f"r{number}", f"{number}: " + TEXTS[number % 4] * (4 if number < 2 else 1), _greedy(100))
        for number in range(7)
    ]
    return play(engine, {0: requests[:5], 6: requests[5:]})
