"""SGLang's own n-gram worker, requests, batches and relay, driven as its scheduler drives them, over a made-up model."""

from __future__ import annotations

import zlib
from array import array
from types import SimpleNamespace
from typing import Any

import torch

VOCABULARY = 64
POOL, ROOM = 16, 512


def following(tokens: list[int]) -> int:
    """What the model says after these tokens: a loop with surprises."""
    tail = tokens[-2:]
    if zlib.crc32(bytes(tokens[-8:])) % 7 == 0:
        return 3 + zlib.crc32(bytes(tail)) % 50
    return 3 + (tail[-1] * 5 + 1) % 11


def plain(prompt: list[int], count: int) -> list[int]:
    """The model's output without drafts."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(following(tokens))
    return tokens[len(prompt) :]


class Target:
    """In the place of SGLang's target worker: counts what it verified, and sees what SGLang made of our trees.

    Args:
        algorithm: the registered one.
        model_config: SGLang's.
    """

    def __init__(self, algorithm: Any, model_config: Any) -> None:
        self.model_config = model_config
        self.model_runner = SimpleNamespace(
            max_running_requests=POOL,
            spec_algorithm=algorithm,
            watermark_state=None,
            model_config=self.model_config,
            attn_backend=None,
        )
        self.tokenizer = None
        self.texts: dict[int, list[int]] = {}
        """By row of the pool: what has KV."""
        self.moves = []
        self.branched = 0
        self.pool = SimpleNamespace(
            req_to_token=torch.arange(POOL * ROOM, dtype=torch.int32).reshape(POOL, ROOM),
            mamba_pool=None,
        )
        self.allocator = SimpleNamespace(get_kvcache=lambda: SimpleNamespace(move_kv_cache=self._move))

    def _move(self, target: torch.Tensor, source: torch.Tensor) -> None:
        self.moves.append((target.tolist(), source.tolist()))

    def get_memory_pool(self) -> tuple[Any, Any]:
        """As the worker asks for it."""
        return self.pool, self.allocator

    def forward_batch_generation(
        self, batch: Any, *, pp_proxy_tensors: Any = None, is_verify: bool = False
    ) -> Any:
        """The model's choice behind each node, as logits; behind the prompt, as a token."""
        assert pp_proxy_tensors is None
        rows = batch.req_pool_indices.tolist()
        if not is_verify:
            tokens = [following(self.texts[row]) for row in rows]
            return SimpleNamespace(
                logits_output=None, next_token_ids=torch.tensor(tokens), can_run_cuda_graph=False
            )
        nodes = batch.spec_info.draft_token_num
        logits = torch.zeros(len(rows) * nodes, VOCABULARY)
        for number, row in enumerate(rows):
            mask = batch.spec_info.custom_mask.reshape(len(rows), nodes, nodes)[number]
            drafted = batch.input_ids.reshape(len(rows), nodes)[number].tolist()
            text = self.texts[row]
            assert len(text) == int(batch.seq_lens[number]), "all but the pending token have KV"
            locations = batch.out_cache_loc.reshape(len(rows), nodes)[number].tolist()
            assert locations == self.pool.req_to_token[row, len(text) : len(text) + nodes].tolist()
            for node in range(nodes):
                path = [drafted[up] for up in range(node + 1) if mask[node, up]]
                position = int(batch.spec_info.positions.reshape(len(rows), nodes)[number, node])
                assert position == len(text) + len(path) - 1
                logits[number * nodes + node, following([*text, *path])] = 1.0
            parents = [max(up for up in range(node) if mask[node, up]) for node in range(1, nodes)]
            self.branched += parents != list(range(nodes - 1))
        return SimpleNamespace(
            logits_output=SimpleNamespace(next_token_logits=logits), can_run_cuda_graph=False
        )


class Engine:
    """Prefills and decodes as SGLang's scheduler does; with overlap, results are taken in one iteration late.

    Args:
        worker: the real one; its ``target_worker`` is a ``Target``.
        algorithm: the registered one.
    """

    def __init__(self, worker: Any, algorithm: Any) -> None:
        from sglang.srt.managers.overlap_utils import RelayPayload

        self.worker, self.target = worker, worker.target_worker
        self.algorithm = algorithm
        self.overlap = worker.enable_overlap
        self.future = algorithm.create_future_map(torch.device("cpu"), self.target.pool)
        self._payload = RelayPayload.from_ngram
        self.running: Any = None
        self.joining: Any = None
        self.queue: list[tuple[Any, Any]] = []
        self.rows = list(range(1, POOL))
        self.verified = 0

    def request(self, rid: str, prompt: list[int], **given: Any) -> Any:
        """A real request, as the scheduler makes it."""
        from sglang.srt.managers.schedule_batch import Req
        from sglang.srt.sampling.sampling_params import SamplingParams

        params = SamplingParams(**{"temperature": 0.0, "max_new_tokens": 40} | given)
        params.normalize(None)
        return Req(rid, "", array("q", prompt), params, eos_token_ids={1}, vocab_size=VOCABULARY)

    def prefill(self, requests: list[Any]) -> None:
        """Run their prompts, and join those that run."""
        lengths = []
        for request in requests:
            row = self.rows.pop()
            request.test_row = row
            self.target.texts[row] = [*request.origin_input_ids, *request.output_ids]
            lengths.append(len(self.target.texts[row]))
        batch = self._batch(requests, lengths, "EXTEND")
        self._step(batch)
        self.joining = batch

    def decode(self) -> None:
        """One verification of all that run."""
        from sglang.srt.model_executor.forward_batch_info import ForwardMode

        if self.joining is not None:
            self.joining.forward_mode = ForwardMode.DECODE
            if self.running is None or not self.running.reqs:
                self.running = self.joining
            else:
                self._merge(self.joining)
            self.joining = None
        self._drop_finished()
        if self.running.reqs:
            self._step(self.running)
            self.verified += 1

    def flush(self) -> None:
        """Take in what is late."""
        while self.queue:
            self._take_in(*self.queue.pop(0))

    def retract(self, request: Any) -> None:
        """Take a request from those that run; its output stays, and its KV goes."""
        self.flush()
        self._keep([one is not request for one in self.running.reqs])
        self.rows.insert(0, request.test_row)

    def run(self, steps: int = 200) -> None:
        """Decode until all have finished."""
        for _ in range(steps):
            self.decode()
            if not self.running.reqs:
                break
        self.flush()

    def _batch(self, requests: list[Any], lengths: list[int], mode: str) -> Any:
        from sglang.srt.managers.schedule_batch import ScheduleBatch
        from sglang.srt.model_executor.forward_batch_info import ForwardMode

        rows = torch.tensor([request.test_row for request in requests])
        return ScheduleBatch(
            reqs=list(requests),
            req_to_token_pool=self.target.pool,
            token_to_kv_pool_allocator=self.target.allocator,
            enable_overlap=self.overlap,
            device="cpu",
            forward_mode=ForwardMode[mode],
            req_pool_indices=rows,
            req_pool_indices_cpu=rows,
            seq_lens=torch.tensor(lengths),
            seq_lens_cpu=torch.tensor(lengths),
            has_grammar=False,
            spec_algorithm=self.algorithm,
            sampling_info=SimpleNamespace(
                acc_additive_penalties=None,
                acc_scaling_penalties=None,
                logit_bias=None,
                is_all_greedy=True,
                has_watermark_candidates=False,
            ),
        )

    def _step(self, batch: Any) -> None:
        from functools import partial

        given = {}
        if self.overlap:
            self.future.resolve_seq_lens_cpu(batch)
            self.future._resolve_spec_extras(batch)
            given["on_publish"] = partial(self.future.publish, batch.req_pool_indices)
        kept = batch.forward_mode, batch.seq_lens
        result = self.worker.forward_batch_generation(batch, **given)
        batch.forward_mode, batch.seq_lens = kept
        batch.spec_info = result.next_draft_input
        verified = not batch.forward_mode.is_extend()
        for number, request in enumerate(batch.reqs):
            self._has_kv(request.test_row, batch, result, number, verified=verified)
        if self.overlap:
            self.future.stash(batch.req_pool_indices, self._payload(result.next_draft_input))
            batch.spec_info.future_indices = batch.req_pool_indices
        else:
            batch.seq_lens = result.new_seq_lens
            batch.seq_lens_cpu = result.new_seq_lens.clone()
        self.queue.append((list(batch.reqs), result))
        while len(self.queue) > (1 if self.overlap else 0):
            self._take_in(*self.queue.pop(0))

    def _has_kv(self, row: int, batch: Any, result: Any, number: int, *, verified: bool) -> None:
        if verified:
            accepted = result.next_draft_input.accept_tokens.reshape(len(batch.reqs), -1)[number]
            length = int(result.accept_lens[number])
            first = int(batch.input_ids.reshape(len(batch.reqs), -1)[number, 0])
            self.target.texts[row] += [first, *accepted[: length - 1].tolist()]

    def _take_in(self, requests: list[Any], result: Any) -> None:
        rows = result.next_token_ids.reshape(len(requests), -1).tolist()
        for number, request in enumerate(requests):
            if request.finished():
                continue
            new = rows[number][: int(result.accept_lens[number])]
            request.output_ids.extend(new)
            request.update_finish_state(len(new))
            if request.finished():
                self.worker.note_request_finished(rid=request.rid, natural_stop=False)

    def _drop_finished(self) -> None:
        self._keep([not request.finished() for request in self.running.reqs])

    def _keep(self, kept: list[bool]) -> None:
        batch = self.running
        at = torch.tensor([number for number, keep in enumerate(kept) if keep], dtype=torch.long)
        if len(at) == len(batch.reqs):
            return
        batch.reqs = [batch.reqs[number] for number in at.tolist()]
        batch.spec_info.filter_batch(at)
        for name in ("req_pool_indices", "req_pool_indices_cpu", "seq_lens", "seq_lens_cpu"):
            setattr(batch, name, getattr(batch, name)[at])

    def _merge(self, other: Any) -> None:
        batch = self.running
        batch.spec_info.merge_batch(other.spec_info)
        batch.reqs += other.reqs
        for name in ("req_pool_indices", "req_pool_indices_cpu", "seq_lens", "seq_lens_cpu"):
            setattr(batch, name, torch.cat((getattr(batch, name), getattr(other, name))))
