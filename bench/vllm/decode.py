"""Decodes the checks' requests in one process, and prints the outputs as JSON: ``python -m bench.vllm.decode``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from bench.vllm import tiny
from bench.vllm.modes import MODES, speculation

SCHEMA = {
    "type": "object",
    "properties": {
        "tool": {"enum": ["search", "edit", "run"]},
        "line": {"enum": [1, 10, 100]},
        "files": {"type": "array", "items": {"enum": ["a.py", "b.py"]}, "minItems": 3, "maxItems": 3},
    },
    "required": ["tool", "line", "files"],
    "additionalProperties": False,
}
TEXTS = (
    "The index is one suffix tree per agent loop. ",
    "def draft(self): return self.tree.draft()\n" * 6,
    "A new turn appends only its new tokens, and the longest earlier match costs nothing. " * 4,
    "1 2 3 4 5 6 7 8 9 " * 12,
)


def main() -> None:
    """Run the parts that are asked for, print one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.vllm.decode")
    parser.add_argument("--mode", choices=MODES, required=True)
    parser.add_argument("--parts", nargs="+", default=["greedy", "seeded", "aborts", "schema", "loop"])
    parser.add_argument("--tensor-parallel", type=int, default=1)
    parser.add_argument("--model", type=Path, required=True)
    args = parser.parse_args()
    engine = start(args.model, args.mode, args.tensor_parallel)
    found: dict[str, Any] = {part: PARTS[part](engine) for part in args.parts}
    if args.mode == "suffixspec" and args.tensor_parallel == 1:
        found["proposer"] = state(engine)
    print("RESULT " + json.dumps(found))


def start(model: Path, mode: str, tensor_parallel: int) -> Any:
    """The engine, in this process unless there are more than one."""
    from vllm import LLM

    return LLM(
        str(tiny.make(model)),
        dtype="float32",
        enforce_eager=True,
        max_model_len=1024,
        max_num_seqs=8,
        max_num_batched_tokens=256,  # longer prompts are prefilled in chunks
        seed=0,
        structured_outputs_config={"backend": "xgrammar", "disable_any_whitespace": True},
        tensor_parallel_size=tensor_parallel,
        distributed_executor_backend="mp" if tensor_parallel > 1 else None,
        **speculation(mode, tokens=8, settings={"cost": "gpu", "idle_seconds": 3600.0, "prior": False}),
    )


def greedy(engine: Any) -> list[list[int]]:
    """Texts that repeat themselves, together."""
    from vllm import SamplingParams

    return ids(engine.generate(list(TEXTS), SamplingParams(temperature=0, max_tokens=96, ignore_eos=True)))


def seeded(engine: Any) -> list[list[int]]:
    """Sampling with seeds, two outputs a prompt, beside a greedy request that is drafted for.

    The greedy one's output is left out: in a batch with sampled ones, vLLM 0.32 verifies it wrongly on a CPU, with its
    own ngram drafts too. One seeded prompt at a time: where prompts are prefilled in chunks beside a seeded request, it
    stops ("CPU Generator does not use offset"), with and without drafts.
    """
    from vllm import SamplingParams

    sampled = SamplingParams(temperature=0.3, top_p=0.9, seed=7, n=2, max_tokens=48, ignore_eos=True)
    beside = SamplingParams(temperature=0, max_tokens=48, ignore_eos=True)
    return [
        output
        for text in TEXTS
        for output in ids(engine.generate([text, "1 2 3 4 " * 6], [sampled, beside]))[: sampled.n]
    ]


def aborts(engine: Any) -> dict[str, list[int]]:
    """A batch of eight, of which three are given up on the way and two arrive late."""
    from vllm import SamplingParams

    core = engine.llm_engine
    params = SamplingParams(temperature=0, max_tokens=64, ignore_eos=True)
    for number in range(8):
        core.add_request(f"r{number}", TEXTS[number % 4] * (1 + number // 4), params)
    outputs: dict[str, list[int]] = {}
    step = 0
    while core.has_unfinished_requests():
        for output in core.step():
            if output.finished:
                outputs[output.request_id] = list(output.outputs[0].token_ids)
        step += 1
        if step in (3, 5, 9):
            core.abort_request([f"r{step // 2}"])
        if step == 4:
            for number in (8, 9):
                core.add_request(f"r{number}", TEXTS[number % 4], params)
    return {name: outputs[name] for name in sorted(outputs) if name not in {"r1", "r2", "r4"}}


def schema(engine: Any) -> list[str]:
    """A JSON schema; without whitespace, of which a random model would write any amount."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    params = SamplingParams(
        temperature=0,
        max_tokens=160,
        structured_outputs=StructuredOutputsParams(json=SCHEMA),
    )
    texts = [output.outputs[0].text for output in engine.generate(["Call a tool: "] * 3, params)]
    for text in texts:
        value = json.loads(text)
        assert value["tool"] in {"search", "edit", "run"}, value
    return texts


def loop(engine: Any) -> list[list[int]]:
    """Four turns of an agent loop: each prompt is the one before, what was written, and an observation."""
    from vllm import SamplingParams

    tokenizer = engine.get_tokenizer()
    prompt = tokenizer.encode("You are an agent. " * 20 + TEXTS[1])
    params = SamplingParams(
        temperature=0, max_tokens=40, ignore_eos=True, extra_args={"suffixspec_session": "loop"}
    )
    outputs = []
    for turn in range(4):
        output = list(engine.generate({"prompt_token_ids": prompt}, params)[0].outputs[0].token_ids)
        outputs.append(output)
        prompt = prompt + output + tokenizer.encode(f"\nObservation {turn}: {TEXTS[turn]}")
    return outputs


def ids(outputs: Any) -> list[list[int]]:
    """The token ids of all outputs."""
    return [list(one.token_ids) for output in outputs for one in output.outputs]


def state(engine: Any) -> dict[str, Any]:
    """What the proposer is left with, after one request more has told it of the ends of the others."""
    from vllm import SamplingParams

    worker = engine.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker
    proposer = worker.model_runner.drafter
    engine.generate(["a"], SamplingParams(max_tokens=1))
    lane = next(lane for lane in proposer.table if lane.key == "loop")
    return {
        "live": len(proposer._live),
        "busy": sum(lane.busy for lane in proposer.table),
        "sessions": len(proposer.table),
        "steps": proposer.steps,
        "proposed": proposer.proposed,
        "failures": proposer._failures,
        "said": sorted(proposer._said),
        "loop_sessions": sum(lane.key == "loop" for lane in proposer.table),
        "loop_indexed": lane.session.indexed_tokens,
        "loop_context": len(lane.session.context),
    }


PARTS = {"greedy": greedy, "seeded": seeded, "aborts": aborts, "schema": schema, "loop": loop}

if __name__ == "__main__":
    main()
