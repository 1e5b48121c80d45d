"""The KV cache of one branch: preallocated slots that are written, compacted and cut back in place.

Slot i of the committed part holds position i, in every layer: layers with a sliding window keep the full
length too, and the attention mask does the window. So a rejected draft, or a turn that is taken back, costs
nothing but a smaller ``length``, and nothing here depends on how transformers crops its own caches.
"""

import contextlib
import functools
import math
import mmap
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers.cache_utils import Cache

_LAZY = sys.platform != "win32"
"""Whether this system takes memory for what is written to only, page by page."""

_MOST_ADDRESSES = 1 << 36
"""Bytes of addresses for one cache ahead of what it needs: a process has some 2^47, and hundreds of caches."""


@dataclass(frozen=True, slots=True)
class LayerShape:
    """What one layer stores for one token."""

    heads: int
    key_dim: int
    value_dim: int
    dtype: torch.dtype
    device: torch.device

    @property
    def slot_bytes(self) -> int:
        """Bytes of one token's keys and values."""
        return self.heads * (self.key_dim + self.value_dim) * self.dtype.itemsize


class KVLayer:
    """Keys [1, heads, capacity, key_dim] and values [1, heads, capacity, value_dim] of one layer."""

    # What transformers asks a layer of a cache when it builds masks of its own (prefill without a mask).
    is_sliding = False
    is_compileable = False
    is_croppable = True
    is_initialized = True
    supports_early_init = False

    def __init__(self, shape: LayerShape, capacity: int, ahead: int = 0) -> None:
        self.shape = shape
        self._ahead = ahead
        self._room = self._zeros(capacity)
        self._cut(capacity)

    def _zeros(self, slots: int) -> tuple[torch.Tensor, torch.Tensor]:
        shape = self.shape
        keys, values = ((1, shape.heads, slots, dim) for dim in (shape.key_dim, shape.value_dim))
        return _zeros(keys, shape.dtype, shape.device), _zeros(values, shape.dtype, shape.device)

    def _cut(self, capacity: int) -> None:
        self.keys, self.values = (store[:, :, :capacity] for store in self._room)

    @property
    def capacity(self) -> int:
        """Slots."""
        return self.keys.shape[2]

    def write(
        self, start: int, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store new slots from ``start`` on; returns views of all keys and values up to their end."""
        end = start + keys.shape[2]
        self.keys[:, :, start:end] = keys
        self.values[:, :, start:end] = values
        return self.keys[:, :, :end], self.values[:, :, :end]

    def move(self, sources: torch.Tensor, start: int) -> None:
        """Copy the slots int64 [m] ``sources`` to ``start`` … ``start`` + m - 1."""
        sources = sources.to(self.keys.device)
        end = start + sources.shape[0]
        for store in (self.keys, self.values):
            store[:, :, start:end] = store.index_select(2, sources)  # a copy first: the ranges may overlap

    def grow(self, capacity: int) -> None:
        """Have ``capacity`` slots, with the content kept.

        A copy of what there is, tens of ms for some thousand tokens, is time that somebody waits for his next token.
        So where memory is taken for what is written only, addresses are taken for ``ahead`` slots when it first
        grows, and for twice as many as are needed where it grows past them: else it grows at no cost.

        Raises:
            MemoryError: or what torch raises; the layer is as it was.
        """
        if capacity > self._room[0].shape[2]:
            room = self._room_for(capacity)
            for store, held in zip(room, (self.keys, self.values), strict=True):
                store[:, :, : held.shape[2]] = held
            self._room = room
        self._cut(capacity)

    def _room_for(self, capacity: int) -> tuple[torch.Tensor, torch.Tensor]:
        if not _LAZY or self.shape.device.type != "cpu":
            return self._zeros(capacity)
        if self._ahead > 2 * capacity and not _addresses_are_counted():
            with contextlib.suppress(MemoryError):  # not that many: then fewer
                return self._zeros(self._ahead)
        return self._zeros(2 * capacity)


def _zeros(size: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """As ``torch.zeros``; on a CPU, memory is taken for what is written to only.

    Raises:
        MemoryError: or what torch raises; there is none left.
    """
    nbytes = math.prod(size) * dtype.itemsize
    if not _LAZY or device.type != "cpu" or nbytes == 0:
        return torch.zeros(size, dtype=dtype, device=device)
    try:
        block = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"can't allocate memory: {nbytes} bytes ({error})") from error
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        # Each head's slots begin somewhere else: with pages of 2 MB the first token would take that much for each,
        # far more than a cache's ``nbytes``, which budgets count.
        with contextlib.suppress(OSError):  # a kernel without such pages
            block.madvise(mmap.MADV_NOHUGEPAGE)
    return torch.frombuffer(block, dtype=dtype).view(size)


@functools.cache
def _addresses_are_counted() -> bool:
    """Whether addresses without memory use up a limit of this process or system."""
    import resource  # not on every system, as lazily taken memory is not

    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        return True
    try:
        return Path("/proc/sys/vm/overcommit_memory").read_text(encoding="ascii").strip() == "2"
    except OSError:  # not Linux
        return False


class KVCache(Cache):
    """The KV of one branch of a session, of batch size 1.

    A forward writes the slots from ``length`` on and does not commit them; ``keep`` or ``commit`` does. Until
    then they are invisible to any other forward, which would write over them.

    Args:
        layout: per layer of the model what it stores, or None for a layer that stores nothing.
        capacity: slots per layer, >= 1. It grows only by ``reserve``.
        most: slots that it will never need more than; up to there it grows without being copied, where that
            takes no more than addresses.
    """

    def __init__(self, layout: Sequence[LayerShape | None], *, capacity: int, most: int = 0) -> None:
        if capacity < 1:
            raise ValueError(f"expected a capacity of at least one slot, got {capacity}")
        shapes = {index: shape for index, shape in enumerate(layout) if shape is not None}
        ahead = min(most, _MOST_ADDRESSES // max(1, sum(shape.slot_bytes for shape in shapes.values())))
        self._stores = {index: KVLayer(shape, capacity, ahead) for index, shape in shapes.items()}
        self._length = 0
        self._written = 0
        layers: list[Any] = list(self._stores.values())
        super().__init__(layers=layers)

    def __repr__(self) -> str:
        return f"KVCache(length={self._length}, capacity={self.capacity}, layers={len(self._stores)})"

    # -- for the engine -------------------------------------------------------------------------------------

    @property
    def length(self) -> int:
        """Committed slots."""
        return self._length

    @property
    def capacity(self) -> int:
        """Slots that every layer has."""
        return min(layer.capacity for layer in self._stores.values())

    @property
    def nbytes(self) -> int:
        """Bytes of all slots, used or not; without addresses that were taken ahead (see ``KVLayer.grow``)."""
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in self._stores.values())

    def reserve(self, slots: int) -> None:
        """Make room for ``slots`` in all, with the content kept; by a fifth at least if it has to grow.

        Layer by layer, so that at most one layer is held twice. Out of memory leaves a usable cache.
        """
        capacity = self.capacity
        if slots > capacity:
            wanted = max(slots, capacity + (capacity + 4) // 5)
            for layer in self._stores.values():
                if layer.capacity < wanted:
                    layer.grow(wanted)

    def copy(self, other: "KVCache", length: int) -> None:
        """Hold the first ``length`` committed tokens of another cache of the same model, and nothing else.

        Raises:
            ValueError: the other does not hold as many, or there is no room for them here.

        Cost: copies ``length`` slots per layer, in memory.
        """
        most = min(other.length, self.capacity)
        if not 0 <= length <= most:
            raise ValueError(f"expected to copy 0 … {most} tokens, got {length}")
        self.truncate(0)
        with torch.inference_mode():
            for index, layer in self._stores.items():
                source = other._stores[index]
                layer.write(0, source.keys[:, :, :length], source.values[:, :, :length])
        self.commit(length)

    def truncate(self, length: int) -> None:
        """Cut back to the first ``length`` tokens. Cost: none.

        Raises:
            ValueError: there are fewer.
        """
        if not 0 <= length <= self._length:
            raise ValueError(f"expected to cut back to 0 … {self._length} tokens, got {length}")
        self._length = length
        self._written = 0

    def keep(self, slots: torch.Tensor | Sequence[int]) -> None:
        """Commit some of the slots that the last forward wrote, in their order; the rest is dead.

        Args:
            slots: int [m], ascending offsets from ``length``: of a draft tree the nodes of the accepted path.

        Raises:
            ValueError: not ascending offsets of what was written.

        Cost: copies m slots per layer, and none where the path is the first m nodes.
        """
        offsets = slots.tolist() if isinstance(slots, torch.Tensor) else list(slots)
        if any(a >= b for a, b in zip([-1, *offsets], [*offsets, self._written], strict=True)):
            raise ValueError(f"expected ascending offsets below {self._written}, got {offsets}")
        in_place = sum(offset == i for i, offset in enumerate(offsets))  # ascending: they come first
        if in_place < len(offsets):
            sources = self._length + torch.tensor(offsets[in_place:])
            with torch.inference_mode():
                for layer in self._stores.values():
                    layer.move(sources, self._length + in_place)
        self.commit(len(offsets))

    def commit(self, count: int) -> None:
        """Commit the next ``count`` slots as they are: written by the last forward, or zeros."""
        if not 0 <= self._length + count <= self.capacity:
            raise ValueError(f"expected to commit at most {self.capacity - self._length} slots, got {count}")
        self._length += count
        self._written = 0

    def fill(self, count: int) -> None:
        """Commit the next ``count`` slots with zeros that were written, so that reading them takes what it takes.

        Slots that nobody wrote to may have no memory of their own: all of them are read from one page of zeros.
        """
        start = self._length
        self.commit(count)
        for layer in self._stores.values():
            for store in (layer.keys, layer.values):
                store[:, :, start : start + count] = 0

    # -- for transformers -----------------------------------------------------------------------------------

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *_args: Any,
        **_kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new keys and values [1, heads, n, dim] behind the committed ones; returns all of them."""
        self._written = key_states.shape[2]
        return self._stores[layer_idx].write(self._length, key_states, value_states)

    def get_seq_length(self, layer_idx: int = 0) -> int:  # noqa: ARG002
        """Committed slots."""
        return self._length

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:  # noqa: ARG002
        """Keys that a forward over ``query_length`` tokens sees, and the position of the first."""
        return self._length + query_length, 0


class LayoutProbe(Cache):
    """Stands in for a cache in one forward, to learn what each layer stores."""

    def __init__(self) -> None:
        self.layout: dict[int, LayerShape] = {}
        super().__init__(layers=[])

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *_args: Any,
        **_kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Note the shapes."""
        _, heads, _, key_dim = key_states.shape
        self.layout[layer_idx] = LayerShape(
            heads, key_dim, value_states.shape[3], key_states.dtype, key_states.device
        )
        return key_states, value_states

    def get_seq_length(self, layer_idx: int = 0) -> int:  # noqa: ARG002
        """Nothing is stored."""
        return 0

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:  # noqa: ARG002
        """As an empty cache."""
        return query_length, 0
