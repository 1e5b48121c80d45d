"""Attention masks of a forward over new tokens that form a tree behind a committed context.

Token i attends to the context, to its ancestors and to itself, within the layer's window. The position of a
token is the context's length plus its depth, so a window of w reaches w - 1 positions back however many slots
its siblings take. A prompt is the special case of a chain.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

FULL = "full_attention"
SLIDING = "sliding_attention"

Masks = torch.Tensor | dict[str, torch.Tensor | None] | None
"""What a model's forward takes as ``attention_mask``: one mask for all layers, or one per type of layer."""


@dataclass(frozen=True, eq=False, slots=True)
class TokenTree:
    """New tokens of one forward, each with a parent: the pending token and the draft, or a chunk of a prompt."""

    depth: NDArray[np.int64]
    """Int64 [width]: 0 for a token that follows the context; position = context length + depth."""
    sees: NDArray[np.bool_]
    """Bool [width, width]: token i may attend to token j, that is, j is i or an ancestor of i."""
    real: int
    """Tokens that are not padding. Padding sees only itself: a row that sees nothing can become NaN."""

    @classmethod
    def of(cls, parents: Sequence[int], width: int) -> "TokenTree":
        """The tree of int [n] ``parents``, -1 for the committed context, padded to ``width`` >= n tokens.

        Raises:
            ValueError: a parent does not come before its child.

        Cost: some µs per token.
        """
        depth = np.zeros(width, np.int64)
        sees = np.eye(width, dtype=np.bool_)
        for i, parent in enumerate(parents):
            if not -1 <= parent < i:
                raise ValueError(f"expected token {i} to have a parent from -1 to {i - 1}, got {parent}")
            if parent >= 0:
                depth[i] = depth[parent] + 1
                sees[i] |= sees[parent]
        return cls(depth, sees, len(parents))

    @classmethod
    def chain(cls, n: int) -> "TokenTree":
        """``n`` tokens one after the other."""
        return cls(np.arange(n), np.tri(n, dtype=np.bool_), n)

    @property
    def width(self) -> int:
        """Tokens in the forward, padding included."""
        return self.sees.shape[0]

    @property
    def is_chain(self) -> bool:
        """One token after the other, and no padding."""
        return self.real == self.width and bool((self.depth == np.arange(self.width)).all())


def attention_masks(
    tree: TokenTree,
    length: int,
    *,
    layer_types: Sequence[str],
    window: int | None,
    dtype: torch.dtype,
    device: torch.device,
    explicit: bool,
    repeats: int = 1,
) -> Masks:
    """The masks of a forward over ``tree`` behind ``length`` committed tokens.

    Args:
        tree: the new tokens.
        length: committed tokens.
        layer_types: the kinds of layers that the model has, each once: ``FULL``, ``SLIDING``.
        window: positions that a sliding layer sees; ignored where there is none.
        dtype: the model's.
        device: where the model takes its input.
        explicit: the attention needs a mask even where it could tell by itself that a chunk behind an empty
            context is causal.
        repeats: how often to repeat the rows of a mask, for an attention that takes the heads of a group as
            rows of one.

    Returns:
        Additive masks [1, 1, repeats × width, length + width], 0 or the least finite number; None where nothing is
        masked, or where the mask is plainly causal and need not be explicit. A model with several kinds of
        layers gets a dict.
    """
    plain = tree.is_chain and (tree.width == 1 or (length == 0 and not explicit))
    masks: dict[str, torch.Tensor | None] = {}
    for kind in layer_types:
        reach = window if kind == SLIDING else None
        if plain and (reach is None or length + tree.width <= reach):
            masks[kind] = None
        else:
            masks[kind] = _additive(tree, length, reach, dtype, device).repeat(1, 1, repeats, 1)
    return masks if len(masks) > 1 else masks[layer_types[0]]


def _additive(
    tree: TokenTree, length: int, window: int | None, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """[1, 1, width, length + width]. Made where it is used: only what the tree says travels there.

    Not boolean: attention kernels would turn that into this in every layer.
    """
    lowest = torch.finfo(dtype).min
    mask = torch.zeros(tree.width, length + tree.width, dtype=dtype, device=device)
    sees = tree.sees
    if window is not None:
        hidden = tree.depth + (length - window)  # the last position out of sight
        sees = sees & (tree.depth + length > hidden[:, None])
        positions = torch.arange(length, device=device)
        mask[:, :length].masked_fill_(positions <= torch.from_numpy(hidden).to(device)[:, None], lowest)
    mask[tree.real :, :length] = lowest
    mask[:, length:].masked_fill_(torch.from_numpy(~sees).to(device), lowest)
    return mask[None, None]
