"""What the steps of an engine did to its requests, seen at the runner."""

from __future__ import annotations

from collections import Counter
from typing import Any

from bench.vllm.engine import counters, proposer_of, runner_of

OF_VLLM = {
    "spec_decode_num_draft_tokens": "drafted",
    "spec_decode_num_accepted_tokens": "accepted",
    "num_preemptions": "preemptions",
    "prefix_cache_hits": "prefix_hits",
}
"""By the name of a counter of vLLM, what it counts."""


class Watch:
    """Counts, whoever drafts, and also where nobody does; a check says by it that its situation came about.

    Args:
        engine: in this process.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._runner = runner_of(engine)
        self._rows: dict[str, int] = {}
        self._returned: set[str] = set()
        self.steps: Counter[str] = Counter()
        """By request, steps that gave it tokens."""
        self.begin()
        execute = self._runner.execute_model

        def executed(scheduled: Any, *args: Any, **kwargs: Any) -> Any:
            result = execute(scheduled, *args, **kwargs)
            self._executed(scheduled)
            return result

        self._runner.execute_model = executed
        bookkeeping = self._runner._bookkeeping_sync

        def kept(scheduled: Any, *args: Any, **kwargs: Any) -> Any:
            result = bookkeeping(scheduled, *args, **kwargs)
            self._sampled(scheduled, result)
            return result

        self._runner._bookkeeping_sync = kept

    def begin(self) -> None:
        """Count from here on."""
        self._seen: Counter[str] = Counter()
        self.steps.clear()
        self._before = self._counters()

    def seen(self) -> dict[str, int]:
        """What was counted since ``begin``; what did not happen may be absent.

        - drafted, accepted, preemptions, prefix_hits: by vLLM's own counters, all but the third in tokens
        - proposed: tokens that the proposer gave
        - failures: of the proposer, those of single requests and of whole steps
        - moved: rows that became another one between two steps
        - chunks_beside: pieces of prompts that were not their last, in steps in which another request decoded
        - returned: requests that came back after a preemption
        - accepted_after_return: draft tokens that those accepted
        - widest: most requests in one step
        """
        now = self._counters()
        return {name: now[name] - self._before[name] for name in now} | dict(self._seen)

    def count(self, name: str, more: int) -> None:
        """What a check sees itself."""
        self._seen[name] += int(more)

    def _counters(self) -> dict[str, int]:
        of_vllm = counters(self._engine)
        found = {name: of_vllm.get(of, 0) for of, name in OF_VLLM.items()}
        proposer = proposer_of(self._engine)
        if proposer is not None:
            found |= {"proposed": proposer.proposed, "failures": proposer._failures + len(proposer._said)}
        return found

    def _executed(self, scheduled: Any) -> None:
        rows = {name: row for row, name in enumerate(self._runner.input_batch.req_ids)}
        self._seen["moved"] += sum(self._rows.get(name, row) != row for name, row in rows.items())
        self._rows = rows
        self._seen["widest"] = max(self._seen["widest"], len(scheduled.num_scheduled_tokens))
        for name in scheduled.scheduled_cached_reqs.resumed_req_ids:
            self._returned.add(name)
            self._seen["returned"] += 1
        pieces = decoding = 0
        for name, tokens in scheduled.num_scheduled_tokens.items():
            state = self._runner.requests[name]
            pieces += state.num_computed_tokens + tokens < state.num_prompt_tokens
            decoding += state.num_computed_tokens >= state.num_prompt_tokens
        self._seen["chunks_beside"] += pieces if decoding else 0

    def _sampled(self, scheduled: Any, kept: Any) -> None:
        sampled = kept[3]
        for name, tokens in zip(self._runner.input_batch.req_ids, sampled, strict=False):
            self.steps[name.rpartition("-")[0]] += bool(tokens)
            if name in self._returned and name in scheduled.scheduled_spec_decode_tokens:
                self._seen["accepted_after_return"] += max(0, len(tokens) - 1)
