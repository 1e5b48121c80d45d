"""Linear layers with weights packed once, for narrow forwards on a CPU.

A product of one row with a weight is a single pass over the weight. For two rows and more the BLAS first
copies the weight into the layout that its kernels read, in every call, and up to some tens of rows that copy
costs as much as the product: a draft of one node costs nearly as much as one of thirty. A packed weight is in
that layout already. Float32 is packed by MKL, bfloat16 by oneDNN.
"""

from collections.abc import Iterator

import torch
from torch import nn

_ROWS = 256
"""The number of rows to pack for. It is a hint: packed for few, MKL is slow on many; the reverse costs nothing."""
_CHECKED_ROWS = (1, 2, 7, 40)
_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2}
"""What may be packed, and how far off the result may be, of its largest value."""


class PackedLinear(nn.Module):
    """The same map as an ``nn.Linear`` on a CPU, up to rounding; holds the weight in packed form only.

    It cannot be saved, copied or moved to another device.

    Args:
        linear: the layer, of a dtype that ``can_pack``; it is not changed.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = linear.bias
        weight = linear.weight.detach().contiguous()
        self._is_mkl = weight.dtype == torch.float32
        mkl, mkldnn = torch.ops.mkl, torch.ops.mkldnn
        reorder = mkl._mkl_reorder_linear_weight if self._is_mkl else mkldnn._reorder_linear_weight
        # Neither is a parameter or a buffer: the packed form is opaque, and the other has a shape, no content.
        self._packed = (reorder(weight, _ROWS),)
        self._shape = (weight.new_zeros(1).expand(weight.shape),)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, in_features] to […, out_features], of the weight's dtype."""
        if self._is_mkl:
            rows = x.numel() // self.in_features
            return torch.ops.mkl._mkl_linear(x, self._packed[0], self._shape[0], self.bias, rows)
        return torch.ops.mkldnn._linear_pointwise(x, self._packed[0], self.bias, "none", [], "")

    def extra_repr(self) -> str:
        """As ``nn.Linear``."""
        return f"in_features={self.in_features}, out_features={self.out_features}"


def can_pack(dtype: torch.dtype) -> bool:
    """Whether this build of torch, on this processor, has a packed product of that dtype."""
    if dtype == torch.float32:
        return torch.backends.mkl.is_available() and hasattr(torch.ops.mkl, "_mkl_linear")
    return (
        dtype == torch.bfloat16
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )


def pack_linears(model: nn.Module) -> int:
    """Replace the linear layers of a model on a CPU by packed ones, in place.

    Memory stays the same, but for an output layer that shares its weight with the embedding: that weight is
    then held twice. Logits change by rounding errors, as they do with the number of rows of a forward.

    Args:
        model: any module; other layers in it stay as they are.

    Returns:
        How many layers were replaced: 0 where this machine has no packed product, or a wrong one.
    """
    layers = list(_linears(model))
    shapes = {(layer.weight.dtype, layer.weight.shape): layer for _, _, layer in layers}
    if not all(_agrees(layer) for layer in shapes.values()):
        return 0
    for parent, name, layer in layers:
        setattr(parent, name, PackedLinear(layer))
    return len(layers)


def is_packed(model: nn.Module) -> bool:
    """Whether ``pack_linears`` replaced any layer."""
    return any(isinstance(module, PackedLinear) for module in model.modules())


def _linears(model: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Linear]]:
    """Parent, name and layer; not subclasses, which may keep their weight in another form."""
    for parent in model.modules():
        for name, layer in parent.named_children():
            if type(layer) is nn.Linear:
                weight = layer.weight
                if weight.device.type == "cpu" and can_pack(weight.dtype):
                    yield parent, name, layer


def _agrees(layer: nn.Linear) -> bool:
    """Whether the packed product is right: it is not part of torch's documented interface."""
    packed = PackedLinear(layer)
    generator = torch.Generator().manual_seed(0)
    dtype = layer.weight.dtype
    with torch.inference_mode():
        for rows in _CHECKED_ROWS:
            x = torch.randn(1, rows, layer.in_features, generator=generator).to(dtype)
            expected = layer(x)
            off = (packed(x) - expected).abs().max()
            if not off <= _TOLERANCE[dtype] * expected.abs().max():
                return False
    return True
