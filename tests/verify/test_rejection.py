"""The rejection rule gives the target's distribution for drafts drawn from any distribution."""

import random
from collections import Counter

import pytest
import torch

from suffixspec.draft import EMPTY
from suffixspec.verify.chance import SeededChance
from suffixspec.verify.rejection import (
    accept_rejection,
    alpha,
    choose_among,
    point_masses,
    without_replacement,
)
from suffixspec.verify.sampled import accept_sampled

from .toys import ToyTarget, chain, outcomes, p_value, random_tree, tree

FALSE_ALARM = 1e-7


def random_distribution(rng, size, zeros=0.25):
    weights = [0.0 if rng.random() < zeros else rng.random() ** 2 for _ in range(size)]
    weights[rng.randrange(size)] += 0.1
    total = sum(weights)
    return torch.tensor([w / total for w in weights], dtype=torch.float64)


def draws(kind, q, m, chance):
    """Draw m tokens as ``kind`` says; the tokens, and float [m, V] what from."""
    if kind == "with replacement":
        return [chance.draw(q) for _ in range(m)], q.repeat(m, 1)
    tokens, left = [], q.clone()
    for _ in range(m):
        if not left.sum() > 0:
            break
        tokens.append(chance.draw(left))
        left[tokens[-1]] = 0.0
    return tokens, without_replacement(q, tokens)


@pytest.mark.parametrize("kind", ["with replacement", "without replacement"])
@pytest.mark.parametrize("m", [1, 2, 3])
def test_the_choice_is_distributed_as_the_target(kind, m):
    """Over all draws of the drafter and all coins, the token chosen has exactly the distribution p."""
    for seed in range(25):
        rng = random.Random(seed)
        size = rng.randint(2, 4)
        p, q = random_distribution(rng, size), random_distribution(rng, size)

        def run(chance, p=p, q=q):
            tokens, rows = draws(kind, q, m, chance)
            return choose_among(p, tokens, rows, chance)

        found = outcomes(run)
        expected = {x: float(p_x) for x, p_x in enumerate(p) if p_x > 0}
        assert found == pytest.approx(expected, abs=1e-12), f"seed {seed}"


def test_drafters_may_differ_from_draw_to_draw():
    """Draws from different distributions, a picked token among them, still give exactly p."""
    for seed in range(25):
        rng = random.Random(seed)
        p, first, last = (random_distribution(rng, 4) for _ in range(3))
        picked = rng.randrange(4)

        def run(chance, p=p, first=first, last=last, picked=picked):
            tokens = [chance.draw(first), picked, chance.draw(last)]
            rows = torch.stack([first, point_masses([picked], p)[0], last])
            return choose_among(p, tokens, rows, chance)

        found = outcomes(run)
        expected = {x: float(p_x) for x, p_x in enumerate(p) if p_x > 0}
        assert found == pytest.approx(expected, abs=1e-12), f"seed {seed}"


def test_alpha_is_the_probability_that_a_draw_is_accepted():
    """Σ min(p, q) = 1 − TV(p, q) is the chance that the first draw is the one chosen, by its coin."""
    for seed in range(20):
        rng = random.Random(seed)
        p, q = random_distribution(rng, 4), random_distribution(rng, 4)

        class Counted:
            def __init__(self, chance):
                self.chance, self.accepted = chance, False

            def draw(self, probs):
                return self.chance.draw(probs)

            def accepts(self, probability):
                self.accepted = self.chance.accepts(probability)
                return self.accepted

        def run(chance, p=p, q=q, counted_type=Counted):
            counted = counted_type(chance)
            choose_among(p, [counted.draw(q)], q[None], counted)
            return counted.accepted

        found = outcomes(run)
        variation = 0.5 * float((p - q).abs().sum())
        assert found.get(True, 0.0) == pytest.approx(1.0 - variation, abs=1e-12), f"seed {seed}"
        assert float(alpha(p, q)) == pytest.approx(1.0 - variation, abs=1e-12)
    assert alpha(torch.eye(3), torch.eye(3)[[0, 2, 2]]).tolist() == [1.0, 0.0, 1.0]  # row by row


def test_picked_tokens_are_the_special_case_of_sampled_acceptance():
    """With point masses, the distribution of (path, tokens) equals that of sampling at each node."""
    for seed in range(20):
        rng = random.Random(seed)
        target = ToyTarget(rng.randint(2, 4), seed, dtype=torch.float64)
        draft = random_tree(rng, 6, target.vocab)
        logits = target.over(draft, [0, 1])

        def scores_at(node, _emitted, logits=logits):
            return logits[node + 1]

        def picked(_node, children, logits=logits):
            return list(children), point_masses(list(children), logits[0])

        def by_rejection(chance, draft=draft, scores_at=scores_at, picked=picked):
            accepted = accept_rejection(draft, scores_at, picked, chance)
            return accepted.path, accepted.token_ids

        def by_sampling(chance, draft=draft, scores_at=scores_at):
            accepted = accept_sampled(draft, scores_at, chance)
            return accepted.path, accepted.token_ids

        found, expected = outcomes(by_rejection), outcomes(by_sampling)
        assert found == pytest.approx(expected, abs=1e-12), f"seed {seed}"


def drawn_tree(drafter, context, chance, widths):
    """A tree drawn without replacement from ``drafter``, level by level, and what each node's children are from."""
    pairs, level, q_of = [], [(-1, list(context))], {}
    for width in widths:
        below = []
        for node, ids in level:
            q = torch.softmax(drafter.logits(ids), -1)
            tokens, rows = draws("without replacement", q, width, chance)
            q_of[node] = (tokens, rows)
            for token in tokens:
                pairs.append((node, token))
                below.append((len(pairs) - 1, [*ids, token]))
        level = below

    def proposals_at(node, _children):
        return q_of.get(node, ([], torch.zeros(0, drafter.vocab, dtype=drafter.table.dtype)))

    return tree(pairs), proposals_at


def output(target, drafter, widths, length, chance):
    """An output drafted by a small model, step by step."""
    ids = [0, 1]
    while len(ids) < 2 + length:
        draft, proposals_at = drawn_tree(drafter, ids, chance, widths)
        logits = target.over(draft, ids)
        accepted = accept_rejection(
            draft, lambda node, _emitted, logits=logits: logits[node + 1], proposals_at, chance
        )
        ids += accepted.token_ids
    return tuple(ids[2 : 2 + length])


@pytest.mark.parametrize("widths", [(1,), (1, 1), (2,), (2, 1)])
def test_drawn_trees_give_the_exact_distribution(widths):
    """Outputs drafted by a small model's draws, as chains and trees, have exactly the target's distribution."""
    target = ToyTarget(2, 3, dtype=torch.float64)
    drafter = ToyTarget(2, 4, dtype=torch.float64)
    found = outcomes(lambda chance: output(target, drafter, widths, 2, chance))
    assert found == pytest.approx(target.distribution([0, 1], 2), abs=1e-12)


@pytest.mark.parametrize("widths", [(1, 1, 1), (3, 2)])
def test_outputs_of_drawn_drafts_pass_a_chi_square_test(widths):
    """1,200 outputs with real random numbers in float32 do not differ from the exact distribution."""
    target, drafter = ToyTarget(4, 11), ToyTarget(4, 12)
    seed = 8
    chance = SeededChance(seed)
    counts = Counter(output(target, drafter, widths, 3, chance) for _ in range(1200))
    p = p_value(counts, target.distribution([0, 1], 3))
    print(f"widths {widths}, seed {seed}: p = {p:.3g}")
    assert p > FALSE_ALARM


def test_a_wrong_draft_distribution_shows():
    """The exact test fails where q is not what the tokens were drawn from: it can fail."""
    p, q = torch.tensor([0.5, 0.3, 0.2]).double(), torch.tensor([0.2, 0.2, 0.6]).double()
    wrong = torch.full((3,), 1 / 3, dtype=torch.float64)
    found = outcomes(lambda chance: choose_among(p, [chance.draw(q)], wrong[None], chance))
    assert found[2] > 0.25


def test_equal_distributions_accept_whatever_rounding_does():
    """Where p = q up to rounding the draw is accepted, also where rounding has left no residual to draw from."""

    class Unlucky(SeededChance):
        def accepts(self, _probability):
            return False

    p = torch.tensor([0.25, 0.75])
    assert choose_among(p, [1], p[None], Unlucky(0)) == 1


def test_a_bare_node_draws_from_the_target():
    """Without proposals the choice is a plain draw from p."""
    found = outcomes(
        lambda chance: (
            accept_rejection(
                EMPTY,
                lambda _node, _emitted: torch.tensor([0.25, 0.75]).log(),
                lambda _node, _children: ([], torch.zeros(0, 2)),
                chance,
            ).token_ids
        )
    )
    assert found == pytest.approx({(0,): 0.25, (1,): 0.75})


def test_children_get_the_targets_probability():
    """The children of visited nodes are reported with p, not with the coin."""
    scores = torch.tensor([0.5, 0.3, 0.2]).log()
    accepted = accept_rejection(
        chain([1]),
        lambda _node, _emitted: scores,
        lambda _node, children: (list(children), point_masses(list(children), scores)),
        SeededChance(0),
    )
    assert accepted.child_probs[0] == pytest.approx(0.3)


def test_contradictions_are_errors():
    """A drawn token without probability under q, wrong shapes and impossible draws say what was expected."""
    p, chance = torch.tensor([0.5, 0.5]), SeededChance(0)
    with pytest.raises(
        ValueError, match=r"expected q > 0 for every token drawn from it, got 0\.0 for token 1"
    ):
        choose_among(p, [1], torch.tensor([[1.0, 0.0]]), chance)
    with pytest.raises(ValueError, match=r"expected q > 0 .* got 0\.0 for token 5"):
        choose_among(p, [5], torch.tensor([[0.5, 0.5]]), chance)
    with pytest.raises(ValueError, match=r"expected q of shape \(1, 2\), got \(2, 2\)"):
        choose_among(p, [1], torch.ones(2, 2), chance)
    with pytest.raises(ValueError, match="expected q to allow 2 different tokens, got 1"):
        without_replacement(torch.tensor([1.0, 0.0]), [0, 1])
    with pytest.raises(ValueError, match=r"expected different tokens .* got \[0, 0\]"):
        without_replacement(p, [0, 0])
