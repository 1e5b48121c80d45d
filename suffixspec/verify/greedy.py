"""Greedy acceptance: the target's most probable token at each node, and the nodes that propose it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from suffixspec.draft.tree import DraftTree
from suffixspec.errors import SuffixspecError
from suffixspec.verify.acceptance import Acceptance
from suffixspec.verify.chance import nothing_to_choose
from suffixspec.verify.walk import Finish, ScoresAt, walk


def accept_greedy(draft: DraftTree, scores_at: ScoresAt, finish: Finish | None = None) -> Acceptance:
    """Follow the child that equals the argmax.

    Invariant: y_t = argmax_y s(y | context, y_<t) for every emitted token, s being the processed scores:
    the recurrence that defines greedy decoding, whatever the draft. Of equal maxima the smallest id is
    taken, as ``torch.argmax`` does.

    Args:
        draft: the draft tree.
        scores_at: processed scores, see ``ScoresAt``.
        finish: says where the generation ends.

    Raises:
        SuffixspecError: no token can be chosen (every score -inf, or NaN).

    Cost: one pass over V scores per emitted token.
    """
    child_probs: dict[int, float] = {}

    def choose(node: int, emitted: tuple[int, ...], children: Mapping[int, int]) -> int:
        scores = scores_at(node, emitted)  # [V]
        token = int(torch.argmax(scores).item())
        if not scores[token] > -torch.inf:  # NaN is not
            raise nothing_to_choose(scores)
        child_probs.update({child: float(x == token) for x, child in children.items()})
        return token

    return walk(draft, choose, finish, child_probs)


def accept_choices(draft: DraftTree, choices: Sequence[int], finish: Finish | None = None) -> Acceptance:
    """Greedy acceptance where the argmax after every node was taken beforehand, see ``greedy_choices``.

    For scores that no path changes (no penalties, no processors), on devices where one pass over all nodes
    is cheaper than a round trip for each emitted token.

    Args:
        draft: the draft tree.
        choices: k + 1 tokens: what follows the context, then what follows node 0, 1, ….
        finish: says where the generation ends.

    Raises:
        SuffixspecError: no token can be chosen after a visited node (its choice is -1).
        ValueError: the number of choices does not fit the draft.
    """
    if len(choices) != len(draft) + 1:
        raise ValueError(f"expected {len(draft) + 1} choices (nodes + 1), got {len(choices)}")
    child_probs: dict[int, float] = {}

    def choose(node: int, _emitted: tuple[int, ...], children: Mapping[int, int]) -> int:
        token = choices[node + 1]
        if token < 0:
            raise SuffixspecError(f"expected a largest logit after node {node}, got NaN or -inf only")
        child_probs.update({child: float(x == token) for x, child in children.items()})
        return token

    return walk(draft, choose, finish, child_probs)


def greedy_choices(logits: torch.Tensor) -> list[int]:
    """The argmax of every row, in one pass and one transfer; -1 where no entry is above -inf, or one is NaN.

    Args:
        logits: float [m, V].
    """
    choices = torch.argmax(logits, dim=-1)  # [m]
    largest = logits.gather(-1, choices[:, None])[:, 0]  # [m]; NaN counts as the largest
    found: list[int] = torch.where(largest > -torch.inf, choices, -1).tolist()
    return found


def top_gap(scores: torch.Tensor) -> float:
    """How far the largest of ``scores`` (float [V], V >= 2) lies above the second: small for a near-tie.

    Where the same logits come out of forwards of different shape, a choice may flip whose gap is of the
    order of their rounding errors; this is the number to print beside such a difference.
    """
    first, second = torch.topk(scores.float(), 2).values.tolist()
    return float(first - second)
