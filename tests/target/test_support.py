"""Models that cannot be verified losslessly are refused with the reason; limits are those of the model."""

import re

import pytest
import transformers

from suffixspec.target.model import Target
from suffixspec.target.support import UnsupportedModelError, context_limit

from .families import CONFIGS, new_model

_SMALL = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2}
_HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48}
_RECURRENT = "recurrent state, which a rejected draft would change"


def _bloom() -> transformers.PreTrainedConfig:
    return transformers.BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=4)


def _qwen3_next() -> transformers.PreTrainedConfig:
    return transformers.Qwen3NextConfig(
        **_SMALL,
        **_HEADS,
        layer_types=["linear_attention", "full_attention"],
        num_experts=2,
        num_experts_per_tok=1,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
    )


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (lambda: transformers.MambaConfig(**_SMALL, state_size=4), _RECURRENT),
        (lambda: transformers.RwkvConfig(**_SMALL, attention_hidden_size=32), _RECURRENT),
        (
            lambda: transformers.BambaConfig(**_SMALL, **_HEADS, mamba_n_heads=4, mamba_d_state=8),
            _RECURRENT,
        ),
        (
            lambda: transformers.Lfm2Config(**_SMALL, **_HEADS, layer_types=["conv", "full_attention"]),
            _RECURRENT,
        ),
        (_qwen3_next, _RECURRENT),
        (_bloom, "no position_ids"),
    ],
    ids=["mamba", "rwkv", "bamba", "lfm2", "qwen3_next", "bloom"],
)
def test_models_without_rollback_are_refused(config, why: str) -> None:
    """The message names the family and the reason."""
    model = transformers.AutoModelForCausalLM.from_config(config())
    family = model.config.model_type
    with pytest.raises(UnsupportedModelError, match=f"verify drafts, got {family}: .*{re.escape(why)}"):
        Target(model)


def test_encoder_decoders_are_refused() -> None:
    """T5: only decoder-only models."""
    config = transformers.T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
    with pytest.raises(UnsupportedModelError, match="got t5: it is an encoder-decoder model"):
        Target(transformers.T5ForConditionalGeneration(config))


def test_attention_that_ignores_masks_is_refused() -> None:
    """The message says what to load the model with."""
    model = new_model(CONFIGS["llama"]())
    model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(UnsupportedModelError, match=r"'flash_attention_2' ignores masks .*sdpa.* or .*eager"):
        Target(model)


def test_a_model_that_uses_its_cache_otherwise_is_refused() -> None:
    """Found by one forward, whatever its configuration says."""
    model = new_model(CONFIGS["llama"]())

    def recurrent(input_ids, position_ids, attention_mask=None, past_key_values=None, use_cache=None):
        past_key_values.update_conv_state(input_ids, 0)

    def stateless(input_ids, position_ids, attention_mask=None, cache=None, use_cache=None):
        return None

    model.forward = recurrent
    with pytest.raises(UnsupportedModelError, match="needs a cache of another kind"):
        Target(model)
    model.forward = stateless
    with pytest.raises(UnsupportedModelError, match="store no keys and values"):
        Target(model)


def test_the_limit_is_where_rotary_frequencies_would_change() -> None:
    """LongRoPE rotates differently past the original length; other scalings take all positions."""
    long = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0] * 4,
        "long_factor": [2.0] * 4,
        "original_max_position_embeddings": 32,
    }
    phi3 = CONFIGS["phi3"]()
    assert context_limit(phi3) == 256
    phi3.rope_parameters = long
    assert context_limit(phi3) == 32
    yarn = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
    llama = CONFIGS["llama"]()
    llama.rope_parameters = yarn
    assert context_limit(llama) == 256
    gemma3 = CONFIGS["gemma3"]()
    gemma3.rope_parameters = {"full_attention": long, "sliding_attention": yarn}
    assert context_limit(gemma3) == 32
