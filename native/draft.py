"""Kernels of drafting: grow a draft tree best first.

A draft *row* is one drafted token; row 0 stands for the context that the tree grows from. Layout::

    rows   int32   [nodes + 1, ROW_FIELDS]    a candidate's fields (see ``evidence``), then CONTEXTS...
    probs  float32 [2, nodes + 1]             PATH: chance that the row is accepted; GIVEN: given its parent
    nodes  int32   [2, nodes]                 tokens and parents of the draft's nodes: row r is node r - 1
    pool   int32   [POOL, POOL_FIELDS]        candidates
    keys   float32 [POOL]                     their path probabilities; ``bits`` is the same memory as int32
    given  float32 [POOL]                     their probabilities given their parents
    heap   int32   [POOL]                     binary heap of candidates, the most probable at 0
    waits  int32   [BUCKETS]                  how many candidates wait on the heap, by the size of their key
    window int32   [ORDERS]                   scratch: the last tokens before a row

A *context* is a locus (code, length) in one of the trees. Every row has up to CONTEXTS of them per tree, the
longest first; those of a child are the parent's that go on with the child's token. Where none of a tree's does,
the last two tokens may be looked up, or the last one: more candidates, and more time.
"""

import numpy as np

from .evidence import (
    BIAS,
    CONTEXTS,
    HISTORY,
    NGRAM,
    NGRAM_SLOT,
    PARENT,
    POOL_FIELDS,
    PRIOR,
    RATE,
    ROW_DEPTH,
    SESSION,
    SLOT0,
    SLOTS,
    SOURCE,
    TOKEN,
    TREES,
    VALUE,
    cell_of,
    length_class,
    row_features,
    score,
)
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

PATH, GIVEN = 0, 1
PRUNE = 0.25  # evidence at a rate so far below what can matter is passed over, before its token is looked up
JUMP = 16  # below its longest match, a tree is asked for contexts of at most so many tokens
BUCKETS = 82  # of path probabilities from 2**-10 to 1, eight per octave; what is below is not worth a place
_BITS_SHIFT = 20  # keeps a float32's exponent and the first three bits of its fraction
_BITS_LEAST = (127 - 10) << 3  # bucket 0 starts at 2**-10
_BUCKET_START = ((np.arange(BUCKETS, dtype=np.int32) + _BITS_LEAST) << _BITS_SHIFT).view(np.float32)


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
        # The end of the text. `draft` moves a context of the session's tree away from there, and a sentinel,
        # which no token equals, keeps one of history's from it; but an interrupt may have kept the sentinel
        # from being written, and going on here would read outside the arrays.
        return False
    code = child(text, leaf, inner, table, int(rows[parent, had + CODE]), token)
    if code == 0:
        return False
    _put_context(
        inner, n, int(rows[parent, had + TREE]), code, int(rows[parent, had + LENGTH]) + 1, rows, row, have
    )
    return True


@inlined
def _short_context(text, leaf, inner, table, n, before, token):
    """Locus (code, length) of the last two tokens, or of the last one; length 0 where the tree has neither."""
    if before >= 0:
        code = child(text, leaf, inner, table, 0, before)
        if code > 0 and int(inner[code, DEPTH]) == 1:
            code = child(text, leaf, inner, table, code, token)
        elif code != 0:
            at = (~code if code < 0 else int(inner[code, POS])) + 1
            if at >= n or int(text[at]) != token:
                code = 0
        if code > 0 or (code < 0 and ~code + 2 < n):
            return code, 2
    code = child(text, leaf, inner, table, 0, token)
    if code > 0 or (code < 0 and ~code + 1 < n):
        return code, 1
    return 0, 0


@inlined
def _offer(pool, keys, first, last, token, source, cell, rate, slot):
    """Add a candidate of the current row, or one more piece of evidence for it; return the new end.

    Until it is scored, its key is the largest rate of its cells.
    """
    for k in range(first, last):
        if int(pool[k, TOKEN]) == token:
            if pool[k, SLOT0 + slot] == 0:  # two n-gram contexts share a slot: the longer one comes first
                pool[k, SLOT0 + slot] = cell + 1
                if rate > keys[k]:
                    keys[k] = rate
                    pool[k, SOURCE] = source
            return last
    if last - first >= CANDIDATES or last >= POOL:
        return last
    pool[last, TOKEN] = token
    pool[last, SOURCE] = source
    for k in range(SLOTS):
        pool[last, SLOT0 + k] = 0
    pool[last, SLOT0 + slot] = cell + 1
    keys[last] = rate
    return last + 1


@inlined
def _offer_context(text, leaf, inner, rows, row, column, pool, keys, first, last, cells, source, slot, least):
    """Offer the successors of one context of a row."""
    at = int(rows[row, column + AT])
    length = int(rows[row, column + LENGTH])
    total = int(rows[row, column + SEEN])
    if at < int(rows[row, column + END]):
        token = int(text[at])
        cell = cell_of(source, length, total, total)
        rate = cells[cell, RATE]
        if token >= 0 and rate >= least:
            last = _offer(pool, keys, first, last, token, source, cell, rate, slot)
        return last
    code = int(rows[row, column + CODE])
    if code < 0:
        return last  # the end of the text; see `_follow`
    v = int(inner[code, INNERS])
    looked = 0
    while v >= 0 and looked < MOST_INNERS:
        cell = cell_of(source, length, max(1, int(inner[v, COUNT])), total)
        rate = cells[cell, RATE]
        if rate >= least:
            token = int(text[int(inner[v, POS]) + length])
            if token >= 0:
                last = _offer(pool, keys, first, last, token, source, cell, rate, slot)
        v = int(inner[v, NEXT])
        looked += 1
    cell = cell_of(source, length, 1, total)
    rate = cells[cell, RATE]
    if rate < least:
        return last
    j = int(inner[code, LEAVES])
    looked = 0
    while j >= 0 and looked < MOST_LEAVES:
        token = int(text[j + length])
        if token >= 0:
            last = _offer(pool, keys, first, last, token, source, cell, rate, slot)
        j = int(leaf[j, L_NEXT])
        looked += 1
    return last


@inlined
def _expand(
    text, leaf, inner, table, n, tree, source, active_code, active_length,
    rows, row, parent, c, have, before, token, pool, keys, first, last, cells, least, short,
):  # fmt: skip
    """Move the parent's contexts of one tree, from its number ``c`` on, to the row, and offer what followed them.

    Returns:
        (the parent's next context, contexts of the row so far, the new end of the candidates).
    """
    start = have
    above = max(parent, 0)
    while c < int(rows[above, N_CONTEXTS]) and int(rows[above, CONTEXT0 + CONTEXT_FIELDS * c + TREE]) == tree:
        old = CONTEXT0 + CONTEXT_FIELDS * c
        new = CONTEXT0 + CONTEXT_FIELDS * have
        c += 1
        if row > 0:
            if not _follow(text, leaf, inner, table, n, rows, parent, old, row, new, token):
                continue
            if tree == 0 and int(rows[row, new + AT]) >= n:
                # The end of the text: what follows it is what followed its longest repeated suffix.
                if active_length == 0:
                    continue
                _put_context(inner, n, tree, active_code, active_length, rows, row, new)
        slot = CONTEXTS * tree + have - start
        last = _offer_context(
            text, leaf, inner, rows, row, new, pool, keys, first, last, cells, source, slot, least
        )
        have += 1
    if short and row > 0 and have == start and n > 0:
        code, length = _short_context(text, leaf, inner, table, n, before, token)
        if length > 0:
            new = CONTEXT0 + CONTEXT_FIELDS * have
            _put_context(inner, n, tree, code, length, rows, row, new)
            slot = CONTEXTS * tree
            last = _offer_context(
                text, leaf, inner, rows, row, new, pool, keys, first, last, cells, source, slot, least
            )
            have += 1
    return c, have, last


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
                rate = cells[cell, RATE]
                if rate >= least:
                    token = int(table[at, field])
                    last = _offer(pool, keys, first, last, token, NGRAM, cell, rate, NGRAM_SLOT)
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
    text3, leaf3, inner3, table3, cursor3,
    ngrams, recent, window, cells, weights, costs, short,
    rows, probs, nodes, pool, keys, bits, given, heap, waits,
):  # fmt: skip
    """Grow a draft tree of at most ``rows.shape[0] - 1`` nodes; return (rows grown, rows worth drafting).

    Args:
        text0: and leaf0, inner0, table0, state: the session's tree; its active point is the match.
        text1: and leaf1, inner1, table1, cursor1: the newer generation of history, with a cursor (int64
            [CURSOR_FIELDS]) that is up to date with it.
        text2: and leaf2, inner2, table2, cursor2: likewise the older generation.
        text3: and leaf3, inner3, table3, cursor3: likewise the prior's tree.
        ngrams: table of the n-gram index; no rows where it is not used.
        recent: int32 [ORDERS + 1], the last tokens of the context, newest last, and how many are valid.
        cells: and weights, the calibration.
        costs: float32 [at least nodes + 1], t(k + 1) / t(1) for a draft of k nodes.
        short: whether a tree none of whose contexts goes on is asked for the last two tokens.

    Rows come out in descending probability, parents before children, so the first k are the best tree of k
    nodes. Of those, the k that maximises E(k) / t(k + 1) is worth drafting, E(k) = 1 + the sum of the first k
    probabilities, k = 0 included: the forward of k nodes also holds the pending token.

    Cost: O(nodes × contexts × log nodes).
    """
    n0, n1, n2, n3 = int(state[S_N]), int(cursor1[C_N]), int(cursor2[C_N]), int(cursor3[C_N])
    active_length = n0 - int(state[S_SUFFIX])
    active_code = int(state[S_NODE])
    if int(state[S_BELOW]) > 0:
        active_code = child(text0, leaf0, inner0, table0, active_code, int(text0[n0 - int(state[S_BELOW])]))
    rows[0, TOKEN] = text0[n0 - 1] if n0 > 0 else -1
    last_but_one = int(text0[n0 - 2]) if n0 > 1 else -1
    rows[0, PARENT] = -1
    rows[0, ROW_DEPTH] = 0
    rows[0, N_CONTEXTS] = 0
    probs[PATH, 0] = probs[GIVEN, 0] = 1.0
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
    _root_contexts(
        text3, leaf3, inner3, table3, n3,
        int(cursor3[C_NODE]), int(cursor3[C_LENGTH]), int(cursor3[C_POS]), 3, rows,
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
    while row < most:
        # Expand: move the parent's contexts one token on, and gather what followed them.
        first = pooled
        last = first
        parent = int(rows[row, PARENT])
        token = int(rows[row, TOKEN])
        before = last_but_one if row == 0 else int(rows[parent, TOKEN])
        least = PRUNE * _BUCKET_START[floor] / probs[PATH, row]
        c = 0
        have = 0
        c, have, last = _expand(
            text0, leaf0, inner0, table0, n0, 0, SESSION, active_code, active_length,
            rows, row, parent, c, have, before, token, pool, keys, first, last, cells, least, short,
        )  # fmt: skip
        c, have, last = _expand(
            text1, leaf1, inner1, table1, n1, 1, HISTORY, 0, 0,
            rows, row, parent, c, have, before, token, pool, keys, first, last, cells, least, short,
        )  # fmt: skip
        c, have, last = _expand(
            text2, leaf2, inner2, table2, n2, 2, HISTORY, 0, 0,
            rows, row, parent, c, have, before, token, pool, keys, first, last, cells, least, short,
        )  # fmt: skip
        c, have, last = _expand(
            text3, leaf3, inner3, table3, n3, 3, PRIOR, 0, 0,
            rows, row, parent, c, have, before, token, pool, keys, first, last, cells, least, short,
        )  # fmt: skip
        rows[row, N_CONTEXTS] = have
        session_length = 0
        history_length = 0
        age = 0
        known = 0
        tree_before = -1
        rank = 0
        for c in range(have):
            column = CONTEXT0 + CONTEXT_FIELDS * c
            tree = int(rows[row, column + TREE])
            rank = rank + 1 if tree == tree_before else 0
            tree_before = tree
            known |= 1 << (CONTEXTS * tree + rank)
            if rank == 0 and tree == 0:
                session_length = int(rows[row, column + LENGTH])
                far = n0 - int(rows[row, column + AT])
                while far > 0:
                    far >>= 1
                    age += 1
            elif rank == 0 and tree <= 2:
                history_length = max(history_length, int(rows[row, column + LENGTH]))
        if last == first and ngrams.shape[0] > 0:
            # Only where the trees know nothing: elsewhere the n-grams would count the same text once more.
            last = _offer_ngrams(ngrams, recent, window, rows, row, pool, keys, first, last, cells, least)
        session_class, history_class = length_class(session_length), length_class(history_length)
        last_feature, pair_feature = row_features(token, before)
        shared = float(weights[BIAS, VALUE])
        shared += float(weights[last_feature, VALUE]) + float(weights[pair_feature, VALUE])
        depth = int(rows[row, ROW_DEPTH])
        total = 0.0
        for k in range(first, last):
            given[k] = score(
                pool, k, keys[k], shared, last_feature, pair_feature,
                cells, weights, depth, token, session_class, history_class, age, known,
            )  # fmt: skip
            total += given[k]
        # Siblings exclude one another, so together they are certain at most.
        scale = probs[PATH, row] if total <= 1.0 else probs[PATH, row] / total
        for k in range(first, last):
            keys[k] = given[k] * scale
            bucket = (int(bits[k]) >> _BITS_SHIFT) - _BITS_LEAST
            if bucket >= floor:
                waits[bucket] += 1
                above += 1
                # Kept candidates move together: the pool holds no holes.
                if pooled != k:
                    for field in range(POOL_FIELDS):
                        pool[pooled, field] = pool[k, field]
                    keys[pooled] = keys[k]
                    given[pooled] = given[k]
                pool[pooled, PARENT] = row
                waiting = _push(heap, waiting, keys, pooled)
                pooled += 1
        if waiting == 0:
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
        for field in range(POOL_FIELDS):
            rows[row, field] = pool[k, field]
        rows[row, ROW_DEPTH] = rows[int(pool[k, PARENT]), ROW_DEPTH] + 1
        probs[PATH, row] = keys[k]
        probs[GIVEN, row] = given[k]
        nodes[0, row - 1] = pool[k, TOKEN]
        nodes[1, row - 1] = pool[k, PARENT] - 1
        expected += keys[k]
        if expected / costs[row] > best:
            best = expected / costs[row]
            chosen = row
    return row, chosen
