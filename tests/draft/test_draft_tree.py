"""The draft tree as a value: what it refuses, and what is derived from it."""

import random

import numpy as np
import pytest

from suffixspec.draft import EMPTY, DraftTree


def tree(tokens, parents, probs=None) -> DraftTree:
    probs = np.linspace(1, 0.1, len(tokens)) if probs is None else probs
    return DraftTree(np.array(tokens, np.int32), np.array(parents, np.int32), np.array(probs, np.float32))


#        5 ── 6 ── 8
#        └─── 7
#        9
EXAMPLE = ([5, 6, 7, 9, 8], [-1, 0, 0, -1, 1])


def test_depth_and_paths_of_an_example():
    """Depth is 1 for what follows the context; a path is read from the context down."""
    draft = tree(*EXAMPLE)
    assert len(draft) == 5
    assert draft.depth.tolist() == [1, 2, 2, 1, 3]
    assert draft.path(4) == [0, 1, 4]
    assert draft.paths() == [[5, 7], [9], [5, 6, 8]]
    assert draft.best_chain() == [0, 1, 4]


def test_the_mask_of_an_example():
    """Node i attends to itself and its ancestors, and to no sibling."""
    assert tree(*EXAMPLE).ancestor_mask.astype(int).tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 0, 1, 0, 0],
        [0, 0, 0, 1, 0],
        [1, 1, 0, 0, 1],
    ]


@pytest.mark.parametrize("seed", range(30))
def test_what_is_derived_agrees_with_the_parents(seed):
    """Depth, mask and paths of random trees, each recomputed by climbing from every node."""
    rng = random.Random(seed)
    k = rng.randrange(1, 40)
    parents = [rng.randrange(-1, i) for i in range(k)]
    draft = tree(range(k), parents)
    for node in range(k):
        climbed, at = [], node
        while at >= 0:
            climbed.append(at)
            at = parents[at]
        assert draft.path(node) == climbed[::-1], f"seed {seed}"
        assert draft.depth[node] == len(climbed)
        assert np.flatnonzero(draft.ancestor_mask[node]).tolist() == sorted(climbed)
    leaves = [node for node in range(k) if node not in parents]
    assert draft.paths() == [draft.path(leaf) for leaf in leaves]  # token ids are node numbers here
    chain = draft.best_chain()
    assert [parents[node] for node in chain] == [-1, *chain[:-1]]
    assert chain[-1] in leaves


def test_the_empty_draft_is_a_tree_of_no_nodes():
    """A plain step: no nodes, no paths, a mask of no rows."""
    assert len(EMPTY) == 0
    assert EMPTY.depth.shape == (0,)
    assert EMPTY.ancestor_mask.shape == (0, 0)
    assert EMPTY.paths() == []
    assert EMPTY.best_chain() == []


def test_a_draft_is_frozen():
    """Neither the fields nor the arrays can be changed, whichever way it was made."""
    checked = tree(*EXAMPLE)
    for draft in (checked, DraftTree.of_block(block_of(checked))):
        with pytest.raises(AttributeError):
            draft.token_ids = np.zeros(5, np.int32)
        for array in (draft.token_ids, draft.parents, draft.probs):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


def test_a_tree_over_a_block_is_the_tree_of_its_rows():
    """Token ids, parents and probabilities come out as they went in, with what is derived from them."""
    draft = tree(*EXAMPLE)
    other = DraftTree.of_block(block_of(draft))
    for name in ("token_ids", "parents", "probs", "depth", "ancestor_mask"):
        expected, got = getattr(draft, name), getattr(other, name)
        assert got.dtype == expected.dtype, name
        assert got.tolist() == expected.tolist(), name
    assert len(other) == len(draft)
    assert other.paths() == draft.paths()


def block_of(draft):
    return np.stack([draft.token_ids, draft.parents, draft.probs.view(np.int32)])


@pytest.mark.parametrize(
    ("tokens", "parents", "message"),
    [
        ([5, 6], [-1], "of one length"),
        ([5, 6], [-1, 1], "node 1 to have a parent from -1 to 0, got 1"),
        ([5, 6], [1, -1], "node 0 to have a parent from -1 to -1, got 1"),
        ([5], [-2], "node 0 to have a parent from -1 to -1, got -2"),
        ([[5]], [[-1]], "of one length"),
        ([5, 6, 6, 6], [-1, 0, 1, 0], "siblings with different tokens, got token 6 again at node 3"),
    ],
    ids=["lengths", "itself", "later", "below", "dimensions", "siblings"],
)
def test_what_is_no_tree_is_refused(tokens, parents, message):
    """Arrays of different lengths, a parent that does not come first, or siblings with the same token."""
    with pytest.raises(ValueError, match=message):
        tree(tokens, parents, np.ones(np.shape(tokens)))
