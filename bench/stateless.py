"""The peer without memory: transformers' own ``model.generate``, as it loads and runs a model by itself."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from suffixspec.target.load import load_target


@dataclass(frozen=True)
class Generated:
    """One call: its output and its times."""

    token_ids: list[int]
    prefill_s: float
    """Until the first forward was done: over the prompt, and with prompt lookup over the first draft too."""
    decode_s: float

    @property
    def seconds(self) -> float:
        """The whole call."""
        return self.prefill_s + self.decode_s


class Stateless:
    """``generate`` on the whole prompt, call after call, greedily.

    Args:
        spec: a folder or hub id, as for ``Engine.from_pretrained``.
        eos_ids: what ends an output.
    """

    def __init__(self, spec: str | None, eos_ids: frozenset[int]) -> None:
        # sdpa and plain linear layers: as transformers loads it, without what suffixspec makes cheaper.
        self._model: Any = load_target(spec, attn="sdpa", packed=False)[0].model
        self._eos_ids = sorted(eos_ids)

    def generate(self, prompt_ids: NDArray[np.int32], max_tokens: int, **options: Any) -> Generated:
        """One call; ``options`` go to ``generate``, ``prompt_lookup_num_tokens`` for one."""
        ids = torch.from_numpy(prompt_ids.astype(np.int64))[None]
        forwards: list[float] = []
        hook = self._model.register_forward_hook(lambda *_: forwards.append(time.perf_counter()))
        started = time.perf_counter()
        out = self._model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=max_tokens,
            eos_token_id=self._eos_ids,
            pad_token_id=self._eos_ids[0],
            **options,
        )
        ended = time.perf_counter()
        hook.remove()
        return Generated(out[0, len(prompt_ids) :].tolist(), forwards[0] - started, ended - forwards[0])
