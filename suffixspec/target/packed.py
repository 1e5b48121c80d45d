"""Linear layers with weights packed once, for narrow forwards on a CPU.

A float32 product of one row with a weight is a single pass over the weight. For two rows and more the BLAS
first copies the weight into the layout that its kernels read, in every call, and up to some tens of rows that
copy costs as much as the product: a draft of one node costs nearly as much as one of thirty. A packed weight
is in that layout already.
"""

from collections.abc import Iterator

import torch
from torch import nn

_CHECKED_ROWS = (1, 2, 7, 40)
_TOLERANCE = 1e-4


class PackedLinear(nn.Module):
    """The same map as a float32 ``nn.Linear`` on a CPU, up to rounding; holds the weight in packed form only.

    It cannot be saved, copied or moved to another device.

    Args:
        linear: the layer; it is not changed.
        rows: the number of rows to pack for. Others are right too.
    """

    def __init__(self, linear: nn.Linear, *, rows: int = 16) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = linear.bias
        weight = linear.weight.detach()
        # Neither is a parameter or a buffer: the packed form is opaque, and the other has a shape, no content.
        self._packed = (torch.ops.mkl._mkl_reorder_linear_weight(weight.contiguous(), rows),)
        self._shape = (weight.new_zeros(1).expand(weight.shape),)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float32 […, in_features] to […, out_features]."""
        rows = x.numel() // self.in_features
        return torch.ops.mkl._mkl_linear(x, self._packed[0], self._shape[0], self.bias, rows)

    def extra_repr(self) -> str:
        """As ``nn.Linear``."""
        return f"in_features={self.in_features}, out_features={self.out_features}"


def can_pack() -> bool:
    """Whether this build of torch has the packed product: it comes with MKL, on x86 processors."""
    return torch.backends.mkl.is_available() and hasattr(torch.ops.mkl, "_mkl_linear")


def pack_linears(model: nn.Module) -> int:
    """Replace the float32 linear layers of a model on a CPU by packed ones, in place.

    Memory stays the same, but for an output layer that shares its weight with the embedding: that weight is
    then held twice. Logits change by rounding errors, as they do with the number of rows of a forward.

    Args:
        model: any module; other layers in it stay as they are.

    Returns:
        How many layers were replaced: 0 where this machine has no packed product, or a wrong one.
    """
    layers = list(_linears(model)) if can_pack() else []
    shapes = {(layer.in_features, layer.out_features): layer for _, _, layer in layers}
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
                if weight.dtype == torch.float32 and weight.device.type == "cpu":
                    yield parent, name, layer


def _agrees(layer: nn.Linear) -> bool:
    """Whether the packed product is right: it is not part of torch's documented interface."""
    packed = PackedLinear(layer)
    generator = torch.Generator().manual_seed(0)
    with torch.inference_mode():
        for rows in _CHECKED_ROWS:
            x = torch.randn(1, rows, layer.in_features, generator=generator)
            expected = layer(x)
            if not torch.allclose(
                packed(x), expected, rtol=_TOLERANCE, atol=_TOLERANCE * float(expected.abs().max())
            ):
                return False
    return True
