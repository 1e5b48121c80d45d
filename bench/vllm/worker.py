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
from bench.vllm.modes import MODES, speculation


def main() -> None:
    """Answer each line ``[{"prompt": [ids], "session": name, "max_tokens": n}, …]``, turns at a time, with one line."""
    parser = argparse.ArgumentParser(prog="python -m bench.vllm.worker")
    parser.add_argument("--mode", choices=MODES, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--max-model-len", type=int, required=True)
    parser.add_argument("--sequences", type=int, default=4)
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--settings", type=json.loads, default={})
    args = parser.parse_args()
    from vllm import LLM, SamplingParams

    engine = LLM(
        args.model,
        dtype="float32",
        enforce_eager=True,
        max_model_len=args.max_model_len,
        max_num_seqs=args.sequences,
        seed=0,
        disable_log_stats=False,
        **speculation(args.mode, tokens=args.tokens, settings=args.settings),
    )
    warm = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
    engine.generate({"prompt_token_ids": [5, 6, 7, 8] * 40}, warm, use_tqdm=False)
    forwards = count_forwards(engine)
    # Built once per machine, in the background: not what is measured.
    proposer = proposer_of(engine)
    prior = None if proposer is None else proposer.wait_for_prior(600.0)
    answer({"ready": True, "prior_tokens": 0 if prior is None else len(prior.index)})
    for line in sys.stdin:
        before = counted(engine)
        found = decode(engine, json.loads(line), forwards)
        after = counted(engine)
        answer(found | {name: after[name] - before[name] for name in after})


def decode(engine: Any, turns: list[dict[str, Any]], forwards: list[int]) -> dict[str, Any]:
    """Decode turns at the same time.

    Returns:
        Their token ids, the seconds of it all, and of the time from when each turn had its first token: the seconds,
        the tokens that came in it and the forwards.
    """
    from vllm import SamplingParams

    core, clock, got = engine.llm_engine, time.perf_counter, {}
    begun = clock()
    names = [f"{begun}-{number}" for number in range(len(turns))]
    for name, turn in zip(names, turns, strict=True):
        params = SamplingParams(
            temperature=0, max_tokens=turn["max_tokens"], extra_args={"suffixspec_session": turn["session"]}
        )
        core.add_request(name, {"prompt_token_ids": turn["prompt"]}, params)
    all_began: tuple[float, int, int] | None = None
    while core.has_unfinished_requests():
        for output in core.step():
            got[output.request_id] = list(output.outputs[0].token_ids)
        if all_began is None and len(got) == len(turns):
            all_began = clock(), sum(map(len, got.values())), forwards[0]
    done = clock()
    assert all_began is not None
    since, tokens, counted_before = all_began
    return {
        "token_ids": [got[name] for name in names],
        "seconds": done - begun,
        "decode_seconds": done - since,
        "decoded": sum(map(len, got.values())) - tokens,
        "forwards": forwards[0] - counted_before,
    }


def counted(engine: Any) -> dict[str, float]:
    """Counters so far: drafts, their tokens, accepted ones; seconds of ``propose`` where they are known."""
    of_vllm = counters(engine)
    return {
        "drafts": of_vllm.get("spec_decode_num_drafts", 0),
        "draft_tokens": of_vllm.get("spec_decode_num_draft_tokens", 0),
        "accepted": of_vllm.get("spec_decode_num_accepted_tokens", 0),
        "propose_seconds": getattr(proposer_of(engine), "seconds", 0.0),
    }


def count_forwards(engine: Any) -> list[int]:
    """Forwards from here on, in a list of one number.

    Not from the counters: they count what was accepted behind the end of an output, too, and steps without a draft in
    no way.
    """
    runner, found = runner_of(engine), [0]
    execute = runner.execute_model

    def counting(scheduled: Any, *args: Any, **kwargs: Any) -> Any:
        found[0] += scheduled.total_num_scheduled_tokens > 0
        return execute(scheduled, *args, **kwargs)

    runner.execute_model = counting
    return found


def answer(value: dict[str, Any]) -> None:
    """One line for whoever asked."""
    sys.stdout.write("RESULT " + json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
