"""What SGLang asks of an algorithm."""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger("suffixspec.sglang")

NAME = "SUFFIXSPEC"
DRAFT_TOKENS = 16
MOST_RUNNING = 48
"""Requests at a time where the user says nothing: what SGLang takes for its own n-gram drafts."""
UNUSED_CORPUS = 1024
"""Nodes of the n-gram corpus that SGLang's worker makes and this one never asks: some 180 bytes each, so that SGLang's
default of ten million would take 1.8 GB a rank."""
_DEVICES = ("cuda", "cpu", "xpu")  # those of SGLang's own n-gram worker


def algorithm_class(base: type[Any], like: Any = None) -> type[Any]:
    """A subclass of SGLang's ``CustomSpecAlgo`` that is treated as its n-gram drafts are: no draft model, no KV.

    Args:
        base: ``sglang.srt.speculative.spec_registry.CustomSpecAlgo``.
        like: ``SpeculativeAlgorithm.NGRAM``. SGLang's scheduler asks an algorithm for more than ``CustomSpecAlgo`` has
            (0.5.23: ``create_future_map``, ``carries_draft_hidden_states``, ``need_topk``); this one answers.
    """

    class SuffixspecAlgorithm(base):
        def is_ngram(self) -> bool:
            return True

        def has_draft_kv(self) -> bool:
            return False

        def handle_server_args(self, server_args: Any) -> None:
            fill_in(server_args)

        def __getattr__(self, name: str) -> Any:
            # Only what the base class has not. Names of Python's own protocols are no questions to an algorithm.
            if name.startswith("_") or like is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return getattr(like, name)

    return SuffixspecAlgorithm


def fill_in(server_args: Any) -> None:
    """Set what was left open, as SGLang does for its n-gram drafts, and refuse what cannot work.

    Called while SGLang resolves its arguments: reads give what has been decided by then, and writes are recorded as
    decisions.

    Raises:
        ValueError: what the user asked for cannot be had together with these drafts; says what to do instead.
    """
    device = str(getattr(server_args, "device", "cuda"))
    if device.partition(":")[0] not in _DEVICES:
        raise ValueError(
            f"expected one of the devices {', '.join(_DEVICES)} for the algorithm {NAME}, got {device!r}"
        )
    if device == "cpu":  # where SGLang has no overlap of drafting and forwards
        server_args.disable_overlap_schedule = True
    _refuse(server_args)
    if getattr(server_args, "max_running_requests", None) is None:
        server_args.max_running_requests = MOST_RUNNING
        logger.warning(
            "suffixspec: at most %d requests run at a time; --max-running-requests says otherwise",
            MOST_RUNNING,
        )
    server_args.enable_mixed_chunk = False
    server_args.speculative_ngram_capacity = UNUSED_CORPUS
    _fill_in_tree(server_args)


def _refuse(server_args: Any) -> None:
    if getattr(server_args, "speculative_ngram_external_corpus_path", None) is not None:
        raise ValueError(
            f"expected no --speculative-ngram-external-corpus-path with {NAME}, which draws nothing from it; "
            "leave it out, or use NGRAM"
        )
    if int(getattr(server_args, "attn_dp_size", 1) or 1) > 1:
        raise ValueError(
            f"expected no data-parallel attention with {NAME}: SGLang's n-gram worker has none; "
            "use --dp-size without --enable-dp-attention, or --tp-size alone"
        )
    if getattr(server_args, "disaggregation_mode", None) == "decode":
        raise ValueError(
            f"expected a server that prefills what it decodes with {NAME}: SGLang's n-gram worker cannot begin from "
            "another server's prefill; leave --disaggregation-mode out"
        )


def _fill_in_tree(server_args: Any) -> None:
    if getattr(server_args, "speculative_num_draft_tokens", None) is None:
        server_args.speculative_num_draft_tokens = DRAFT_TOKENS
    nodes = server_args.speculative_num_draft_tokens
    if nodes < 2:
        raise ValueError(
            f"expected at least 2 speculative draft tokens (the first is the pending one), got {nodes}"
        )
    # To SGLang's kernels, 1 means chains, and all above it trees of any shape.
    if getattr(server_args, "speculative_eagle_topk", None) is None:
        server_args.speculative_eagle_topk = 2 if nodes > 2 else 1
    topk = server_args.speculative_eagle_topk
    if topk < 1:
        raise ValueError(
            f"expected --speculative-eagle-topk to be 1 for chains, or more for trees, got {topk}"
        )
    # SGLang sets KV aside for steps x topk tokens a step and request, so the product stays within the tree's nodes.
    if getattr(server_args, "speculative_num_steps", None) is None:
        server_args.speculative_num_steps = max(1, nodes // topk)
    page = int(getattr(server_args, "page_size", None) or 1)
    backend = getattr(server_args, "attention_backend", None)
    if topk > 1 and page > 1 and backend != "flashinfer":
        raise ValueError(
            f"expected pages of one token, the attention backend flashinfer, or chains with {NAME}, got pages of "
            f"{page} with {backend}, whose kernels verify trees wrongly; add --page-size 1, --attention-backend "
            "flashinfer, or --speculative-eagle-topk 1"
        )
