"""The index of one loop: contexts that go on, are cut back and depart, and the history beside it."""

import random

import numpy as np
import pytest

from index.compare import assert_suffix_chain
from index.oracle import ListTree
from suffixspec.index import GenerationalIndex
from suffixspec.index.session import OVERLAP, SessionIndex


class Twin:
    """What ``SessionIndex`` promises, word by word: the context, and the text that its tree is to hold."""

    def __init__(self) -> None:
        self.context: list[int] = []
        self.tree = ListTree()

    def sync(self, prompt: list[int]) -> int:
        """The length of the common prefix; where the prompt departs, sentinel and overlap go in."""
        common = 0
        while common < min(len(prompt), len(self.context)) and prompt[common] == self.context[common]:
            common += 1
        if common < len(self.context):
            self.tree.end_sequence()
            self.tree.extend(prompt[max(0, common - OVERLAP) : common], counted=False)
        self.tree.extend(prompt[common:])
        self.context = list(prompt)
        return common

    def extend(self, tokens: list[int]) -> None:
        """Output."""
        self.context += tokens
        self.tree.extend(tokens)


def assert_same(index: SessionIndex, twin: Twin) -> None:
    assert index.context.tolist() == twin.context
    assert index.tree.tokens.tolist() == twin.tree.text
    index.tree.check()


def random_prompt(rng: random.Random, context: list[int]) -> list[int]:
    """The next prompt: more of the same, cut back, rewritten in the middle, or another text."""
    new = [rng.randrange(3) for _ in range(rng.randrange(8))]
    at = rng.randrange(len(context) + 1)
    rewritten = [*context[:at], rng.randrange(3), *context[at + 1 :]]
    return rng.choice([context + new, context + new, context[:at], context[:at] + new, rewritten, new])


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(12))
def test_any_order_of_prompts_and_outputs(seed):
    """Context, tree text and common prefix agree with the definition after every change."""
    rng = random.Random(seed)
    index, twin = SessionIndex(), Twin()
    for _ in range(15):
        prompt = random_prompt(rng, twin.context)
        assert index.sync(prompt) == twin.sync(prompt), f"seed {seed}"
        for _ in range(rng.randrange(4)):
            tokens = [rng.randrange(3) for _ in range(rng.randrange(3))]
            index.extend(tokens)
            twin.extend(tokens)
        assert_same(index, twin)
    assert_suffix_chain(index.tree, twin.tree)


@pytest.mark.kernels
def test_a_prompt_that_goes_on_appends_only_what_is_new():
    """Output and tool answer in the next prompt: the tree holds every token once."""
    index = SessionIndex()
    assert index.sync([1, 2, 3]) == 0
    index.extend([4, 5])
    assert index.sync([1, 2, 3, 4, 5, 6]) == 5
    assert index.sync([1, 2, 3, 4, 5, 6]) == 6
    assert index.tree.tokens.tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.kernels
def test_a_departure_keeps_the_old_text_and_the_left_context():
    """Behind the departure stand a sentinel, the last 64 shared tokens, and what is new; the match carries on."""
    shared = list(range(100, 300))
    index = SessionIndex()
    index.sync([*shared, 7, 8])
    assert index.sync([*shared, 9]) == 200
    assert index.tree.tokens.tolist() == [*shared, 7, 8, -1, *shared[-OVERLAP:], 9]
    assert index.sync(shared) == 200
    match = index.tree.longest_suffix()
    assert match.length == OVERLAP
    followers, counts = index.tree.successors(match)
    # The overlap is there to be matched, and counts for nothing.
    assert dict(zip(followers.tolist(), counts.tolist(), strict=True)) == {7: 1, 9: 0}


@pytest.mark.kernels
def test_no_match_reaches_from_one_prompt_into_another():
    """Two prompts one after the other are not a text: their seam is found nowhere."""
    index = SessionIndex()
    index.sync([1, 2, 3])
    index.sync([4, 5, 6])
    assert index.tree.find([2, 3]) is not None
    assert index.tree.find([3, 4]) is None


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(12))
def test_history_is_matched_from_the_context(seed):
    """The history's match is the longest end of the context found there, up to 64 tokens after a departure."""
    rng = random.Random(seed)
    history = GenerationalIndex(budget_bytes=1 << 20)
    old = [[rng.randrange(3) for _ in range(20)] for _ in range(5)]
    for text in old:
        history.add(text)
    index, twin = SessionIndex(history=history), Twin()
    for _ in range(10):
        prompt = random_prompt(rng, twin.context)
        index.sync(prompt)
        twin.sync(prompt)
        assert_matches(index, twin.context, old)
        tokens = [rng.randrange(3) for _ in range(4)]
        index.extend(tokens)
        twin.extend(tokens)
        assert_matches(index, twin.context, old)


def assert_matches(index: SessionIndex, context: list[int], old: list[list[int]]) -> None:
    """The longest end of the context that stands in the history, by looking."""
    assert index.history is not None
    (match,) = index.history.matches()
    ends = [context[len(context) - k :] for k in range(min(20, len(context)) + 1)]
    assert match.length == max(len(end) for end in ends if any(contains(text, end) for text in old))


def contains(text: list[int], string: list[int]) -> bool:
    return any(text[i : i + len(string)] == string for i in range(len(text) - len(string) + 1))


@pytest.mark.parametrize("wrong", [[-1], [2**31], [[1, 2]], [0.5]], ids=str)
def test_wrong_tokens_change_nothing(wrong):
    """Refused tokens leave context and tree as they were."""
    index = SessionIndex()
    index.sync([1, 2, 3])
    with pytest.raises((TypeError, ValueError)):
        index.sync(wrong)
    with pytest.raises((TypeError, ValueError)):
        index.extend(np.array(wrong))
    assert index.context.tolist() == index.tree.tokens.tolist() == [1, 2, 3]


@pytest.mark.kernels
def test_the_context_is_read_only_and_grows():
    """A view that cannot be written to, over any length; its memory is counted."""
    index = SessionIndex()
    rng = np.random.default_rng(0)
    text = rng.integers(0, 50, 5000).astype(np.int32)
    index.sync(text[:1000])
    small = index.nbytes
    for start in range(1000, 5000, 500):
        index.extend(text[start : start + 500])
    assert np.array_equal(index.context, text)
    assert index.nbytes >= small + 4 * 4000
    with pytest.raises(ValueError, match="read-only"):
        index.context[0] = 1
