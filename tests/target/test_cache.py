"""The cache writes, compacts, cuts and grows in place, and says no to what would damage it."""

import mmap
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from suffixspec.target.cache import KVCache, LayerShape

CPU = torch.device("cpu")
SHAPE = LayerShape(heads=2, key_dim=3, value_dim=4, dtype=torch.float32, device=CPU)


def write(cache: KVCache, marks: list[int]) -> None:
    """What a forward does: in every layer the keys and values of each new token, here its mark."""
    for index in (0, 2):
        mark = torch.tensor(marks, dtype=torch.float32)[None, None, :, None]
        keys, values = cache.update(mark.expand(1, 2, -1, 3), mark.expand(1, 2, -1, 4), index)
        assert keys.shape == (1, 2, cache.length + len(marks), 3)
        assert values.shape == (1, 2, cache.length + len(marks), 4)


def marks(cache: KVCache) -> list[float]:
    """The committed marks, the same in all layers, heads and components."""
    rows = []
    for layer in cache.layers:
        for store in (layer.keys, layer.values):
            committed = store[0, :, : cache.length]
            assert (committed == committed[:1, :, :1]).all()
            rows.append(committed[0, :, 0].tolist())
    assert all(row == rows[0] for row in rows)
    return rows[0]


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


@pytest.fixture
def cache() -> KVCache:
    return KVCache([SHAPE, None, SHAPE], capacity=10)


def test_kept_slots_are_compacted_in_order(cache: KVCache) -> None:
    """Overlapping moves too; a path that is in place already stays."""
    write(cache, [1, 2, 3])
    cache.commit(3)
    write(cache, [10, 11, 12, 13, 14])
    cache.keep(torch.tensor([0, 2, 3, 4]))
    assert marks(cache) == [1, 2, 3, 10, 12, 13, 14]
    write(cache, [20, 21, 22])
    cache.keep([0, 1])
    assert marks(cache) == [1, 2, 3, 10, 12, 13, 14, 20, 21]
    write(cache, [30])
    cache.keep([])
    assert cache.length == 9
    cache.truncate(4)
    write(cache, [40, 41, 42])
    cache.keep([2])
    assert marks(cache) == [1, 2, 3, 10, 42]


@pytest.mark.parametrize("slots", [[1, 0], [0, 0], [-1], [3], [0, 3]])
def test_only_ascending_slots_of_the_last_forward_can_be_kept(cache: KVCache, slots: list[int]) -> None:
    """Anything else is an error and changes nothing."""
    write(cache, [1, 2, 3])
    with pytest.raises(ValueError, match="expected ascending offsets below 3"):
        cache.keep(slots)
    cache.keep([0, 1, 2])
    with pytest.raises(ValueError, match="below 0"):
        cache.keep([0])


def test_a_copy_holds_the_first_tokens_and_shares_nothing(cache: KVCache) -> None:
    """Of another cache's committed tokens the first, in place of what was there; both go on independently."""
    write(cache, [1, 2, 3, 4])
    cache.commit(4)
    other = KVCache([SHAPE, None, SHAPE], capacity=7)
    write(other, [50, 51, 52, 53, 54])
    other.commit(5)
    other.copy(cache, 3)
    assert marks(other) == [1, 2, 3]
    assert other.capacity == 7
    write(other, [60])
    other.commit(1)
    write(cache, [5, 6])
    cache.keep([1])
    assert marks(other) == [1, 2, 3, 60]
    assert marks(cache) == [1, 2, 3, 4, 6]
    other.copy(cache, 0)
    assert other.length == 0
    with pytest.raises(ValueError, match=r"expected to copy 0 … 5 tokens, got 6"):
        other.copy(cache, 6)  # slots beyond what is committed are nobody's
    with pytest.raises(ValueError, match=r"expected to copy 0 … 2 tokens, got 3"):
        KVCache([SHAPE, None, SHAPE], capacity=2).copy(cache, 3)


def test_growing_keeps_the_content(cache: KVCache) -> None:
    """By a fifth at least, in the middle of a step too; a smaller wish changes nothing."""
    write(cache, [1, 2, 3, 4, 5, 6])
    cache.commit(6)
    write(cache, [7, 8])
    cache.reserve(11)
    assert cache.capacity == 12
    cache.keep([1])
    assert marks(cache) == [1, 2, 3, 4, 5, 6, 8]
    cache.reserve(5)
    assert cache.capacity == 12
    cache.reserve(100)
    assert cache.capacity == 100
    assert marks(cache) == [1, 2, 3, 4, 5, 6, 8]


def test_growth_that_fails_half_way_leaves_a_usable_cache(
    cache: KVCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Out of memory in the second layer: the content and the old capacity stay, and a second try works."""
    write(cache, [1, 2, 3])
    cache.commit(3)
    second, grow = cache.layers[1], type(cache.layers[1]).grow

    def fail(capacity: int) -> None:
        raise torch.OutOfMemoryError("no")

    monkeypatch.setattr(second, "grow", fail)
    with pytest.raises(torch.OutOfMemoryError):
        cache.reserve(50)
    assert cache.capacity == 10
    assert marks(cache) == [1, 2, 3]
    monkeypatch.setattr(second, "grow", lambda capacity: grow(second, capacity))
    cache.reserve(50)
    assert cache.capacity == 50
    assert marks(cache) == [1, 2, 3]


def test_lengths_out_of_range_are_refused(cache: KVCache) -> None:
    """Nothing is cut to a length it does not have, nor committed beyond the slots."""
    cache.commit(4)
    for length in (-1, 5):
        with pytest.raises(ValueError, match=r"cut back to 0 … 4 tokens"):
            cache.truncate(length)
    with pytest.raises(ValueError, match="at most 6 slots, got 7"):
        cache.commit(7)
    with pytest.raises(ValueError, match="at least one slot"):
        KVCache([SHAPE], capacity=0)


def test_bytes_count_all_slots(cache: KVCache) -> None:
    """Two layers of 2 heads × (3 + 4) float32, 10 slots."""
    assert cache.nbytes == 2 * 2 * 7 * 4 * 10


@pytest.mark.parametrize("lazy", [True, False])
def test_a_cache_is_copied_only_when_it_has_doubled(monkeypatch, cache: KVCache, lazy: bool) -> None:
    """Where memory is taken for what is written only: it grows in place into zeros, and counts what it has."""
    monkeypatch.setattr("suffixspec.target.cache._LAZY", lazy)
    write(cache, [1, 2, 3])
    cache.commit(3)
    places = []
    for slots in (12, 20, 24, 29):
        cache.reserve(slots)
        assert cache.capacity == slots
        assert cache.nbytes == slots * 2 * 2 * (3 + 4) * 4  # layers, heads, dimensions, bytes
        assert marks(cache) == [1, 2, 3]
        for layer in cache.layers:
            assert not layer.keys[:, :, 3:].any()
            assert not layer.values[:, :, 3:].any()
        places.append([store.data_ptr() for layer in cache.layers for store in (layer.keys, layer.values)])
    moved = [before != after for before, after in pairwise(places)]
    assert moved == ([False, False, True] if lazy else [True, True, True])


@pytest.mark.parametrize("counted", [False, True])
def test_a_cache_grows_to_its_most_without_a_copy(monkeypatch, counted: bool) -> None:
    """Addresses are taken for all slots when it first grows, unless they count; bytes are those it has."""
    monkeypatch.setattr("suffixspec.target.cache._addresses_are_counted", lambda: counted)
    cache = KVCache([SHAPE, None, SHAPE], capacity=1, most=400)
    places = set()
    for slots in (10, 50, 200, 400):
        cache.reserve(slots)
        assert cache.capacity == slots
        assert cache.nbytes == slots * 2 * 2 * (3 + 4) * 4  # layers, heads, dimensions, bytes
        write(cache, [slots])
        cache.commit(1)
        places.add(cache.layers[0].keys.data_ptr())
    assert marks(cache) == [10, 50, 200, 400]
    assert len(places) == (3 if counted else 1)
    cache.reserve(500)
    assert cache.capacity == 500
    assert marks(cache) == [10, 50, 200, 400]


def test_as_many_addresses_as_can_be_had(monkeypatch) -> None:
    """Fewer where there are not as many, and never more than a process has for hundreds of caches."""
    asked: list[int] = []
    take = mmap.mmap

    def few(fileno: int, length: int, **more: int) -> mmap.mmap:
        asked.append(length)
        if length > 1 << 20:
            raise OSError(12, "Cannot allocate memory")
        return take(fileno, length, **more)

    monkeypatch.setattr("suffixspec.target.cache._addresses_are_counted", lambda: False)
    monkeypatch.setattr("mmap.mmap", few)
    cache = KVCache([SHAPE, None, SHAPE], capacity=1, most=1 << 60)
    write(cache, [7])
    cache.commit(1)
    cache.reserve(30)
    assert marks(cache) == [7]
    assert max(asked) <= 1 << 36
    assert [length for length in asked if length <= 1 << 20][-1] == 2 * 30 * 2 * 4 * 4


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's own account of memory")
def test_addresses_ahead_take_no_memory() -> None:
    """A cache that may become large takes memory for what is written, to within a few pages a head."""
    shape = LayerShape(heads=4, key_dim=64, value_dim=64, dtype=torch.float32, device=CPU)
    cache = KVCache([shape] * 8, capacity=1, most=1 << 17)
    before = resident()
    cache.reserve(64)
    for layer in range(8):
        cache.update(torch.ones(1, 4, 64, 64), torch.ones(1, 4, 64, 64), layer)
    cache.commit(64)
    assert cache.nbytes == 64 * 8 * 4 * 128 * 4
    assert resident() - before < cache.nbytes + 8 * 2 * 4 * 3 * mmap.PAGESIZE


def test_memory_that_cannot_be_had_is_told_as_such(monkeypatch, cache: KVCache) -> None:
    """As a ``MemoryError``, which the engine evicts other branches for; the cache stays usable."""
    write(cache, [1, 2, 3])
    cache.commit(3)

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr("mmap.mmap", refuse)
        with pytest.raises(MemoryError, match="can't allocate memory"):
            cache.reserve(30)
    assert marks(cache) == [1, 2, 3]
    cache.reserve(30)
    assert marks(cache) == [1, 2, 3]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's own account of memory")
def test_slots_that_are_filled_have_memory_of_their_own() -> None:
    """A forward that is timed behind them reads as much as one behind real tokens; those never written take none."""
    shape = LayerShape(heads=4, key_dim=64, value_dim=64, dtype=torch.float32, device=CPU)
    slots = 1 << 15
    cache = KVCache([shape], capacity=slots)
    before = resident()
    cache.commit(slots // 2)
    assert resident() - before < cache.nbytes // 8
    cache.fill(slots // 2)
    assert cache.length == slots
    assert resident() - before > cache.nbytes * 3 // 8
    assert not cache.layers[0].keys.any()
