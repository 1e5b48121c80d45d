"""Kernels of the n-gram index: contexts of one to four tokens to their top four successors, in fixed memory.

Layout::

    table  int32 [slots, 11]   row: KEY TOTAL USE (TOKEN COUNT) x 4  KEY 0 = empty
    tail   int32 [5]           the last four tokens fed, newest last, and how many of them are valid

A context of any order hashes to a set of WAYS neighbouring rows. A full set gives up its least used row, and
the others age by one use, so that what was frequent long ago leaves in the end. The successors of a row are
kept as Misra and Gries (1982) do: a newcomer wears down the smallest count before it takes its place, so a
count never exceeds the truth and a frequent successor is never lost to rare ones.
"""

from .jit import kernel

KEY, TOTAL, USE, FIRST = 0, 1, 2, 3
MOST_USE = 15
SUCCESSORS = 4
ROW_FIELDS = FIRST + 2 * SUCCESSORS
WAYS = 4
ORDERS = 4
T_VALID = ORDERS
TAIL_FIELDS = ORDERS + 1
SATURATION = 1023


@kernel
def _context_hash(tokens, end, order, factor):
    """A 32-bit hash of ``tokens[end - order : end]`` and the order; independent ones by ``factor``."""
    h = order * 0x1E3779B1
    for k in range(end - order, end):
        h = ((h ^ int(tokens[k])) * factor) & 0xFFFFFFFF
        h ^= h >> 15
    h = (h * 0x297A2D39) & 0xFFFFFFFF
    return h ^ (h >> 16)


@kernel
def _place(tokens, end, order, rows):
    """First row of the context's set, and its key: a wrong row is taken for it once in 2**28 look-ups."""
    first = ((_context_hash(tokens, end, order, 0x2C1B3C6D) * (rows // WAYS)) >> 32) * WAYS
    return first, (_context_hash(tokens, end, order, 0x5BD1E995) & 0x7FFFFFFE) | 1


@kernel
def find_context(table, tokens, end, order):
    """Row of the context ``tokens[end - order : end]``, -1 where it is not held. Cost: O(order)."""
    first, key = _place(tokens, end, order, table.shape[0])
    for row in range(first, first + WAYS):
        if int(table[row, KEY]) == key:
            return row
    return -1


@kernel
def _claim_context(table, tokens, end, order):
    """Row of the context, made if need be at the cost of the least used row of its set."""
    first, key = _place(tokens, end, order, table.shape[0])
    least = first
    for row in range(first, first + WAYS):
        held = int(table[row, KEY])
        if held == key:
            if int(table[row, USE]) < MOST_USE:
                table[row, USE] += 1
            return row
        if held == 0:
            least = row
            break
        if int(table[row, USE]) < int(table[least, USE]):
            least = row
    if int(table[least, KEY]) != 0:
        for row in range(first, first + WAYS):
            table[row, USE] = max(0, int(table[row, USE]) - 1)
    for field in range(ROW_FIELDS):
        table[least, field] = 0
    table[least, KEY] = key
    table[least, USE] = (
        WAYS  # a newcomer stays for a few rounds; with one use, live contexts evict one another
    )
    return least


@kernel
def extend(table, tail, tokens):
    """Count ``tokens`` as successors of the contexts before them; a negative token ends the sequence.

    Cost: O(ORDERS) per token.
    """
    valid = int(tail[T_VALID])
    for i in range(tokens.shape[0]):
        token = int(tokens[i])
        if token < 0:
            valid = 0
            continue
        for order in range(1, valid + 1):
            row = _claim_context(table, tail, ORDERS, order)
            if int(table[row, TOTAL]) < SATURATION:
                table[row, TOTAL] += 1
            least = FIRST
            for field in range(FIRST, ROW_FIELDS, 2):
                count = int(table[row, field + 1])
                if count == 0:
                    least = field
                    break
                if int(table[row, field]) == token:
                    least = -1
                    if count < SATURATION:
                        table[row, field + 1] = count + 1
                    break
                if count < int(table[row, least + 1]):
                    least = field
            if least >= 0:
                if int(table[row, least + 1]) > 1:
                    table[row, least + 1] -= 1
                else:
                    table[row, least] = token
                    table[row, least + 1] = 1
        for k in range(ORDERS - 1):
            tail[k] = tail[k + 1]
        tail[ORDERS - 1] = token
        valid = min(valid + 1, ORDERS)
    tail[T_VALID] = valid
