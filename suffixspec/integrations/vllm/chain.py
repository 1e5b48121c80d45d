"""The path of a draft tree that is worth most to a target that checks chains."""

from __future__ import annotations

from collections.abc import Sequence

from suffixspec.draft.tree import DraftTree


def best_chain(
    tree: DraftTree, times: Sequence[float], *, sequences: int = 1
) -> tuple[list[int], list[float]]:
    """Tokens of the best path and the probability that each is accepted, given the context.

    With E(i) = the sum of the probabilities from the root down to node i, a chain that ends there makes a forward
    yield ``sequences`` + E(i) tokens in expectation, and costs t(depth). The node where their ratio is largest
    decides; so does the path to it. What hangs on it is offered too, the more probable child each time: it does
    not pay alone, but may in a batch, where the load gate decides (and cuts it again for one sequence).

    Args:
        tree: k nodes, parents before children and, among siblings, the most probable first.
        times: float [limit + 1], t of a forward with 0 … limit tokens more; deeper nodes are not offered.
        sequences: tokens that the forward yields anyway.

    Returns:
        At most ``limit`` tokens, with falling probabilities. Cost: O(k).
    """
    limit = len(times) - 1
    parents, probs = tree.parents.tolist(), tree.probs.tolist()
    depths: list[int] = []
    yields: list[float] = []
    best, best_gain = -1, 0.0
    for i, (parent, prob) in enumerate(zip(parents, probs, strict=True)):
        if parent < 0:
            depth, gain = 1, sequences + prob
        else:
            depth, gain = depths[parent] + 1, yields[parent] + prob
        depths.append(depth)
        yields.append(gain)
        if depth <= limit:
            gain /= times[depth]
            if gain > best_gain:
                best, best_gain = i, gain
    if best < 0:
        return [], []
    path = [best]
    while (parent := parents[path[-1]]) >= 0:
        path.append(parent)
    path.reverse()
    room, at = limit - len(path), best
    for i in range(best + 1, len(parents)):
        if room and parents[i] == at:
            path.append(i)
            room, at = room - 1, i
    tokens = tree.token_ids.tolist()
    return [tokens[i] for i in path], [probs[i] for i in path]
