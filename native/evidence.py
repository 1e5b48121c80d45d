"""Kernels of calibration: what a candidate's evidence says about its chance, and learning from the outcome.

A *candidate* is a token that may follow a row. Its evidence lies in *slots*, one per context it was found in:
slot CONTEXTS * text + rank for the contexts (rank 0 is the longest one in that text), then one for n-grams, then
one per suffix tree for the place where the context may go on after it strayed.

Two layers, both learned online:

1. Each piece of evidence falls into a *cell* (source, context length, count, share of the context), and a cell
   knows how often such candidates were right. The best cell gives a first probability.
2. A logistic model corrects its logit by learned weights of hashed features: which cells come together, which
   contexts name the candidate and which do not, how long the matches are, how far back it stood last, and which
   tokens and which classes of tokens (see ``text.token_class``) are involved. Weights follow the gradient of the
   log loss with AdaGrad steps (Duchi, Hazan and Singer 2011).

What names a token means something for one vocabulary only and is learned anew; the other weights hold anywhere and
start from what they were on other text. So each kind has a half of the weights to itself.

Layout::

    cells    float32 [CELLS, 3]        HITS TRIALS RATE, decayed
    weights  float32 [WEIGHTS, 2]      VALUE and accumulated squared gradient; 0 scales the logit, 1 is the bias;
                                       from FIRST_FEATURE on features, from FIRST_TOKEN_FEATURE on those of tokens
    classes  uint8   [vocabulary]      class of each token, 0 for one that is not in it
    pool     int32   [.., POOL_FIELDS] candidates (and rows): TOKEN PARENT ROW_DEPTH SOURCE STOOD, slots, features
"""

import numpy as np

from .jit import inlined

LIVE = 3  # texts that grow, in suffix trees: the session's, and two generations of history
TEXTS = LIVE + 2  # and sealed ones: history's, and the prior
CONTEXTS = 2  # per text
NAMED = CONTEXTS * TEXTS
NGRAM_SLOT = NAMED
RESUMED_SLOT = NGRAM_SLOT + 1
SLOTS = RESUMED_SLOT + LIVE
FEATURES = 12

TOKEN, PARENT, ROW_DEPTH, SOURCE = 0, 1, 2, 3
STOOD = 4  # where a candidate followed last in the session's text; 0 where it never did
SLOT0 = 5
FEATURE0 = SLOT0 + SLOTS
POOL_FIELDS = FEATURE0 + FEATURES

SESSION, HISTORY, NGRAM, PRIOR, RESUMED, RESUMED_HISTORY = 0, 1, 2, 3, 4, 5
SOURCES = 6
HITS, TRIALS, RATE = 0, 1, 2
LENGTHS = 10
COUNTS = 5
SHARES = 8
CELLS = SOURCES * LENGTHS * COUNTS * SHARES

CLASSES = 16  # of tokens

VALUE, SQUARES = 0, 1
SCALE, BIAS, FIRST_FEATURE = 0, 1, 2
HALF_BITS = 15
FIRST_TOKEN_FEATURE = FIRST_FEATURE + (1 << HALF_BITS)
WEIGHTS = FIRST_TOKEN_FEATURE + (1 << HALF_BITS)
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
def class_of(classes, token):
    """Class of a token; 0 where it is not in the table."""
    return int(classes[token]) if 0 <= token < classes.shape[0] else 0


@inlined
def _feature(kind, a, b):
    """Weight of a hashed feature. Collisions cost accuracy and nothing else."""
    h = (kind * 0xC2B2AE3D + a * 0x9E3779B1 + b * 0x85EBCA77) & 0xFFFFFFFF
    h = ((h ^ (h >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    return FIRST_FEATURE + (h >> (32 - HALF_BITS))


@inlined
def _token_feature(kind, a, b):
    """As ``_feature``, for one that names a token."""
    return _feature(kind, a, b) + (FIRST_TOKEN_FEATURE - FIRST_FEATURE)


@inlined
def best_rate(pool, k, cells):
    """The largest rate among a candidate's cells, kept away from 0 and 1."""
    best = _LEAST_RATE
    for slot in range(SLOTS):
        held = int(pool[k, SLOT0 + slot])
        if held != 0:
            best = max(best, float(cells[held - 1, RATE]))
    return min(best, _MOST_RATE)


@inlined
def score(
    pool, k, best, cells, weights, classes, last, before, session_class, history_class, age, newest, known
):
    """Set the features of candidate ``k`` and return its probability, given that its parent is accepted.

    Args:
        best: the largest rate of its cells.
        classes: of the tokens.
        last: token of the row that it may follow.
        before: classes of that token and of the one before it, CLASSES * the latter's + the former's.
        session_class: ``length_class`` of the row's longest context in the session, of history likewise.
        age: how far back in the session it followed last, as a power of two; 0 where it never did.
        newest: whether no candidate of the row followed later than that.
        known: the row's contexts, bit CONTEXTS * text + rank for each.
    """
    named = 0  # which of them name this candidate
    for slot in range(NAMED):
        named |= int(pool[k, SLOT0 + slot] != 0) << slot
    session_first, session_second = int(pool[k, SLOT0]), int(pool[k, SLOT0 + 1])
    history_first, history_second = int(pool[k, SLOT0 + CONTEXTS]), int(pool[k, SLOT0 + CONTEXTS + 1])
    for text in range(2, LIVE + 1):  # of history's texts, the one that promises most
        other = int(pool[k, SLOT0 + CONTEXTS * text])
        if other != 0 and (history_first == 0 or cells[other - 1, RATE] > cells[history_first - 1, RATE]):
            history_first, history_second = other, int(pool[k, SLOT0 + CONTEXTS * text + 1])
    session_share = SHARES if session_first == 0 else (session_first - 1) % SHARES
    history_share = SHARES if history_first == 0 else (history_first - 1) % SHARES
    shares = session_share * 16 + history_share
    lengths = session_class * 16 + history_class
    token = int(pool[k, TOKEN])
    token_class = class_of(classes, token)
    pair = before % CLASSES * CLASSES + token_class
    session_cell = session_first if session_first != 0 else CELLS + session_second
    history_cell = history_first if history_first != 0 else CELLS + history_second
    f = FEATURE0
    pool[k, f] = _feature(1, history_first, history_second)
    pool[k, f + 1] = _feature(2, lengths, shares)
    pool[k, f + 2] = _token_feature(3, token, 0)
    pool[k, f + 3] = _token_feature(4, last, token)
    pool[k, f + 4] = _feature(5, session_cell, history_cell)
    pool[k, f + 5] = _token_feature(6, token, shares)
    pool[k, f + 6] = _feature(7, named, known)
    pool[k, f + 7] = _feature(8, age * 2 + newest, session_share)
    pool[k, f + 8] = _feature(9, int(pool[k, SLOT0 + RESUMED_SLOT]), session_class * 16 + session_share)
    pool[k, f + 9] = _feature(10, pair, lengths)
    pool[k, f + 10] = _feature(11, before * CLASSES + token_class, session_share)
    pool[k, f + 11] = _feature(12, pair, age * 2 + newest)
    rate = min(max(float(best), _LEAST_RATE), _MOST_RATE)
    z = float(weights[BIAS, VALUE]) + float(weights[SCALE, VALUE]) * np.log(rate / (1.0 - rate))
    for i in range(FEATURES):
        z += float(weights[int(pool[k, f + i]), VALUE])
    return 1.0 / (1.0 + np.exp(-z))
