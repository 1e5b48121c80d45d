"""Lenient acceptance: more of the draft than the target itself would have written, within a bound."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from suffixspec.draft.tree import DraftTree
from suffixspec.verify.acceptance import Acceptance
from suffixspec.verify.chance import Chance, at_tokens, nothing_to_choose, to_probs
from suffixspec.verify.walk import Finish, ScoresAt, walk


def accept_lenient(
    draft: DraftTree, scores_at: ScoresAt, chance: Chance, lenience: float, finish: Finish | None = None
) -> Acceptance:
    """Accept a drafted token x with min(1, p(x) / β), siblings one after the other, else draw from the rest.

    Invariant: P(y_t = y | context, y_<t) <= p(y) / β for every token y, and = p(y) at β = 1. Proof: let R_j
    be the probability that x_1 … x_{j−1} were all rejected, and p_j = norm(p without them); then
    R_j · p_j(y) <= p(y) for all y, by induction: p_1 = p and R_1 = 1, and where x_j can be rejected,
    a = p_j(x_j) < β <= 1,

        R_{j+1} · p_{j+1}(y) = R_j (1 − a/β) · p_j(y) / (1 − a) <= R_j · p_j(y)    since a/β >= a.

    So x_j comes out with R_j · p_j(x_j) / β <= p(x_j) / β, and what none of them is with
    R_{m+1} · p_{m+1}(y) <= p(y). At β = 1 all of these are equalities.

    The output is not the target's own for β < 1: a token may be up to 1/β times as probable as it should be.

    Args:
        draft: the draft tree; siblings are tried in its order.
        scores_at: processed scores, see ``ScoresAt``.
        chance: random numbers.
        lenience: β in (0, 1].
        finish: says where the generation ends.

    Raises:
        SuffixspecError: no token can be chosen (every score -inf, or NaN or +inf among them).

    Cost: one softmax, at most one draw over V, and a number for each sibling, per emitted token.
    """

    def choose(node: int, emitted: tuple[int, ...], children: Mapping[int, int]) -> int:
        p = to_probs(scores_at(node, emitted))  # [V]
        left = 1.0  # Σ p without the siblings rejected so far
        rejected: list[int] = []
        for x, p_x in zip(children, at_tokens(p, children), strict=True):
            # p_j(x) / β = p(x) / (left · β), written so that nothing is divided by a left of 0.
            if p_x <= 0.0:
                continue
            if p_x >= left * lenience or chance.accepts(p_x / (left * lenience)):
                return x
            rejected.append(x)
            left -= p_x
        rest = p
        if rejected:
            rest = p.clone()  # [V]
            rest[rejected] = 0.0
            if not rest.sum() > 0.0:
                return rejected[-1]  # the last one had all that was left but for rounding
        return chance.draw(rest)

    return walk(draft, choose, finish)


def accept_lenient_greedy(
    draft: DraftTree, scores_at: ScoresAt, lenience: float, finish: Finish | None = None
) -> Acceptance:
    """Accept the most probable drafted token x with p(x) >= β · max p; without one, take the argmax.

    Invariant: every emitted token y has p(y) >= β · max p, p = softmax of the processed scores. At β = 1
    the output is greedy decoding's, but for exact ties, where a drafted token goes first.

    Args:
        draft: the draft tree.
        scores_at: processed scores, see ``ScoresAt``.
        lenience: β in (0, 1].
        finish: says where the generation ends.

    Raises:
        SuffixspecError: no token can be chosen (every score -inf, or NaN).

    Cost: one pass over V scores per emitted token.
    """

    def choose(node: int, emitted: tuple[int, ...], children: Mapping[int, int]) -> int:
        scores = scores_at(node, emitted)  # [V]
        token = int(torch.argmax(scores).item())
        largest = float(scores[token])
        if not largest > -math.inf:  # NaN is not
            raise nothing_to_choose(scores)
        # p(x) >= β max p means s(x) >= max s + log β: no softmax needed. Of equals the first is taken.
        best, best_score = token, largest + math.log(lenience)
        found = False
        for x, score in zip(children, at_tokens(scores, children, -math.inf), strict=True):
            if score > best_score or (score == best_score and not found):
                best, best_score, found = x, score, True
        return best

    return walk(draft, choose, finish)
