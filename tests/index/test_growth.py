"""Trees that are given larger arrays, filled beside them, before a block comes."""

import weakref

import numpy as np
import pytest

from suffixspec.index.generations import GenerationalIndex
from suffixspec.index.suffix_tree import SuffixTree

pytestmark = pytest.mark.kernels


def texts(seed: int) -> list[np.ndarray]:
    """Blocks of all kinds: long repeats that end late, few symbols, many symbols."""
    rng = np.random.default_rng(seed)
    alphabet = int(rng.choice([1, 2, 50, 10_000]))
    blocks = [rng.integers(0, alphabet, int(rng.integers(1, 60))).astype(np.int32) for _ in range(12)]
    return [
        np.concatenate([blocks[k] for k in rng.integers(0, 12, int(rng.integers(1, 4)))]) for _ in range(12)
    ]


def grow(tree: SuffixTree, more: int) -> bool:
    """All the steps; whether there was anything to do."""
    growth = tree.growth(more)
    if growth is None:
        return False
    growth.copy()
    assert growth.whole()
    growth.fill()
    assert growth.put()
    return True


@pytest.mark.parametrize("seed", range(12))
def test_a_tree_that_was_grown_before_does_not_grow_in_a_block_and_is_the_same(seed):
    """No array is exchanged while the block is appended; nodes, counts and order are those of a tree left alone."""
    tree, twin, grown = SuffixTree(), SuffixTree(), 0
    for text in texts(seed):
        more = len(text) + 1
        bound = tree.nbytes_at_most(more)
        grown += grow(tree, more)
        assert tree.nbytes <= bound, f"seed {seed}"
        assert tree.growth(more) is None, f"seed {seed}"
        arrays = tree.arrays
        for one in (tree, twin):
            one.extend(text)
            one.end_sequence()
        assert all(now is before for now, before in zip(tree.arrays, arrays, strict=True)), f"seed {seed}"
        tree.check()
        assert tree.state.tolist() == twin.state.tolist(), f"seed {seed}"
        inners = tree.state[4]
        for ours, theirs, used in zip(
            tree.arrays[:3], twin.arrays[:3], (len(tree), len(tree), inners), strict=True
        ):
            assert np.array_equal(ours[:used], theirs[:used]), f"seed {seed}"
    assert grown


@pytest.mark.parametrize("step", ["copied", "filled"])
def test_what_was_prepared_is_refused_when_the_tree_was_written_to_meanwhile(step):
    """Whether one token came or so many that the tree grew itself: it is left as it is."""
    for more in (1, 500):
        tree = SuffixTree()
        tree.extend(np.arange(20) % 3)
        growth = tree.growth(300)
        assert growth is not None
        growth.copy()
        if step == "filled":
            growth.fill()
        tree.extend(np.arange(more) % 5)
        arrays = tree.arrays
        assert not growth.whole()
        assert not growth.put()
        assert all(now is before for now, before in zip(tree.arrays, arrays, strict=True))
        tree.check()


def test_a_growth_that_was_not_prepared_is_refused():
    """Nothing was copied: the tree keeps what it has."""
    tree = SuffixTree()
    growth = tree.growth(1000)
    assert growth is not None
    assert not growth.put()
    tree.extend(np.arange(1000))
    tree.check()


def test_cursors_let_go_of_the_old_arrays_and_match_in_the_new_ones():
    """Whoever grew the index frees them, and no draft does."""
    index = GenerationalIndex(budget_bytes=1 << 20)
    index.add(np.arange(50))
    cursor = index.cursor()
    cursor.extend(np.arange(10, 20))
    (arguments,) = cursor.arguments()
    assert arguments[0] is index.trees[0].arrays[0]
    old = [weakref.ref(array) for array in index.trees[0].arrays]
    growth = index.growth(500)
    assert growth is not None
    growth.copy()
    growth.fill()
    version = index.version
    assert index.put(growth)
    assert index.version > version
    del growth, arguments
    assert [ref() for ref in old] == [None] * 4
    (arguments,) = cursor.arguments()
    assert all(ours is theirs for ours, theirs in zip(arguments, index.trees[0].arrays, strict=False))
    assert cursor.matches()[0].length == 10
    index.check()


def test_nothing_is_grown_where_a_new_generation_begins():
    """The budget holds at every step, with what is prepared for each sequence."""
    index = GenerationalIndex(budget_bytes=64 << 10)
    rng = np.random.default_rng(4)
    begun = 0
    for _ in range(60):
        text = rng.integers(0, 30, 100)
        growth = index.growth(101)
        before = index.epoch
        if growth is not None:
            growth.copy()
            growth.fill()
            assert index.put(growth)
        index.check()
        index.add(text)
        if index.epoch > before:
            assert growth is None
            begun += 1
        index.check()
    assert begun > 2


def test_a_growth_for_a_generation_that_is_the_newest_no_more_is_refused():
    """Memory for a tree that nobody appends to, or that has left, is not kept."""
    for leaves in (False, True):
        index = GenerationalIndex(budget_bytes=1 << 20)
        index.add(np.arange(50))
        growth = index.growth(500)
        assert growth is not None
        growth.copy()
        growth.fill()
        arrays = index.trees[0].arrays
        if leaves:
            index.clear()
        else:
            built = GenerationalIndex(budget_bytes=1 << 20)
            index.adopt(built)
            index._trees.appendleft(SuffixTree())
        assert not index.put(growth)
        assert growth.tree.arrays[0] is arrays[0]
        index.check()
