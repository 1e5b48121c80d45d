"""What a forward of vLLM costs on this CPU: ``python -m bench.vllm.cost --model FOLDER``, as a cost curve in JSON."""

from __future__ import annotations

import argparse
import json
import time

WIDTHS = (1, 2, 4, 8, 16, 32)
STEPS = 12
ROUNDS = 2


def main() -> None:
    """Decode batches of growing size; the process's CPU time per step, least of the rounds."""
    parser = argparse.ArgumentParser(prog="python -m bench.vllm.cost")
    parser.add_argument("--model", required=True)
    args = parser.parse_args()
    from vllm import LLM, SamplingParams

    engine = LLM(
        args.model, dtype="float32", enforce_eager=True, max_model_len=1024, max_num_seqs=max(WIDTHS), seed=0
    )
    points = []
    for width in WIDTHS * ROUNDS:
        prompts = [
            {"prompt_token_ids": [(7 * row + i) % 5000 + 10 for i in range(24)]} for row in range(width)
        ]
        seconds = []
        for tokens in (1, STEPS + 1):
            params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
            started = time.process_time()
            engine.generate(prompts, params, use_tqdm=False)
            seconds.append(time.process_time() - started)
        points.append([width, round(1e3 * (seconds[1] - seconds[0]) / STEPS, 2)])
    print("RESULT " + json.dumps({"name": "measured", "points": points}))


if __name__ == "__main__":
    main()
