"""Grouped attention gives what transformers' own attention gives."""

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from suffixspec.target.attention import GROUPED, grouped_attention, register
from suffixspec.target.model import Target

from .families import new_model, plain_logits, random_tree, tiny_model
from .test_forward import EXACT, assert_tree_is_plain, prefill


class Layer(torch.nn.Module):
    """What an implementation reads of an attention layer."""

    is_causal = True

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.num_key_value_groups = groups


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("n", [1, 6])
@pytest.mark.parametrize("mask", ["none", "additive", "boolean", "repeated", "per_head"])
@pytest.mark.parametrize("scaling", [None, 0.3])
def test_grouped_equals_sdpa(groups: int, n: int, mask: str, scaling: float | None) -> None:
    """For every kind of mask, one token and several, grouped heads and single ones."""
    torch.manual_seed(0)
    heads, keys = 2 * groups, n if mask == "none" else n + 5
    q = torch.randn(1, heads, n, 8, dtype=torch.float64)
    k, v = torch.randn(2, 1, 2, keys, 8, dtype=torch.float64)
    sees = torch.rand(1, heads if mask == "per_head" else 1, n, keys) < 0.6
    sees[..., 0] = True
    given = {
        "none": None,
        "boolean": sees,
    }.get(
        mask, torch.zeros(sees.shape, dtype=torch.float64).masked_fill(~sees, torch.finfo(torch.float64).min)
    )
    expected, _ = sdpa_attention_forward(Layer(groups), q, k, v, given, scaling=scaling)
    if mask == "repeated":
        given = given.repeat(1, 1, groups, 1)
    got, weights = grouped_attention(Layer(groups), q, k, v, given, scaling=scaling)
    assert weights is None
    assert got.shape == (1, n, heads, 8)
    assert (got - expected).abs().max() < 1e-12


@pytest.mark.parametrize("family", ["llama", "qwen3_sliding", "gemma3", "mistral", "mixtral"])
def test_trees_under_grouped_attention_are_plain(family: str) -> None:
    """Narrow forwards, with masks that are repeated, and wide ones; padded too; generate() still works."""
    generator = torch.Generator().manual_seed(0)
    plain = tiny_model(family, "sdpa")
    model = new_model(plain.config, "sdpa")
    model.load_state_dict(plain.state_dict())
    model.set_attn_implementation(register())
    context = torch.randint(3, 64, (150,), generator=generator).tolist()
    assert (plain_logits(model, context) - plain_logits(plain, context)).abs().max() < EXACT
    for buckets in ((), (16,)):
        target = Target(model, buckets=buckets)
        assert target.attention == GROUPED
        cache = target.new_cache(9)
        prefill(target, cache, context, chunk=140)
        for n in (1, 6, 20):
            assert_tree_is_plain(target, cache, context, *random_tree(generator, n))
    prompt = torch.tensor([context[:20]])
    written = [
        m.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=9, do_sample=False)[
            0
        ].tolist()
        for m in (model, plain)
    ]
    assert written[0] == written[1]
