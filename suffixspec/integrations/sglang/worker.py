"""SGLang's own n-gram worker, with this project's drafts. Importing SGLang's needs its kernels."""

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
from suffixspec.integrations.sglang.request_view import accepted_lately, last_of
from suffixspec.integrations.sglang.tree_mask import chain, pack_batch
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
                ranks=int(getattr(resolved(server_args), "tp_size", 1) or 1),
            )

        def _prepare_draft_tokens(self, batch: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
            pending, lately = self._lately(batch)
            pending, trees = self.suffixspec.trees(batch.reqs, lately, pending)
            if self.topk == 1:
                trees = [chain(tree) for tree in trees]
            return pack_batch(pending, trees, self.draft_token_num)

        def _update_ngram_corpus(self, batch: Any) -> None:
            """Nothing: what was accepted is read when the next draft is prepared."""

        def note_request_finished(self, *, rid: str, natural_stop: bool) -> None:
            super().note_request_finished(rid=rid, natural_stop=natural_stop)
            self.suffixspec.finish(rid)

        def clear_cache_pool(self) -> None:
            super().clear_cache_pool()
            self.suffixspec.clear()

        def _lately(self, batch: Any) -> tuple[list[int] | None, list[list[int]] | None]:
            """The pending tokens, and what the scheduler has not taken in of the last verification.

            None: it has taken in all, as it does without overlap.
            """
            if not self.enable_overlap or batch.grammar_needs_sync():
                return None, None
            accepted, lengths = batch.spec_info.accept_tokens, batch.spec_info.accept_lens
            rows = accepted.cpu().reshape(len(batch.reqs), -1).tolist()
            pending, found = [], []
            for number, (request, length) in enumerate(zip(batch.reqs, lengths.cpu().tolist(), strict=True)):
                row = rows[number][: int(length)]
                # Whatever the scheduler knows by now: a forward follows the last token of the last one.
                pending.append(int(row[-1] if row else last_of(request)))
                found.append(accepted_lately(request, int(batch.seq_lens_cpu[number]) + 1, row))
            return pending, found

    return SuffixspecWorker


def resolved(server_args: Any) -> Any:
    """SGLang's arguments as they are in force: the record itself keeps what the user gave."""
    try:
        from sglang.srt.arg_groups.overrides import resolving_view
    except ImportError:
        return server_args
    return resolving_view(server_args)


def served(server_args: Any, target_worker: Any = None) -> ServedModel | None:
    """What SGLang's arguments say of the model and its tokenizer; None where they name no model."""
    model = getattr(server_args, "model_path", None)
    if not model:
        return None
    in_force = resolved(server_args)
    vocabulary = getattr(getattr(target_worker, "model_config", None), "vocab_size", None)
    # Of the model: SGLang takes its tokenizer from there, too.
    revision = getattr(in_force, "revision", None)
    tokenizer = TokenizerSource(
        str(getattr(in_force, "tokenizer_path", None) or getattr(in_force, "model_path", model)),
        revision=None if revision is None else str(revision),
        trust_remote_code=bool(getattr(in_force, "trust_remote_code", False)),
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
