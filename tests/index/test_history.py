"""The history: namespaces apart, one budget, the least recently used namespace leaves first."""

import random

import numpy as np
import pytest

from suffixspec.index.history import CONTEXT, History


def holds(history: History, namespace: str, text: list[int]) -> bool:
    """Whether a namespace's index holds a string; looking it up counts as a use."""
    return any(tree.find(text) is not None for tree in history.index(namespace).trees)


@pytest.mark.kernels
def test_namespaces_are_apart():
    """What was added to one namespace is found there only."""
    history = History()
    history.add("a", [1, 2, 3])
    history.add("b", [4, 5, 6])
    assert holds(history, "a", [1, 2, 3])
    assert not holds(history, "a", [4])
    assert not holds(history, "b", [1])
    assert "a" in history
    assert "c" not in history
    history.check()


@pytest.mark.kernels
def test_the_end_of_the_prompt_is_kept_with_an_output():
    """The last 16 tokens before an output are matched, and counted for nothing."""
    history = History()
    history.add("a", [500, 501], context=list(range(100)))
    (tree,) = history.index("a").trees
    assert tree.tokens.tolist() == [*range(100 - CONTEXT, 100), 500, 501, -1]
    match = tree.find([99])
    assert match is not None
    assert tree.count(match) == 0
    assert [array.tolist() for array in tree.successors(match)] == [[500], [0]]


@pytest.mark.kernels
def test_the_least_recently_used_namespace_leaves_first():
    """Adding, and asking for an index, are uses; forgetting drops one at once."""
    history = History()
    for name in "abc":
        history.add(name, [1, 2])
    assert history.namespaces == ["a", "b", "c"]
    history.index("a")
    history.add("b", [3])
    assert history.namespaces == ["c", "a", "b"]
    history.forget("a")
    history.forget("nobody")
    assert history.namespaces == ["c", "b"]
    assert not holds(history, "a", [1, 2])


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(3))
def test_the_budget_holds_whatever_is_added(seed):
    """Many namespaces in any order: never over the budget, the newest output is there, the oldest names go."""
    rng = random.Random(seed)
    history = History(budget_bytes=160_000, namespace_bytes=40_000)
    order: list[str] = []
    fewest = 10
    for _ in range(120):
        name = rng.choice("abcdefghij")
        text = np.random.default_rng(rng.randrange(10**9)).integers(0, 9, rng.randrange(1, 200)).tolist()
        history.add(name, text)
        order = [*(other for other in order if other != name), name]
        assert history.nbytes <= 160_000, f"seed {seed}"
        assert history.namespaces == order[len(order) - len(history.namespaces) :], f"seed {seed}"
        assert holds(history, name, text[-50:])
        fewest = min(fewest, len(history.namespaces) - len(order) + 10)
    history.check()
    assert fewest < 10, "the test should make namespaces leave"
    assert len(history) == sum(len(history.index(name)) for name in history.namespaces)


def test_what_cannot_be_a_history_is_refused():
    """A share above the budget, or one too small for a generation; wrong tokens add nothing."""
    with pytest.raises(ValueError, match="namespace_bytes of at most budget_bytes"):
        History(budget_bytes=1 << 20, namespace_bytes=1 << 21)
    with pytest.raises(ValueError, match="budget of at least"):
        History(budget_bytes=1 << 10)
    history = History()
    with pytest.raises(ValueError, match="expected token ids from 0"):
        history.add("a", [1, -2])
    assert len(history) == 0
