"""Greedy acceptance writes what greedy decoding writes, whatever was drafted."""

import random

import pytest
import torch

from suffixspec.draft import EMPTY
from suffixspec.errors import SuffixspecError
from suffixspec.verify.greedy import accept_choices, accept_greedy, greedy_choices, top_gap

from .toys import ToyTarget, chain, random_tree, tree


def plain(target: ToyTarget, context: list[int], length: int) -> list[int]:
    ids = list(context)
    for _ in range(length):
        ids.append(int(torch.argmax(target.logits(ids))))
    return ids[len(context) :]


@pytest.mark.parametrize("rule", ["lazy", "at once"])
def test_any_tree_gives_the_tokens_of_plain_decoding(rule):
    """Over 300 random trees, the emitted tokens are the next of plain decoding, along the longest such path."""
    deepest = 0
    for seed in range(300):
        rng = random.Random(seed)
        target = ToyTarget(rng.randint(2, 8), seed)
        context = [rng.randrange(target.vocab) for _ in range(3)]
        expected = plain(target, context, 40)
        draft = random_tree(rng, rng.randint(0, 30), target.vocab, expected)
        logits = target.over(draft, context)
        if rule == "lazy":
            accepted = accept_greedy(draft, lambda node, _emitted, logits=logits: logits[node + 1])
        else:
            accepted = accept_choices(draft, greedy_choices(logits))
        tokens = list(accepted.token_ids)
        assert tokens == expected[: len(tokens)], f"seed {seed}"
        # The nodes accepted spell the tokens before the bonus, and no child spells the bonus.
        assert [int(draft.token_ids[node]) for node in accepted.path] == tokens[:-1], f"seed {seed}"
        assert accepted.bonus == tokens[-1]
        last = accepted.path[-1] if accepted.path else -1
        assert list(accepted.path) == ([] if last < 0 else draft.path(last)), f"seed {seed}"
        below = {int(x) for x, parent in zip(draft.token_ids, draft.parents, strict=True) if parent == last}
        assert tokens[-1] not in below, f"seed {seed}"
        assert accepted.visited == (-1, *accepted.path)
        deepest = max(deepest, len(accepted.path))
    assert deepest >= 8  # the test has seen long accepted paths, not only rejections


def test_scores_are_asked_for_visited_nodes_only_with_the_path_to_them():
    """Scores are asked for once per emitted token, in order, each with the tokens emitted before it."""
    draft = tree([(-1, 5), (-1, 1), (1, 2), (1, 3), (2, 4)])
    asked = []

    def scores_at(node, emitted):
        asked.append((node, emitted))
        return torch.nn.functional.one_hot(torch.tensor({-1: 1, 1: 2, 2: 0}[node]), 6).float()

    accepted = accept_greedy(draft, scores_at)
    assert asked == [(-1, ()), (1, (1,)), (2, (1, 2))]
    assert accepted.path == (1, 2)
    assert accepted.token_ids == (1, 2, 0)
    assert dict(accepted.child_probs) == {0: 0.0, 1: 1.0, 2: 1.0, 3: 0.0, 4: 0.0}


def test_of_equal_scores_the_smallest_id_is_chosen():
    """A tie goes to the smallest id, drafted or not: the draft has no say in it."""
    scores = torch.tensor([0.0, 3.0, 1.0, 3.0])
    assert accept_greedy(chain([3]), lambda _node, _emitted: scores).token_ids == (1,)
    assert accept_choices(chain([3]), greedy_choices(scores.repeat(2, 1))).token_ids == (1,)


def test_nothing_is_chosen_after_the_end():
    """Where the generation ends on an accepted node there is no bonus, and no scores are asked for after it."""
    asked = []

    def scores_at(node, emitted):
        asked.append(node)
        return torch.nn.functional.one_hot(torch.tensor(2), 4).float()

    accepted = accept_greedy(chain([2, 2, 2]), scores_at, lambda _token: "stop" if len(asked) == 2 else None)
    assert asked == [-1, 0]
    assert accepted.token_ids == (2, 2)
    assert accepted.path == (0, 1)
    assert accepted.visited == (-1, 0)
    assert accepted.bonus is None
    assert accepted.finish_reason == "stop"


def test_an_end_on_the_bonus_keeps_it():
    """Where the token that ends the generation was not drafted it is the bonus."""
    accepted = accept_choices(chain([2]), [1, 0], lambda _token: "length")
    assert (accepted.path, accepted.token_ids, accepted.bonus) == ((), (1,), 1)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([-torch.inf] * 4, "expected at least one token above -inf, got none among 4"),
        ([0.0, torch.nan, 1.0, torch.inf], "got 1 NaN and 1 \\+inf among 4"),
        ([0.0, torch.nan, 1.0, torch.nan], "got 2 NaN and 0 \\+inf among 4"),
    ],
)
def test_scores_without_a_choice_are_an_error(scores, message):
    """Scores that forbid every token, or hold NaN, are an error that says so."""
    row = torch.tensor(scores)
    with pytest.raises(SuffixspecError, match=message):
        accept_greedy(EMPTY, lambda _node, _emitted: row)
    assert greedy_choices(row[None]) == [-1]
    with pytest.raises(SuffixspecError, match="expected a largest logit after node -1"):
        accept_choices(EMPTY, greedy_choices(row[None]))


def test_choices_must_fit_the_draft():
    """A wrong number of choices is an error."""
    with pytest.raises(ValueError, match=r"expected 3 choices \(nodes \+ 1\), got 2"):
        accept_choices(chain([1, 2]), [1, 2])


def test_top_gap():
    """The gap is that between the two largest scores, wherever they stand."""
    assert top_gap(torch.tensor([1.0, 5.0, -2.0, 4.5])) == pytest.approx(0.5)
    assert top_gap(torch.tensor([5.0, 5.0])) == 0.0
