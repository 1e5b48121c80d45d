"""Kernels of drafting: grow a draft tree best first.

Layout (of a row and its contexts: see ``contexts``)::

    rows   int32   [nodes + 1, ROW_FIELDS]    row 0 stands for the context that the tree grows from; the last row
                                              is never expanded, so it has to be, and stays, without contexts
    probs  float32 [2, nodes + 1]             PATH: chance that the row is accepted; GIVEN: given its parent
    nodes  int32   [2, nodes + 1]             per row the token, and the parent as a node: row r is node r - 1
    pool   int32   [POOL, POOL_FIELDS]        candidates
    keys   float32 [POOL]                     their path probabilities; ``bits`` is the same memory as int32
    given  float32 [POOL]                     their probabilities given their parents
    heap   int32   [POOL]                     binary heap of candidates, the most probable at 0
    waits  int32   [BUCKETS]                  how many candidates wait on the heap, by the size of their key
    window int32   [ORDERS]                   scratch: the last tokens before a row
    branches int32 [MOST_BRANCHES, 2]         scratch: what followed a context of a sealed index
"""

import numpy as np

from . import resume, sealed
from .contexts import (
    AT,
    CODE,
    CONTEXT0,
    CONTEXT_FIELDS,
    END,
    LENGTH,
    N_CONTEXTS,
    RESUMES0,
    RUN0,
    SEEN,
    TREE,
    follow,
    put_context,
    root_contexts,
    root_sealed_contexts,
    short_context,
)
from .evidence import (
    CLASSES,
    CONTEXTS,
    HISTORY,
    LIVE,
    NGRAM,
    NGRAM_SLOT,
    PARENT,
    POOL_FIELDS,
    PRIOR,
    RATE,
    RESUMED,
    RESUMED_HISTORY,
    RESUMED_SLOT,
    ROW_DEPTH,
    SESSION,
    SLOT0,
    SLOTS,
    SOURCE,
    STOOD,
    TOKEN,
    cell_of,
    class_of,
    length_class,
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
    INNERS,
    L_NEXT,
    LAST,
    LEAVES,
    NEXT,
    POS,
    S_BELOW,
    S_N,
    S_NODE,
    S_SUFFIX,
    child,
)

POOL = 1024
CANDIDATES = 24  # per row
MOST_INNERS = 12  # of a node's children that are looked at; the lists lean towards descending counts
MOST_LEAVES = 4

PATH, GIVEN = 0, 1
PRUNE = 0.6  # evidence at a rate so far below what can matter is passed over, before its token is looked up
BUCKETS = 82  # of path probabilities from 2**-10 to 1, eight per octave; what is below is not worth a place
_BITS_SHIFT = 20  # keeps a float32's exponent and the first three bits of its fraction
_BITS_LEAST = (127 - 10) << 3  # bucket 0 starts at 2**-10
_BUCKET_START = ((np.arange(BUCKETS, dtype=np.int32) + _BITS_LEAST) << _BITS_SHIFT).view(np.float32)


@inlined
def _offer(pool, keys, first, last, token, source, cell, rate, slot, stood):
    """Add a candidate of the current row, or one more piece of evidence for it; return the new end.

    Until it is scored, its key is the largest rate of its cells.
    """
    for k in range(first, last):
        if int(pool[k, TOKEN]) == token:
            if pool[k, SLOT0 + slot] == 0:  # two n-gram contexts share a slot: the longer one comes first
                pool[k, SLOT0 + slot] = cell + 1
                pool[k, STOOD] = max(int(pool[k, STOOD]), stood)
                if rate > keys[k]:
                    keys[k] = rate
                    pool[k, SOURCE] = source
            return last
    if last - first >= CANDIDATES or last >= POOL:
        return last
    pool[last, TOKEN] = token
    pool[last, SOURCE] = source
    pool[last, STOOD] = stood
    for k in range(SLOTS):
        pool[last, SLOT0 + k] = 0
    pool[last, SLOT0 + slot] = cell + 1
    keys[last] = rate
    return last + 1


@inlined
def _offer_edge(text, rows, row, column, pool, keys, first, last, cells, source, slot, least):
    """Offer the only token that ever followed a context."""
    at = int(rows[row, column + AT])
    total = int(rows[row, column + SEEN])
    token = int(text[at])
    cell = cell_of(source, int(rows[row, column + LENGTH]), total, total)
    rate = cells[cell, RATE]
    if token >= 0 and rate >= least:
        last = _offer(
            pool, keys, first, last, token, source, cell, rate, slot, at if source == SESSION else 0
        )
    return last


@inlined
def _offer_context(text, leaf, inner, rows, row, column, pool, keys, first, last, cells, source, slot, least):
    """Offer the successors of one context of a row in a suffix tree."""
    if int(rows[row, column + AT]) < int(rows[row, column + END]):
        return _offer_edge(text, rows, row, column, pool, keys, first, last, cells, source, slot, least)
    length = int(rows[row, column + LENGTH])
    total = int(rows[row, column + SEEN])
    code = int(rows[row, column + CODE])
    if code < 0:
        return last  # the end of the text; see `follow`
    v = int(inner[code, INNERS])
    looked = 0
    while v >= 0 and looked < MOST_INNERS:
        cell = cell_of(source, length, max(1, int(inner[v, COUNT])), total)
        rate = cells[cell, RATE]
        if rate >= least:
            token = int(text[int(inner[v, POS]) + length])
            if token >= 0:
                stood = int(inner[v, LAST]) + length if source == SESSION else 0
                last = _offer(pool, keys, first, last, token, source, cell, rate, slot, stood)
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
            stood = j + length if source == SESSION else 0
            last = _offer(pool, keys, first, last, token, source, cell, rate, slot, stood)
        j = int(leaf[j, L_NEXT])
        looked += 1
    return last


@inlined
def _offer_sealed(
    text, sa, nodes, rows, row, column, branches, pool, keys, first, last, cells, source, slot, least
):
    """Offer the successors of one context of a row in a sealed index, the most frequent ones first."""
    if int(rows[row, column + AT]) < int(rows[row, column + END]):
        return _offer_edge(text, rows, row, column, pool, keys, first, last, cells, source, slot, least)
    length = int(rows[row, column + LENGTH])
    total = int(rows[row, column + SEEN])
    found = sealed.list_branches(text, sa, nodes, int(rows[row, column + CODE]), length, total, branches)
    for k in range(found):
        cell = cell_of(source, length, int(branches[k, 1]), total)
        rate = cells[cell, RATE]
        if rate >= least:
            last = _offer(pool, keys, first, last, int(branches[k, 0]), source, cell, rate, slot, 0)
    return last


@inlined
def _had(rows, parent, tree, c):
    """Whether the parent's context number ``c`` is one of this text's."""
    if c >= int(rows[parent, N_CONTEXTS]):
        return False
    return int(rows[parent, CONTEXT0 + CONTEXT_FIELDS * c + TREE]) == tree


@inlined
def _expand(
    text, leaf, inner, table, n, tree, source, active_code, active_length,
    rows, row, parent, c, have, before, token, pool, keys, first, last, cells, least,
):  # fmt: skip
    """Move the parent's contexts of one tree, from its number ``c`` on, to the row, and offer what followed them.

    Returns:
        (the parent's next context, contexts of the row so far, the new end of the candidates).
    """
    start = have
    above = max(parent, 0)
    while _had(rows, above, tree, c):
        old = CONTEXT0 + CONTEXT_FIELDS * c
        new = CONTEXT0 + CONTEXT_FIELDS * have
        c += 1
        if row > 0:
            if not follow(text, leaf, inner, table, n, rows, parent, old, row, new, token):
                continue
            if tree == 0 and int(rows[row, new + AT]) >= n:
                # The end of the text: what follows it is what followed its longest repeated suffix.
                if active_length == 0:
                    continue
                put_context(inner, n, tree, active_code, active_length, rows, row, new)
        slot = CONTEXTS * tree + have - start
        last = _offer_context(
            text, leaf, inner, rows, row, new, pool, keys, first, last, cells, source, slot, least
        )
        have += 1
    if row > 0 and have == start and last == first and n > 0:  # nothing is known so far
        code, length = short_context(text, leaf, inner, table, n, before, token)
        if length > 0:
            new = CONTEXT0 + CONTEXT_FIELDS * have
            put_context(inner, n, tree, code, length, rows, row, new)
            last = _offer_context(
                text, leaf, inner, rows, row, new,
                pool, keys, first, last, cells, source, CONTEXTS * tree, least,
            )  # fmt: skip
            have += 1
    return c, have, last


@inlined
def _expand_sealed(
    text, sa, nodes, tree, source, rows, row, parent, c, have, token,
    branches, pool, keys, first, last, cells, least,
):  # fmt: skip
    """As ``_expand``, in a sealed index."""
    start = have
    above = max(parent, 0)
    while _had(rows, above, tree, c):
        old = CONTEXT0 + CONTEXT_FIELDS * c
        new = CONTEXT0 + CONTEXT_FIELDS * have
        c += 1
        if row > 0 and not sealed.follow_context(text, sa, nodes, rows, parent, old, row, new, token):
            continue
        slot = CONTEXTS * tree + have - start
        last = _offer_sealed(
            text, sa, nodes, rows, row, new, branches, pool, keys, first, last, cells, source, slot, least
        )
        have += 1
    return c, have, last


@inlined
def _resume(
    text, n, tree, source, strayed, rows, row, parent, before, token, pool, keys, first, last, cells, least
):
    """Offer what follows where the row resumes a text that the context strayed from."""
    if row == 0:
        place, gap = int(strayed[tree, resume.PLACE]), int(strayed[tree, resume.GAP])
        at, run = resume.resume_at(text, n, place, gap, before, token)
    else:
        at, run = int(rows[parent, RESUMES0 + tree]), int(rows[parent, RUN0 + tree])
        if at >= 0 and int(text[at]) == token:
            at += 1
            run = max(run + 1, resume.FOLLOWED)
        else:
            at = -1
    if at >= n or (at >= 0 and text[at] < 0):
        at = -1
    rows[row, RESUMES0 + tree] = at
    rows[row, RUN0 + tree] = run
    if at < 0:
        return last
    count = 1 + int(strayed[tree, resume.GAP])
    cell = cell_of(source, run, count, count)
    rate = cells[cell, RATE]
    if rate < least:
        return last
    stood = at if tree == 0 else 0
    return _offer(pool, keys, first, last, int(text[at]), source, cell, rate, RESUMED_SLOT + tree, stood)


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
                    last = _offer(pool, keys, first, last, token, NGRAM, cell, rate, NGRAM_SLOT, 0)
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
    text3, sa3, nodes3, cursor3,
    text4, sa4, nodes4, cursor4,
    ngrams, recent, strayed, window, branches, cells, weights, classes, costs,
    rows, probs, nodes, pool, keys, bits, given, heap, waits,
):  # fmt: skip
    """Grow a draft tree of at most ``rows.shape[0] - 1`` nodes; return (rows grown, rows worth drafting).

    Args:
        text0: and leaf0, inner0, table0, state: the session's tree; its active point is the match.
        text1: and leaf1, inner1, table1, cursor1: the newer generation of history, with a cursor (int64
            [CURSOR_FIELDS]) that is up to date with it.
        text2: and leaf2, inner2, table2, cursor2: likewise the older generation.
        text3: and sa3, nodes3, cursor3 (int32 [CURSOR_ROWS, 6]): the sealed index of history.
        text4: and sa4, nodes4, cursor4: likewise that of the prior.
        ngrams: table of the n-gram index; no rows where it is not used.
        recent: int32 [ORDERS + 1], the last tokens of the context, newest last, and how many are valid.
        strayed: int32 [LIVE, 2], what the context may come back to, as ``learn`` left it; see ``resume``.
        cells: and weights, the calibration.
        classes: uint8 [any number], the tokens' classes.
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
    rows[0, TOKEN] = text0[n0 - 1] if n0 > 0 else -1
    last_but_one = int(text0[n0 - 2]) if n0 > 1 else -1
    rows[0, PARENT] = -1
    rows[0, ROW_DEPTH] = 0
    rows[0, N_CONTEXTS] = 0
    probs[PATH, 0] = probs[GIVEN, 0] = 1.0
    root_contexts(
        text0, leaf0, inner0, table0, n0,
        int(state[S_NODE]), active_length, int(state[S_SUFFIX]), 0, rows,
    )  # fmt: skip
    root_contexts(
        text1, leaf1, inner1, table1, n1,
        int(cursor1[C_NODE]), int(cursor1[C_LENGTH]), int(cursor1[C_POS]), 1, rows,
    )  # fmt: skip
    root_contexts(
        text2, leaf2, inner2, table2, n2,
        int(cursor2[C_NODE]), int(cursor2[C_LENGTH]), int(cursor2[C_POS]), 2, rows,
    )  # fmt: skip
    root_sealed_contexts(cursor3, 3, rows)
    root_sealed_contexts(cursor4, 4, rows)
    resume.remember(rows, 0, strayed)
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
            rows, row, parent, c, have, before, token, pool, keys, first, last, cells, least,
        )  # fmt: skip
        c, have, last = _expand(
            text1, leaf1, inner1, table1, n1, 1, HISTORY, 0, 0,
            rows, row, parent, c, have, before, token, pool, keys, first, last, cells, least,
        )  # fmt: skip
        c, have, last = _expand(
            text2, leaf2, inner2, table2, n2, 2, HISTORY, 0, 0,
            rows, row, parent, c, have, before, token, pool, keys, first, last, cells, least,
        )  # fmt: skip
        c, have, last = _expand_sealed(
            text3, sa3, nodes3, 3, HISTORY, rows, row, parent, c, have, token,
            branches, pool, keys, first, last, cells, least,
        )  # fmt: skip
        c, have, last = _expand_sealed(
            text4, sa4, nodes4, 4, PRIOR, rows, row, parent, c, have, token,
            branches, pool, keys, first, last, cells, least,
        )  # fmt: skip
        rows[row, N_CONTEXTS] = have
        last = _resume(
            text0, n0, 0, RESUMED, strayed, rows, row, parent, before, token,
            pool, keys, first, last, cells, least,
        )  # fmt: skip
        last = _resume(
            text1, n1, 1, RESUMED_HISTORY, strayed, rows, row, parent, before, token,
            pool, keys, first, last, cells, least,
        )  # fmt: skip
        last = _resume(
            text2, n2, 2, RESUMED_HISTORY, strayed, rows, row, parent, before, token,
            pool, keys, first, last, cells, least,
        )  # fmt: skip
        session_length = 0
        history_length = 0
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
            elif rank == 0 and tree <= LIVE:
                history_length = max(history_length, int(rows[row, column + LENGTH]))
        if last == first and ngrams.shape[0] > 0:
            # Only where the trees know nothing: elsewhere the n-grams would count the same text once more.
            last = _offer_ngrams(ngrams, recent, window, rows, row, pool, keys, first, last, cells, least)
        session_class, history_class = length_class(session_length), length_class(history_length)
        token_classes = class_of(classes, before) * CLASSES + class_of(classes, token)
        newest = 0
        for k in range(first, last):
            newest = max(newest, int(pool[k, STOOD]))
        total = 0.0
        for k in range(first, last):
            stood = int(pool[k, STOOD])
            age = 0
            far = n0 - stood if stood > 0 else 0
            while far > 0:
                far >>= 1
                age += 1
            given[k] = score(
                pool, k, keys[k], cells, weights, classes, token, token_classes,
                session_class, history_class, age, int(stood > 0 and stood == newest), known,
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
        nodes[0, row] = pool[k, TOKEN]
        nodes[1, row] = pool[k, PARENT] - 1
        expected += keys[k]
        if expected / costs[row] > best:
            best = expected / costs[row]
            chosen = row
    return row, chosen
