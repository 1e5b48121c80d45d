"""Packed linear layers give what the layers gave, and only such layers are packed."""

import copy

import pytest
import torch
from torch import nn

from suffixspec.target import packed
from suffixspec.target.model import Target
from suffixspec.target.packed import PackedLinear, can_pack, is_packed, pack_linears

from .families import random_tree, tiny_model

needs_mkl = pytest.mark.skipif(
    not can_pack(torch.float32), reason="this build of torch has no packed product of float32"
)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (3,), (2, 33), (1, 300)])
def test_a_packed_layer_is_the_same_map(
    dtype: torch.dtype, tolerance: float, bias: bool, shape: tuple[int, ...]
) -> None:
    """For one row, few and many; strided input too."""
    if not can_pack(dtype):
        pytest.skip(f"no packed product of {dtype} here")
    torch.manual_seed(0)
    layer = nn.Linear(96, 160, bias=bias).to(dtype)
    x = torch.randn(96, *shape).movedim(0, -1).to(dtype)
    with torch.inference_mode():
        got, expected = PackedLinear(layer)(x), layer(x)
    assert got.shape == expected.shape
    assert got.dtype == dtype
    assert (got - expected).abs().max() < tolerance


@needs_mkl
@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_neox", "mixtral"])
def test_a_packed_model_verifies_the_same(family: str) -> None:
    """Logits of trees agree to float32 rounding, and no weight is held twice but a shared one."""
    plain = copy.deepcopy(tiny_model(family)).float()
    model = copy.deepcopy(plain)
    linears = [m for m in plain.modules() if type(m) is nn.Linear]
    assert pack_linears(model) == len(linears) > 0
    assert not any(type(m) is nn.Linear for m in model.modules())
    assert is_packed(model)
    assert not is_packed(plain)
    weights = sum(p.numel() for p in model.parameters())
    assert weights <= sum(p.numel() for p in plain.parameters()) - sum(
        m.weight.numel() for m in linears if m.weight is not plain.get_input_embeddings().weight
    )
    generator = torch.Generator().manual_seed(0)
    ids, parents = random_tree(generator, 7)
    rows = []
    for target in (Target(plain), Target(model)):
        cache = target.new_cache(40)
        target.prefill(cache, list(range(3, 23)))
        rows.append(target.forward_tree(cache, ids, parents))
    assert (rows[0] - rows[1]).abs().max() < 1e-4


@needs_mkl
def test_other_layers_stay() -> None:
    """Other dtypes and subclasses, which may hold their weight in another form."""

    class Quantised(nn.Linear):
        pass

    model = nn.Sequential(
        nn.Linear(8, 8).double(), nn.Linear(8, 8).half(), Quantised(8, 8), nn.Embedding(8, 8)
    )
    kept = list(model)
    assert pack_linears(model) == 0
    assert all(a is b for a, b in zip(kept, model, strict=True))


def test_nothing_is_packed_where_the_product_is_missing_or_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model stays as it was."""
    model = nn.Sequential(nn.Linear(8, 8))
    layer = model[0]
    monkeypatch.setattr(packed, "can_pack", lambda _dtype: False)
    assert pack_linears(model) == 0
    if can_pack(torch.float32):
        monkeypatch.setattr(packed, "can_pack", lambda _dtype: True)
        monkeypatch.setattr(PackedLinear, "forward", lambda _self, x: 1.01 * x)
        assert pack_linears(model) == 0
    assert model[0] is layer
