"""Which models can be verified: those whose only state is keys and values by position."""

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from suffixspec.errors import SuffixspecError
from suffixspec.target.mask import FULL, SLIDING

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ATTENTIONS = ("eager", "sdpa")
"""Attention implementations of transformers that take a mask of our own."""

_NO_ROLLBACK = (
    "it keeps a recurrent state, which a rejected draft would change and nothing could take back exactly"
)
_RECURRENT = {"linear_attention", "conv", "hybrid", "hybrid_sliding", "mamba", "recurrent"}
"""Types of layers with such a state, as configurations name them."""


class UnsupportedModelError(SuffixspecError):
    """Drafts cannot be verified losslessly on this model; the message says why."""


def check_supported(model: "PreTrainedModel", attentions: tuple[str, ...] = ATTENTIONS) -> None:
    """Refuse a model by what its configuration says.

    Args:
        model: a causal LM of transformers.
        attentions: names of the attention implementations that take a mask.

    Raises:
        UnsupportedModelError: recurrent, hybrid or encoder-decoder; or its forward takes neither positions
            nor a mask; or its attention implementation ignores them.
    """
    config = model.config.get_text_config(decoder=True)
    parameters = inspect.signature(model.forward).parameters
    if model.config.is_encoder_decoder:
        refuse(model, "it is an encoder-decoder model, and only decoder-only models can be verified")
    if getattr(model, "_is_stateful", False) or _RECURRENT.intersection(layer_types(config)):
        refuse(model, _NO_ROLLBACK)
    unknown = sorted(set(layer_types(config)) - {FULL, SLIDING})
    if unknown:
        refuse(model, f"its layers of type {', '.join(unknown)} need a mask that is not implemented")
    if "cache" not in parameters and "past_key_values" not in parameters:
        refuse(model, "its forward takes no cache of keys and values")
    if "position_ids" not in parameters or getattr(config, "alibi", False):
        refuse(model, "its forward takes no position_ids, so siblings of a draft cannot share a position")
    if "attention_mask" not in parameters:
        refuse(model, "its forward takes no attention_mask")
    attention = model.config._attn_implementation
    if attention not in attentions:
        refuse(
            model,
            f"its attention implementation {attention!r} ignores masks of our own; "
            f'load it with attn_implementation="sdpa" or "eager"',
        )


def refuse(model: "PreTrainedModel", why: str) -> None:
    """Raise.

    Raises:
        UnsupportedModelError: always.
    """
    kind = getattr(model.config, "model_type", type(model).__name__)
    raise UnsupportedModelError(f"expected a model that can verify drafts, got {kind}: {why}")


def layer_types(config: Any) -> tuple[str, ...]:
    """The kinds of attention layers, each once, as the model's own masks are keyed."""
    types = getattr(config, "layer_types", None)
    if types is not None:
        return tuple(dict.fromkeys(types))
    if getattr(config, "sliding_window", None) is not None:
        return (SLIDING,)
    if getattr(config, "attention_chunk_size", None) is not None:
        return ("chunked_attention",)
    return (FULL,)


def context_limit(config: Any) -> int:
    """Positions that the model can take.

    Where the rotary frequencies change with the length of the context (LongRoPE), keys that are in the cache
    would have been rotated otherwise, so the limit is where the change sets in.
    """
    limit = int(getattr(config, "max_position_embeddings", None) or 2**31 - 1)
    for rope in _rope_parameters(config):
        if rope.get("rope_type") == "longrope":
            limit = min(limit, int(rope.get("original_max_position_embeddings") or limit))
    return limit


def _rope_parameters(config: Any) -> list[Mapping[str, Any]]:
    """All of them: some models have one set per type of layer."""
    rope = getattr(config, "rope_parameters", None) or {}
    nested = [value for value in rope.values() if isinstance(value, Mapping)]
    return nested or [rope]
