"""Kernels of calibration: what a candidate's evidence says about its chance, and learning from the outcome.

A *candidate* is a token that may follow a row. Its evidence lies in *slots*, one per context it was found in:
slot CONTEXTS * tree + rank for the trees (rank 0 is the longest context of that tree), the last for n-grams.

Two layers, both learned online:

1. Each piece of evidence falls into a *cell* (source, context length, count, share of the context), and a cell
   knows how often such candidates were right. The best cell gives a first probability.
2. A logistic model corrects its logit by learned weights of hashed features: which cells come together, which
   contexts name the candidate and which do not, how long the matches are, how deep and how far back, and
   which tokens are involved. Weights follow the gradient
   of the log loss with AdaGrad steps (Duchi, Hazan and Singer 2011).

Layout::

    cells    float32 [CELLS, 3]        HITS TRIALS RATE, decayed
    weights  float32 [WEIGHTS, 2]      VALUE and accumulated squared gradient; 0 scales the logit, 1 is the bias
    pool     int32   [.., POOL_FIELDS] candidates (and rows): TOKEN PARENT DEPTH SOURCE, slots, features
"""

import numpy as np

from .jit import inlined, kernel

TREES = 4  # the session's, two generations of history, and the prior's
CONTEXTS = 2  # per tree
SLOTS = CONTEXTS * TREES + 1
NGRAM_SLOT = SLOTS - 1
FEATURES = 12

TOKEN, PARENT, ROW_DEPTH, SOURCE, SLOT0 = 0, 1, 2, 3, 4
FEATURE0 = SLOT0 + SLOTS
POOL_FIELDS = FEATURE0 + FEATURES

SESSION, HISTORY, NGRAM, PRIOR = 0, 1, 2, 3
SOURCES = 4
HITS, TRIALS, RATE = 0, 1, 2
LENGTHS = 10
COUNTS = 5
SHARES = 8
CELLS = SOURCES * LENGTHS * COUNTS * SHARES

VALUE, SQUARES = 0, 1
SCALE, BIAS, FIRST_FEATURE = 0, 1, 2
WEIGHT_BITS = 16
WEIGHTS = FIRST_FEATURE + (1 << WEIGHT_BITS)
STEP = 0.15  # of a feature's weight
SLOW_STEP = 0.02  # of the scale's and the bias's, which every candidate shares
_LEAST_RATE, _MOST_RATE = 1e-4, 0.9995

# Bucket borders as tables: a chain of comparisons would mispredict at every candidate.
_LENGTH_BUCKET = np.searchsorted([2, 3, 4, 5, 7, 10, 16, 32, 64], np.arange(65), side="right").astype(
    np.int32
)
_COUNT_BUCKET = np.searchsorted([2, 3, 5, 10], np.arange(11), side="right").astype(np.int32)
_SHARE_BUCKET = np.searchsorted([1, 2, 4, 8, 12, 16, 19], np.arange(21), side="right").astype(np.int32)


@inlined
def cell_of(source, length, count, total):
    """Cell of a piece of evidence: source, context length, the candidate's count, its share of the context."""
    cell = source * LENGTHS + int(_LENGTH_BUCKET[min(length, 64)])
    cell = cell * COUNTS + int(_COUNT_BUCKET[min(count, 10)])
    return cell * SHARES + int(_SHARE_BUCKET[min(20 * count // total, 20)])


@inlined
def length_class(length):
    """1 to LENGTHS for a match of that length, 0 for none."""
    return 0 if length == 0 else 1 + int(_LENGTH_BUCKET[min(length, 64)])


@inlined
def _feature(kind, a, b):
    """Weight of a hashed feature. Collisions cost accuracy and nothing else."""
    h = (kind * 0xC2B2AE3D + a * 0x9E3779B1 + b * 0x85EBCA77) & 0xFFFFFFFF
    h = ((h ^ (h >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    return FIRST_FEATURE + (h >> (32 - WEIGHT_BITS))


@inlined
def _best_rate(pool, k, cells):
    """The largest rate among a candidate's cells, kept away from 0 and 1."""
    best = _LEAST_RATE
    for slot in range(SLOTS):
        held = int(pool[k, SLOT0 + slot])
        if held != 0:
            best = max(best, float(cells[held - 1, RATE]))
    return min(best, _MOST_RATE)


@inlined
def row_features(last, before):
    """The two features that all candidates of a row share: its token, and that after the one before it."""
    return _feature(5, last, 0), _feature(10, before, last)


@inlined
def score(
    pool, k, best, shared, last_feature, pair_feature,
    cells, weights, depth, last, session_class, history_class, age, known,
):  # fmt: skip
    """Set the features of candidate ``k`` and return its probability, given that its parent is accepted.

    Args:
        best: the largest rate of its cells.
        shared: the sum of the weights of what all candidates of the row share: the bias, ``last_feature`` and
            ``pair_feature``.
        depth: of the row that it may follow.
        last: token of that row.
        session_class: ``length_class`` of the row's longest context in the session, of history likewise.
        age: how far back in the session's text that context stands, as a power of two.
        known: the row's contexts, bit CONTEXTS * tree + rank for each.
    """
    named = 0  # which of them name this candidate
    for slot in range(SLOTS):
        named |= int(pool[k, SLOT0 + slot] != 0) << slot
    session_first, session_second = int(pool[k, SLOT0]), int(pool[k, SLOT0 + 1])
    history_first, history_second = int(pool[k, SLOT0 + 2]), int(pool[k, SLOT0 + 3])
    older = int(pool[k, SLOT0 + 4])
    if older != 0 and (history_first == 0 or cells[older - 1, RATE] > cells[history_first - 1, RATE]):
        history_first, history_second = older, int(pool[k, SLOT0 + 5])
    session_share = SHARES if session_first == 0 else (session_first - 1) % SHARES
    history_share = SHARES if history_first == 0 else (history_first - 1) % SHARES
    shares = session_share * 16 + history_share
    token = int(pool[k, TOKEN])
    session_cell = session_first if session_first != 0 else CELLS + session_second
    history_cell = history_first if history_first != 0 else CELLS + history_second
    f = FEATURE0
    pool[k, f] = last_feature
    pool[k, f + 1] = pair_feature
    pool[k, f + 2] = _feature(1, session_first, session_second)
    pool[k, f + 3] = _feature(2, history_first, history_second)
    pool[k, f + 4] = _feature(3, session_class * 16 + history_class, shares)
    pool[k, f + 5] = _feature(4, min(depth, 20), shares)
    pool[k, f + 6] = _feature(6, token, 0)
    pool[k, f + 7] = _feature(7, last, token)
    pool[k, f + 8] = _feature(8, session_cell, history_cell)
    pool[k, f + 9] = _feature(9, age, session_share)
    pool[k, f + 10] = _feature(11, token, shares)
    pool[k, f + 11] = _feature(12, named, known)
    rate = min(max(float(best), _LEAST_RATE), _MOST_RATE)
    z = shared + float(weights[SCALE, VALUE]) * np.log(rate / (1.0 - rate))
    for i in range(2, FEATURES):
        z += float(weights[int(pool[k, f + i]), VALUE])
    return 1.0 / (1.0 + np.exp(-z))


@inlined
def _descend(weights, i, gradient, step):
    """One AdaGrad step of a weight against the gradient of the log loss."""
    weights[i, SQUARES] += gradient * gradient
    weights[i, VALUE] -= step * gradient / np.sqrt(weights[i, SQUARES])


@kernel
def learn(rows, given, grown, emitted, cells, weights, memory):
    """Learn from what the target wrote after a draft; return the number of rows that it confirmed.

    A row is judged when its parent was confirmed: the target's next token is its token, or is not. Rows that
    were grown and not drafted are judged as well, as far as the emitted tokens reach. SOURCE of a confirmed
    row becomes ~source.

    Args:
        rows: int32 [grown + 1, >= POOL_FIELDS], as ``draft`` left them.
        given: float32 [grown + 1], each row's probability given its parent.
        emitted: int32 [accepted + 1], the target's tokens after the context.
        memory: trials at which a cell is halved, so that it follows what changes.

    Cost: O(grown).
    """
    confirmed = 0
    for row in range(1, grown + 1):
        parent = int(rows[row, PARENT])
        depth = int(rows[row, ROW_DEPTH])
        if depth > emitted.shape[0] or (parent > 0 and int(rows[parent, SOURCE]) >= 0):
            continue
        hit = int(rows[row, TOKEN]) == int(emitted[depth - 1])
        rate = _best_rate(rows, row, cells)
        error = float(given[row]) - (1.0 if hit else 0.0)  # d(log loss) / d(logit)
        for i in range(FEATURES):
            _descend(weights, int(rows[row, FEATURE0 + i]), error, STEP)
        _descend(weights, SCALE, error * np.log(rate / (1.0 - rate)), SLOW_STEP)
        _descend(weights, BIAS, error, SLOW_STEP)
        for slot in range(SLOTS):
            cell = int(rows[row, SLOT0 + slot]) - 1
            if cell < 0:
                continue
            if cells[cell, TRIALS] >= memory:
                cells[cell, HITS] *= 0.5
                cells[cell, TRIALS] *= 0.5
            cells[cell, TRIALS] += 1.0
            if hit:
                cells[cell, HITS] += 1.0
            cells[cell, RATE] = cells[cell, HITS] / cells[cell, TRIALS]
        if hit:
            rows[row, SOURCE] = ~int(rows[row, SOURCE])
            confirmed += 1
    return confirmed
