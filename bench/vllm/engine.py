"""An engine of the checks in this process, and how what is inside it is reached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.vllm import tiny
from bench.vllm.modes import speculation

TOKENS = 8
"""Most tokens of a draft in all checks."""


def start(model: Path, mode: str, *, settings: dict[str, Any] | None = None, **options: Any) -> Any:
    """An engine of vLLM with the tiny Llama.

    Args:
        model: its folder; made where it is not there.
        mode: one of ``MODES``.
        settings: of the proposer, besides those of all checks.
        options: of vLLM, over those of all checks.
    """
    from vllm import LLM

    settings = {"cost": "gpu", "idle_seconds": 3600.0, "prior": False} | (settings or {})
    given = {
        "dtype": "float32",
        "enforce_eager": True,
        "max_model_len": 1024,
        "max_num_seqs": 8,
        "max_num_batched_tokens": 256,  # longer prompts are prefilled in chunks
        "seed": 0,
        "disable_log_stats": False,
        "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
    }
    return LLM(
        str(tiny.make(model)),
        **(given | options | speculation(mode, tokens=TOKENS, settings=settings)),
    )


def runner_of(engine: Any) -> Any:
    """Its model runner."""
    return engine.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker.model_runner


def proposer_of(engine: Any) -> Any:
    """Its proposer; None where vLLM runs without drafts, or with its own."""
    drafter = getattr(runner_of(engine), "drafter", None)
    return drafter if hasattr(drafter, "table") else None


def counters(engine: Any) -> dict[str, int]:
    """What vLLM itself counted so far, by their names without ``vllm:``; those of whole numbers."""
    return {
        metric.name.removeprefix("vllm:"): int(metric.value)
        for metric in engine.get_metrics()
        if type(metric).__name__ == "Counter"
    }


def ids(outputs: Any) -> list[list[int]]:
    """The token ids of all outputs."""
    return [list(one.token_ids) for output in outputs for one in output.outputs]


def play(
    engine: Any,
    arrivals: dict[int, list[tuple[str, Any, Any]]],
    *,
    aborts: dict[int, str] | None = None,
    loras: dict[str, Any] | None = None,
) -> dict[str, dict[str, Any]]:
    """Step by step, with requests that come and go on the way.

    Args:
        engine: in this process.
        arrivals: by step, those that come after it: their names, prompts and sampling parameters.
        aborts: by step, who is given up after it.
        loras: by name, the adapters of requests that have one.

    Returns:
        By name in alphabetical order, the token ids of each output that ended, and why it did.
    """
    core, outputs, step = engine.llm_engine, {}, 0
    while True:
        for name, prompt, params in arrivals.get(step, ()):
            core.add_request(name, prompt, params, lora_request=(loras or {}).get(name))
        if aborts and step in aborts:
            core.abort_request([aborts[step]])
        if not core.has_unfinished_requests() and step >= max(arrivals):
            break
        for output in core.step() if core.has_unfinished_requests() else ():
            if output.finished:
                one = output.outputs[0]
                outputs[output.request_id] = {"ids": list(one.token_ids), "why": one.finish_reason}
        step += 1
    gone = set((aborts or {}).values())
    return {name: outputs[name] for name in sorted(outputs) if name not in gone}
