"""The chain that is chosen from a draft tree."""

import numpy as np
import pytest

from suffixspec.draft.tree import EMPTY, DraftTree
from suffixspec.integrations.vllm.chain import best_chain


def tree(*nodes: tuple[int, int, float]) -> DraftTree:
    tokens, parents, probs = zip(*nodes, strict=True)
    return DraftTree(np.array(tokens, np.int32), np.array(parents, np.int32), np.array(probs, np.float32))


FREE = [1.0] * 9


def test_the_path_with_the_largest_expected_yield_wins_not_the_one_with_the_best_first_token():
    branching = tree((7, -1, 0.5), (8, -1, 0.4), (9, 1, 0.39), (10, 2, 0.38))
    assert best_chain(branching, FREE)[0] == [8, 9, 10]


def test_a_dear_token_makes_the_shorter_path_win():
    branching = tree((7, -1, 0.5), (8, -1, 0.4), (9, 1, 0.39), (10, 2, 0.38))
    assert best_chain(branching, [1.0, 1.4, 1.8, 2.2, 2.6])[0] == [7]


def test_what_hangs_on_the_best_node_is_offered_too():
    chain = tree((1, -1, 0.9), (2, 0, 0.1), (3, 1, 0.05))
    tokens, probs = best_chain(chain, [1.0, 1.2, 1.9, 2.9])
    assert tokens == [1, 2, 3]
    assert probs == pytest.approx([0.9, 0.1, 0.05])


def test_no_chain_is_longer_than_the_times_reach():
    chain = tree(*((i, i - 1, 0.9) for i in range(8)))
    for limit in range(9):
        assert best_chain(chain, FREE[: limit + 1])[0] == list(range(limit))


def test_an_empty_tree_has_an_empty_chain():
    assert best_chain(EMPTY, FREE) == ([], [])


def test_the_best_path_is_the_best_of_all_paths():
    """Checked by trying every node of random trees."""
    for seed in range(50):
        rng = np.random.default_rng(seed)
        parents, probs, free = [], [], {(-1): 1.0}
        for i in range(12):
            parent = int(rng.choice([at for at, left in free.items() if left > 0.05]))
            share = float(rng.uniform(0, free[parent]))
            free[parent] -= share
            free[i] = share
            parents.append(parent)
            probs.append(share)
        order = sorted(range(12), key=lambda i: -probs[i])
        number = {old: new for new, old in enumerate(order)}
        nodes = [(100 + old, number.get(parents[old], -1), probs[old]) for old in order]
        if any(parent >= i for i, (_, parent, _) in enumerate(nodes)):
            continue
        grown = tree(*nodes)
        times = 1.0 + np.cumsum(rng.uniform(0, 0.3, 13))
        gains = {
            node: (1 + sum(float(grown.probs[i]) for i in grown.path(node))) / times[len(grown.path(node))]
            for node in range(12)
        }
        tokens, chain_probs = best_chain(grown, times)
        here = (1 + np.cumsum(chain_probs)) / times[1 : len(tokens) + 1]
        assert max(here) == pytest.approx(max(gains.values())), f"seed {seed}"
