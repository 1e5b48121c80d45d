"""Attention over grouped key-value heads without repeating them.

Models with fewer key-value heads than query heads repeat keys and values in every layer when there is a mask
and more than one token, as there is in every verification: a copy of the whole cache that costs more than
the attention itself. Here the query heads of a group become rows of one head, which reads each key once.
"""

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

GROUPED = "suffixspec_grouped"
"""Name under which ``register`` makes it known to transformers."""


def register() -> str:
    """Make the implementation known to transformers, and return its name. Repeated calls do nothing more."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(GROUPED, grouped_attention)
    AttentionMaskInterface.register(GROUPED, sdpa_mask)  # for forwards without a mask of our own: generate()
    return GROUPED


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """As transformers' ``sdpa``, with the same results up to rounding.

    Args:
        module: the attention layer.
        query: [batch, heads, n, dim].
        key: [batch, key-value heads, keys, dim].
        value: [batch, key-value heads, keys, value dim].
        attention_mask: additive or boolean [batch or 1, 1, n, keys], or repeated for each head of a group,
            [batch or 1, 1, group × n, keys], which saves doing so in every layer; None: causal, or all keys
            where n = 1.
        dropout: probability; 0 when decoding.
        scaling: factor of the products; None: 1 / sqrt(dim).
        is_causal: overrides the module's own.
        kwargs: what some models ask of an implementation; anything that changes the result goes to ``sdpa``.

    Returns:
        [batch, n, heads, value dim], and no weights.
    """
    batch, heads, n, _ = query.shape
    groups = heads // key.shape[1]
    special = any(kwargs.get(name) is not None for name in ("softcap", "s_aux", "position_bias"))
    if groups == 1 or dropout or special or (attention_mask is not None and attention_mask.shape[1] > 1):
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, is_causal=is_causal, **kwargs
        )
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    causal = causal and n > 1 and attention_mask is None
    repeated = attention_mask is not None and attention_mask.shape[2] == groups * n
    if causal or not (n == 1 or repeated or query.device.type != "cpu"):
        # Many rows: on a CPU the kernel for grouped heads needs no repeated mask; elsewhere a mask rules it out.
        out = scaled_dot_product_attention(
            query, key, value, attention_mask, is_causal=causal, scale=scaling, enable_gqa=True
        )
    else:
        if attention_mask is not None and not repeated and n > 1:
            attention_mask = attention_mask.repeat(1, 1, groups, 1)
        rows = query.reshape(batch, -1, groups * n, query.shape[3])
        out = scaled_dot_product_attention(rows, key, value, attention_mask, scale=scaling)
        out = out.reshape(batch, heads, n, -1)
    return out.transpose(1, 2).contiguous(), None
