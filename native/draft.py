"""Kernels of drafting: grow a draft tree best first, and learn from what the target made of it.

A draft *row* is one drafted token; row 0 stands for the context that the tree grows from. Layout::

    rows   int32   [nodes + 1, ROW_FIELDS]    TOKEN PARENT DEPTH SOURCE CELLS... CONTEXTS...
    probs  float32 [nodes + 1]                probability that the row is accepted (1 for row 0)
    nodes  int32   [2, nodes]                 tokens and parents of the draft's nodes: row r is node r - 1
    pool   int32   [POOL, POOL_FIELDS]        candidates: TOKEN PARENT - SOURCE N_CELLS CELLS...
    keys   float32 [POOL]                     their path probabilities; ``bits`` is the same memory as int32
    heap   int32   [POOL]                     binary heap of candidates, the most probable at 0
    waits  int32   [BUCKETS]                  how many candidates wait on the heap, by the size of their key
    window int32   [ORDERS]                   scratch: the last tokens before a row
    cells  float32 [CELLS, 3]                 calibration: HITS TRIALS RATE, decayed

A *context* is a locus (code, length) in one of the trees. Every row has up to CONTEXTS of them per tree, the
longest first; those of a child are the parent's that go on with the child's token.
"""

import numpy as np

from .jit import inlined, kernel
from .ngram import FIRST, ORDERS, TOTAL, find_context
from .ngram import ROW_FIELDS as NGRAM_FIELDS
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
CONTEXTS = 2  # per tree
TOKEN, PARENT, ROW_DEPTH, SOURCE, N_CELLS, CELL0 = 0, 1, 2, 3, 4, 5
MAX_CELLS = 8
POOL_FIELDS = CELL0 + MAX_CELLS
N_CONTEXTS = POOL_FIELDS
CONTEXT0 = N_CONTEXTS + 1
# Fields of a context: which tree, code, length, the text position of the next token, the one where the edge
# ends, and the count. Inside an edge, going on takes a look at the text and nothing else.
TREE, CODE, LENGTH, AT, END, SEEN = 0, 1, 2, 3, 4, 5
CONTEXT_FIELDS = 6
ROW_FIELDS = CONTEXT0 + CONTEXT_FIELDS * CONTEXTS * TREES
POOL = 1024
CANDIDATES = 24  # per row
MOST_INNERS = 12  # of a node's children that are looked at; the lists lean towards descending counts
MOST_LEAVES = 4

SESSION, HISTORY, NGRAM = 0, 1, 2
SOURCES = 3
HITS, TRIALS, RATE = 0, 1, 2
LENGTHS = 10
COUNTS = 5
SHARES = 8
CELLS = SOURCES * LENGTHS * COUNTS * SHARES
JUMP = 16  # below its longest match, a tree is asked for contexts of at most so many tokens
BUCKETS = 82  # of path probabilities from 2**-10 to 1, eight per octave; what is below is not worth a place
_BITS_SHIFT = 20  # keeps a float32's exponent and the first three bits of its fraction
_BITS_LEAST = (127 - 10) << 3  # bucket 0 starts at 2**-10
_BUCKET_START = ((np.arange(BUCKETS, dtype=np.int32) + _BITS_LEAST) << _BITS_SHIFT).view(np.float32)


# Bucket borders as tables: a chain of comparisons would mispredict at every candidate.
_LENGTH_BUCKET = np.searchsorted([2, 3, 4, 5, 7, 10, 16, 32, 64], np.arange(65), side="right").astype(
    np.int32
)
_COUNT_BUCKET = np.searchsorted([2, 3, 5, 10], np.arange(11), side="right").astype(np.int32)
_SHARE_BUCKET = np.searchsorted([1, 2, 4, 8, 12, 16, 19], np.arange(21), side="right").astype(np.int32)


@inlined
def cell_of(source, length, count, total):
    """Calibration cell of a candidate: source, context length, its count, its share of the context."""
    cell = source * LENGTHS + int(_LENGTH_BUCKET[min(length, 64)])
    cell = cell * COUNTS + int(_COUNT_BUCKET[min(count, 10)])
    return cell * SHARES + int(_SHARE_BUCKET[min(20 * count // total, 20)])


@inlined
def _put_context(inner, n, tree, code, length, rows, row, column):
    """Write a context of a row."""
    if code < 0:
        at, end, count = ~code + length, n, 1
    else:
        pos = int(inner[code, POS])
        at, end, count = pos + length, pos + int(inner[code, DEPTH]), max(1, int(inner[code, COUNT]))
    rows[row, column + TREE] = tree
    rows[row, column + CODE] = code
    rows[row, column + LENGTH] = length
    rows[row, column + AT] = at
    rows[row, column + END] = end
    rows[row, column + SEEN] = count


@kernel
def _root_contexts(text, leaf, inner, table, n, node, length, pos, tree, rows):
    """Append the contexts of row 0 in one tree: its longest match, then shorter ones seen more often.

    A shorter context with the same count has the same occurrences and tells nothing new.
    """
    found = 0
    last = -1
    at = int(rows[0, N_CONTEXTS])
    while length > 0 and found < CONTEXTS:
        node, code = descend(text, leaf, inner, table, node, length, pos)
        count = 1 if code < 0 else int(inner[code, COUNT])
        if count != last:
            _put_context(inner, n, tree, code, length, rows, 0, CONTEXT0 + CONTEXT_FIELDS * (at + found))
            found += 1
            last = count
        if length > JUMP:
            pos += length - JUMP
            length = JUMP
            node = 0
        else:
            node, length, pos = shorten(text, leaf, inner, table, node, length, pos)
    rows[0, N_CONTEXTS] = at + found


@inlined
def _follow(text, leaf, inner, table, n, rows, parent, had, row, have, token):
    """Write the parent's context at column ``had``, one token on, to the row's column ``have``; whether it goes on."""
    at = int(rows[parent, had + AT])
    if at < int(rows[parent, had + END]):
        if int(text[at]) != token:
            return False
        for field in range(CONTEXT_FIELDS):
            rows[row, have + field] = rows[parent, had + field]
        rows[row, have + LENGTH] += 1
        rows[row, have + AT] += 1
        return True
    if int(rows[parent, had + CODE]) < 0:
        return False  # the end of the text
    code = child(text, leaf, inner, table, int(rows[parent, had + CODE]), token)
    if code == 0:
        return False
    _put_context(
        inner, n, int(rows[parent, had + TREE]), code, int(rows[parent, had + LENGTH]) + 1, rows, row, have
    )
    return True


@inlined
def _offer(pool, keys, first, last, cells, token, source, cell, least):
    """Add a candidate of the current row, or one more piece of evidence for it; return the new end."""
    rate = cells[cell, RATE]
    for k in range(first, last):
        if int(pool[k, TOKEN]) == token:
            had = int(pool[k, N_CELLS])
            if had < MAX_CELLS:
                pool[k, CELL0 + had] = cell
                pool[k, N_CELLS] = had + 1
            if rate > keys[k]:
                keys[k] = rate
                pool[k, SOURCE] = source
            return last
    if rate < least or last - first >= CANDIDATES or last >= POOL:
        return last
    pool[last, TOKEN] = token
    pool[last, SOURCE] = source
    pool[last, N_CELLS] = 1
    pool[last, CELL0] = cell
    keys[last] = rate
    return last + 1


@inlined
def _offer_context(text, leaf, inner, rows, row, column, pool, keys, first, last, cells, source, least):
    """Offer the successors of one context of a row."""
    at = int(rows[row, column + AT])
    length = int(rows[row, column + LENGTH])
    total = int(rows[row, column + SEEN])
    if at < int(rows[row, column + END]):
        token = int(text[at])
        if token >= 0:
            cell = cell_of(source, length, total, total)
            last = _offer(pool, keys, first, last, cells, token, source, cell, least)
        return last
    code = int(rows[row, column + CODE])
    if code < 0:
        return last
    v = int(inner[code, INNERS])
    looked = 0
    while v >= 0 and looked < MOST_INNERS:
        token = int(text[int(inner[v, POS]) + length])
        if token >= 0:
            cell = cell_of(source, length, max(1, int(inner[v, COUNT])), total)
            last = _offer(pool, keys, first, last, cells, token, source, cell, least)
        v = int(inner[v, NEXT])
        looked += 1
    j = int(inner[code, LEAVES])
    looked = 0
    while j >= 0 and looked < MOST_LEAVES:
        token = int(text[j + length])
        if token >= 0:
            cell = cell_of(source, length, 1, total)
            last = _offer(pool, keys, first, last, cells, token, source, cell, least)
        j = int(leaf[j, L_NEXT])
        looked += 1
    return last


@inlined
def _offer_ngrams(table, recent, window, rows, row, pool, keys, first, last, cells, least):
    """Offer the successors of the two longest short contexts that the n-gram index holds."""
    valid = 0
    up = row
    while up > 0 and valid < ORDERS:
        window[ORDERS - 1 - valid] = rows[up, TOKEN]
        valid += 1
        up = int(rows[up, PARENT])
    k = 0
    while valid < ORDERS and k < int(recent[ORDERS]):
        window[ORDERS - 1 - valid] = recent[ORDERS - 1 - k]
        valid += 1
        k += 1
    found = 0
    for order in range(valid, 0, -1):
        at = find_context(table, window, ORDERS, order)
        if at < 0:
            continue
        total = max(1, int(table[at, TOTAL]))
        for field in range(FIRST, NGRAM_FIELDS, 2):
            count = int(table[at, field + 1])
            if count > 0:
                cell = cell_of(NGRAM, order, count, total)
                last = _offer(pool, keys, first, last, cells, int(table[at, field]), NGRAM, cell, least)
        found += 1
        if found == 2:
            break
    return last


@inlined
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


@inlined
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
def draft(
    text0, leaf0, inner0, table0, state,
    text1, leaf1, inner1, table1, cursor1,
    text2, leaf2, inner2, table2, cursor2,
    ngrams, recent, window, cells, costs, rows, probs, nodes, pool, keys, bits, heap, waits,
):  # fmt: skip
    """Grow a draft tree of at most ``rows.shape[0] - 1`` nodes; return (rows grown, rows worth drafting).

    Args:
        text0: and leaf0, inner0, table0, state: the session's tree; its active point is the match.
        text1: and leaf1, inner1, table1, cursor1: the newer generation of history, with a cursor (int64
            [CURSOR_FIELDS]) that is up to date with it.
        text2: and leaf2, inner2, table2, cursor2: likewise the older generation.
        ngrams: table of the n-gram index; no rows where it is not used.
        recent: int32 [ORDERS + 1], the last tokens of the context, newest last, and how many are valid.
        cells: float32 [CELLS, 2], the calibration.
        costs: float32 [at least nodes + 1], t(k + 1) / t(1) for a draft of k nodes.

    Rows come out in descending probability, parents before children, so the first k are the best tree of k
    nodes. Of those, the k that maximises E(k) / t(k + 1) is worth drafting, E(k) = 1 + the sum of the first k
    probabilities, k = 0 included: the forward of k nodes also holds the pending token.

    Cost: O(nodes × contexts × log nodes).
    """
    n0, n1, n2 = int(state[S_N]), int(cursor1[C_N]), int(cursor2[C_N])
    active_length = n0 - int(state[S_SUFFIX])
    active_code = int(state[S_NODE])
    if int(state[S_BELOW]) > 0:
        active_code = child(text0, leaf0, inner0, table0, active_code, int(text0[n0 - int(state[S_BELOW])]))
    rows[0, TOKEN] = -1
    rows[0, PARENT] = -1
    rows[0, ROW_DEPTH] = 0
    rows[0, N_CONTEXTS] = 0
    probs[0] = 1.0
    _root_contexts(
        text0, leaf0, inner0, table0, n0,
        int(state[S_NODE]), active_length, int(state[S_SUFFIX]), 0, rows,
    )  # fmt: skip
    _root_contexts(
        text1, leaf1, inner1, table1, n1,
        int(cursor1[C_NODE]), int(cursor1[C_LENGTH]), int(cursor1[C_POS]), 1, rows,
    )  # fmt: skip
    _root_contexts(
        text2, leaf2, inner2, table2, n2,
        int(cursor2[C_NODE]), int(cursor2[C_LENGTH]), int(cursor2[C_POS]), 2, rows,
    )  # fmt: skip
    pooled = 0  # candidates in the pool
    waiting = 0  # candidates on the heap
    row = 0
    most = rows.shape[0] - 1
    # Only the most - row largest keys will ever leave the heap. Candidates are counted by bucket of their key;
    # `floor` is the lowest bucket that can still matter, `above` how many wait in it or higher.
    for bucket in range(BUCKETS):
        waits[bucket] = 0
    floor = 0
    above = 0
    best = 1.0 / costs[0]
    chosen = 0
    expected = 1.0
    while True:
        # Expand: move the parent's contexts one token on, and gather what followed them.
        first = pooled
        last = first
        parent = int(rows[row, PARENT])
        token = int(rows[row, TOKEN])
        had = int(rows[max(parent, 0), N_CONTEXTS])
        have = 0
        least = _BUCKET_START[floor] / probs[row]
        for c in range(had):
            old = CONTEXT0 + CONTEXT_FIELDS * c
            new = CONTEXT0 + CONTEXT_FIELDS * have
            tree = int(rows[max(parent, 0), old + TREE])
            if tree == 0:
                if row > 0:
                    if not _follow(text0, leaf0, inner0, table0, n0, rows, parent, old, row, new, token):
                        continue
                    if int(rows[row, new + AT]) >= n0:
                        # The end of the text: what follows it is what followed its longest repeated suffix.
                        if active_length == 0:
                            continue
                        _put_context(inner0, n0, 0, active_code, active_length, rows, row, new)
                last = _offer_context(
                    text0, leaf0, inner0, rows, row, new, pool, keys, first, last, cells, SESSION, least
                )
            elif tree == 1:
                if row > 0 and not _follow(
                    text1, leaf1, inner1, table1, n1, rows, parent, old, row, new, token
                ):
                    continue
                last = _offer_context(
                    text1, leaf1, inner1, rows, row, new, pool, keys, first, last, cells, HISTORY, least
                )
            else:
                if row > 0 and not _follow(
                    text2, leaf2, inner2, table2, n2, rows, parent, old, row, new, token
                ):
                    continue
                last = _offer_context(
                    text2, leaf2, inner2, rows, row, new, pool, keys, first, last, cells, HISTORY, least
                )
            have += 1
        rows[row, N_CONTEXTS] = have
        if last == first and ngrams.shape[0] > 0:
            # Only where the trees know nothing: elsewhere the n-grams would count the same text once more.
            last = _offer_ngrams(ngrams, recent, window, rows, row, pool, keys, first, last, cells, least)
        total = 0.0
        for k in range(first, last):
            total += keys[k]
        scale = probs[row] if total <= 1.0 else probs[row] / total
        for k in range(first, last):
            keys[k] *= scale
            bucket = (int(bits[k]) >> _BITS_SHIFT) - _BITS_LEAST
            if bucket >= floor:
                waits[bucket] += 1
                above += 1
                # Kept candidates move together: the pool holds no holes.
                if pooled != k:
                    for field in range(CELL0 + int(pool[k, N_CELLS])):
                        pool[pooled, field] = pool[k, field]
                    keys[pooled] = keys[k]
                pool[pooled, PARENT] = row
                waiting = _push(heap, waiting, keys, pooled)
                pooled += 1
        if waiting == 0 or row == most:
            break
        # The most probable candidate becomes the next row.
        k = _pop(heap, waiting, keys)
        waiting -= 1
        waits[(int(bits[k]) >> _BITS_SHIFT) - _BITS_LEAST] -= 1
        above -= 1
        row += 1
        while above - int(waits[floor]) >= most - row and floor < BUCKETS - 1:
            above -= int(waits[floor])
            floor += 1
        for field in range(CELL0 + int(pool[k, N_CELLS])):
            rows[row, field] = pool[k, field]
        rows[row, ROW_DEPTH] = rows[int(pool[k, PARENT]), ROW_DEPTH] + 1
        probs[row] = keys[k]
        nodes[0, row - 1] = pool[k, TOKEN]
        nodes[1, row - 1] = pool[k, PARENT] - 1
        expected += keys[k]
        if expected / costs[row] > best:
            best = expected / costs[row]
            chosen = row
        if row == most:
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
            if cells[cell, TRIALS] >= limit:
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
