"""SGLang's own n-gram worker, with this project's drafts. Importing SGLang's needs a GPU."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suffixspec.errors import InputError
from suffixspec.integrations.sglang.batch_drafter import BatchDrafter
from suffixspec.integrations.sglang.request_view import accepted_lately, prompt_of
from suffixspec.integrations.sglang.tree_mask import pack_batch
from suffixspec.integrations.vllm.settings import KEY, Settings

VARIABLE = "SUFFIXSPEC_SGLANG"


def worker_class(base: type[Any]) -> type[Any]:
    """A subclass of SGLang's ``NGRAMWorker``: drafting is this project's, verification stays SGLang's.

    Args:
        base: ``sglang.srt.speculative.ngram_worker.NGRAMWorker``.
    """

    class SuffixspecWorker(base):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.suffixspec = BatchDrafter(settings(), self.draft_token_num)

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


def settings() -> Settings:
    """Those in the environment.

    Raises:
        InputError: no JSON, or no such setting.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return Settings()
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"expected JSON in {VARIABLE}, got {error.msg}") from error
    return Settings.of({KEY: given})
