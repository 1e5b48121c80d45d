"""Tiny random models of the families that are verified, in float64; sliding windows see 8 positions."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import transformers

VOCAB = 64
WINDOW = 8

_COMMON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    # The usual deviation of 0.02 would make layers this small do next to nothing.
    "initializer_range": 0.5,
}
_HALF_SLIDING = {"sliding_window": WINDOW, "use_sliding_window": True, "max_window_layers": 1}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}

CONFIGS: dict[str, Callable[[], transformers.PreTrainedConfig]] = {
    "llama": lambda: transformers.LlamaConfig(**_COMMON),
    "qwen2": lambda: transformers.Qwen2Config(**_COMMON),
    "qwen2_sliding": lambda: transformers.Qwen2Config(**_COMMON, **_HALF_SLIDING),
    "qwen3": lambda: transformers.Qwen3Config(**_COMMON, head_dim=8),
    "qwen3_sliding": lambda: transformers.Qwen3Config(**_COMMON, **_HALF_SLIDING, head_dim=16),
    "mistral": lambda: transformers.MistralConfig(**_COMMON, sliding_window=WINDOW),
    "gemma2": lambda: transformers.Gemma2Config(
        **_COMMON, head_dim=8, query_pre_attn_scalar=8, sliding_window=WINDOW
    ),
    "gemma3": lambda: transformers.Gemma3TextConfig(
        **_COMMON,
        head_dim=8,
        query_pre_attn_scalar=8,
        sliding_window=WINDOW,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    ),
    "phi3": lambda: transformers.Phi3Config(**_COMMON, sliding_window=WINDOW),
    "gpt_neox": lambda: transformers.GPTNeoXConfig(**_COMMON, rotary_pct=0.25),
    "qwen3_moe": lambda: transformers.Qwen3MoeConfig(**_COMMON, **_EXPERTS, head_dim=8),
    "mixtral": lambda: transformers.MixtralConfig(**_COMMON, num_local_experts=4, sliding_window=WINDOW),
}
EAGER_ONLY = ("gemma2",)
"""Families whose scores are capped, which transformers does under eager attention only."""


FAMILIES = tuple(CONFIGS)
CASES = [
    (family, attention)
    for family in CONFIGS
    for attention in ("eager", "sdpa")
    if attention == "eager" or family not in EAGER_ONLY
]
"""Every family under every attention implementation that it has."""


@cache
def tiny_model(family: str, attention: str = "eager", seed: int = 0) -> transformers.PreTrainedModel:
    """A model of ``family`` in evaluation mode; shared between tests, which must not change it."""
    return new_model(CONFIGS[family](), attention, seed)


def new_model(
    config: transformers.PreTrainedConfig, attention: str = "eager", seed: int = 0
) -> transformers.PreTrainedModel:
    """A random model in float64, every parameter of it random, norms and biases too."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=torch.float64, attn_implementation=attention
        )
        if getattr(config, "num_experts_per_tok", None):
            model.set_experts_implementation("eager")  # the grouped kernels know no float64
        for name, parameter in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                with torch.no_grad():
                    parameter.add_(torch.randn_like(parameter) * 0.3)
    return model.eval()


def plain_logits(model: transformers.PreTrainedModel, ids: list[int]) -> torch.Tensor:
    """Logits [n, V] of one forward without a cache, with the masks and positions that the model makes itself."""
    with torch.no_grad():
        return model(torch.tensor([ids], device=model.device), use_cache=False).logits[0]


def random_tree(generator: torch.Generator, n: int) -> tuple[list[int], list[int]]:
    """Token ids and parents of ``n`` tokens: the pending one, and a random draft behind it."""
    ids = torch.randint(3, VOCAB, (n,), generator=generator).tolist()
    parents = [int(torch.randint(0, i, (), generator=generator)) for i in range(1, n)]
    return ids, [-1, *parents]


def path_to(parents: list[int], node: int) -> list[int]:
    """Nodes from the context down to ``node``, both ends included."""
    path = []
    while node >= 0:
        path.append(node)
        node = parents[node]
    return path[::-1]
