"""Tiny targets, arbitrary drafts, and ways to know an output's distribution exactly or to test it."""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch

from suffixspec.draft import DraftTree


class ToyTarget:
    """A target whose logits are a fixed random function of the last two tokens."""

    def __init__(
        self, vocab: int, seed: int, spread: float = 1.5, dtype: torch.dtype = torch.float32
    ) -> None:
        self.vocab = vocab
        generator = torch.Generator().manual_seed(seed)
        self.table = spread * torch.randn(vocab, vocab, vocab, generator=generator, dtype=dtype)

    def logits(self, ids: Sequence[int]) -> torch.Tensor:
        """Float [V], the logits of the token after ``ids`` (two tokens at least)."""
        return self.table[ids[-2], ids[-1]]

    def probs(self, ids: Sequence[int]) -> list[float]:
        """The probabilities of the token after ``ids``."""
        return torch.softmax(self.logits(ids).double(), -1).tolist()

    def over(self, draft: DraftTree, context: Sequence[int]) -> torch.Tensor:
        """Float [k + 1, V], the logits after the context and after each node."""
        paths = [[], *([int(draft.token_ids[i]) for i in draft.path(node)] for node in range(len(draft)))]
        return torch.stack([self.logits([*context, *path]) for path in paths])

    def distribution(self, context: Sequence[int], length: int) -> dict[tuple[int, ...], float]:
        """The exact probability of each output of ``length`` tokens."""
        exact = {}
        for output in itertools.product(range(self.vocab), repeat=length):
            p = 1.0
            for t, token in enumerate(output):
                p *= self.probs([*context, *output[:t]])[token]
            exact[output] = p
        return exact


def tree(nodes: Iterable[tuple[int, int]]) -> DraftTree:
    """A draft from (parent, token) pairs."""
    pairs = list(nodes)
    return DraftTree(
        np.array([token for _, token in pairs], np.int32),
        np.array([parent for parent, _ in pairs], np.int32),
        np.ones(len(pairs), np.float32),
    )


def chain(tokens: Iterable[int]) -> DraftTree:
    return tree((i - 1, token) for i, token in enumerate(tokens))


def random_tree(rng: random.Random, nodes: int, vocab: int, likely: Sequence[int] = ()) -> DraftTree:
    """Any tree at all, with a stretch of ``likely`` somewhere below its top."""
    pairs: list[tuple[int, int]] = []
    spine = -1
    wanted = list(likely[: rng.randint(0, len(likely))])
    while len(pairs) < nodes:
        if wanted and rng.random() < 0.6:
            pair, on_spine = (spine, wanted[0]), True
        else:
            pair, on_spine = (rng.randrange(-1, len(pairs)), rng.randrange(vocab)), False
        if pair in pairs:
            if on_spine:
                spine = pairs.index(pair)
                wanted.pop(0)
            elif len(pairs) >= vocab:  # room may be scarce: a smaller tree will do
                break
            continue
        pairs.append(pair)
        if on_spine:
            spine = len(pairs) - 1
            wanted.pop(0)
    return tree(pairs)


class ScriptedChance:
    """Chance that follows a script of decisions, then takes the first possible one; keeps the probability."""

    def __init__(self, script: list[int]) -> None:
        self.script = script
        self.taken: list[tuple[int, int]] = []  # decision, number of alternatives
        self.probability = 1.0

    def draw(self, probs: torch.Tensor) -> int:
        """The possible token that the script names."""
        weights = probs.double()
        weights = weights / weights.sum()
        possible = [x for x in range(len(weights)) if weights[x] > 0.0]
        which = self._decide(len(possible))
        self.probability *= float(weights[possible[which]])
        return possible[which]

    def accepts(self, probability: float) -> bool:
        """The possible answer that the script names."""
        probability = min(1.0, max(0.0, probability))
        possible = [(True, probability), (False, 1.0 - probability)]
        possible = [outcome for outcome in possible if outcome[1] > 0.0]
        which = self._decide(len(possible))
        self.probability *= possible[which][1]
        return possible[which][0]

    def _decide(self, alternatives: int) -> int:
        at = len(self.taken)
        which = self.script[at] if at < len(self.script) else 0
        self.taken.append((which, alternatives))
        return which


def outcomes(run: Callable[[ScriptedChance], object]) -> dict[object, float]:
    """The exact distribution of what ``run`` returns: every course that chance can take, with its probability."""
    found: Counter = Counter()
    script: list[int] | None = []
    while script is not None:
        chance = ScriptedChance(script)
        result = run(chance)
        found[result] += chance.probability
        script = None
        for at in range(len(chance.taken) - 1, -1, -1):
            which, alternatives = chance.taken[at]
            if which + 1 < alternatives:
                script = [decision for decision, _ in chance.taken[:at]] + [which + 1]
                break
    return dict(found)


def p_value(observed: Counter, exact: dict[tuple[int, ...], float]) -> float:
    """The χ² test's p-value of counted outputs against their exact distribution; rare outputs are pooled."""
    n = sum(observed.values())
    assert set(observed) <= {output for output, p in exact.items() if p > 0.0}, "an impossible output"
    cells: list[tuple[float, float]] = []
    pooled_count = pooled_expected = 0.0
    for output, p in exact.items():
        if n * p >= 20.0:
            cells.append((observed[output], n * p))
        else:
            pooled_count += observed[output]
            pooled_expected += n * p
    if pooled_expected >= 20.0:
        cells.append((pooled_count, pooled_expected))
    statistic = sum((count - expected) ** 2 / expected for count, expected in cells)
    freedom = len(cells) - 1
    assert freedom >= 5, "too few cells for a test"
    half = torch.tensor([freedom / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))
