"""The peers' rules, written in the most obvious way; the sessions of token ids that they are tried on."""

import random
from collections.abc import Sequence

from replay.scripted import session

from suffixspec.replay.simulate import RenderedSession


def occurrences(text: Sequence[int], piece: Sequence[int]) -> list[int]:
    """Where ``piece`` ends in ``text``, the end of the text left out."""
    n = len(piece)
    return [end for end in range(n, len(text)) if list(text[end - n : end]) == list(piece)]


def ngram_draft(context: Sequence[int], *, longest: int, shortest: int, tokens: int) -> list[int]:
    """What followed the first occurrence of the longest n-gram at the end that occurred before."""
    for n in range(longest, shortest - 1, -1):
        if n < len(context) and (ends := occurrences(context, context[-n:])):
            return list(context[ends[0] : ends[0] + tokens])
    return []


def longest_match(context: Sequence[int], text: Sequence[int]) -> tuple[int, list[int]]:
    """Length and ends in ``text`` of the longest suffix of the context that occurs there."""
    for n in range(min(len(context), len(text)), 0, -1):
        if ends := occurrences(text, context[len(context) - n :]):
            return n, ends
    return 0, []


def automaton_draft(
    context: Sequence[int], outputs: Sequence[Sequence[int]], *, occurrence: str, shortest: int, tokens: int
) -> tuple[list[int], int]:
    """What followed the longest match in the context or, if longer, in the outputs; and 0 or 1 for which."""
    history: list[int] = []
    for number, output in enumerate(outputs):
        history += [*output, -1 - number]
    (own, own_ends), (other, other_ends) = longest_match(context, context), longest_match(context, history)
    text, length, ends = (history, other, other_ends) if other > own else (list(context), own, own_ends)
    if length < shortest:
        return [], int(other > own)
    start = ends[0] if occurrence == "first" else ends[-1]
    copied = []
    for token in text[start : start + tokens]:
        if token < 0:
            break
        copied.append(token)
    return copied, int(other > own)


def text(rng: random.Random, length: int, alphabet: int = 4) -> list[int]:
    """Random tokens, some of them copied from before, and runs of one token."""
    made: list[int] = []
    while len(made) < length:
        kind = rng.random()
        if kind < 0.4 and made:
            start = rng.randrange(len(made))
            made += made[start : start + rng.randint(1, 12)]
        elif kind < 0.5:
            made += [rng.randrange(alphabet)] * rng.randint(2, 6)
        else:
            made.append(rng.randrange(alphabet))
    return made[:length]


def loop(rng: random.Random, name: str, turns: int = 4, *, rewrite: bool = False) -> RenderedSession:
    """A session whose prompts continue what was said, but for one where ``rewrite`` changes an earlier part."""
    context, pairs = text(rng, 20), []
    for number in range(turns):
        output = text(rng, rng.randint(1, 25))
        pairs.append((list(context), output))
        context = context + output + text(rng, rng.randint(0, 15))
        if rewrite and number == 1:
            at = rng.randrange(len(context))
            context = context[:at] + text(rng, 5) + context[at + 3 :]
    return session(*pairs, name=name, task=name)
