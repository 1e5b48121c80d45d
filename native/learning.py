"""The kernel of learning: what the target wrote after a draft, against what was drafted."""

import numpy as np

from .evidence import (
    BIAS,
    FEATURE0,
    FEATURES,
    HITS,
    LIVE,
    PARENT,
    RATE,
    ROW_DEPTH,
    SCALE,
    SLOT0,
    SLOTS,
    SLOW_STEP,
    SOURCE,
    SQUARES,
    STEP,
    TOKEN,
    TRIALS,
    VALUE,
    best_rate,
)
from .jit import inlined, kernel
from .resume import remember, stray


@inlined
def _descend(weights, i, gradient, step):
    """One AdaGrad step of a weight against the gradient of the log loss."""
    weights[i, SQUARES] += gradient * gradient
    weights[i, VALUE] -= step * gradient / np.sqrt(weights[i, SQUARES])


@kernel
def learn(rows, given, grown, emitted, cells, weights, memory, teach, strayed):
    """Learn from what the target wrote after a draft; return the number of rows that it confirmed.

    A row is judged when its parent was confirmed: the target's next token is its token, or is not. Rows that
    were grown and not drafted are judged as well, as far as the emitted tokens reach. SOURCE of a confirmed
    row becomes ~source.

    Args:
        rows: int32 [grown + 1, >= POOL_FIELDS], as ``draft`` left them.
        given: float32 [grown + 1], each row's probability given its parent.
        emitted: int32 [accepted + 1], the target's tokens after the context.
        memory: trials at which a cell is halved, so that it follows what changes.
        teach: whether cells and weights learn; else rows are only judged.
        strayed: int32 [LIVE, 2], brought up to date; see ``resume``.

    Cost: O(grown).
    """
    confirmed = 0
    for row in range(1, grown + 1):
        parent = int(rows[row, PARENT])
        depth = int(rows[row, ROW_DEPTH])
        if depth > emitted.shape[0] or (parent > 0 and int(rows[parent, SOURCE]) >= 0):
            continue
        hit = int(rows[row, TOKEN]) == int(emitted[depth - 1])
        if hit:
            rows[row, SOURCE] = ~int(rows[row, SOURCE])
            confirmed += 1
            remember(rows, row, strayed)
        if not teach:
            continue
        rate = best_rate(rows, row, cells)
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
    # Where the last token goes on with a match after all, the next draft's row 0 finds it.
    for _ in range(emitted.shape[0] - confirmed):
        for tree in range(LIVE):
            stray(strayed, tree)
    return confirmed
