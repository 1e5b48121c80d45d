"""One vLLM with one drafter, which answers turns on its standard input: ``python -m bench.vllm.worker``.

Several of them live at the same time and work in turn, so that modes can be measured alternately.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from bench.vllm.engine import counters, proposer_of, runner_of
from bench.vllm.modes import MODES, TOKENS, speculation


def main() -> None:
    """Answer each line ``{"prompt": [ids], "session": name, "max_tokens": n}`` with one line."""
    parser = argparse.ArgumentParser(prog="python -m bench.vllm.worker")
    parser.add_argument("--mode", choices=MODES, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--max-model-len", type=int, required=True)
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--settings", type=json.loads, default={})
    args = parser.parse_args()
    from vllm import LLM, SamplingParams

    engine = LLM(
        args.model,
        dtype="float32",
        enforce_eager=True,
        max_model_len=args.max_model_len,
        max_num_seqs=4,
        seed=0,
        disable_log_stats=False,
        **speculation(args.mode, tokens=args.tokens, settings=args.settings),
    )
    warm = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
    engine.generate({"prompt_token_ids": [5, 6, 7, 8] * 40}, warm, use_tqdm=False)
    forwards = count_forwards(engine, (args.tokens or TOKENS.get(args.mode, 0)) + 1)
    # Built once per machine, in the background: not what is measured.
    proposer = proposer_of(engine)
    prior = None if proposer is None else proposer.wait_for_prior(600.0)
    answer({"ready": True, "prior_tokens": 0 if prior is None else len(prior.index)})
    for line in sys.stdin:
        asked = json.loads(line)
        params = SamplingParams(
            temperature=0,
            max_tokens=asked["max_tokens"],
            extra_args={"suffixspec_session": asked["session"]},
        )
        begun, steps, before = time.perf_counter(), counted(engine), forwards[0]
        output = engine.generate({"prompt_token_ids": asked["prompt"]}, params, use_tqdm=False)[0]
        seconds = time.perf_counter() - begun
        decoding = output.metrics.last_token_ts - output.metrics.first_token_ts
        after = counted(engine)
        answer(
            {
                "token_ids": list(output.outputs[0].token_ids),
                "seconds": seconds,
                "decode_seconds": decoding,
                "forwards": forwards[0] - before,
                **{name: after[name] - steps[name] for name in after},
            }
        )


def counted(engine: Any) -> dict[str, float]:
    """Counters so far: drafts, their tokens, accepted ones; seconds of ``propose`` where they are known."""
    of_vllm = counters(engine)
    return {
        "drafts": of_vllm.get("spec_decode_num_drafts", 0),
        "draft_tokens": of_vllm.get("spec_decode_num_draft_tokens", 0),
        "accepted": of_vllm.get("spec_decode_num_accepted_tokens", 0),
        "propose_seconds": getattr(proposer_of(engine), "seconds", 0.0),
    }


def count_forwards(engine: Any, widest: int) -> list[int]:
    """Forwards that decode, from here on, in a list of one number: those of at most ``widest`` tokens.

    Not from the counters: they count what was accepted behind the end of an output, too, and steps without a draft in
    no way.
    """
    runner, found = runner_of(engine), [0]
    execute = runner.execute_model

    def counting(scheduled: Any, *args: Any, **kwargs: Any) -> Any:
        found[0] += 0 < scheduled.total_num_scheduled_tokens <= widest
        return execute(scheduled, *args, **kwargs)

    runner.execute_model = counting
    return found


def answer(value: dict[str, Any]) -> None:
    """One line for whoever asked."""
    sys.stdout.write("RESULT " + json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
