"""The proposer: what vLLM calls once per step."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from suffixspec.draft.indexed import IndexDrafter
from suffixspec.fair_lock import FairLock
from suffixspec.integrations.hosted import live_request
from suffixspec.integrations.hosted.draft_sources import DraftSources, ServedModel
from suffixspec.integrations.hosted.lifetime import close_at_exit, compile_kernels
from suffixspec.integrations.hosted.live_request import LiveRequest
from suffixspec.integrations.hosted.session_table import AnySession, SessionTable
from suffixspec.integrations.hosted.settings import Settings
from suffixspec.integrations.vllm import hooks, verification
from suffixspec.integrations.vllm.chain import best_chain
from suffixspec.integrations.vllm.forward_time import ForwardTime
from suffixspec.integrations.vllm.load_gate import allot
from suffixspec.shared_prior import TokenizerSource

if TYPE_CHECKING:
    from suffixspec.draft.prior import Prior

# Below vLLM's own logger, which is the one that it configures.
logger = logging.getLogger("vllm.suffixspec")

_MOST_FAILURES = 3
_SWEEP_STEPS = 256
# Without a plain step now and then nothing says what drafts are compared with: one is due after so many steps with
# drafts, where these are not expected to gain more than this.
_PLAIN_STEPS, _PLAIN_GAIN = 16, 1.25


class Proposer:
    """Drafts for vLLM's ``custom_class``; see the package for how to name it.

    One drafter per engine. Each step, what was emitted is read from the runner's rows and learned, each sequence's
    tree gives its best chain, and the load gate shares the forward among the chains. Ranks whose drafts vLLM does not
    use (all but the first tensor-parallel one of the last stage) do nothing.

    An exception in a request's drafting is logged once and ends drafting for that request; one elsewhere costs the
    step its drafts and, the third time, ends drafting. The engine goes on.

    Args:
        vllm_config: vLLM's.

    Raises:
        InputError: settings that cannot be meant; vLLM does not start then.
    """

    def __init__(self, vllm_config: Any) -> None:
        self.settings = Settings.of(getattr(vllm_config, "additional_config", None))
        self.k = int(vllm_config.speculative_config.num_speculative_tokens)
        # Whether vLLM says before each step how many tokens a draft may have for a batch of this size.
        self._by_batch_size = bool(
            getattr(vllm_config.speculative_config, "num_speculative_tokens_per_batch_size", None)
        )
        self._most = self.k
        self.max_model_len = int(vllm_config.model_config.max_model_len)
        self.drafts_here = _drafts_here(vllm_config.parallel_config)
        self.steps = 0
        """Steps in which vLLM asked."""
        self.proposed = 0
        """Draft tokens given so far."""
        self.seconds = 0.0
        """CPU time spent in ``propose``."""
        self._runner: Any = None
        self._scheduled: Mapping[str, int] = {}
        # Since when the engine has been at the step that is at hand, and what the one before was scheduled for.
        self._begun: tuple[float, Mapping[str, int]] = (0.0, {})
        self._clock = time.perf_counter
        self._since_plain = 0
        # By request id: the runner's state of it, and what is kept of it; None where it runs without drafts.
        self._live: dict[str, tuple[Any, LiveRequest | None]] = {}
        self._failures = 0
        self._said: set[str] = set()
        self._turn: int | None = None
        self._sources: DraftSources | None = None
        self._lock = FairLock()
        device = str(getattr(getattr(vllm_config, "device_config", None), "device_type", "cpu"))
        # Also on ranks that draft nothing: each verifies.
        wrong = verification.mend() if device == "cpu" else None
        if wrong is not None:
            logger.warning("suffixspec: %s", wrong)
        if self.drafts_here:
            self._open(vllm_config, device)

    def _open(self, vllm_config: Any, device: str) -> None:
        settings = self.settings
        curve = settings.curve(device=device, widths=_padded_widths(vllm_config, device))
        scheduler = getattr(vllm_config, "scheduler_config", None)
        sequences = int(getattr(scheduler, "max_num_seqs", 1) or 1)
        prefill = int(getattr(scheduler, "max_num_batched_tokens", 0) or 0)
        every_rank_decides = _every_rank_decides(vllm_config.parallel_config)
        self.forward_time = ForwardTime(
            curve,
            widest=min(sequences * (self.k + 1) + prefill, 1 << 16),
            learn=settings.cost is None and not every_rank_decides,
        )
        # The drafter grows all that it finds: what pays is decided for chains, and for the batch as a whole.
        max_nodes = settings.max_nodes or min(1024, max(32, 2 * self.k))
        self.drafter = IndexDrafter(max_nodes=max_nodes, cost=None, history_bytes=settings.history_bytes)
        self._draft_seconds, idle_seconds = settings.draft_ms / 1e3, settings.idle_seconds
        if every_rank_decides:
            # Each rank runs a scheduler of its own, and all have to come to the same drafts: nothing may depend on
            # the time, nor on when a history or the prior has been read.
            self._draft_seconds = idle_seconds = float("inf")
        else:
            self._sources = DraftSources(
                settings, self.drafter, _served(vllm_config.model_config), lock=self._lock, logger=logger
            )
        self.table = SessionTable(
            self._begin,
            most=settings.max_sessions,
            nbytes=settings.session_bytes,
            idle_seconds=idle_seconds,
        )
        compile_kernels(max_nodes)
        missing = hooks.install()
        if missing is not None:
            logger.info("suffixspec: %s; looking for the runner in the caller's frame instead", missing)
        close_at_exit(self)

    def _begin(self, namespace: str, name: str) -> AnySession:
        return (
            self.drafter.session(namespace)
            if self._sources is None
            else self._sources.session(namespace, name)
        )

    def wait_for_prior(self, timeout: float | None = None) -> Prior | None:
        """The prior, once it is opened; None where there is none. For measurements: nothing else waits for it."""
        return None if self._sources is None else self._sources.wait_for_prior(timeout)

    # -- what vLLM calls --------------------------------------------------------------------------------------

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """There is none."""

    def introduce(self, runner: Any, scheduler_output: Any = None) -> None:
        """The runner, before each step that asks for drafts; see ``hooks``."""
        self._runner = runner
        self._scheduled = getattr(scheduler_output, "num_scheduled_tokens", None) or {}
        if self._by_batch_size:
            self._most = min(self.k, getattr(scheduler_output, "num_spec_tokens_to_schedule", self.k))

    def ended(self, req_ids: Iterable[str]) -> None:
        """These requests have ended, whether or not any is left; see ``hooks``.

        When a server has nothing more to do nobody asks for a draft, and it may be killed: their outputs go to disk now.
        """
        if self.drafts_here:
            with self._lock:
                for req_id in self._live.keys() & set(req_ids):
                    self._end(req_id)

    def propose(
        self,
        sampled_token_ids: Sequence[Sequence[int]],
        num_tokens_no_spec: NDArray[np.int32],
        token_ids_cpu: NDArray[np.int32],
        slot_mappings: Any = None,  # noqa: ARG002  # vLLM gives it
    ) -> list[list[int]]:
        """One chain of 0 … k tokens per row.

        Args:
            sampled_token_ids: what each row's sequence has just got; none where no draft is wanted.
            num_tokens_no_spec: int32 [at least rows], tokens of each row.
            token_ids_cpu: int32 [at least rows, max_model_len], the tokens, new ones included.
            slot_mappings: not used.

        Returns:
            As many chains as ``sampled_token_ids`` has rows.

        Cost: some 80 µs per sequence, a third of it for the prior, and as much per step, half of it to learn from its
        time; O(new tokens) to index prompts.
        """
        nothing: list[list[int]] = [[] for _ in sampled_token_ids]
        if not self.drafts_here or self._failures >= _MOST_FAILURES:
            return nothing
        if self._runner is None:
            self._runner = hooks.runner_of_caller()
        missing = ["the runner"] if self._runner is None else hooks.missing_of(self._runner)
        if missing:
            self._say_once(
                "hooks",
                f"this version of vLLM is without {', '.join(missing)}: decoding goes on without drafts",
            )
            return nothing
        started = time.perf_counter()
        try:
            with self._lock:
                chains = self._propose(sampled_token_ids, num_tokens_no_spec, token_ids_cpu)
        except Exception:
            self._failures += 1
            logger.exception(
                "suffixspec: a step goes without drafts%s",
                ", and so do all further ones" if self._failures >= _MOST_FAILURES else "",
            )
            self._start_over()
            return nothing
        self.steps += 1
        self.proposed += sum(map(len, chains))
        self.seconds += time.perf_counter() - started
        return chains

    def close(self) -> None:
        """End all sessions; their outputs are on disk where a folder was named. May be called again."""
        if not self.drafts_here:
            return
        if self._sources is not None:
            self._sources.give_up_prior()
        with self._lock:
            self.table.close()
            self._live.clear()
            self._failures = _MOST_FAILURES
        if self._sources is not None:
            self._sources.close()

    # -- within -----------------------------------------------------------------------------------------------

    def _propose(
        self,
        sampled_token_ids: Sequence[Sequence[int]],
        num_tokens_no_spec: NDArray[np.int32],
        token_ids_cpu: NDArray[np.int32],
    ) -> list[list[int]]:
        rows = len(sampled_token_ids)
        requests, req_ids = self._runner.requests, self._runner.input_batch.req_ids
        self._observe(requests)
        self._release_finished(requests)
        wanted = [bool(sampled) for sampled in sampled_token_ids]
        sequences = max(1, sum(wanted))
        # What was prefilled beside them in this step stands for what will be in the next one.
        prefilled = [
            req_id for req_id, sampled in zip(req_ids, sampled_token_ids, strict=False) if not sampled
        ]
        width = sequences + sum(self._scheduled.get(req_id, 0) for req_id in prefilled)
        contexts = [int(length) for length in num_tokens_no_spec[:rows]]
        times = self.forward_time.times(width, self.k, context=sum(contexts))
        # What one draft token of a row costs besides, as it attends to all that is before it.
        ms_per_pair = self.forward_time.ms_per_pair
        extra = [ms_per_pair * length for length in contexts]
        offers: list[tuple[list[int], list[float]]] = [([], [])] * rows
        allowed = self.settings.index_tokens
        deadline = time.perf_counter() + self._draft_seconds
        start = (self._turn or 0) % max(rows, 1)
        self._turn = None
        # All rows are read, whether or not there is time for their drafts: what was emitted has to be learned.
        for i in (*range(start, rows), *range(start)):
            if i >= len(req_ids) or req_ids[i] is None:
                continue  # a warm-up
            live = self._find(req_ids[i], requests, token_ids_cpu[i])
            if live is None:
                continue
            try:
                allowed -= live.read(i, token_ids_cpu[i], contexts[i], max(allowed, 0))
                limit = min(self._most, live.room(self.max_model_len))
                if not wanted[i] or not limit or not live.is_read:
                    continue
                if live.is_seeded and not self.settings.draft_seeded:
                    continue
                if time.perf_counter() > deadline:
                    self._turn = i if self._turn is None else self._turn  # where the next step begins
                    continue
                own = times[: limit + 1] + extra[i] * np.arange(limit + 1)
                offers[i] = best_chain(live.draft(), own.tolist(), sequences=sequences)
            except Exception:  # noqa: BLE001  # vLLM goes on, whatever it is
                self._give_up(req_ids[i], live)
        drafted = sum(len(tokens) for tokens, _ in offers)
        if drafted > self.k:
            times = self.forward_time.times(width, drafted, context=sum(contexts))
        plain_is_due = self.forward_time.learns and self._since_plain >= _PLAIN_STEPS
        lengths = allot(
            [probs for _, probs in offers],
            times,
            sequences=sequences,
            extra=extra,
            most=self.settings.draft_tokens,
            least_gain=_PLAIN_GAIN if plain_is_due else 1.0,
        )
        self._since_plain = self._since_plain + 1 if any(lengths) else 0
        return [tokens[:length] for (tokens, _), length in zip(offers, lengths, strict=True)]

    def _observe(self, requests: Any) -> None:
        """Learn what a forward costs from the step that has just ended, if it followed at once on the one before."""
        if not self.forward_time.learns:
            return
        now, (begun, before) = self._clock(), self._begun
        self._begun = now, self._scheduled
        if self._scheduled.keys().isdisjoint(before):
            return  # the engine may have waited for work
        context = pairs = 0
        for req_id, tokens in self._scheduled.items():
            behind = getattr(requests.get(req_id), "num_computed_tokens", None)
            if behind is None:
                return
            context += behind + tokens
            pairs += (tokens - 1) * (behind + tokens // 2)
        self.forward_time.observe(sum(self._scheduled.values()), context, pairs, now - begun)

    def _find(self, req_id: str, requests: Any, row: NDArray[np.int32]) -> LiveRequest | None:
        """What is kept of a request; begun where it is new. None: it runs without drafts."""
        if req_id in self._live:
            live = self._live[req_id][1]
            if live is None or live.is_same:
                return live
            self._end(req_id)  # the client went on with it: another prompt
        state = requests.get(req_id)
        if state is None:
            return None
        self._live[req_id] = state, None
        missing = hooks.missing_of_request(state)
        if missing:
            self._say_once("request", f"this version of vLLM is without {', '.join(missing)}: no drafts")
            return None
        if state.sampling_params is None or state.prompt_token_ids is None:
            return None  # a pooling request, or one whose prompt is no tokens
        try:
            self._live[req_id] = state, self._begin_request(state, row)
        except Exception:  # noqa: BLE001  # vLLM goes on, whatever it is
            self._say_failed(req_id)
        return self._live[req_id][1]

    def _begin_request(self, state: Any, row: NDArray[np.int32]) -> LiveRequest | None:
        adapter = getattr(getattr(state, "lora_request", None), "lora_name", None)
        prompt = row[: int(state.num_prompt_tokens)]
        live = live_request.begin(state, prompt, self.table, self.settings, adapter=adapter)
        if live is None:
            self._say_once("memory", "no memory for one more session: raise session_bytes; going on without")
        return live

    def _release_finished(self, requests: Any) -> None:
        # By the state, not the id: an id may be given to another request at once. Not by the batch: rows leave it
        # and come back.
        gone = [req_id for req_id, (state, _) in self._live.items() if requests.get(req_id) is not state]
        for req_id in gone:
            self._end(req_id)
        if self.steps % _SWEEP_STEPS == 0:
            self.table.sweep()

    def _end(self, req_id: str) -> None:
        live = self._live.pop(req_id)[1]
        if live is not None:
            self.table.release(live.lane)

    def _give_up(self, req_id: str, live: LiveRequest) -> None:
        """After an exception in a request's drafting, which may have come in the middle of a write."""
        self._say_failed(req_id)
        self._live[req_id] = live.state, None
        self.table.forget(live.lane)

    def _start_over(self) -> None:
        """After an exception elsewhere: forget the sessions."""
        self._live.clear()
        for lane in list(self.table):
            self.table.forget(lane)

    def _say_failed(self, req_id: str) -> None:
        # Once, with its traceback: what fails for one request may fail for each.
        if "failed" not in self._said:
            self._said.add("failed")
            logger.exception("suffixspec: request %s goes on without drafts", req_id)
        else:
            logger.debug("suffixspec: request %s goes on without drafts", req_id, exc_info=True)

    def _say_once(self, topic: str, message: str) -> None:
        if topic not in self._said:
            self._said.add(topic)
            logger.warning("suffixspec: %s", message)


def _served(model: Any) -> ServedModel:
    """What vLLM's model configuration says of the model and its tokenizer, which may be another repository's."""
    vocabulary = None
    with contextlib.suppress(Exception):  # of some multimodal models vLLM does not know it
        vocabulary = int(model.get_vocab_size())
    revision = getattr(model, "tokenizer_revision", None)  # the model's, where the user named none
    tokenizer = TokenizerSource(
        str(getattr(model, "tokenizer", None) or model.model),
        revision=None if revision is None else str(revision),
        trust_remote_code=bool(getattr(model, "trust_remote_code", False)),
    )
    return ServedModel(str(model.model), tokenizer, vocabulary)


def _every_rank_decides(parallel: Any) -> bool:
    return getattr(parallel, "distributed_executor_backend", None) == "external_launcher"


def _drafts_here(parallel: Any) -> bool:
    """Whether vLLM uses the drafts of this rank: the first tensor-parallel one of the last pipeline stage."""
    if _every_rank_decides(parallel):
        return True
    beside = int(getattr(parallel, "tensor_parallel_size", 1) or 1)
    beside *= int(getattr(parallel, "prefill_context_parallel_size", 1) or 1)
    world = int(getattr(parallel, "world_size", beside) or beside)
    rank = int(getattr(parallel, "rank", 0) or 0)
    return rank == world - beside


def _padded_widths(vllm_config: Any, device: str) -> tuple[int, ...]:
    """To how many tokens forwards are padded, ascending; nothing where they are not."""
    if device == "cpu" or getattr(getattr(vllm_config, "model_config", None), "enforce_eager", False):
        return ()
    sizes = getattr(getattr(vllm_config, "compilation_config", None), "cudagraph_capture_sizes", None)
    return tuple(sorted({int(size) for size in sizes or () if int(size) > 0}))
