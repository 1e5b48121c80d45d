"""Sampled acceptance: the target samples at each node, and the nodes that propose the sample are accepted."""

from __future__ import annotations

from collections.abc import Mapping

from suffixspec.draft.tree import DraftTree
from suffixspec.verify.acceptance import Acceptance
from suffixspec.verify.chance import Chance, at_tokens, to_probs
from suffixspec.verify.walk import Finish, ScoresAt, walk


def accept_sampled(
    draft: DraftTree, scores_at: ScoresAt, chance: Chance, finish: Finish | None = None
) -> Acceptance:
    """Draw one token from the target at each node and follow the child that equals it, if any.

    Invariant: y_t ~ p(· | context, y_<t) for every emitted token, p = softmax of the processed scores, with
    one draw each. Proof: the token after a node is drawn before the draft is looked at. The draft decides
    only whether the next draw happens in this step or in the next one, and that depends on y_<=t alone; so
    P(y_1 … y_m) = Π p(y_t | y_<t), for any draft tree. For the same reason the t-th token takes the t-th
    draw of ``chance``, and the same seed gives the same tokens as plain decoding.

    A drafted token has no distribution of its own here: it is a point mass. For drafts that were themselves
    sampled see ``accept_rejection``, of which this rule is the special case (in distribution).

    Args:
        draft: the draft tree.
        scores_at: processed scores, see ``ScoresAt``.
        chance: random numbers.
        finish: says where the generation ends.

    Raises:
        SuffixspecError: no token can be drawn (every score -inf, or NaN or +inf among them).

    Cost: one softmax and one draw over V per emitted token.
    """
    child_probs: dict[int, float] = {}

    def choose(node: int, emitted: tuple[int, ...], children: Mapping[int, int]) -> int:
        p = to_probs(scores_at(node, emitted))  # [V]
        token = chance.draw(p)
        if children:
            child_probs.update(zip(children.values(), at_tokens(p, children), strict=True))
        return token

    return walk(draft, choose, finish, child_probs)
