"""The target: a causal LM of transformers, one forward over a prompt's chunk or over a draft tree at a time."""

import hashlib
import inspect
import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from suffixspec.context_cost import ContextCost
from suffixspec.errors import SuffixspecError
from suffixspec.target.attention import GROUPED
from suffixspec.target.cache import KVCache, LayerShape, LayoutProbe
from suffixspec.target.mask import TokenTree, attention_masks
from suffixspec.target.packed import is_packed
from suffixspec.target.support import (
    ATTENTIONS,
    UnsupportedModelError,
    check_supported,
    context_limit,
    layer_types,
    refuse,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BUCKETS = (1, 4, 8, 16, 32, 64, 128)
"""Widths that forwards are padded to on accelerators."""


_NARROW, _NARROW_ON_CPU = 128, 16
"""Up to this width grouped heads become rows of one, with the mask repeated once for all layers. Wider, the
repeated mask grows large, and a CPU's own kernel for grouped heads is a little faster."""


class ContextLimitError(SuffixspecError):
    """A forward would go past the last position that the model knows."""


class Target:
    """A model that verifies drafts.

    Nothing of the model is changed but its mode: it is put into evaluation mode.

    Args:
        model: a causal LM of transformers, on its device.
        name: for people; None: its configuration's.
        buckets: widths that a forward over a tree is padded to, ascending, so that shapes repeat; wider than
            the largest one it runs unpadded. None: ``BUCKETS`` on accelerators, no padding on a CPU.
        capacity_step: a cache that has to grow grows to a multiple of this many slots.

    Raises:
        UnsupportedModelError: drafts cannot be verified on this model; the message says why.

    Cost: one forward over one token, which tells what each layer stores.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        *,
        name: str | None = None,
        buckets: Sequence[int] | None = None,
        capacity_step: int = 256,
    ) -> None:
        check_supported(model, (*ATTENTIONS, GROUPED))
        self.model = model.eval()
        config = model.config.get_text_config(decoder=True)
        self.name = name or config._name_or_path or config.model_type
        self.device = next(model.get_input_embeddings().parameters()).device
        self.dtype: torch.dtype = model.dtype
        self.vocab_size: int = 0
        """Width of the logits; the tokenizer may use fewer ids."""
        self.max_positions = context_limit(config)
        """Tokens that a context can have."""
        self.n_layers: int = config.num_hidden_layers
        self.eos_ids = _eos_ids(model)
        """Ids that end a generation, as the model's configuration lists them, sorted."""
        self.buckets = tuple(buckets if buckets is not None else () if self.device.type == "cpu" else BUCKETS)
        self.capacity_step = capacity_step
        self._layer_types = layer_types(config)
        self._window: int | None = getattr(config, "sliding_window", None)
        parameters = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        self._keeps_logits = "logits_to_keep" in parameters
        self._layout = self._probe()
        kv_heads = {shape.heads for shape in self._layout if shape is not None}
        self._groups = config.num_attention_heads // kv_heads.pop() if len(kv_heads) == 1 else 1

    def __repr__(self) -> str:
        return (
            f"Target({self.name!r}, {str(self.dtype).removeprefix('torch.')}, {self.device}, "
            f"{self.attention}, max_positions={self.max_positions})"
        )

    # -- what it is -----------------------------------------------------------------------------------------

    @property
    def attention(self) -> str:
        """Name of the attention implementation."""
        return str(self.model.config._attn_implementation)

    @property
    def is_packed(self) -> bool:
        """Whether linear layers hold packed weights: see ``suffixspec.target.packed``."""
        return is_packed(self.model)

    @property
    def device_name(self) -> str:
        """Kind of device: its model where torch can tell."""
        return torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else self.device.type

    @cached_property
    def slot_bytes(self) -> int:
        """Bytes of keys and values for one token."""
        return sum(shape.slot_bytes for shape in self._layout if shape is not None)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over configuration, dtype, kind of device and attention; not over the weights."""
        config = self.model.config.to_diff_dict()
        for key in ("_name_or_path", "transformers_version", "dtype", "torch_dtype"):
            config.pop(key, None)
        state = [config, str(self.dtype), self.device_name, self.attention]
        return hashlib.sha256(json.dumps(state, sort_keys=True, default=str).encode()).hexdigest()

    # -- forwards -------------------------------------------------------------------------------------------

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache of ``capacity`` >= 1 slots; forwards make it grow when needed.

        Raises:
            torch.OutOfMemoryError: it does not fit (on a CPU a RuntimeError).
        """
        # The widest draft may lie past the last position that is used: it is padded.
        most = self.max_positions + max(self.buckets, default=0) + self.capacity_step
        return KVCache(self._layout, capacity=capacity, most=most)

    def prefill(
        self, cache: KVCache, token_ids: torch.Tensor | Sequence[int], *, last_only: bool = True
    ) -> torch.Tensor:
        """Append tokens to the context and commit them.

        Args:
            cache: the branch; its length grows by n.
            token_ids: int [n], n >= 1, one chunk.
            last_only: False gives the logits of all n tokens.

        Returns:
            Logits of the last token [V], or of all [n, V]; float32 or wider.

        Raises:
            ContextLimitError: the context would be longer than the model's limit.
        """
        ids = _as_ids(token_ids)
        logits = self._forward(cache, ids, TokenTree.chain(len(ids)), keep_last=last_only)
        cache.commit(len(ids))
        return logits[-1] if last_only else logits

    def forward_tree(
        self,
        cache: KVCache,
        token_ids: torch.Tensor | Sequence[int],
        parents: torch.Tensor | Sequence[int],
    ) -> torch.Tensor:
        """Logits after every token of a tree behind the context; commits nothing.

        Call ``cache.keep`` with the accepted path afterwards. Without it the next forward writes over the tree.

        Args:
            cache: the branch.
            token_ids: int [n], n >= 1; the pending token first, then the draft in its order.
            parents: int [n], -1 for a token that follows the context, and that is the pending token.

        Returns:
            [n, V], float32 or wider; row i is the distribution after token i.

        Raises:
            ContextLimitError: the tree reaches past the model's limit.
            ValueError: a parent does not come before its child.
        """
        ids = _as_ids(token_ids)
        before = parents.tolist() if isinstance(parents, torch.Tensor) else list(parents)
        if len(before) != len(ids):
            raise ValueError(f"expected as many parents as tokens, got {len(before)} and {len(ids)}")
        tree = TokenTree.of(before, self.padded(len(ids)))
        return self._forward(cache, ids, tree)

    def padded(self, n: int) -> int:
        """The width that a forward over ``n`` tokens runs at."""
        return next((bucket for bucket in self.buckets if bucket >= n), n)

    def measure_cost(self, **options: Any) -> ContextCost:
        """t(n, L) of this target on this machine: see ``suffixspec.target.timing.measure_cost``."""
        from suffixspec.target.timing import measure_cost

        return measure_cost(self, **options)

    def _forward(
        self, cache: KVCache, ids: torch.Tensor, tree: TokenTree, *, keep_last: bool = False
    ) -> torch.Tensor:
        n, length = len(ids), cache.length
        if not n:
            raise ValueError("expected at least one token, got none")
        longest = length + int(tree.depth.max()) + 1
        if longest > self.max_positions:
            raise ContextLimitError(
                f"expected a context of at most {self.max_positions} tokens, the limit of {self.name}, got "
                f"{longest}; shorten the conversation"
            )
        if length + tree.width > cache.capacity:
            step = self.capacity_step
            cache.reserve(-(-(length + tree.width) // step) * step)
        narrow = _NARROW_ON_CPU if self.device.type == "cpu" else _NARROW
        with torch.inference_mode():
            positions = torch.from_numpy(tree.depth).to(self.device) + length
            if tree.width > n:
                ids = torch.nn.functional.pad(ids, (0, tree.width - n))
            inputs: dict[str, Any] = {
                "input_ids": ids.to(self.device)[None],
                "position_ids": positions[None],
                "attention_mask": attention_masks(
                    tree,
                    length,
                    layer_types=self._layer_types,
                    window=self._window,
                    dtype=self.dtype,
                    device=self.device,
                    explicit=self.attention == "eager",
                    repeats=self._groups if self.attention == GROUPED and tree.width <= narrow else 1,
                ),
                self._cache_name: cache,
                "use_cache": True,
            }
            if self._keeps_logits:
                if keep_last:
                    inputs["logits_to_keep"] = 1
                elif tree.width > n:
                    inputs["logits_to_keep"] = torch.arange(n, device=self.device)
            logits = self.model(**inputs).logits[0]
        logits = logits[-1:] if keep_last else logits[:n]
        if logits.dtype not in (torch.float32, torch.float64):
            return logits.float()
        # What inference mode made may not be changed in place outside of it. The detour is a tensor over the
        # same memory without that flag; a clone takes milliseconds for large vocabularies.
        return torch.from_dlpack(logits)

    def _probe(self) -> list[LayerShape | None]:
        """What each layer stores, from one forward."""
        probe = LayoutProbe()
        zero = torch.zeros(1, 1, dtype=torch.long, device=self.device)
        try:
            with torch.inference_mode():
                out = self.model(
                    input_ids=zero, position_ids=zero, **{self._cache_name: probe, "use_cache": True}
                )
        except UnsupportedModelError:
            raise
        except (AttributeError, IndexError, KeyError, NotImplementedError, TypeError, ValueError) as error:
            refuse(self.model, f"its forward needs a cache of another kind ({type(error).__name__}: {error})")
        if not probe.layout:
            refuse(self.model, "its layers store no keys and values")
        self.vocab_size = out.logits.shape[-1]
        return [probe.layout.get(index) for index in range(max(probe.layout) + 1)]


def _as_ids(token_ids: torch.Tensor | Sequence[int]) -> torch.Tensor:
    return torch.as_tensor(token_ids, dtype=torch.long)


def _eos_ids(model: "PreTrainedModel") -> tuple[int, ...]:
    for config in (getattr(model, "generation_config", None), model.config):
        ids = getattr(config, "eos_token_id", None)
        if ids is not None:
            return tuple(sorted({int(index) for index in (ids if isinstance(ids, (list, tuple)) else [ids])}))
    return ()
