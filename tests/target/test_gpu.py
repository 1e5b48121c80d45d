"""On a CUDA device the forwards are as exact as on a CPU, with the padding and the attention used there."""

import copy

import pytest
import torch

from suffixspec.target.attention import register
from suffixspec.target.model import BUCKETS, Target

from .families import path_to, plain_logits, random_tree, tiny_model
from .test_forward import assert_tree_is_plain, prefill

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def on_gpu(family: str, attention: str, dtype: torch.dtype) -> Target:
    model = copy.deepcopy(tiny_model(family, "eager" if attention == "eager" else "sdpa"))
    if attention == "grouped":
        model.set_attn_implementation(register())
    return Target(model.to("cuda", dtype))


@pytest.mark.parametrize("attention", ["eager", "sdpa", "grouped"])
@pytest.mark.parametrize("family", ["llama", "qwen2_sliding", "gemma3", "mistral", "phi3", "gpt_neox"])
def test_accepted_paths_stay_on_a_gpu(family: str, attention: str) -> None:
    """Draft, keep a path, draft again, in float64: always the logits of a plain forward."""
    generator = torch.Generator().manual_seed(0)
    target = on_gpu(family, attention, torch.float64)
    assert target.buckets == BUCKETS
    context = torch.randint(3, 64, (7,), generator=generator).tolist()
    cache = target.new_cache(8)
    prefill(target, cache, context, chunk=4)
    for n in (1, 3, 8, 13):
        ids, parents = random_tree(generator, n)
        assert_tree_is_plain(target, cache, context, ids, parents)
        path = path_to(parents, n - 1)
        cache.keep(path)
        context += [ids[node] for node in path]


@pytest.mark.parametrize("attention", ["eager", "sdpa", "grouped"])
def test_trees_in_bfloat16_are_close(attention: str) -> None:
    """Padded trees differ from plain forwards by rounding only."""
    generator = torch.Generator().manual_seed(0)
    target = on_gpu("llama", attention, torch.bfloat16)
    context = torch.randint(3, 64, (40,), generator=generator).tolist()
    cache = target.new_cache(64)
    prefill(target, cache, context, chunk=16)
    ids, parents = random_tree(generator, 13)
    logits = target.forward_tree(cache, ids, parents)
    scale = logits.abs().max()
    for node in range(13):
        path = [ids[i] for i in path_to(parents, node)]
        assert (logits[node] - plain_logits(target.model, context + path)[-1]).abs().max() < 0.1 * scale
