"""Draft trees in the form in which SGLang verifies them."""

import numpy as np
import pytest

from suffixspec.draft.tree import EMPTY, DraftTree
from suffixspec.integrations.sglang.tree_mask import FILLER, chain, pack, pack_batch


def tree(*nodes: tuple[int, int]) -> DraftTree:
    tokens, parents = zip(*nodes, strict=True)
    return DraftTree(
        np.array(tokens, np.int32), np.array(parents, np.int32), np.full(len(nodes), 0.5, np.float32)
    )


BRANCHING = tree((7, -1), (8, -1), (9, 0), (10, 0), (11, 2))


def parents_of(mask: np.ndarray) -> list[int]:
    """As SGLang derives them: the largest ancestor that is smaller."""
    return [max((j for j in range(i) if mask[i, j]), default=-1) for i in range(len(mask))]


def test_the_pending_token_is_the_root_and_each_node_sees_its_ancestors():
    tokens, mask = pack(5, BRANCHING, 6)
    assert tokens.tolist() == [5, 7, 8, 9, 10, 11]
    assert parents_of(mask) == [-1, 0, 0, 1, 1, 3]
    assert mask[5].tolist() == [True, True, False, True, False, True]
    assert (tokens.dtype, mask.dtype) == (np.int64, np.bool_)


def test_missing_nodes_are_a_chain_below_a_leaf_so_that_no_filler_has_a_sibling():
    tokens, mask = pack(5, BRANCHING, 9)
    assert tokens.tolist() == [5, 7, 8, 9, 10, 11, FILLER, FILLER, FILLER]
    assert parents_of(mask)[6:] == [5, 6, 7]
    tokens, mask = pack(5, EMPTY, 4)
    assert parents_of(mask) == [-1, 0, 1, 2]


def test_what_does_not_fit_is_left_out_from_the_end():
    tokens, mask = pack(5, BRANCHING, 3)
    assert tokens.tolist() == [5, 7, 8]
    assert parents_of(mask) == [-1, 0, 0]
    assert pack(5, BRANCHING, 1)[0].tolist() == [5]


def test_random_trees_keep_their_paths():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        count, nodes = int(rng.integers(0, 12)), 12
        grown = tree(*((100 + i, int(rng.integers(-1, i))) for i in range(count))) if count else EMPTY
        tokens, mask = pack(5, grown, nodes)
        parents = parents_of(mask)
        for node in range(count):
            path = [int(grown.token_ids[i]) for i in grown.path(node)]
            at, up = node + 1, []
            while at > 0:
                up.append(int(tokens[at]))
                at = parents[at]
            assert up[::-1] == path, f"seed {seed}, node {node}"
        assert mask[:count, count + 1 :].sum() == 0, f"seed {seed}: a node sees a filler"


def test_a_chain_is_the_most_probable_path_and_a_tree_of_its_own():
    tokens, mask = pack(5, chain(BRANCHING), 5)
    assert tokens.tolist() == [5, 7, 9, 11, FILLER]
    assert parents_of(mask) == [-1, 0, 1, 2, 3]
    assert len(chain(EMPTY)) == 0


def test_a_batch_is_flat_and_in_order():
    tokens, mask = pack_batch([5, 6], [BRANCHING, EMPTY], 6)
    assert tokens.shape == (12,)
    assert mask.shape == (72,)
    assert tokens.reshape(2, 6)[:, 0].tolist() == [5, 6]
    assert np.array_equal(mask.reshape(2, 6, 6)[0], pack(5, BRANCHING, 6)[1])
    assert pack_batch([], [], 6)[0].shape == (0,)


@pytest.mark.parametrize("nodes", [2, 16])
def test_siblings_never_repeat_a_token(nodes):
    """A token that came twice below one node would be given its probability twice."""
    tokens, mask = pack(5, BRANCHING, nodes)
    below = list(zip(parents_of(mask), tokens.tolist(), strict=True))
    assert len(set(below)) == len(below)
