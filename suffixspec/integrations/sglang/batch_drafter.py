"""Draft trees for the requests of a batch."""

from __future__ import annotations

import itertools
import logging
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from suffixspec.draft.indexed import IndexDrafter
from suffixspec.draft.tree import EMPTY, DraftTree
from suffixspec.fair_lock import FairLock
from suffixspec.integrations.hosted import live_request
from suffixspec.integrations.hosted.draft_sources import DraftSources, ServedModel
from suffixspec.integrations.hosted.lifetime import close_at_exit, compile_kernels
from suffixspec.integrations.hosted.live_request import LiveRequest
from suffixspec.integrations.hosted.session_table import AnySession, SessionTable
from suffixspec.integrations.hosted.settings import Settings
from suffixspec.integrations.sglang.request_view import RequestView, last_of

logger = logging.getLogger("suffixspec.sglang")


class BatchDrafter:
    """The sessions of the requests that are decoded, and their trees.

    SGLang's tensor-parallel ranks each draft for themselves and have to come to the same drafts. Where there are
    several, nothing here depends on the time, nor on when a folder has been read: they draft without history and prior,
    and say so. A request's exception is logged once, and ends drafting for that request.

    Args:
        settings: see ``Settings``; ``worker.settings`` says which of them apply.
        nodes: of a draft, the pending token's included.
        model: the served one; None: not known, and drafts come without history and prior.
        ranks: processes that have to come to the same drafts.
    """

    def __init__(
        self, settings: Settings, nodes: int, *, model: ServedModel | None = None, ranks: int = 1
    ) -> None:
        self.settings = settings
        self.nodes = nodes
        self.drafter = IndexDrafter(
            max_nodes=min(max(nodes - 1, 1), 1024), cost=None, history_bytes=settings.history_bytes
        )
        self._alone = ranks == 1
        self._lock = FairLock()
        self._sources: DraftSources | None = None
        if model is not None and self._alone:
            self._sources = DraftSources(settings, self.drafter, model, lock=self._lock, logger=logger)
        elif settings.history is not None or settings.prior:
            say = logger.info if settings.history is None else logger.warning
            why = (
                "its model is not known" if self._alone else f"{ranks} ranks have to come to the same drafts"
            )
            say("suffixspec: drafting without a history's folder and without the prior: %s", why)
        self._new_table()
        # By request id: the request, what is kept of it, and how it is read; None where it runs without drafts.
        self._live: dict[str, tuple[Any, LiveRequest | None]] = {}
        self._said = False
        self._closed = threading.Event()
        compile_kernels(self.drafter.max_nodes)
        close_at_exit(self)

    def _new_table(self) -> None:
        self.table = SessionTable(
            self._begin_session,
            most=self.settings.max_sessions,
            nbytes=self.settings.session_bytes,
            idle_seconds=self.settings.idle_seconds if self._alone else float("inf"),
            # Which session was used last decides between two; two ranks may read one time from their clocks.
            clock=time.monotonic if self._alone else itertools.count().__next__,
        )

    def _begin_session(self, namespace: str, name: str) -> AnySession:
        if self._sources is None:
            return self.drafter.session(namespace)
        return self._sources.session(namespace, name)

    def trees(
        self,
        requests: Sequence[Any],
        lately: Sequence[Sequence[int]] | None = None,
        pending: Sequence[int] | None = None,
    ) -> tuple[list[int], list[DraftTree]]:
        """The pending token and the tree of each request; requests that are absent are done, for now.

        Args:
            requests: SGLang's, in the order of the batch.
            lately: tokens that each has beyond its output; see ``accepted_lately``.
            pending: each one's last token; None: the last one of what it has.

        Cost: some 60 to 130 µs per request, a third of it for the prior; O(new tokens) to index prompts.
        """
        present = {request.rid: request for request in requests}
        found, trees = [], []
        with self._lock:
            for rid in [rid for rid, (request, _) in self._live.items() if present.get(rid) is not request]:
                self._end(rid)
            allowed = self.settings.index_tokens
            for number, request in enumerate(requests):
                new = list(lately[number]) if lately is not None else []
                last = int((new or [last_of(request)])[-1]) if pending is None else int(pending[number])
                found.append(last)
                tree, indexed = (
                    (EMPTY, 0) if self._closed.is_set() else self._tree(request, new, last, allowed)
                )
                allowed = max(0, allowed - indexed)
                trees.append(tree)
        return found, trees

    def finish(self, rid: str) -> None:
        """Release a request that SGLang has finished.

        A server that has nothing more to do asks for no draft, and it may be killed: its output goes to disk now.
        """
        with self._lock:
            if rid in self._live:
                self._end(rid)

    def clear(self) -> None:
        """Forget all sessions and what earlier ones wrote; what is kept in a folder stays, and theirs goes there."""
        with self._lock:
            self._live.clear()
            if self._sources is not None and self._sources.saved is not None:
                self.table.close()
                return
            self._new_table()
            self.drafter.clear_history()

    def wait_for_prior(self, timeout: float | None = None) -> Any:
        """The prior, once it is opened; None where there is none. For measurements: nothing else waits for it."""
        return None if self._sources is None else self._sources.wait_for_prior(timeout)

    def close(self) -> None:
        """End all sessions; their outputs are on disk where a folder was named. May be called again."""
        self._closed.set()
        if self._sources is not None:
            self._sources.give_up_prior()
        with self._lock:
            for rid in list(self._live):
                self._end(rid)
            self.table.close()
        if self._sources is not None:
            self._sources.close()

    def _tree(self, request: Any, lately: list[int], last: int, allowed: int) -> tuple[DraftTree, int]:
        """A request's tree, which follows its last token, and how many tokens were indexed for it."""
        try:
            if request.rid not in self._live:
                self._live[request.rid] = request, None
                self._live[request.rid] = request, self._begin(request)
            live = self._live[request.rid][1]
            if live is None:
                return EMPTY, 0
            tokens = live.state.tokens(lately)
            indexed = live.read(0, tokens, len(tokens), allowed)
            # A text that ends elsewhere is behind: the next step has the rest of it.
            at_its_end = live.is_read and len(tokens) > 0 and int(tokens[-1]) == last
            return (live.draft() if at_its_end else EMPTY), indexed
        except Exception:  # noqa: BLE001  # SGLang goes on, whatever it is
            self._give_up(request)
            return EMPTY, 0

    def _begin(self, request: Any) -> LiveRequest | None:
        view = RequestView(request)
        prompt = view.tokens()[: view.num_prompt_tokens]
        return live_request.begin(view, prompt, self.table, self.settings, adapter=view.adapter)

    def _end(self, rid: str) -> None:
        request, live = self._live.pop(rid)
        if live is not None:
            try:
                # What its last step gave: nobody asked for a draft behind it.
                tokens = live.state.tokens()
                live.read(0, tokens, len(tokens), 0)
                self.table.release(live.lane)
            except Exception:  # noqa: BLE001  # SGLang goes on, whatever it is
                self._live[rid] = request, live
                self._give_up(request)
                del self._live[rid]
        if not self._live:
            try:
                self.table.sweep()
            except Exception:  # noqa: BLE001  # as above: a full disk, say
                self._say("could not end an idle session")

    def _give_up(self, request: Any) -> None:
        """After an exception in a request's drafting, which may have come in the middle of a write."""
        if not self._alone and isinstance(sys.exception(), MemoryError):
            raise  # noqa: PLE0704  # one rank's alone: it would draft otherwise than the rest, and the output be wrong
        self._say(f"request {request.rid} goes on without drafts")
        live = self._live[request.rid][1]
        if live is not None:
            self.table.forget(live.lane)
        self._live[request.rid] = request, None

    def _say(self, what: str) -> None:
        """Log the exception that is being handled, and of all such ones the first only."""
        if not self._said:
            self._said = True
            logger.exception("suffixspec: %s", what)
