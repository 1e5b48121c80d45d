"""Compiled and interpreted kernels do the same, down to the node that a match rests at."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np

from suffixspec.index.ngram_index import NgramIndex
from suffixspec.index.suffix_tree import SuffixTree

ROOT = Path(__file__).resolve().parents[2]


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
    code = (
        "import json, sys; sys.path[:0] = sys.argv[1:]\n"
        "import numba\n"
        "from index.test_parity import transcript\n"
        "print(json.dumps([bool(numba.config.DISABLE_JIT), [transcript(seed) for seed in range(4)]]))"
    )
    interpreted = bool(numba.config.DISABLE_JIT)
    done = subprocess.run(
        [sys.executable, "-c", code, str(ROOT), str(ROOT / "tests")],
        env={**os.environ, "NUMBA_DISABLE_JIT": "0" if interpreted else "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    their_mode, theirs = json.loads(done.stdout)
    assert their_mode != interpreted
    for seed in range(4):
        for step, (mine, other) in enumerate(zip(transcript(seed), theirs[seed], strict=True)):
            assert mine == other, f"seed {seed}, entry {step}"
