"""The walk down a draft tree that every acceptance rule shares; the rules differ in how a token is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from suffixspec.draft.tree import DraftTree
from suffixspec.verify.acceptance import Acceptance, FinishReason

if TYPE_CHECKING:
    import torch

ScoresAt: TypeAlias = Callable[[int, tuple[int, ...]], "torch.Tensor"]
"""``scores_at(node, emitted)``: float [V], the processed scores of the token that follows ``node`` (-1: that
follows the context), where ``emitted`` are the tokens from the context down to ``node``. Called once per
emitted token, in order, and for no other node: so processors with state see what plain decoding shows them."""

Choose: TypeAlias = Callable[[int, tuple[int, ...], Mapping[int, int]], int]
"""``choose(node, emitted, children)``: the token that follows ``node``; ``children`` maps the token of each
child of ``node``, in the draft's order, to its index."""

Finish: TypeAlias = Callable[[int], FinishReason | None]
"""``finish(token)``: told each emitted token in order, whether the generation ends with it."""


def walk(
    draft: DraftTree,
    choose: Choose,
    finish: Finish | None = None,
    child_probs: Mapping[int, float] | None = None,
) -> Acceptance:
    """Emit chosen tokens for as long as the draft has proposed them, and the first that it has not.

    Invariant: every emitted token was chosen by ``choose`` given the context and the tokens emitted before
    it, once, exactly as plain decoding would; the draft only decides how many are chosen in this step. So
    whatever holds of the choice (its distribution, its random draws, the calls it makes) holds of the output.

    Args:
        draft: the draft tree.
        choose: picks a token.
        finish: says where the generation ends; None never ends it. Nothing is chosen after the end.
        child_probs: a mapping that ``choose`` fills, handed on in the result.

    Cost: O(nodes) and one ``choose`` per emitted token.
    """
    children: dict[int, dict[int, int]] = {}
    for node, (parent, token) in enumerate(
        zip(draft.parents.tolist(), draft.token_ids.tolist(), strict=True)
    ):
        children.setdefault(parent, {})[token] = node

    at: int | None = -1
    path: list[int] = []
    emitted: tuple[int, ...] = ()
    reason: FinishReason | None = None
    while at is not None and reason is None:
        below = children.get(at, {})
        token = choose(at, emitted, below)
        emitted += (token,)
        at = below.get(token)
        if at is not None:
            path.append(at)
        if finish is not None:
            reason = finish(token)
    return Acceptance(tuple(path), emitted, reason, {} if child_probs is None else child_probs)
