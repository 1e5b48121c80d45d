"""How vLLM is started: without drafts, with its own drafters, with this project's."""

from __future__ import annotations

import os
from typing import Any

MODES = ("none", "ngram", "suffix", "suffixspec")
TOKENS = {"ngram": 16, "suffix": 32, "suffixspec": 32}
"""Most tokens of a draft, where each mode was fastest of 16 and 32 (suffix is as fast with either: it drafts less).
Where wide forwards cost more, ngram was 7 % faster with 8 (``bench/results/vllm_ngram_8.json``)."""
PROPOSER = "suffixspec.integrations.vllm.Proposer"


def environment(*, in_process: bool = True) -> dict[str, str]:
    """Variables for a vLLM on a CPU: one thread (more only wait for each other), no network, no statistics."""
    return {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": os.environ.get("VLLM_CPU_KVCACHE_SPACE", "1"),
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        "NUMBA_THREADING_LAYER": "workqueue",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0" if in_process else "1",
        # KV blocks are named by hashes: the same in each process.
        "PYTHONHASHSEED": "0",
    }


def speculation(
    mode: str, *, tokens: int | None = None, settings: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Engine arguments of a mode.

    Args:
        mode: one of ``MODES``. "suffix" is ArcticInference's, by vLLM's defaults.
        tokens: most tokens of a draft; None: as ``TOKENS`` has it.
        settings: of this project's proposer.
    """
    if mode == "none":
        return {}
    tokens = tokens or TOKENS[mode]
    if mode == "suffixspec":
        return {
            "speculative_config": {
                "method": "custom_class",
                "model": PROPOSER,
                "num_speculative_tokens": tokens,
            },
            "additional_config": {"suffixspec": settings or {}},
        }
    method: dict[str, Any] = {"method": mode, "num_speculative_tokens": tokens}
    if mode == "ngram":
        method |= {"prompt_lookup_min": 2, "prompt_lookup_max": 5}
    return {"speculative_config": method}
