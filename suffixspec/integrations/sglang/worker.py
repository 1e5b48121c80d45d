"""SGLang's own n-gram worker, with this project's drafts. Importing SGLang's needs a GPU."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suffixspec.errors import InputError
from suffixspec.integrations.hosted.draft_sources import ServedModel
from suffixspec.integrations.hosted.settings import KEY, Settings
from suffixspec.integrations.sglang.batch_drafter import BatchDrafter
from suffixspec.integrations.sglang.request_view import accepted_lately, prompt_of
from suffixspec.integrations.sglang.tree_mask import pack_batch
from suffixspec.shared_prior import TokenizerSource

VARIABLE = "SUFFIXSPEC_SGLANG"
# SGLang verifies as many nodes as it was started with, whatever they cost, and asks all ranks at once.
_NOT_HERE = frozenset({"cost", "max_nodes", "draft_seeded", "draft_tokens", "draft_ms"})


def worker_class(base: type[Any]) -> type[Any]:
    """A subclass of SGLang's ``NGRAMWorker``: drafting is this project's, verification stays SGLang's.

    Args:
        base: ``sglang.srt.speculative.ngram_worker.NGRAMWorker``.
    """

    class SuffixspecWorker(base):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            given = settings()  # before anything is loaded
            super().__init__(*args, **kwargs)
            server_args = kwargs.get("server_args", args[0] if args else None)
            self.suffixspec = BatchDrafter(
                given,
                self.draft_token_num,
                model=served(server_args, getattr(self, "target_worker", None)),
                ranks=int(getattr(server_args, "tp_size", 1) or 1),
            )

        def _prepare_draft_tokens(self, batch: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
            pending, trees = self.suffixspec.trees(batch.reqs, self._lately(batch))
            return pack_batch(pending, trees, self.draft_token_num)

        def _update_ngram_corpus(self, batch: Any) -> None:
            """Nothing: what was accepted is read when the next draft is prepared."""

        def clear_cache_pool(self) -> None:
            super().clear_cache_pool()
            self.suffixspec.clear()

        def _lately(self, batch: Any) -> list[list[int]] | None:
            """What the last verification accepted and the scheduler has not taken in; None without overlap."""
            if not self.enable_overlap or batch.grammar_needs_sync():
                return None
            accepted, lengths = batch.spec_info.accept_tokens, batch.spec_info.accept_lens
            rows = accepted.cpu().reshape(len(batch.reqs), -1).tolist()
            found = []
            for number, (request, length) in enumerate(zip(batch.reqs, lengths.cpu().tolist(), strict=True)):
                known = len(prompt_of(request)) + len(request.output_ids)
                total = int(batch.seq_lens_cpu[number]) + 1
                found.append(accepted_lately(known, total, rows[number][: int(length)]))
            return found

    return SuffixspecWorker


def served(server_args: Any, target_worker: Any = None) -> ServedModel | None:
    """What SGLang's arguments say of the model and its tokenizer; None where they name no model."""
    model = getattr(server_args, "model_path", None)
    if not model:
        return None
    vocabulary = getattr(getattr(target_worker, "model_config", None), "vocab_size", None)
    revision = getattr(
        server_args, "revision", None
    )  # of the model: SGLang takes its tokenizer from there, too
    tokenizer = TokenizerSource(
        str(getattr(server_args, "tokenizer_path", None) or model),
        revision=None if revision is None else str(revision),
        trust_remote_code=bool(getattr(server_args, "trust_remote_code", False)),
    )
    return ServedModel(str(model), tokenizer, vocabulary if isinstance(vocabulary, int) else None)


def settings() -> Settings:
    """Those in the environment.

    Raises:
        InputError: no JSON, no such setting, or one that decides nothing in SGLang.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return Settings()
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"expected JSON in {VARIABLE}, got {error.msg}") from error
    without_effect = sorted(_NOT_HERE & set(given)) if isinstance(given, dict) else []
    if without_effect:
        apply = ", ".join(field.name for field in fields(Settings) if field.name not in _NOT_HERE)
        raise InputError(
            f"expected settings that apply inside SGLang ({apply}), got {', '.join(without_effect)}; the size of "
            "drafts is --speculative-num-draft-tokens"
        )
    return Settings.of({KEY: given})
