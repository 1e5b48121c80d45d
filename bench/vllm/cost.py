"""What a forward of vLLM costs on this CPU: ``python -m bench.vllm.cost --model FOLDER``, as a cost curve in JSON.

One sequence with drafts of a fixed length that are wrong: what a draft costs, without what it is worth.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from suffixspec.cost import CostCurve

LENGTHS = (0, 1, 3, 7, 15, 31)
"""Of the drafts; a forward is one token wider."""
STEPS = 12
ROUNDS = 3
PROMPT = 512


class Wrong:
    """A proposer of tokens that the model is not likely to write."""

    length = 0
    times: ClassVar[list[float]] = []

    def __init__(self, vllm_config: Any) -> None:  # noqa: ARG002  # vLLM gives it
        self._next = 7

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """There is none."""

    def propose(self, sampled_token_ids: Sequence[Sequence[int]], *_: Any, **__: Any) -> list[list[int]]:
        """``length`` tokens for each row, and a note of the process's CPU time."""
        Wrong.times.append(time.process_time())
        self._next = (self._next * 7919 + 13) % 40_000
        return [[self._next + 100] * Wrong.length if sampled else [] for sampled in sampled_token_ids]


def main() -> None:
    """Decode with drafts of each length in turn; CPU time per step, least of the rounds."""
    parser = argparse.ArgumentParser(prog="python -m bench.vllm.cost")
    parser.add_argument("--model", required=True)
    args = parser.parse_args()
    from vllm import LLM, SamplingParams

    from bench.vllm.cost import Wrong as Proposer  # the one that vLLM finds, where this is __main__

    engine = LLM(
        args.model,
        dtype="float32",
        enforce_eager=True,
        max_model_len=1024,
        max_num_seqs=1,
        seed=0,
        speculative_config={
            "method": "custom_class",
            "model": "bench.vllm.cost.Wrong",
            "num_speculative_tokens": max(LENGTHS),
        },
    )
    params = SamplingParams(temperature=0, max_tokens=STEPS + 2, ignore_eos=True)
    points: list[tuple[int, float]] = []
    for number, length in enumerate(LENGTHS * ROUNDS):
        Proposer.length, Proposer.times = length, []
        prompt = {"prompt_token_ids": [(31 * number + 7 * i) % 5000 + 10 for i in range(PROMPT)]}
        engine.generate(prompt, params, use_tqdm=False)
        steps = sorted(
            after - before for before, after in zip(Proposer.times, Proposer.times[1:], strict=False)
        )
        points.append((length + 1, round(1e3 * steps[len(steps) // 2], 2)))
    fitted = CostCurve.fit(points)
    print("RESULT " + json.dumps({**fitted.to_json(), "about": f"all rounds: {points}"}))


if __name__ == "__main__":
    main()
