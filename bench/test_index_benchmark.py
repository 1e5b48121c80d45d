"""The hot calls under pytest-benchmark: ``pytest bench --benchmark-only``.

On a made-up text with the repeats of agent loops, so that it needs no trace; ``bench.index`` measures on one.
"""

import numpy as np
import pytest

from suffixspec.cost import CostCurve
from suffixspec.draft import IndexDrafter
from suffixspec.index import NgramIndex, SuffixTree
from suffixspec.native.warm_up import warm_up

BLOCK = 256
SEED = 0


@pytest.fixture(scope="module")
def text():
    """int32 [100,000]: stretches of 10 to 300 tokens, half of them copied from before."""
    warm_up()
    rng = np.random.default_rng(SEED)
    pieces = [rng.integers(0, 30_000, 2_000)]
    length = 2_000
    while length < 100_000:
        size = int(rng.integers(10, 300))
        if rng.random() < 0.5:
            piece = np.concatenate(pieces[-40:])
            start = int(rng.integers(0, len(piece)))
            piece = piece[start : start + size]
        else:
            piece = rng.zipf(1.3, size) % 30_000
        pieces.append(piece)
        length += len(piece)
    return np.concatenate(pieces).astype(np.int32)[:100_000]


def test_append_a_block(benchmark, text):
    """256 tokens into a tree that grows over the text."""
    tree, at = SuffixTree(), 0

    def append() -> None:
        nonlocal tree, at
        if at + BLOCK > len(text):
            tree, at = SuffixTree(), 0
        tree.extend(text[at : at + BLOCK])
        at += BLOCK

    benchmark(append)


def test_append_a_token(benchmark, text):
    """One token, validation included."""
    tokens = text.tolist()
    tree, at = SuffixTree(), 0

    def append() -> None:
        nonlocal tree, at
        if at == len(tokens):
            tree, at = SuffixTree(), 0
        tree.append(tokens[at])
        at += 1

    benchmark(append)


def test_append_to_the_ngram_index(benchmark, text):
    """256 tokens into the n-gram index."""
    index, at = NgramIndex(slots=1 << 16), 0

    def append() -> None:
        nonlocal at
        at = (at + BLOCK) % (len(text) - BLOCK)
        index.extend(text[at : at + BLOCK])

    benchmark(append)


@pytest.mark.parametrize("name", ["suffix", "combined"])
def test_draft(benchmark, text, name):
    """Match and draft of 32 nodes from 50,000 tokens of context and a history of as many."""
    drafter = IndexDrafter(name=name, ngram=name == "combined", cost=CostCurve.named("gpu"))
    earlier = drafter.session()
    earlier.sync(text[:50_000])
    earlier.accept(text[50_000:])
    earlier.end_turn()
    earlier.close()
    session = drafter.session()
    session.sync(text[:50_000])
    draft = benchmark(session.draft)
    assert len(draft) <= 32


def test_accept(benchmark, text):
    """Four tokens: learn, append to the tree, advance the cursors."""
    drafter = IndexDrafter(cost=CostCurve.named("gpu"))
    session, at = drafter.session(), 50_000
    session.sync(text[:at])

    def accept() -> None:
        nonlocal session, at
        if at + 4 > len(text):
            session, at = drafter.session(), 50_000
            session.sync(text[:at])
        session.accept(text[at : at + 4])
        at += 4

    benchmark(accept)
