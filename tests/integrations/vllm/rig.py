"""Stand-ins for what of vLLM a proposer sees: its configuration, a runner with rows, and an engine that runs them."""

from __future__ import annotations

import importlib.util
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suffixspec.integrations.vllm.proposer import Proposer

needs_vllm = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None,
    reason="NOT RUN: vLLM is not installed here; bench/vllm/run makes an environment with it and runs this",
)
END = 2
VOCABULARY = 23


def vllm_config(
    *,
    k: int = 6,
    max_model_len: int = 256,
    settings: dict[str, Any] | None = None,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    rank: int = 0,
    backend: str | None = None,
) -> Any:
    """The parts of a ``VllmConfig`` that are looked at.

    Without a prior, and with costs that no step changes, unless the settings say otherwise.
    """
    return SimpleNamespace(
        additional_config={"suffixspec": {"prior": False, "cost": "gpu"} | (settings or {})},
        speculative_config=SimpleNamespace(num_speculative_tokens=k),
        model_config=SimpleNamespace(max_model_len=max_model_len, model="toy", tokenizer="toy"),
        scheduler_config=SimpleNamespace(max_num_seqs=16, max_num_batched_tokens=64),
        device_config=SimpleNamespace(device_type="gpu"),
        parallel_config=SimpleNamespace(
            tensor_parallel_size=tensor_parallel,
            pipeline_parallel_size=pipeline_parallel,
            world_size=tensor_parallel * pipeline_parallel,
            rank=rank,
            distributed_executor_backend=backend,
        ),
    )


def sampling(**given: Any) -> Any:
    """Sampling parameters as the runner has them."""
    defaults = {
        "temperature": 0.0,
        "max_tokens": 40,
        "min_tokens": 0,
        "stop_token_ids": [],
        "eos_token_id": END,
        "all_stop_token_ids": {END},
        "extra_args": None,
    }
    return SimpleNamespace(**(defaults | given))


@dataclass(eq=False)
class Request:
    """The runner's state of a request."""

    req_id: str
    prompt_token_ids: list[int]
    sampling_params: Any
    output_token_ids: list[int] = field(default_factory=list)
    lora_request: Any = None
    computed: int = 0
    num_computed_tokens: int = 0
    """Those computed before the step that is at hand."""
    draft: list[int] = field(default_factory=list)

    @property
    def num_prompt_tokens(self) -> int:
        """Its length."""
        return len(self.prompt_token_ids)

    @property
    def tokens(self) -> list[int]:
        """Prompt and output."""
        return self.prompt_token_ids + self.output_token_ids


class Runner:
    """A runner with ``rows`` rows, whose requests come and go and move."""

    def __init__(self, proposer: Any, *, rows: int = 8, max_model_len: int = 256) -> None:
        self.drafter = proposer
        self.requests: dict[str, Request] = {}
        self.input_batch = SimpleNamespace(req_ids=[])
        self.token_ids_cpu = np.zeros((rows, max_model_len + 64), np.int32)
        self.num_tokens_no_spec = np.zeros(rows, np.int32)
        self.token_ids_cpu[:] = VOCABULARY - 1  # what is left of others

    def place(self, req_ids: list[str]) -> None:
        """Which requests are in the batch, in the order of their rows."""
        self.input_batch.req_ids = list(req_ids)
        for row, req_id in enumerate(req_ids):
            tokens = self.requests[req_id].tokens
            self.token_ids_cpu[row, : len(tokens)] = tokens
            self.num_tokens_no_spec[row] = len(tokens)

    def propose_draft_token_ids(self, _: Any, sampled: list[list[int]]) -> list[list[int]]:
        """As vLLM's runner calls its drafter."""
        return self.drafter.propose(sampled, self.num_tokens_no_spec, self.token_ids_cpu, slot_mappings=None)


class Engine:
    """Decodes requests step by step as vLLM's scheduler and runner do, with a toy target.

    The target's next token is a function of the last two tokens and of the adapter, so that texts repeat; greedy
    verification accepts a draft as far as it agrees. Where ``takes`` says what a forward takes, given its tokens, those
    of its context and the pairs of them, the proposer's clock goes by that.
    """

    def __init__(
        self,
        proposer: Proposer | None,
        *,
        rows: int = 8,
        max_model_len: int = 256,
        chunk: int = 16,
        takes: Callable[[int, int, int], float] | None = None,
    ) -> None:
        self.proposer = proposer
        self.now = 0.0
        """Seconds that all forwards took."""
        self._takes = takes
        if proposer is not None and takes is not None:
            proposer._clock = lambda: self.now
        self.runner = Runner(proposer, rows=rows, max_model_len=max_model_len)
        self.waiting: list[Request] = []
        self.outputs: dict[str, list[int]] = {}
        self.preempted: set[str] = set()
        self._rows = rows
        self._max_model_len = max_model_len
        self._chunk = chunk
        self._finished: set[str] = set()
        self.longest = 0
        self.widths: list[int] = []
        """Tokens of each forward."""
        self.steps = 0
        self.tokens = 0

    def add(self, req_id: str, prompt: list[int], **given: Any) -> Request:
        """A request arrives."""
        request = Request(req_id, list(prompt), sampling(**given))
        self.waiting.append(request)
        return request

    def abort(self, req_id: str) -> None:
        """Its client has gone."""
        self.waiting = [one for one in self.waiting if one.req_id != req_id]
        if req_id in self.runner.requests:
            self._finished.add(req_id)

    @property
    def running(self) -> list[str]:
        """Requests that the runner knows and that have not ended."""
        return [req_id for req_id in self.runner.requests if req_id not in self._finished]

    def preempt(self, req_id: str) -> None:
        """It leaves the batch, and computes its tokens anew when it comes back."""
        request = self.runner.requests[req_id]
        request.computed, request.draft = 0, []
        self.preempted.add(req_id)

    def step(self, rng: random.Random | None = None, skip: set[str] = frozenset()) -> None:
        """One forward; ``skip`` are left out of it, and ``rng`` moves the rows."""
        runner = self.runner
        for req_id in self._finished:
            runner.requests.pop(req_id, None)
            self.preempted.discard(req_id)
        self._finished.clear()
        while self.waiting and len(self.running) < self._rows:
            request = self.waiting.pop(0)
            runner.requests[request.req_id] = request
        batch = [req_id for req_id in self.running if req_id not in skip][: self._rows]
        self.preempted -= set(batch)
        if rng is not None:
            rng.shuffle(batch)  # rows move
        runner.place(batch)
        sampled: list[list[int]] = []
        scheduled: dict[str, int] = {}
        for row, req_id in enumerate(batch):
            request = runner.requests[req_id]
            request.num_computed_tokens = request.computed
            missing = len(request.tokens) - request.computed
            if missing > 1:
                chunk = min(missing, self._chunk)
                request.computed += chunk
                scheduled[req_id] = chunk
                if chunk < missing:
                    sampled.append([])
                    continue
                request.draft = []
                request.computed -= 1
            scheduled[req_id] = 1 + len(request.draft)
            emitted = self._verify(request)
            start = len(request.tokens)
            request.output_token_ids += emitted
            runner.token_ids_cpu[row, start : start + len(emitted)] = emitted
            runner.num_tokens_no_spec[row] = start + len(emitted)
            request.computed = start + len(emitted) - 1
            sampled.append(emitted)
        self.steps += 1
        self.widths.append(sum(scheduled.values()))
        if self._takes is not None and scheduled:
            behind = {req_id: runner.requests[req_id].num_computed_tokens for req_id in scheduled}
            pairs = sum((n - 1) * (behind[req_id] + n // 2) for req_id, n in scheduled.items())
            self.now += self._takes(self.widths[-1], sum(behind.values()) + self.widths[-1], pairs)
        drafts: list[list[int]] = [[] for _ in batch]
        if self.proposer is not None:
            self.proposer.introduce(runner, SimpleNamespace(num_scheduled_tokens=scheduled))
            drafts = runner.propose_draft_token_ids(None, sampled)
            assert len(drafts) == len(batch)
        for req_id, draft, emitted in zip(batch, drafts, sampled, strict=True):
            assert all(isinstance(token, int) for token in draft)
            assert emitted or not draft, "a draft for a row that wants none"
            self.longest = max(self.longest, len(draft))
            request = runner.requests[req_id]
            request.draft = draft
            # One token more is sampled behind a draft.
            assert not draft or len(request.tokens) + len(draft) < self._max_model_len
            if emitted:
                self._schedule(request, emitted)

    def run(self, steps: int = 1000) -> None:
        """Step until nothing is left."""
        for _ in range(steps):
            if not self.waiting and not self.running:
                break
            self.step()
        self.step()  # the runner hears of the last ones

    def _verify(self, request: Request) -> list[int]:
        context = list(request.tokens)
        emitted = []
        for proposed in [*request.draft, None]:
            token = target(context, request)
            emitted.append(token)
            context.append(token)
            if token != proposed or len(context) >= self._max_model_len:
                break
        return emitted

    def _schedule(self, request: Request, emitted: list[int]) -> None:
        """What the scheduler makes of it: the output ends at an end token, or at its length."""
        params, before = request.sampling_params, len(request.output_token_ids) - len(emitted)
        for at, token in enumerate(emitted):
            output = before + at + 1
            self.tokens += 1
            if (
                token == params.eos_token_id
                or output >= params.max_tokens
                or request.num_prompt_tokens + output >= self._max_model_len
            ):
                self.outputs[request.req_id] = request.output_token_ids[:output]
                self._finished.add(request.req_id)
                return


def target(context: list[int], request: Request) -> int:
    """The toy target's next token; END now and then."""
    adapter = getattr(request.lora_request, "lora_name", "")
    digest = zlib.crc32(repr((context[-2:], adapter)).encode())
    return digest % VOCABULARY
