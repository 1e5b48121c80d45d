"""Acceptance against a record, compared with a search over all paths."""

import random

import numpy as np
import pytest

from suffixspec.draft import EMPTY, DraftTree
from suffixspec.verify.recorded import accept_recorded


def random_tree(rng: random.Random, nodes: int, alphabet: int) -> DraftTree:
    """Any tree whose parents come first and whose siblings differ."""
    taken: set[tuple[int, int]] = set()
    tokens, parents = [], []
    for node in range(nodes):
        parent, token = rng.randrange(-1, node), rng.randrange(alphabet)
        while (parent, token) in taken:
            parent, token = rng.randrange(-1, node), rng.randrange(alphabet + nodes)
        taken.add((parent, token))
        tokens.append(token)
        parents.append(parent)
    return DraftTree(np.array(tokens, np.int32), np.array(parents, np.int32), np.ones(nodes, np.float32))


def longest_path(draft: DraftTree, target: list[int]) -> list[int]:
    """The obvious way: of all paths from the context, the longest that spells a prefix of the target."""
    best: list[int] = []
    for node in range(len(draft)):
        path = draft.path(node)
        spelled = [int(draft.token_ids[i]) for i in path]
        if spelled == target[: len(spelled)] and len(spelled) <= len(target) and len(path) > len(best):
            best = path
    return best


@pytest.mark.parametrize("seed", range(200))
def test_the_longest_recorded_path_is_accepted(seed):
    """On random trees and targets, the walk finds what a search over all paths finds."""
    rng = random.Random(seed)
    alphabet = rng.choice([1, 2, 3, 30])
    draft = random_tree(rng, rng.randrange(40), alphabet)
    target = [rng.randrange(alphabet) for _ in range(rng.randrange(12))]
    if len(draft) and rng.random() < 0.5:  # a target that follows the tree for a while
        deep = [int(draft.token_ids[i]) for i in draft.path(rng.randrange(len(draft)))]
        target = deep[: rng.randrange(len(deep) + 1)] + target
    accepted = accept_recorded(draft, np.array(target, np.int32))
    assert accepted == longest_path(draft, target), f"seed {seed}"


def test_an_empty_draft_accepts_nothing():
    """A plain step: nothing drafted, nothing accepted."""
    assert accept_recorded(EMPTY, np.array([1, 2], np.int32)) == []


def test_nothing_is_accepted_beyond_the_end_of_the_record():
    """A draft that goes on after the last recorded token is accepted up to that token."""
    draft = DraftTree(np.array([5, 6, 7], np.int32), np.array([-1, 0, 1], np.int32), np.ones(3, np.float32))
    assert accept_recorded(draft, np.array([5, 6], np.int32)) == [0, 1]
    assert accept_recorded(draft, np.array([], np.int32)) == []
