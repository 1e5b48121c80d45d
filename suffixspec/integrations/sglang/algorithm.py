"""What SGLang asks of an algorithm."""

from __future__ import annotations

from typing import Any

NAME = "SUFFIXSPEC"
DRAFT_TOKENS = 16
MOST_RUNNING = 48
"""Requests at a time where the user says nothing: what SGLang takes for its own n-gram drafts."""


def algorithm_class(base: type[Any]) -> type[Any]:
    """A subclass of SGLang's ``CustomSpecAlgo`` that is treated as its n-gram drafts are: no draft model, no KV."""

    class SuffixspecAlgorithm(base):
        def is_ngram(self) -> bool:
            return True

        def has_draft_kv(self) -> bool:
            return False

        def handle_server_args(self, server_args: Any) -> None:
            fill_in(server_args)

    return SuffixspecAlgorithm


def fill_in(server_args: Any) -> None:
    """Set what was left open, as SGLang does for its n-gram drafts.

    Raises:
        ValueError: a device on which trees cannot be verified, or a number of draft tokens that is none.
    """
    device = str(getattr(server_args, "device", "cuda"))
    if not device.startswith("cuda"):
        raise ValueError(f"expected a CUDA device for the algorithm {NAME}, got {device!r}")
    if getattr(server_args, "max_running_requests", None) is None:
        server_args.max_running_requests = MOST_RUNNING
    server_args.enable_mixed_chunk = False
    if getattr(server_args, "speculative_num_draft_tokens", None) is None:
        server_args.speculative_num_draft_tokens = DRAFT_TOKENS
    nodes = server_args.speculative_num_draft_tokens
    if nodes < 2:
        raise ValueError(
            f"expected at least 2 speculative draft tokens (the first is the pending one), got {nodes}"
        )
    # A tree may be one chain, or all nodes may be siblings.
    server_args.speculative_eagle_topk = nodes - 1
    server_args.speculative_num_steps = nodes - 1
