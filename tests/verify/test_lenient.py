"""Lenience stays within its bound, is exact at 1, and takes more of the draft below."""

import random

import pytest
import torch

from suffixspec.draft import EMPTY
from suffixspec.errors import SuffixspecError
from suffixspec.verify.chance import SeededChance
from suffixspec.verify.greedy import accept_greedy
from suffixspec.verify.lenient import accept_lenient, accept_lenient_greedy
from suffixspec.verify.sampled import accept_sampled

from .toys import ToyTarget, chain, outcomes, random_tree, tree


def first_tokens(p, tokens, beta):
    """The exact distribution of the first emitted token, for siblings ``tokens``."""
    draft = tree((-1, x) for x in tokens)
    scores = torch.tensor(p, dtype=torch.float64).log()
    return outcomes(
        lambda chance: accept_lenient(draft, lambda _node, _emitted: scores, chance, beta).token_ids[0]
    )


def random_case(seed):
    rng = random.Random(seed)
    size = rng.randint(2, 6)
    weights = [rng.random() ** 3 * (rng.random() > 0.15) for _ in range(size)]
    weights[0] += 0.01
    p = [w / sum(weights) for w in weights]
    return rng, p, rng.sample(range(size), rng.randint(1, size))


def test_no_token_comes_out_with_more_than_its_bound():
    """Over 300 cases, P(y) <= p(y) / β for each token, and <= p(y) for tokens that were not drafted."""
    reached = 0
    for seed in range(300):
        rng, p, tokens = random_case(seed)
        beta = rng.choice([0.05, 0.3, 0.7, 0.95])
        found = first_tokens(p, tokens, beta)
        assert sum(found.values()) == pytest.approx(1.0)
        for y, probability in found.items():
            bound = p[y] / beta if y in tokens else p[y]
            assert probability <= bound + 1e-12, f"seed {seed}, token {y}"
        reached += found.get(tokens[0], 0.0) == pytest.approx(min(1.0, p[tokens[0]] / beta))
    assert reached == 300  # the first sibling comes out with exactly min(1, p / β)


def test_siblings_are_tried_on_what_is_left():
    """A hand-made case: p = (.1, .2, .7), siblings 0 and 1, β = 0.5."""
    found = first_tokens([0.1, 0.2, 0.7], [0, 1], 0.5)
    # 0: .1/.5 = .2. Then p is (0, 2/9, 7/9): 1 with .8 · 4/9; the rest goes to 2.
    assert found == pytest.approx({0: 0.2, 1: 0.8 * 4 / 9, 2: 0.8 * 5 / 9})


def test_at_one_it_is_exact():
    """With β = 1 the outcome of a tree has the distribution of sampled acceptance."""
    for seed in range(30):
        rng = random.Random(seed)
        target = ToyTarget(rng.randint(2, 4), seed, dtype=torch.float64)
        draft = random_tree(rng, 6, target.vocab)
        logits = target.over(draft, [0, 1])

        def scores_at(node, _emitted, logits=logits):
            return logits[node + 1]

        def lenient(chance, draft=draft, scores_at=scores_at):
            return accept_lenient(draft, scores_at, chance, 1.0).token_ids

        def exact(chance, draft=draft, scores_at=scores_at):
            return accept_sampled(draft, scores_at, chance).token_ids

        assert outcomes(lenient) == pytest.approx(outcomes(exact), abs=1e-12), f"seed {seed}"


def test_a_forbidden_token_is_never_accepted():
    """A drafted token with p = 0 stays out, however small β, and so does one beyond the vocabulary."""
    scores = torch.tensor([0.0, -torch.inf, 0.0])
    draft = tree([(-1, 1), (-1, 9)])
    found = outcomes(lambda chance: accept_lenient(draft, lambda _n, _e: scores, chance, 0.01).token_ids)
    assert found == pytest.approx({(0,): 0.5, (2,): 0.5})
    assert accept_lenient_greedy(draft, lambda _n, _e: scores, 0.01).token_ids == (0,)


def test_rounding_cannot_leave_nothing_to_draw():
    """Where every possible token was rejected by rounding alone, the last one is taken."""

    class Unlucky(SeededChance):
        def accepts(self, _probability):
            return False

    scores = torch.tensor([0.3, 0.7 - 1e-7]).log()  # in float32, 1 − 0.3 exceeds the other by rounding
    scores_at = {"scores_at": lambda _n, _e: scores}
    for tokens in ([0, 1], [1, 0]):
        draft = tree((-1, x) for x in tokens)
        token = accept_lenient(draft, chance=Unlucky(0), lenience=1.0, **scores_at).token_ids[0]
        assert token == tokens[1]


def test_calibration_learns_nothing_from_lenience():
    """No probabilities are reported: acceptance is not the target's own."""
    scores = torch.tensor([0.5, 0.5]).log()
    assert not accept_lenient(chain([1]), lambda _n, _e: scores, SeededChance(0), 0.5).child_probs
    assert not accept_lenient_greedy(chain([1]), lambda _n, _e: scores, 0.5).child_probs


def test_greedy_takes_the_most_probable_child_within_the_bound():
    """At temperature 0, the most probable child with p >= β · max p is taken, else the argmax."""
    scores = torch.tensor([0.50, 0.30, 0.15, 0.05]).log() + 3.0  # max p = 0.5

    def token(tokens, beta):
        return accept_lenient_greedy(tree((-1, x) for x in tokens), lambda _n, _e: scores, beta).token_ids[0]

    assert token([2, 1], 0.25) == 1  # both qualify; 1 is the more probable
    assert token([2, 3], 0.25) == 2  # 0.15 >= 0.125 > 0.05
    assert token([3], 0.25) == 0
    assert token([2], 0.31) == 0  # 0.15 < 0.155
    assert token([1, 0], 0.25) == 0  # the argmax itself was drafted
    assert token([], 0.25) == 0
    tie = torch.tensor([2.0, 1.0, 2.0])
    assert (
        accept_lenient_greedy(chain([2]), lambda _n, _e: tie, 1.0).token_ids[0] == 2
    )  # drafted, and a maximum


def test_every_greedy_token_is_within_the_bound():
    """Over random trees each emitted token has p >= β · max p, and β = 1 is greedy acceptance."""
    gained = 0
    for seed in range(100):
        rng = random.Random(seed)
        target = ToyTarget(rng.randint(2, 6), seed)
        draft = random_tree(rng, 20, target.vocab)
        logits = target.over(draft, [0, 1])

        def scores_at(node, _emitted, logits=logits):
            return logits[node + 1]

        exact = accept_greedy(draft, scores_at)
        assert accept_lenient_greedy(draft, scores_at, 1.0).token_ids == exact.token_ids, f"seed {seed}"
        lenient = accept_lenient_greedy(draft, scores_at, 0.2)
        for t, token in enumerate(lenient.token_ids):
            p = target.probs([0, 1, *lenient.token_ids[:t]])
            assert p[token] >= 0.2 * max(p) * (1 - 1e-6), f"seed {seed}"
        gained += len(lenient.path) - len(exact.path)
    assert gained > 50


@pytest.mark.parametrize("scores", [[-torch.inf] * 3, [0.0, torch.nan, 0.0]])
def test_scores_without_a_choice_are_an_error(scores):
    """As in exact acceptance, scores that allow no token are an error."""
    row = torch.tensor(scores)
    with pytest.raises(SuffixspecError, match="expected"):
        accept_lenient(EMPTY, lambda _n, _e: row, SeededChance(0), 0.5)
    with pytest.raises(SuffixspecError, match="expected"):
        accept_lenient_greedy(EMPTY, lambda _n, _e: row, 0.5)
