"""Counters for Prometheus: under vLLM's names, which benchmark clients know, and under our own."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from suffixspec.engine.reply import Reply

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


class Metrics:
    """What a server has done so far, all namespaces together: totals only, no text and no names.

    Args:
        running: calls being worked on.
        waiting: calls that wait.
        sessions: open sessions.
        kv_bytes: memory of all KV.
    """

    def __init__(
        self,
        *,
        running: Callable[[], float],
        waiting: Callable[[], float],
        sessions: Callable[[], float],
        kv_bytes: Callable[[], float],
    ) -> None:
        self._registry = registry = CollectorRegistry()

        def counter(name: str, what: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(name, what, labels, registry=registry)

        self._drafts = counter("vllm:spec_decode_num_drafts", "Steps that checked a draft.")
        self._draft_tokens = counter("vllm:spec_decode_num_draft_tokens", "Draft tokens checked.")
        self._accepted = counter("vllm:spec_decode_num_accepted_tokens", "Draft tokens accepted.")
        self._per_position = counter(
            "vllm:spec_decode_num_accepted_tokens_per_pos",
            "Draft tokens accepted at each depth of the draft tree, from 0.",
            ("position",),
        )
        self._requests = counter(
            "suffixspec_requests",
            "Requests by API and HTTP status; 499: the client went away.",
            ("api", "status"),
        )
        self._prompt = counter("suffixspec_prompt_tokens", "Tokens of all prompts.")
        self._cached = counter("suffixspec_cached_prompt_tokens", "Prompt tokens whose KV was there.")
        self._generated = counter("suffixspec_generated_tokens", "Tokens that came out.")
        self._steps = counter("suffixspec_steps", "Forwards of the target after prefills.")
        self._nodes = counter("suffixspec_draft_nodes", "Draft nodes checked.")
        self._accepted_nodes = counter("suffixspec_accepted_nodes", "Draft nodes accepted.")
        self._draft_seconds = counter("suffixspec_draft_seconds", "Time spent on drafting.")
        self._forward_seconds = counter("suffixspec_forward_seconds", "Time spent on steps' forwards.")
        self._index_seconds = counter(
            "suffixspec_index_seconds", "Time spent on indexing and on committing KV."
        )
        self._prefill_seconds = counter("suffixspec_prefill_seconds", "Time spent on prefills.")
        self._prefills = counter("suffixspec_prefill_forwards", "Forwards of the target in prefills.")
        self._busy = counter(
            "suffixspec_busy_seconds",
            "Time in which a request was being worked on. What is left of it without drafts, forwards, prefills and "
            "indexing is the server's own.",
        )
        self.first_text = Histogram(
            "suffixspec_first_text_seconds",
            "From a request's arrival to the first text of its output.",
            buckets=_SECONDS,
            registry=registry,
        )
        for name, what, value in (
            ("suffixspec_requests_running", "Requests being worked on.", running),
            ("suffixspec_requests_waiting", "Requests that wait.", waiting),
            ("suffixspec_sessions", "Open sessions.", sessions),
            ("suffixspec_kv_bytes", "Memory of all KV.", kv_bytes),
        ):
            Gauge(name, what, registry=registry).set_function(value)

    def output_ended(self, reply: Reply) -> None:
        """Count an output, complete or not. Cost: O(depth of the drafts)."""
        counts, timings = reply.counts, reply.timings
        self._drafts.inc(sum(counts.drafted_widths[1:]))
        self._draft_tokens.inc(counts.drafted)
        self._accepted.inc(counts.accepted)
        deeper = counts.steps
        for position, steps in enumerate(counts.accepted_lengths[:-1]):
            deeper -= steps  # now: the steps that accepted more than ``position`` nodes
            self._per_position.labels(str(position)).inc(deeper)
        self._prompt.inc(reply.prompt_tokens)
        self._cached.inc(reply.cached_tokens)
        self._generated.inc(len(reply.token_ids))
        self._steps.inc(counts.steps)
        self._nodes.inc(counts.drafted)
        self._accepted_nodes.inc(counts.accepted)
        self._draft_seconds.inc(timings.draft)
        self._forward_seconds.inc(timings.forward)
        self._index_seconds.inc(timings.index + timings.index_prompt)
        self._prefill_seconds.inc(timings.prefill)
        self._prefills.inc(counts.prefill_forwards)

    def busy(self, seconds: float) -> None:
        """Count time in which a request was being worked on."""
        self._busy.inc(seconds)

    def request_ended(self, api: str, status: int) -> None:
        """Count a request."""
        self._requests.labels(api, str(status)).inc()

    def exposition(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)
