"""Draft trees for the requests of a batch."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from typing import Any

from suffixspec.draft.indexed import IndexDrafter
from suffixspec.draft.tree import EMPTY, DraftTree
from suffixspec.integrations.sglang.request_view import RequestView, prompt_of
from suffixspec.integrations.vllm.live_request import LiveRequest, end_ids
from suffixspec.integrations.vllm.session_table import SessionTable
from suffixspec.integrations.vllm.settings import Settings

logger = logging.getLogger("suffixspec.sglang")


class BatchDrafter:
    """The sessions of the requests that are decoded, and their trees.

    SGLang's ranks each draft for themselves and have to come to the same drafts: nothing here depends on the time.
    A request's exception is logged once, and ends drafting for that request.

    Args:
        settings: see ``Settings``; of them the bounds, the namespace and ``share_adapters`` apply.
        nodes: of a draft, the pending token's included.
    """

    def __init__(self, settings: Settings, nodes: int) -> None:
        self.settings = settings
        self.nodes = nodes
        self.drafter = IndexDrafter(
            max_nodes=min(max(nodes - 1, 1), 1024), cost=None, history_bytes=settings.history_bytes
        )
        self._new_table()
        # By request id: the request, what is kept of it, and how it is read; None where it runs without drafts.
        self._live: dict[str, tuple[Any, LiveRequest | None]] = {}
        self._said = False

    def _new_table(self) -> None:
        self.table = SessionTable(
            lambda namespace, _: self.drafter.session(namespace),
            most=self.settings.max_sessions,
            nbytes=self.settings.session_bytes,
            idle_seconds=float("inf"),
        )

    def trees(
        self, requests: Sequence[Any], lately: Sequence[Sequence[int]] | None = None
    ) -> tuple[list[int], list[DraftTree]]:
        """The pending token and the tree of each request; requests that are absent are done, for now.

        Args:
            requests: SGLang's, in the order of the batch.
            lately: tokens that each has beyond its output; see ``accepted_lately``.

        Cost: some 50 to 100 µs per request, and O(new tokens).
        """
        present = {request.rid: request for request in requests}
        for rid in [rid for rid, (request, _) in self._live.items() if present.get(rid) is not request]:
            self._end(rid)
        pending, trees = [], []
        for number, request in enumerate(requests):
            new = list(lately[number]) if lately is not None else []
            last = (new or list(request.output_ids[-1:]) or list(prompt_of(request)[-1:]) or [0])[-1]
            pending.append(int(last))
            trees.append(self._tree(request, new))
        return pending, trees

    def clear(self) -> None:
        """Forget all sessions and what earlier ones wrote."""
        self._live.clear()
        self._new_table()
        self.drafter.clear_history()

    def _tree(self, request: Any, lately: list[int]) -> DraftTree:
        try:
            if request.rid not in self._live:
                self._live[request.rid] = request, None
                self._live[request.rid] = request, self._begin(request)
            live = self._live[request.rid][1]
            if live is None:
                return EMPTY
            tokens = live.state.tokens(lately)
            live.read(0, tokens, len(tokens), self.settings.index_tokens)
            return live.draft() if live.is_read else EMPTY
        except Exception:  # SGLang goes on, whatever it is
            if not self._said:
                self._said = True
                logger.exception("suffixspec: request %s goes on without drafts", request.rid)
            live = self._live[request.rid][1]
            if live is not None:
                self.table.forget(live.lane)
            self._live[request.rid] = request, None
            return EMPTY

    def _begin(self, request: Any) -> LiveRequest | None:
        view = RequestView(request)
        extra = view.sampling_params.extra_args or {}
        namespace = str(extra.get("suffixspec_namespace") or self.settings.namespace)
        if view.adapter is not None and not self.settings.share_adapters:
            namespace = f"{namespace}/lora:{view.adapter}"
        key = extra.get("suffixspec_session")
        prompt = view.tokens()[: view.num_prompt_tokens]
        adopted = self.table.adopt(
            namespace, None if key is None else str(key), prompt, end_ids(view.sampling_params)
        )
        return None if adopted is None else LiveRequest(view, *adopted)

    def _end(self, rid: str) -> None:
        live = self._live.pop(rid)[1]
        if live is not None:
            with contextlib.suppress(Exception):
                self.table.release(live.lane)
        if not self._live:
            self.table.sweep()
