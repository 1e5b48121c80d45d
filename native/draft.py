"""Kernels of drafting: grow a draft tree best first, and learn from what the target made of it.

A draft *row* is one drafted token; row 0 stands for the context that the tree grows from. Layout::

    rows   int32   [nodes + 1, ROW_FIELDS]    TOKEN PARENT DEPTH SOURCE CELLS..., then the row's contexts
    probs  float64 [nodes + 1]                probability that the row is accepted (1 for row 0)
    pool   int32   [POOL, POOL_FIELDS]        candidates: TOKEN PARENT SOURCE CELLS...
    keys   float64 [POOL]                     their path probabilities
    heap   int32   [POOL]                     binary heap of candidates, the most probable at 0
    cells  float32 [CELLS, 2]                 calibration: accepted and tried, decayed

A *context* is a locus (code, length) in one of the trees. Every row has up to CONTEXTS of them per tree, the
longest first; those of a child are the parent's that go on with the child's token.
"""

import numpy as np

from .jit import kernel
from .ngram import FIRST, ORDERS, ROW_FIELDS as NGRAM_FIELDS, TOTAL, find_context
from .tree import (
    C_LENGTH,
    C_N,
    C_NODE,
    C_POS,
    COUNT,
    DEPTH,
    INNERS,
    L_NEXT,
    LEAVES,
    NEXT,
    POS,
    S_BELOW,
    S_N,
    S_NODE,
    S_SUFFIX,
    child,
    descend,
    shorten,
)

TREES = 3  # the session's, and two generations of history
CONTEXTS = 3  # per tree
TOKEN, PARENT, ROW_DEPTH, SOURCE, N_CELLS, CELL0 = 0, 1, 2, 3, 4, 5
MAX_CELLS = 8
CONTEXT0 = CELL0 + MAX_CELLS
ROW_FIELDS = CONTEXT0 + 2 * CONTEXTS * TREES
POOL_FIELDS = CONTEXT0
POOL = 1024
CANDIDATES = 24  # per row
MOST_INNERS = 12  # of a node's children that are looked at; the lists lean towards descending counts
MOST_LEAVES = 4

SESSION, HISTORY, NGRAM = 0, 1, 2
SOURCES = 3
LENGTHS = 10
COUNTS = 5
SHARES = 8
CELLS = SOURCES * LENGTHS * COUNTS * SHARES
JUMP = 16  # below its longest match, a tree is asked for contexts of at most so many tokens
LEAST = 1e-3  # path probability below which a candidate is not worth a place in the pool


@kernel
def _length_bucket(length):
    if length <= 4:
        return length - 1
    if length <= 6:
        return 4
    if length <= 9:
        return 5
    if length <= 15:
        return 6
    if length <= 31:
        return 7
    return 8 if length <= 63 else 9


@kernel
def _count_bucket(count):
    if count <= 2:
        return count - 1
    if count <= 4:
        return 2
    return 3 if count <= 9 else 4


@kernel
def _share_bucket(count, total):
    if count * 20 >= total * 19:
        return 7
    if count * 5 >= total * 4:
        return 6
    if count * 5 >= total * 3:
        return 5
    if count * 5 >= total * 2:
        return 4
    if count * 5 >= total:
        return 3
    if count * 10 >= total:
        return 2
    return 1 if count * 20 >= total else 0


@kernel
def cell_of(source, length, count, total):
    """Calibration cell of a candidate: source, context length, its count, its share of the context."""
    cell = source * LENGTHS + _length_bucket(length)
    cell = cell * COUNTS + _count_bucket(count)
    return cell * SHARES + _share_bucket(count, total)


@kernel
def _root_contexts(tree, n, node, length, pos, rows, column):
    """Contexts of row 0 in one tree: the longest match, then shorter ones that occurred more often.

    A shorter context with the same count has the same occurrences and tells nothing new.
    """
    text, leaf, inner, table = tree
    found = 0
    last = -1
    while length > 0 and found < CONTEXTS:
        node, code = descend(text, leaf, inner, table, node, length, pos)
        count = 1 if code < 0 else int(inner[code, COUNT])
        if count != last:
            rows[0, column + 2 * found] = code
            rows[0, column + 2 * found + 1] = length
            found += 1
            last = count
        if length > JUMP:
            pos += length - JUMP
            length = JUMP
            node = 0
        else:
            node, length, pos = shorten(text, leaf, inner, table, node, length, pos)
    for k in range(found, CONTEXTS):
        rows[0, column + 2 * k] = 0
        rows[0, column + 2 * k + 1] = 0


@kernel
def _child_contexts(tree, n, rows, parent, row, column, token, active_code, active_length):
    """Contexts of a new row in one tree: its parent's, where they go on with the row's token."""
    text, leaf, inner, table = tree
    found = 0
    for k in range(CONTEXTS):
        code = int(rows[parent, column + 2 * k])
        length = int(rows[parent, column + 2 * k + 1])
        if length == 0:
            break
        if code < 0 or length < int(inner[code, DEPTH]):
            pos = ~code if code < 0 else int(inner[code, POS])
            if pos + length >= n or int(text[pos + length]) != token:
                continue
        else:
            code = child(text, leaf, inner, table, code, token)
            if code == 0:
                continue
        length += 1
        if code < 0 and ~code + length >= n:
            # The end of the text: what follows there is what follows its longest repeated suffix.
            code, length = active_code, active_length
            if length == 0:
                continue
        rows[row, column + 2 * found] = code
        rows[row, column + 2 * found + 1] = length
        found += 1
    for k in range(found, CONTEXTS):
        rows[row, column + 2 * k] = 0
        rows[row, column + 2 * k + 1] = 0


@kernel
def _offer(pool, keys, first, last, cells, token, source, cell):
    """Add a candidate of the current row, or one more piece of evidence for it; return the new end."""
    p = float(cells[cell, 0]) / float(cells[cell, 1])
    for k in range(first, last):
        if int(pool[k, TOKEN]) == token:
            had = int(pool[k, N_CELLS])
            if had < MAX_CELLS:
                pool[k, CELL0 + had] = cell
                pool[k, N_CELLS] = had + 1
            if p > keys[k]:
                keys[k] = p
                pool[k, SOURCE] = source
            return last
    if last - first >= CANDIDATES or last >= POOL:
        return last
    pool[last, TOKEN] = token
    pool[last, SOURCE] = source
    pool[last, N_CELLS] = 1
    pool[last, CELL0] = cell
    keys[last] = p
    return last + 1


@kernel
def _offer_context(tree, n, code, length, pool, keys, first, last, cells, source):
    """Offer the successors of one context."""
    text, leaf, inner, table = tree
    pos = ~code if code < 0 else int(inner[code, POS])
    if code < 0 or length < int(inner[code, DEPTH]):
        if pos + length < n:
            token = int(text[pos + length])
            if token >= 0:
                count = 1 if code < 0 else max(1, int(inner[code, COUNT]))
                last = _offer(
                    pool, keys, first, last, cells, token, source, cell_of(source, length, count, count)
                )
        return last
    total = max(1, int(inner[code, COUNT]))
    v = int(inner[code, INNERS])
    seen = 0
    while v >= 0 and seen < MOST_INNERS:
        token = int(text[int(inner[v, POS]) + length])
        if token >= 0:
            count = max(1, int(inner[v, COUNT]))
            last = _offer(pool, keys, first, last, cells, token, source, cell_of(source, length, count, total))
        v = int(inner[v, NEXT])
        seen += 1
    j = int(inner[code, LEAVES])
    seen = 0
    while j >= 0 and seen < MOST_LEAVES:
        token = int(text[j + length])
        if token >= 0:
            last = _offer(pool, keys, first, last, cells, token, source, cell_of(source, length, 1, total))
        j = int(leaf[j, L_NEXT])
        seen += 1
    return last


@kernel
def _offer_ngrams(table, recent, valid, pool, keys, first, last, cells):
    """Offer the successors of the two longest short contexts that the n-gram index holds."""
    found = 0
    for order in range(valid, 0, -1):
        row = find_context(table, recent, ORDERS, order)
        if row < 0:
            continue
        total = max(1, int(table[row, TOTAL]))
        for field in range(FIRST, NGRAM_FIELDS, 2):
            count = int(table[row, field + 1])
            if count > 0:
                cell = cell_of(NGRAM, order, count, total)
                last = _offer(pool, keys, first, last, cells, int(table[row, field]), NGRAM, cell)
        found += 1
        if found == 2:
            break
    return last


@kernel
def _push(heap, size, keys, k):
    """Put candidate ``k`` on the heap; return the new size."""
    i = size
    while i > 0:
        up = (i - 1) >> 1
        if keys[heap[up]] >= keys[k]:
            break
        heap[i] = heap[up]
        i = up
    heap[i] = k
    return size + 1


@kernel
def _pop(heap, size, keys):
    """Take the most probable candidate off the heap; return it. The heap is one smaller."""
    top = heap[0]
    moved = heap[size - 1]
    size -= 1
    i = 0
    while True:
        down = 2 * i + 1
        if down >= size:
            break
        if down + 1 < size and keys[heap[down + 1]] > keys[heap[down]]:
            down += 1
        if keys[moved] >= keys[heap[down]]:
            break
        heap[i] = heap[down]
        i = down
    heap[i] = moved
    return top


@kernel
def draft(trees, state, cursors, ngrams, recent, cells, costs, rows, probs, pool, keys, heap):
    """Grow a draft tree of at most ``rows.shape[0] - 1`` nodes; return (rows grown, rows worth drafting).

    Args:
        trees: three (text, leaf, inner, table): the session's tree, and two generations of history.
        state: the session tree's state; its active point is the match.
        cursors: int64 [2, CURSOR_FIELDS], one per generation of history, up to date with its tree.
        ngrams: table of the n-gram index, no rows where it is not used.
        recent: int32 [ORDERS + 1], the last tokens of the context and how many of them are valid.
        cells: float32 [CELLS, 2], the calibration.
        costs: float32 [at least nodes + 1], t(k + 1) / t(1) for a draft of k nodes.

    Rows come out in descending probability, parents before children, so the first k are the best tree of k
    nodes. Of those, the k that maximises E(k) / t(k + 1) is worth drafting, E(k) = 1 + the sum of the first k
    probabilities, k = 0 included: the forward of k nodes also holds the pending token.

    Cost: O(nodes × contexts × log nodes).
    """
    n = int(state[S_N])
    text, leaf, inner, table = trees[0]
    active_length = n - int(state[S_SUFFIX])
    active_code = int(state[S_NODE])
    if int(state[S_BELOW]) > 0:
        active_code = child(text, leaf, inner, table, active_code, int(text[n - int(state[S_BELOW])]))
    for k in range(TREES):
        column = CONTEXT0 + 2 * CONTEXTS * k
        if k == 0:
            _root_contexts(trees[0], n, int(state[S_NODE]), active_length, int(state[S_SUFFIX]), rows, column)
        else:
            cursor = cursors[k - 1]
            _root_contexts(
                trees[k], cursor[C_N], cursor[C_NODE], cursor[C_LENGTH], cursor[C_POS], rows, column
            )
    rows[0, TOKEN] = -1
    rows[0, PARENT] = -1
    rows[0, ROW_DEPTH] = 0
    probs[0] = 1.0
    window = np.empty(ORDERS, np.int32)
    pooled = 0
    waiting = 0
    row = 0
    most = rows.shape[0] - 1
    best = 1.0 / costs[0]
    chosen = 0
    expected = 1.0
    while True:
        # Expand: gather what may follow this row from all sources, and let it wait on the heap.
        first = pooled
        last = first
        for k in range(TREES):
            column = CONTEXT0 + 2 * CONTEXTS * k
            size = n if k == 0 else cursors[k - 1, C_N]
            for c in range(CONTEXTS):
                length = int(rows[row, column + 2 * c + 1])
                if length == 0:
                    break
                last = _offer_context(
                    trees[k],
                    size,
                    int(rows[row, column + 2 * c]),
                    length,
                    pool,
                    keys,
                    first,
                    last,
                    cells,
                    SESSION if k == 0 else HISTORY,
                )
        if ngrams.shape[0] > 0:
            valid = 0
            up = row
            while up > 0 and valid < ORDERS:
                window[ORDERS - 1 - valid] = rows[up, TOKEN]
                valid += 1
                up = int(rows[up, PARENT])
            k = 0
            while valid < ORDERS and k < recent[ORDERS]:
                window[ORDERS - 1 - valid] = recent[ORDERS - 1 - k]
                valid += 1
                k += 1
            last = _offer_ngrams(ngrams, window, valid, pool, keys, first, last, cells)
        total = 0.0
        for k in range(first, last):
            total += keys[k]
        scale = probs[row] if total <= 1.0 else probs[row] / total
        for k in range(first, last):
            keys[k] *= scale
            if keys[k] >= LEAST:
                # Kept candidates move together: the pool holds no holes.
                if pooled != k:
                    pool[pooled] = pool[k]
                    keys[pooled] = keys[k]
                pool[pooled, PARENT] = row
                waiting = _push(heap, waiting, keys, pooled)
                pooled += 1
        if waiting == 0 or row == most:
            break
        # The most probable candidate becomes the next row.
        k = _pop(heap, waiting, keys)
        waiting -= 1
        row += 1
        parent = int(pool[k, PARENT])
        for field in range(CONTEXT0):
            rows[row, field] = pool[k, field]
        rows[row, ROW_DEPTH] = rows[parent, ROW_DEPTH] + 1
        probs[row] = keys[k]
        expected += keys[k]
        if expected / costs[row] > best:
            best = expected / costs[row]
            chosen = row
        if row < most:
            token = int(rows[row, TOKEN])
            for t in range(TREES):
                column = CONTEXT0 + 2 * CONTEXTS * t
                if t == 0:
                    _child_contexts(
                        trees[0], n, rows, parent, row, column, token, active_code, active_length
                    )
                else:
                    _child_contexts(trees[t], cursors[t - 1, C_N], rows, parent, row, column, token, 0, 0)
        else:
            break
    return row, chosen


@kernel
def learn(rows, grown, emitted, cells, limit):
    """Update the calibration with what the target wrote after a draft; return the number of rows it confirmed.

    A row is judged when its parent was confirmed: the target's next token is its token, or is not. Rows that
    were grown and not drafted are judged as well, as far as the emitted tokens reach.

    Args:
        grown: rows to look at.
        emitted: int32 [accepted + 1], the target's tokens after the context.
        limit: trials at which a cell is halved, so that it follows what changes.
    """
    rows[0, SOURCE] = 1  # SOURCE of a judged row becomes ~source when it is confirmed; row 0 always is
    confirmed = 0
    for row in range(1, grown + 1):
        parent = int(rows[row, PARENT])
        depth = int(rows[row, ROW_DEPTH])
        if depth > emitted.shape[0] or (parent > 0 and int(rows[parent, SOURCE]) >= 0):
            continue
        hit = int(rows[row, TOKEN]) == int(emitted[depth - 1])
        for k in range(int(rows[row, N_CELLS])):
            cell = int(rows[row, CELL0 + k])
            if cells[cell, 1] >= limit:
                cells[cell, 0] *= 0.5
                cells[cell, 1] *= 0.5
            cells[cell, 1] += 1.0
            if hit:
                cells[cell, 0] += 1.0
        if hit:
            rows[row, SOURCE] = ~int(rows[row, SOURCE])
            confirmed += 1
    return confirmed
