"""Decodes the checks' requests in one process, and prints what was found as JSON: ``python -m bench.vllm.decode``."""

from __future__ import annotations

import argparse
import json
import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.vllm import adapters, batches, loops, requests
from bench.vllm.engine import counters, proposer_of, start
from bench.vllm.modes import MODES
from bench.vllm.watch import OF_VLLM, Watch


@dataclass(frozen=True)
class Group:
    """Checks that one engine serves, one after the other.

    Args:
        parts: by name, what gives the outputs of each.
        options: of vLLM.
        settings: of the proposer.
    """

    parts: dict[str, Callable[[Any, Any], Any]]
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


_LORA = {"enable_lora": True, "max_loras": 3, "max_lora_rank": adapters.RANK}
GROUPS = (
    Group(
        {
            "greedy": requests.greedy,
            "seeded": requests.seeded,
            "aborts": batches.aborts,
            "schema": requests.schema,
            "n": requests.several,
            "edge": requests.ends,
            "rows": batches.rows,
            "chunked": batches.chunked,
            "loop": loops.loop,
        }
    ),
    Group(
        {"preemption": batches.preemption},
        {"max_model_len": 512, "block_size": 32, "num_gpu_blocks_override": 25},
    ),
    Group({"prefix_on": loops.loop}, {"block_size": 32, "enable_prefix_caching": True}),
    Group({"prefix_off": loops.loop}, {"block_size": 32, "enable_prefix_caching": False}),
    Group({"lora": adapters.adapters}, _LORA),
    Group({"lora_shared": adapters.adapters}, _LORA, {"share_adapters": True}),
)


def main() -> None:
    """Run the parts that are asked for, print one line of JSON: by part its outputs, and what was seen."""
    names = [name for group in GROUPS for name in group.parts]
    parser = argparse.ArgumentParser(prog="python -m bench.vllm.decode")
    parser.add_argument("--mode", choices=MODES, required=True)
    parser.add_argument("--parts", nargs="+", choices=names, default=names)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--tensor-parallel", type=int, default=1)
    args = parser.parse_args()
    found: dict[str, Any] = {}
    if args.tensor_parallel > 1:
        found = _decoded_by_ranks(args.model, args.mode, args.parts, args.tensor_parallel)
    else:
        for group in GROUPS:
            parts = [name for name in group.parts if name in args.parts]
            if parts:
                found |= _in_a_process(_decoded, args.model, args.mode, group, parts)
    print("RESULT " + json.dumps(found))


def _in_a_process(call: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
    """What a call gives in a process of its own, which has vLLM imported already.

    Where Numba is loaded, as it is once there was a proposer, no further engine can be started: vLLM 0.32 looks for its
    kernels on a CPU in all that is loaded, and stumbles over the objects of Numba's compiler.
    """
    import vllm  # noqa: F401

    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(call(*given)))
    process.start()
    sender.close()
    try:
        found: dict[str, Any] = receiver.recv()
    except EOFError:
        raise SystemExit("expected what was decoded, got the end of the process; see above") from None
    process.join()
    return found


def _decoded(model: Path, mode: str, group: Group, parts: Sequence[str]) -> dict[str, Any]:
    engine = start(model, mode, settings=group.settings, **group.options)
    watch, found = Watch(engine), {}
    for name in parts:
        watch.begin()
        outputs = group.parts[name](engine, watch)
        found[name] = {"outputs": outputs, "seen": watch.seen()}
        if proposer_of(engine) is not None:
            found[name]["left"] = left(engine)
    return found


def _decoded_by_ranks(model: Path, mode: str, parts: Sequence[str], tensor_parallel: int) -> dict[str, Any]:
    """By several processes, which cannot be looked into: what was seen is what vLLM counted."""
    engine = start(
        model,
        mode,
        tensor_parallel_size=tensor_parallel,
        distributed_executor_backend="mp",
    )
    found = {}
    for name in parts:
        before = counters(engine)
        outputs = next(group.parts[name] for group in GROUPS if name in group.parts)(engine, None)
        after = counters(engine)
        found[name] = {
            "outputs": outputs,
            "seen": {name: after[of] - before.get(of, 0) for of, name in OF_VLLM.items() if of in after},
        }
    return found


def left(engine: Any) -> dict[str, Any]:
    """What the proposer is left with, after one request more has told it of the ends of the others.

    Nothing has told it of the end of that one, which so is the only one that may be live.
    """
    from vllm import SamplingParams

    proposer = proposer_of(engine)
    engine.generate(["a"], SamplingParams(max_tokens=1))
    return {
        "live": len(proposer._live),
        "busy": sum(lane.busy for lane in proposer.table),
        "sessions": len(proposer.table),
        "steps": proposer.steps,
        "proposed": proposer.proposed,
        "failures": proposer._failures,
        "said": sorted(proposer._said),
    }


if __name__ == "__main__":
    main()
