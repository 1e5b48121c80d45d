"""CPU time of ``propose`` per step for 1, 16 and 64 sequences, with a stand-in of the runner."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from bench import sessions
from bench.quiet import no_collection
from suffixspec.cost import CostCurve
from suffixspec.draft.prior import Prior, find_prior
from suffixspec.integrations.vllm import Proposer
from suffixspec.text.tokenizer import load_tokenizer

K = 16
LENGTH = 16_384


def run(trace: str, *, counts: tuple[int, ...] = (1, 16, 64), steps: int = 100) -> list[dict[str, Any]]:
    """Recorded turns decoded as if by vLLM, one per sequence; all of a batch at once.

    A turn is chosen whose prompt fits; its record is what the target writes, over and over if it is short. Times are
    those of steps in which every sequence decodes; indexing the prompts is told apart.
    """
    turns = [
        turn
        for session in sessions.load([trace], limit=max(counts))
        for turn in session.turns[2:6]
        if 1000 <= len(turn.prompt_ids) <= LENGTH - 4096 and len(turn.output_ids) >= 40
    ]
    prior = find_prior(load_tokenizer())
    return [_measured([turns[i % len(turns)] for i in range(count)], steps, prior) for count in counts]


def _measured(turns: list[Any], steps: int, prior: Prior | None) -> dict[str, Any]:
    proposer = Proposer(_config(len(turns)))
    proposer.drafter.prior = prior
    rows = np.zeros((len(turns), LENGTH), np.int32)
    lengths = np.zeros(len(turns), np.int32)
    requests = {}
    for i, turn in enumerate(turns):
        prompt = turn.prompt_ids
        rows[i, : len(prompt)] = prompt
        lengths[i] = len(prompt)
        requests[f"r{i}"] = SimpleNamespace(
            num_prompt_tokens=len(prompt),
            prompt_token_ids=prompt,
            lora_request=None,
            num_computed_tokens=len(prompt),
            sampling_params=SimpleNamespace(temperature=0.0, max_tokens=None, extra_args=None),
        )
    runner = SimpleNamespace(requests=requests, input_batch=SimpleNamespace(req_ids=list(requests)))
    proposer.introduce(runner)
    started = time.process_time()
    while any(live is None or not live.is_read for _, live in proposer._live.values()) or not proposer._live:
        proposer.propose([[]] * len(turns), lengths, rows)
    indexing = time.process_time() - started
    texts = [np.resize(turn.output_ids, steps * (K + 2)).tolist() for turn in turns]
    at = [0] * len(turns)
    drafts: list[list[int]] = [[] for _ in turns]
    times, tokens, now = [], 0, 0.0
    forwards = CostCurve.named("gpu").times(len(turns) * (K + 1)) / 1e3
    proposer._clock = lambda: now  # of a machine on which forwards take what they do on a GPU
    with no_collection():
        for _ in range(steps):
            sampled = []
            scheduled = {req_id: 1 + len(draft) for req_id, draft in zip(requests, drafts, strict=True)}
            now += float(forwards[sum(scheduled.values()) - 1])
            for i, text in enumerate(texts):
                emitted: list[int] = []
                for proposed in [*drafts[i], None]:
                    token = text[at[i] + len(emitted)]
                    emitted.append(token)
                    if token != proposed:
                        break
                at[i] += len(emitted)
                requests[f"r{i}"].num_computed_tokens = int(lengths[i]) - 1
                rows[i, lengths[i] : lengths[i] + len(emitted)] = emitted
                lengths[i] += len(emitted)
                tokens += len(emitted)
                sampled.append(emitted)
            proposer.introduce(runner, SimpleNamespace(num_scheduled_tokens=scheduled))
            started = time.process_time()
            drafts = proposer.propose(sampled, lengths, rows)
            times.append(time.process_time() - started)
    failures, learned = proposer._failures, proposer.forward_time.steps
    proposer.close()
    assert not failures, "a step failed"
    assert learned >= steps - 1, "a step taught nothing"
    return {
        "sequences": len(turns),
        "prompt_tokens": int(sum(len(turn.prompt_ids) for turn in turns)),
        "index_us_per_token": round(1e6 * indexing / sum(len(turn.prompt_ids) for turn in turns), 3),
        "propose_ms": round(1e3 * float(np.median(times)), 3),
        "propose_ms_p99": round(1e3 * float(np.percentile(times, 99)), 3),
        "us_per_sequence": round(1e6 * float(np.median(times)) / len(turns), 1),
        "tokens_per_step": round(tokens / steps / len(turns), 2),
        "draft_tokens_per_step": round(proposer.proposed / steps / len(turns), 2),
    }


def _config(count: int) -> Any:
    return SimpleNamespace(
        additional_config={
            "suffixspec": {"draft_ms": 1e6, "index_tokens": 1 << 20, "prior": False}  # it is there already
        },
        device_config=SimpleNamespace(device_type="cuda"),
        speculative_config=SimpleNamespace(num_speculative_tokens=K),
        model_config=SimpleNamespace(max_model_len=LENGTH, model="toy", tokenizer="toy"),
        scheduler_config=SimpleNamespace(max_num_seqs=count, max_num_batched_tokens=8192),
        parallel_config=SimpleNamespace(tensor_parallel_size=1, world_size=1, rank=0),
    )
