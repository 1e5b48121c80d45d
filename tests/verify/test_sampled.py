"""Sampled acceptance has the target's own distribution, and with a seed the tokens of plain decoding."""

import random
from collections import Counter

import pytest
import torch

from suffixspec.draft import EMPTY
from suffixspec.errors import SuffixspecError
from suffixspec.verify.chance import SeededChance
from suffixspec.verify.lenient import accept_lenient
from suffixspec.verify.sampled import accept_sampled

from .toys import ToyTarget, chain, outcomes, p_value, random_tree, tree

FALSE_ALARM = 1e-7


def decode(target, context, length, drafter, rule):
    """An output of ``length`` tokens, step by step; ``drafter(ids)`` proposes anything."""
    ids = list(context)
    while len(ids) < len(context) + length:
        draft = drafter(ids)
        logits = target.over(draft, ids)
        ids += rule(draft, lambda node, _emitted, logits=logits: logits[node + 1]).token_ids
    return tuple(ids[len(context) : len(context) + length])


def test_one_step_has_the_exact_distribution():
    """Over every course that chance can take, P(first token) is the target's and each path is their product."""
    for seed in range(40):
        rng = random.Random(seed)
        target = ToyTarget(rng.randint(2, 4), seed, dtype=torch.float64)
        draft = random_tree(rng, rng.randint(0, 8), target.vocab)
        logits = target.over(draft, [0, 1])
        found = outcomes(
            lambda chance, draft=draft, logits=logits: (
                accept_sampled(draft, lambda node, _emitted: logits[node + 1], chance).token_ids
            )
        )
        assert sum(found.values()) == pytest.approx(1.0)
        for tokens, p in found.items():
            expected = 1.0
            for t, token in enumerate(tokens):
                expected *= target.probs([0, 1, *tokens[:t]])[token]
            assert p == pytest.approx(expected, abs=1e-12), f"seed {seed}: {tokens}"


def test_an_output_has_the_exact_distribution():
    """Outputs of several steps, drafted by any drafter, have the distribution of plain decoding exactly."""
    target = ToyTarget(3, 5, dtype=torch.float64)
    exact = target.distribution([0, 1], 3)
    for seed in range(3):

        def drafter(ids, seed=seed):
            return random_tree(random.Random(f"{seed} {ids}"), 4, 3)

        found = outcomes(
            lambda chance, drafter=drafter: decode(
                target, [0, 1], 3, drafter, lambda d, scores_at: accept_sampled(d, scores_at, chance)
            )
        )
        assert found == pytest.approx(exact, abs=1e-12), f"seed {seed}"


# Arbitrary, but the same for the same context: a rule that favours what is drafted would show.
DRAFTERS = {
    "chain": lambda ids: chain(random.Random(str(ids)).choices(range(4), k=3)),
    "tree": lambda ids: random_tree(random.Random(str(ids)), 6, 4),
    "same": lambda _ids: chain([2, 2, 2, 2]),
}


def sample_outputs(kind, rule_of, seed, n=2000):
    """The p-value of n outputs of three tokens."""
    target, chance = ToyTarget(4, 11), SeededChance(seed)
    rule = rule_of(chance)
    counts = Counter(decode(target, [0, 1], 3, DRAFTERS[kind], rule) for _ in range(n))
    p = p_value(counts, target.distribution([0, 1], 3))
    print(f"{kind}, seed {seed}: p = {p:.3g}")
    return p


@pytest.mark.parametrize("kind", DRAFTERS)
def test_sampled_outputs_pass_a_chi_square_test(kind):
    """2,000 outputs of three tokens do not differ from the exact distribution (false alarms: 1e-7)."""
    assert sample_outputs(kind, lambda chance: lambda d, s: accept_sampled(d, s, chance), 20) > FALSE_ALARM


@pytest.mark.parametrize("kind", ["chain", "same"])
def test_the_chi_square_test_sees_a_wrong_rule(kind):
    """The same test rejects an acceptance that prefers drafted tokens by a factor of up to 1.4."""
    assert (
        sample_outputs(kind, lambda chance: lambda d, s: accept_lenient(d, s, chance, 0.7), 20) < FALSE_ALARM
    )


def test_children_get_the_targets_probability():
    """Each child of a visited node is reported with the target's probability of it, visited or not."""
    p = [0.5, 0.3, 0.2]
    draft = tree([(-1, 2), (-1, 0), (0, 1), (1, 1), (-1, 7)])
    for seed in range(20):
        accepted = accept_sampled(draft, lambda _node, _emitted: torch.tensor(p).log(), SeededChance(seed))
        expected = {0: 0.2, 1: 0.5, 4: 0.0}  # token 7 is none that the target can write
        if accepted.path[:1] == (0,):
            expected[2] = 0.3
        elif accepted.path[:1] == (1,):
            expected[3] = 0.3
        assert dict(accepted.child_probs) == pytest.approx(expected), f"seed {seed}"


@pytest.mark.parametrize("scores", [[-torch.inf] * 3, [0.0, torch.nan, 0.0], [0.0, torch.inf, 0.0]])
def test_scores_without_a_distribution_are_an_error(scores):
    """Scores that allow no token, or have no softmax, are an error before anything is drawn."""
    with pytest.raises(SuffixspecError, match="expected"):
        accept_sampled(EMPTY, lambda _node, _emitted: torch.tensor(scores), SeededChance(0))


def test_a_seed_is_a_sequence_of_its_own():
    """Equal seeds give equal draws, whatever else draws from torch's or Python's own generators meanwhile."""
    probs = torch.full((50,), 0.02)
    one, other = SeededChance(3), SeededChance(3)
    tokens, coins = [one.draw(probs) for _ in range(20)], [one.accepts(0.5) for _ in range(20)]
    for token, coin in zip(tokens, coins, strict=True):
        torch.rand(3)
        random.random()
        assert other.draw(probs) == token
        assert other.accepts(0.5) == coin
    assert len(set(tokens)) > 5
    assert len(set(coins)) == 2
    fresh = [[SeededChance().draw(probs) for _ in range(12)] for _ in range(2)]
    assert fresh[0] != fresh[1]
