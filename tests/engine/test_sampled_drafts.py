"""Drafts that were drawn from a distribution of their own, through the engine."""

import numpy as np
import pytest
import torch

from suffixspec.draft import EMPTY, DraftTree
from suffixspec.engine import Engine

from .tiny import TOKENIZER, VOCAB, ScriptedDrafter, ScriptedSession, prompt

SEED = 3


class SmallModel(ScriptedDrafter):
    """Draws one token at a time from a fixed distribution q, as a bad draft model would."""

    def __init__(self) -> None:
        super().__init__(lambda *_: ())
        generator = torch.Generator().manual_seed(SEED)
        self.q = torch.softmax(2 * torch.randn(VOCAB, generator=generator, dtype=torch.float64), 0)
        self.random = np.random.default_rng(SEED)

    def session(self, namespace: str = "default") -> "SmallModelSession":  # noqa: ARG002
        """Begin a session."""
        return SmallModelSession(self)


class SmallModelSession(ScriptedSession):
    """Its side of a session."""

    def __init__(self, model: SmallModel) -> None:
        super().__init__(model.script)
        self.model = model
        self.asked = 0

    def draft(self, max_nodes: int | None = None) -> DraftTree:
        """A chain of two draws."""
        if max_nodes is not None and max_nodes < 2:
            return EMPTY
        tokens = self.model.random.choice(VOCAB, size=2, p=self.model.q.numpy()).astype(np.int32)
        return DraftTree(tokens, np.array([-1, 0], np.int32), np.array([0.5, 0.2], np.float32))

    def proposals_at(self, node, children):
        """The draw after each node of the chain but the last."""
        assert -1 <= node < 2
        self.asked += 1
        tokens = list(children)
        return tokens, self.model.q.expand(len(tokens), -1)


def test_sampled_drafts_are_accepted_by_the_general_rule_and_change_no_distribution(tiny_target):
    """First tokens of 400 outputs: those of the target's distribution (χ², p > 1e-4), and accepted far more often.

    As a fixed proposal a draw is accepted with Σ p q; by the rejection rule with Σ min(p, q).
    """
    drafter = SmallModel()
    engine = Engine(tiny_target, TOKENIZER, drafter=drafter, kv_bytes=1 << 26)
    ids = prompt(SEED, 12)
    session = engine.session("s")
    runs = 400
    counts = np.zeros(VOCAB)
    accepted = 0
    for seed in range(runs):
        reply = session.generate(ids, max_tokens=3, temperature=1.0, seed=seed)
        counts[reply.token_ids[0]] += 1
        accepted += reply.accepted_flags[0]
    assert session._drafting.asked >= runs
    cache = tiny_target.new_cache(32)
    p = torch.softmax(tiny_target.prefill(cache, torch.as_tensor(ids)), 0)
    expected = runs * p.numpy()
    order = np.argsort(-expected)
    bins = [*order[:8], order[8:30], order[30:]]
    chi2 = sum((counts[b].sum() - expected[b].sum()) ** 2 / expected[b].sum() for b in bins)
    assert chi2 < 35.6, (chi2, SEED)  # 9 degrees of freedom, p = 5e-5
    by_rule = float(torch.minimum(p, drafter.q).sum())
    by_chance = float((p * drafter.q).sum())
    deviation = 4 * np.sqrt(by_rule * (1 - by_rule) / runs)
    assert abs(accepted / runs - by_rule) < deviation, (accepted / runs, by_rule, SEED)
    assert by_rule > by_chance + 2 * deviation, "the two rules could not be told apart"


def test_greedy_decoding_takes_them_as_proposals(tiny_target):
    """At temperature 0 nothing is left to chance: the output is plain decoding's."""
    engine = Engine(tiny_target, TOKENIZER, drafter=SmallModel(), kv_bytes=1 << 26)
    ids = prompt(SEED, 12)
    assert (
        engine.session("s").generate(ids, max_tokens=12).token_ids
        == engine.plain(ids, max_tokens=12).token_ids
    )


def test_lenience_and_sampled_drafts_do_not_go_together(tiny_target):
    """It is said, before anything is lost."""
    engine = Engine(tiny_target, TOKENIZER, drafter=SmallModel(), kv_bytes=1 << 26)
    session = engine.session("s")
    with pytest.raises(ValueError, match="lenience 1"):
        session.generate([1, 2, 3], max_tokens=4, temperature=1.0, seed=0, lenience=0.5)
    assert len(session.generate([1, 2, 3], max_tokens=4, temperature=1.0, seed=0).token_ids) <= 4
