"""Compiled and interpreted kernels do the same, down to the node that a match rests at."""

import numpy as np

from suffixspec.index.ngram_index import NgramIndex
from suffixspec.index.suffix_tree import SuffixTree

from .other_mode import assert_other_mode_agrees


def transcript(seed: int) -> list:
    """What a tree, a cursor and an n-gram index answer on a seeded run, as plain values."""
    rng = np.random.default_rng(seed)
    ids = np.array([0, 2**31 - 1, *rng.integers(1, 2**31 - 1, 5)])[: 2 + seed]
    tree, ngrams, out = SuffixTree(capacity=1), NgramIndex(slots=64), []
    cursor = tree.cursor()
    for step in range(120):
        block = ids[rng.integers(0, len(ids), rng.integers(0, 9))]
        tree.extend(block, counted=bool(rng.random() < 0.8))
        ngrams.extend(block)
        if rng.random() < 0.2:
            tree.end_sequence()
            ngrams.end_sequence()
        fed = ids[rng.integers(0, len(ids), 5)]
        cursor.extend(fed)
        for match in (tree.longest_suffix(), cursor.match(), tree.find(block)):
            tokens, counts = tree.successors(match)
            out.append([repr(match), tree.count(match), tokens.tolist(), counts.tolist()])
        tokens, counts = ngrams.successors(fed, 1 + step % 4)
        out.append([tokens.tolist(), counts.tolist(), tree.nbytes, tree.live_nbytes])
    return out


def test_compiled_and_interpreted_runs_agree():
    """The other mode, in a process of its own, gives the same matches, counts and sizes for the same seeds."""
    assert_other_mode_agrees(transcript, "test_parity", 4)
