"""Agent loops: each prompt is the one before, what was written, and an observation."""

from __future__ import annotations

from typing import Any

from bench.vllm.engine import ids, proposer_of
from bench.vllm.tiny import TEXTS
from bench.vllm.watch import Watch


def loop(engine: Any, watch: Watch) -> list[list[int]]:
    """Four turns, and a side request of the loop after each; the proposer has to index each token once.

    What it indexed, and what the loop came to, are counted as ``indexed`` and ``context``.
    """
    from vllm import SamplingParams

    tokenizer = engine.get_tokenizer()
    begin = tokenizer.encode("You are an agent. " * 20 + TEXTS[1])
    prompt, outputs = begin, []
    params = SamplingParams(
        temperature=0, max_tokens=40, ignore_eos=True, extra_args={"suffixspec_session": "loop"}
    )
    aside = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
    for turn in range(4):
        output = ids(engine.generate({"prompt_token_ids": prompt}, params))[0]
        outputs.append(output)
        side = {"prompt_token_ids": begin + tokenizer.encode(f" Title {turn}:")}
        outputs += ids(engine.generate(side, aside))
        prompt = prompt + output + tokenizer.encode(f"\nObservation {turn}: {TEXTS[turn]}")
    proposer = proposer_of(engine)
    if proposer is not None:
        lanes = [lane for lane in proposer.table if lane.key == "loop"]
        watch.count("sessions", len(lanes))
        watch.count("indexed", sum(lane.session.indexed_tokens for lane in lanes))
        watch.count("context", sum(len(lane.session.context) for lane in lanes))
    return outputs
