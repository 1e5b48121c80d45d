"""Acceptance of drafts that were sampled from a distribution of their own (a small draft model's)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import torch

from suffixspec.draft.tree import DraftTree
from suffixspec.verify.acceptance import Acceptance
from suffixspec.verify.chance import Chance, at_tokens, to_probs
from suffixspec.verify.walk import Finish, ScoresAt, walk

ProposalsAt: TypeAlias = Callable[[int, Mapping[int, int]], tuple[Sequence[int], torch.Tensor]]
"""``proposals_at(node, children)``: the tokens x_1 … x_m drawn after ``node`` in the order of the draws, and
float [m, V]: row j is q_j, the distribution that x_j was drawn from, given the draws before it."""


def accept_rejection(
    draft: DraftTree,
    scores_at: ScoresAt,
    proposals_at: ProposalsAt,
    chance: Chance,
    finish: Finish | None = None,
) -> Acceptance:
    """Choose after each node by ``choose_among`` what was drawn there, and follow the child that equals it.

    Invariant: y_t ~ p(· | context, y_<t), p = softmax of the processed scores. It is that of
    ``choose_among``, by induction along the walk.

    Args:
        draft: the draft tree.
        scores_at: processed scores, see ``ScoresAt``.
        proposals_at: what was drawn after a node and from what, see ``ProposalsAt`` and ``without_replacement``.
            Whether and how often something is drawn after a node may depend on the tokens that lead to it,
            not on what is drawn: a child that is left out *because of which token it is* was not drawn from q.
        chance: random numbers. The draws of plain decoding are other ones: equal in distribution, not by seed.
        finish: says where the generation ends.

    Raises:
        SuffixspecError: no token can be drawn (every score -inf, or NaN or +inf among them).
        ValueError: q gives a drawn token no probability, or its shape does not fit.

    Cost: a softmax, a draw, and one pass over V for each proposal, per emitted token.
    """
    child_probs: dict[int, float] = {}

    def choose(node: int, emitted: tuple[int, ...], children: Mapping[int, int]) -> int:
        p = to_probs(scores_at(node, emitted))  # [V]
        if children:
            child_probs.update(zip(children.values(), at_tokens(p, children), strict=True))
        token_ids, q = proposals_at(node, children)  # m tokens, [m, V]
        return choose_among(p, token_ids, q, chance)

    return walk(draft, choose, finish, child_probs)


def choose_among(p: torch.Tensor, token_ids: Sequence[int], q: torch.Tensor, chance: Chance) -> int:
    """A token from p, one of the proposals x_1 … x_m where possible.

    Rule: p_1 = p. Accept x_j with probability min(1, p_j(x_j) / q_j(x_j)), else go on with the residual
    p_{j+1} = norm(max(0, p_j − q_j)). When all are rejected, draw from p_{m+1}.

    Invariant: given any x_1 … x_{j−1} and that they were rejected, the token returned is distributed as p_j;
    at j = 1, as p. Proof, from j = m + 1 downwards. At m + 1 it is drawn from p_{m+1}. At j, x_j ~ q_j:

        P(y) = q_j(y) · min(1, p_j(y) / q_j(y)) + P(rejected) · p_{j+1}(y)
             = min(q_j(y), p_j(y)) + max(0, p_j(y) − q_j(y)) = p_j(y)

    for P(rejected) = 1 − Σ min(p_j, q_j) = Σ max(0, p_j − q_j), the mass that norm divides by, and because
    p_{j+1} is the same whichever x_j was rejected.

    The probability that x_1 is accepted is ``alpha(p, q_1)``. Cases: q_j = q for draws with replacement;
    q_j = norm(q without x_1 … x_{j−1}) for draws without (``without_replacement``); q_j = 1 at x_j where the
    token was not drawn but picked (``point_masses``); rows may come from different drafters.

    Args:
        p: float [V], the target's distribution.
        token_ids: m tokens, in the order in which they were drawn; may repeat.
        q: float [m, V], see above.
        chance: random numbers.

    Raises:
        ValueError: q gives a drawn token no probability, or its shape does not fit.
    """
    if q.shape != (len(token_ids), p.shape[-1]):
        raise ValueError(f"expected q of shape {(len(token_ids), p.shape[-1])}, got {tuple(q.shape)}")
    for x, q_j in zip(token_ids, q.to(p), strict=True):
        p_x, q_x = torch.stack((p[x], q_j[x])).tolist() if x < p.shape[-1] else (0.0, 0.0)
        if not q_x > 0.0:
            raise ValueError(
                f"expected q > 0 for every token drawn from it, got {q_x} for token {x}; give the distribution "
                "that the drafter really sampled from, after its temperature and cut-offs"
            )
        if chance.accepts(p_x / q_x):
            return x
        residual = (p - q_j).clamp_(min=0.0)  # [V]
        mass = residual.sum()
        if not mass > 0.0:
            return x  # p_j = q_j but for rounding, which alone has rejected x_j
        p = residual / mass
    return chance.draw(p)


def without_replacement(q: torch.Tensor, token_ids: Sequence[int]) -> torch.Tensor:
    """The distributions of successive draws without replacement from ``q``: row j is norm(q without x_<j).

    Args:
        q: float [V].
        token_ids: m different tokens in the order of the draws.

    Returns:
        float [m, V].

    Raises:
        ValueError: nothing is left to draw from, or a token repeats.
    """
    if len(set(token_ids)) < len(token_ids):
        raise ValueError(f"expected different tokens from draws without replacement, got {list(token_ids)}")
    rows = q.repeat(len(token_ids), 1)  # [m, V]
    for j, x in enumerate(token_ids):
        rows[j + 1 :, x] = 0.0
    mass = rows.sum(dim=-1, keepdim=True)  # [m, 1]
    if not bool((mass > 0.0).all()):
        left = int((mass > 0.0).sum())
        raise ValueError(f"expected q to allow {len(token_ids)} different tokens, got {left}")
    return rows / mass


def point_masses(token_ids: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    """The distributions of tokens that were picked, not drawn: float [m, V], 1 at x_j in row j.

    Args:
        token_ids: m tokens.
        like: float [V], whose device, dtype and V are taken.
    """
    q = like.new_zeros((len(token_ids), like.shape[-1]))  # [m, V]
    q[range(len(token_ids)), list(token_ids)] = 1.0
    return q


def alpha(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """The probability that a token drawn from q is accepted: α = 1 − TV(p, q) = Σ min(p, q).

    Args:
        p: float [..., V], the target's distribution.
        q: float [..., V], the drafter's; broadcast against ``p``.

    Returns:
        float [...].
    """
    return torch.minimum(p, q).sum(dim=-1)
