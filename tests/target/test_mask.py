"""Masks show each token the context, its ancestors and itself, within the window, and nothing else."""

from itertools import pairwise

import pytest
import torch

from suffixspec.target.mask import FULL, SLIDING, TokenTree, attention_masks

from .families import path_to, random_tree


def masks(tree: TokenTree, length: int, *types: str, explicit: bool = False, repeats: int = 1):
    return attention_masks(
        tree,
        length,
        layer_types=types,
        window=4,
        dtype=torch.float32,
        device=torch.device("cpu"),
        explicit=explicit,
        repeats=repeats,
    )


@pytest.mark.parametrize("length", [0, 2, 3, 4, 9])
@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("kind", [FULL, SLIDING])
def test_masks_follow_the_definition(length: int, padding: int, kind: str) -> None:
    """Against the definition applied pair by pair; positions, not slots, count for the window."""
    generator = torch.Generator().manual_seed(length)
    for n in (1, 2, 9):
        _, parents = random_tree(generator, n)
        tree = TokenTree.of(parents, n + padding)
        mask = masks(tree, length, kind, explicit=True)
        if mask is None:
            assert n == 1
            mask = torch.zeros(1, 1, n, length + n)
        assert mask.shape == (1, 1, n + padding, length + n + padding)
        assert set(mask.unique().tolist()) <= {0.0, torch.finfo(torch.float32).min}
        for i in range(n + padding):
            path = path_to(parents, i) if i < n else [i]
            position = length + len(path) - 1
            near = range(position - 3 if kind == SLIDING else 0, position + 1)
            context = [j for j in range(length) if j in near and i < n]
            tokens = [length + j for depth, j in enumerate(path) if length + depth in near or i >= n]
            seen = (mask[0, 0, i] == 0).nonzero()[:, 0].tolist()
            assert seen == context + tokens, f"token {i} of {parents} behind {length}"


def test_no_mask_is_made_where_none_is_needed() -> None:
    """A plain step, a prompt's first chunk; but an explicit one for attention that cannot tell, and windows."""
    one, chain = TokenTree.chain(1), TokenTree.chain(3)
    assert masks(one, 9, FULL) is None
    assert masks(one, 9, FULL, explicit=True) is None
    assert masks(one, 3, SLIDING) is None
    assert masks(one, 4, SLIDING) is not None
    assert masks(chain, 0, FULL) is None
    assert masks(chain, 0, FULL, explicit=True) is not None
    assert masks(chain, 1, FULL) is not None
    assert masks(TokenTree.chain(5), 0, SLIDING) is not None
    assert masks(TokenTree.of([-1], 2), 0, FULL) is not None
    assert masks(TokenTree.of([-1, -1], 2), 0, FULL) is not None


def test_several_kinds_of_layers_get_a_mask_each() -> None:
    """Keyed as transformers keys them; None within for a layer that needs none."""
    both = masks(TokenTree.chain(1), 6, FULL, SLIDING)
    assert both[FULL] is None
    assert both[SLIDING].shape == (1, 1, 1, 7)


def test_rows_are_repeated_for_grouped_heads() -> None:
    """The whole mask again for each head of a group."""
    tree = TokenTree.of([-1, 0, 0], 3)
    once, thrice = masks(tree, 2, FULL), masks(tree, 2, FULL, repeats=3)
    assert all(torch.equal(part, once) for part in thrice.split(3, dim=2))
    assert thrice.shape[2] == 9


def test_a_chain_is_the_tree_of_its_parents() -> None:
    """Also when it is written down as a tree."""
    for n in (1, 5):
        chain, tree = TokenTree.chain(n), TokenTree.of(range(-1, n - 1), n)
        assert tree.is_chain
        assert chain.is_chain
        assert (chain.depth == tree.depth).all()
        assert (chain.sees == tree.sees).all()
    assert all(not TokenTree.of(parents, 3).is_chain for parents in ([-1, 0, 0], [-1, 0], [-1, -1, 0]))
    assert list(pairwise(TokenTree.chain(3).depth)) == [(0, 1), (1, 2)]
