"""Kernels of the online suffix tree: construction, look-up, and cursors.

Layout (n text positions, m inner nodes; everything C-contiguous)::

    text   int32  [n]      tokens >= 0; sentinels < 0, each one unique
    leaf   int32  [n, 3]   row j is the leaf of suffix j     PARENT NEXT PREV
    inner  int32  [m, 10]  row v is inner node v, root = 0
                           PARENT LINK POS DEPTH COUNT NEXT PREV INNERS LEAVES LAST
    table  uint32 [slots]  (parent, first token) -> child    open addressing, linear probing, 0 = empty
    state  int64  [8]      sizes and Ukkonen's active point

A *node code* names either kind in one integer: ``v > 0`` is inner node v, ``~j < 0`` is leaf j, and 0 (the
root, which is nobody's child) means "none" wherever a child is meant. A *locus* is a pair (code, length): the
string of that length on the path from the root, which ends inside the edge into the node or at the node.

Two choices decide the memory, since real loops give about 1.6 nodes per token. The table stores only the
child: whether a slot belongs to (parent, token) is checked against the child's own parent and text, and six
spare bits of the slot hold a tag of the hash, so that a wrong slot is almost never followed. And leaves are
rows of three fields, not full nodes: the leaf of suffix j starts at j and ends where the text ends.

Rows instead of one array per field: these kernels chase pointers, and the fields of a node are wanted
together (measured: ``bench/results``).
"""

from .jit import inlined, kernel

# Columns of ``leaf``. PARENT is ~parent where the leaf is uncounted, so that its sign carries the weight.
L_PARENT, L_NEXT, L_PREV = 0, 1, 2
LEAF_FIELDS = 3

# Columns of ``inner``.
PARENT = 0  # inner node above; -1 for the root
LINK = 1  # suffix link: the node of this string without its first token
POS = 2  # a position where this node's string starts
DEPTH = 3  # length of this node's string
COUNT = 4  # counted leaves below, saturating at SATURATION
NEXT = 5  # next inner sibling, -1 = none
PREV = 6  # previous inner sibling, -1 = none
INNERS = 7  # first inner child; the list leans towards descending counts
LEAVES = 8  # first leaf child; the newest first
LAST = (
    9  # where its string started last, of what counts (first, where nothing does); until COUNT is saturated
)
INNER_FIELDS = 10

# Entries of ``state``.
S_N = 0  # text positions
S_SUFFIX = 1  # the next suffix without a leaf; N - SUFFIX suffixes are pending
S_NODE = 2  # active point: the longest inner node at or above the pending string ...
S_BELOW = 3  # ... and how many tokens of it lie below that node
S_INNERS = 4  # inner nodes in use
S_USED = 5  # slots of the table in use
S_UNLINKED = 6  # inner node that still waits for its suffix link, 0 = none
S_OPEN = 7  # 1 while the last text position is only partly inserted (capacity ran out)
STATE_FIELDS = 8

SATURATION = 1023
MAX_NODES = 1 << 25  # ids fit into the 25 bits that a table slot has for them

_ID_MASK = (1 << 25) - 1
_LEAF_BIT = 1 << 25
_TAG_SHIFT = 26


@inlined
def _hash(parent, token):
    """A 32-bit hash of (parent, token); products stay below 2**63 so that it is the same when interpreted."""
    h = ((parent * 0x9E3779B1) & 0xFFFFFFFF) ^ (((token & 0x7FFFFFFF) * 0x5BD1E995) & 0xFFFFFFFF)
    h = ((h ^ (h >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    h = ((h ^ (h >> 12)) * 0x297A2D39) & 0xFFFFFFFF
    return h ^ (h >> 15)


@inlined
def child(text, leaf, inner, table, parent, token):
    """Code of the child of ``parent`` whose edge starts with ``token``; 0 = none."""
    slots = table.shape[0]
    h = _hash(parent, token)
    slot = (h * slots) >> 32
    tag = h & 63
    below = int(inner[parent, DEPTH])
    while True:
        word = int(table[slot])
        if word == 0:
            return 0
        if (word >> _TAG_SHIFT) == tag:
            k = word & _ID_MASK
            if word & _LEAF_BIT:
                owner = int(leaf[k, L_PARENT])
                if owner < 0:
                    owner = ~owner
                if owner == parent and int(text[k + below]) == token:
                    return ~k
            elif int(inner[k, PARENT]) == parent and int(text[int(inner[k, POS]) + below]) == token:
                return k
        slot += 1
        if slot == slots:
            slot = 0


@inlined
def insert_child(table, parent, token, code):
    """Enter a child under a key that the table does not hold."""
    slots = table.shape[0]
    h = _hash(parent, token)
    slot = (h * slots) >> 32
    word = (h & 63) << _TAG_SHIFT
    word |= (~code | _LEAF_BIT) if code < 0 else code
    while table[slot] != 0:
        slot += 1
        if slot == slots:
            slot = 0
    table[slot] = word


@inlined
def _replace(table, parent, token, old, new):
    """Let the slot that holds ``old`` under (parent, token) hold the inner node ``new``."""
    slots = table.shape[0]
    h = _hash(parent, token)
    slot = (h * slots) >> 32
    word = (h & 63) << _TAG_SHIFT
    held = word | ((~old | _LEAF_BIT) if old < 0 else old)
    while int(table[slot]) != held:
        slot += 1
        if slot == slots:
            slot = 0
    table[slot] = word | new


@kernel
def rehash(text, leaf, inner, table, state):
    """Fill the empty ``table`` with every child of the tree. Cost: O(nodes)."""
    for v in range(1, state[S_INNERS]):
        parent = int(inner[v, PARENT])
        insert_child(table, parent, int(text[int(inner[v, POS]) + int(inner[parent, DEPTH])]), v)
    for j in range(state[S_SUFFIX]):
        parent = int(leaf[j, L_PARENT])
        if parent < 0:
            parent = ~parent
        insert_child(table, parent, int(text[j + int(inner[parent, DEPTH])]), ~j)


@inlined
def _place(inner, parent, before, first, last, after):
    """Let the siblings ``first`` to ``last`` stand between ``before`` and ``after`` in the parent's inner list.

    -1 as ``before`` is the list's head, as ``after`` its end. What links first to last is left alone.
    """
    inner[first, PREV] = before
    inner[last, NEXT] = after
    if before >= 0:
        inner[before, NEXT] = first
    else:
        inner[parent, INNERS] = first
    if after >= 0:
        inner[after, PREV] = last


@inlined
def _count_leaf(inner, v, j):
    """Count leaf ``j`` below inner node ``v``: every node above gains one, and may move up its list.

    A saturated node's ancestors are saturated too, so the climb stops there: long runs of one token would
    make it quadratic otherwise.
    """
    while v >= 0:
        count = int(inner[v, COUNT]) + 1
        if count > SATURATION:
            break
        inner[v, COUNT] = count
        inner[v, LAST] = j
        parent = int(inner[v, PARENT])
        prev = int(inner[v, PREV])
        if prev >= 0 and int(inner[prev, COUNT]) < count:
            # Swap v with the sibling before it: ... before prev v after ... -> ... before v prev after ...
            before = int(inner[prev, PREV])
            after = int(inner[v, NEXT])
            inner[v, NEXT] = prev
            inner[prev, PREV] = v
            _place(inner, parent, before, v, prev, after)
        v = parent


@inlined
def _add_leaf(leaf, inner, table, parent, token, j):
    """Hang the leaf of suffix ``j`` under ``parent``, first in its list, and count it if it counts."""
    insert_child(table, parent, token, ~j)
    counted = leaf[j, L_PARENT] >= 0  # the mark that `extend` left for this position
    first = int(inner[parent, LEAVES])
    leaf[j, L_PARENT] = parent if counted else ~parent
    leaf[j, L_NEXT] = first
    leaf[j, L_PREV] = -1
    if first >= 0:
        leaf[first, L_PREV] = j
    inner[parent, LEAVES] = j
    if counted:
        _count_leaf(inner, parent, j)


@inlined
def _split(text, leaf, inner, table, parent, length, code, mid):
    """Cut the edge from ``parent`` to the child ``code`` at string length ``length``; ``mid`` becomes the node there."""
    below = int(inner[parent, DEPTH])
    pos = ~code if code < 0 else int(inner[code, POS])
    inner[mid, PARENT] = parent
    inner[mid, LINK] = 0
    inner[mid, POS] = pos
    inner[mid, DEPTH] = length
    inner[mid, INNERS] = -1
    inner[mid, LEAVES] = -1
    _replace(table, parent, int(text[pos + below]), code, mid)
    if code < 0:
        # The leaf leaves its parent's leaf list; mid enters at the head of the inner list.
        j = ~code
        before, after = int(leaf[j, L_PREV]), int(leaf[j, L_NEXT])
        if before >= 0:
            leaf[before, L_NEXT] = after
        else:
            inner[parent, LEAVES] = after
        if after >= 0:
            leaf[after, L_PREV] = before
        counted = leaf[j, L_PARENT] >= 0
        leaf[j, L_PARENT] = mid if counted else ~mid
        leaf[j, L_NEXT] = -1
        leaf[j, L_PREV] = -1
        inner[mid, LEAVES] = j
        inner[mid, COUNT] = 1 if counted else 0
        inner[mid, LAST] = j
        _place(inner, parent, -1, mid, mid, int(inner[parent, INNERS]))
    else:
        # Mid takes the place of the inner child in its parent's list: the counts are equal.
        inner[mid, COUNT] = inner[code, COUNT]
        inner[mid, LAST] = inner[code, LAST]
        _place(inner, parent, int(inner[code, PREV]), mid, mid, int(inner[code, NEXT]))
        inner[code, PARENT] = mid
        inner[code, PREV] = -1
        inner[code, NEXT] = -1
        inner[mid, INNERS] = code
    insert_child(table, mid, int(text[pos + length]), code)


@kernel
def extend(text, leaf, inner, table, state, tokens, start, counted):
    """Append ``tokens[start:]`` (Ukkonen's construction) and return the number of tokens taken in all.

    Stops before the block's end when the inner nodes or the table have no room left: grow them and call again
    with the returned number. The text and the leaves must have room for the whole block. When it returns, the
    active point is the longest suffix of the text that occurred before, and it has been found on the way.

    Cost: amortised O(1) per token, plus the climb that counts each new leaf (at most SATURATION nodes). One
    append may be long: when a repeat of L tokens ends, its L leaves arrive at once.
    """
    n = int(state[S_N])
    suffix = int(state[S_SUFFIX])
    node = int(state[S_NODE])
    below = int(state[S_BELOW])
    inners = int(state[S_INNERS])
    used = int(state[S_USED])
    unlinked = int(state[S_UNLINKED])
    is_open = int(state[S_OPEN])
    # Two entries per step of the loop below; a fifth of the slots stays empty, so that probes end soon.
    most_used = (table.shape[0] * 4) // 5 - 2
    most_inners = inner.shape[0] - 1
    i = start
    full = False
    while i < tokens.shape[0] and not full:
        token = int(tokens[i])
        if is_open == 0:
            text[n] = token
            leaf[n, L_PARENT] = 0 if counted else -1  # kept here until the leaf of this position is made
            n += 1
            is_open = 1
        # Invariant: the pending string text[suffix : n - 1] ends `below` tokens under `node`.
        while suffix < n:
            if inners > most_inners or used > most_used:
                full = True
                break
            if below == 0:
                if unlinked != 0:
                    inner[unlinked, LINK] = node
                    unlinked = 0
                code = child(text, leaf, inner, table, node, token)
                if code != 0:  # case 1: the longer string occurred before; it stays pending
                    below = 1
                    break
                _add_leaf(leaf, inner, table, node, token, suffix)  # case 2: a new branch at a node
                used += 1
            else:
                code = child(text, leaf, inner, table, node, int(text[n - 1 - below]))
                if code > 0 and int(inner[code, DEPTH]) <= int(inner[node, DEPTH]) + below:
                    below -= int(inner[code, DEPTH]) - int(inner[node, DEPTH])
                    node = code
                    continue
                length = int(inner[node, DEPTH]) + below
                pos = ~code if code < 0 else int(inner[code, POS])
                if int(text[pos + length]) == token:  # case 1, inside an edge
                    below += 1
                    break
                mid = inners  # case 3: a new branch inside an edge
                inners += 1
                _split(text, leaf, inner, table, node, length, code, mid)
                _add_leaf(leaf, inner, table, mid, token, suffix)
                used += 2
                if unlinked != 0:
                    inner[unlinked, LINK] = mid
                unlinked = mid
            suffix += 1
            if node != 0:
                node = int(inner[node, LINK])
            elif below > 0:
                below -= 1
        if not full:
            is_open = 0
            i += 1
    # Rest at the longest node, so that readers find the active point without another walk.
    if is_open == 0:
        while below > 0:
            code = child(text, leaf, inner, table, node, int(text[n - below]))
            if code <= 0 or int(inner[code, DEPTH]) > int(inner[node, DEPTH]) + below:
                break
            below -= int(inner[code, DEPTH]) - int(inner[node, DEPTH])
            node = code
    state[S_N] = n
    state[S_SUFFIX] = suffix
    state[S_NODE] = node
    state[S_BELOW] = below
    state[S_INNERS] = inners
    state[S_USED] = used
    state[S_UNLINKED] = unlinked
    state[S_OPEN] = is_open
    return i


@kernel
def descend(text, leaf, inner, table, node, length, pos):
    """Follow ``text[pos : pos + length]`` down from the inner ``node`` on its path; return (node, code).

    Of the returned pair, ``node`` is the longest inner node at or above the string's end, and ``code`` is where
    the string ends: ``node`` itself, or the child of it whose edge the string ends in. Only the first token of
    each edge is compared: the string is known to be in the tree. Cost: O(inner nodes passed).
    """
    while True:
        depth = int(inner[node, DEPTH])
        if depth == length:
            return node, node
        code = child(text, leaf, inner, table, node, int(text[pos + depth]))
        if code < 0 or int(inner[code, DEPTH]) > length:
            return node, code
        node = code


@kernel
def find(text, leaf, inner, table, n, tokens):
    """Look ``tokens`` up; return (length of the longest prefix found, its longest inner node, a start position)."""
    node, pos, length = 0, 0, 0
    code = 0
    for k in range(tokens.shape[0]):
        token = int(tokens[k])
        if length == int(inner[node, DEPTH]):
            code = child(text, leaf, inner, table, node, token)
            if code == 0:
                break
            pos = ~code if code < 0 else int(inner[code, POS])
        elif pos + length >= n or int(text[pos + length]) != token:
            break
        length += 1
        if code > 0 and int(inner[code, DEPTH]) == length:
            node = code
    return length, node, pos


@kernel
def shorten(text, leaf, inner, table, node, length, pos):
    """The locus of a string without its first token, by suffix link: (node, length, pos). Cost: amortised O(1)."""
    length -= 1
    pos += 1
    if node != 0:
        node = int(inner[node, LINK])
    node, _ = descend(text, leaf, inner, table, node, length, pos)
    return node, length, pos


@kernel
def successors(text, leaf, inner, n, code, length, tokens, counts):
    """Write the next tokens of a locus and their counts; return how many there are, capacity or not.

    Sentinels are left out. Call again with larger arrays when the result exceeds their size.
    """
    found = 0
    pos = ~code if code < 0 else int(inner[code, POS])
    if code < 0 or length < int(inner[code, DEPTH]):
        if pos + length < n and int(text[pos + length]) >= 0:
            if tokens.shape[0] > 0:
                tokens[0] = text[pos + length]
                counts[0] = (1 if leaf[pos, L_PARENT] >= 0 else 0) if code < 0 else inner[code, COUNT]
            found = 1
        return found
    v = int(inner[code, INNERS])
    while v >= 0:
        token = int(text[int(inner[v, POS]) + length])
        if token >= 0:
            if found < tokens.shape[0]:
                tokens[found] = token
                counts[found] = inner[v, COUNT]
            found += 1
        v = int(inner[v, NEXT])
    j = int(inner[code, LEAVES])
    while j >= 0:
        token = int(text[j + length])
        if token >= 0:
            if found < tokens.shape[0]:
                tokens[found] = token
                counts[found] = 1 if leaf[j, L_PARENT] >= 0 else 0
            found += 1
        j = int(leaf[j, L_NEXT])
    return found


# Entries of a cursor: the locus of the longest suffix of another text that occurs in the tree.
C_NODE = 0  # longest inner node at or above the matched string
C_LENGTH = 1  # its length
C_POS = 2  # a position where it starts
C_N = 3  # text positions of the tree when the cursor last looked
C_FED = 4  # tokens in `recent`, at most WINDOW
CURSOR_FIELDS = 5
WINDOW = 64  # tokens that a cursor looks at again after the tree has changed


@kernel
def _advance(text, leaf, inner, table, n, node, length, pos, token):
    """One step of matching statistics (Chang and Lawler 1994): the longest suffix, one token later."""
    while True:
        if length == int(inner[node, DEPTH]):
            code = child(text, leaf, inner, table, node, token)
            if code != 0:
                pos = ~code if code < 0 else int(inner[code, POS])
                break
            if length == 0:
                return 0, 0, 0
        else:
            code = child(text, leaf, inner, table, node, int(text[pos + int(inner[node, DEPTH])]))
            pos = ~code if code < 0 else int(inner[code, POS])
            if pos + length < n and int(text[pos + length]) == token:
                break
        node, length, pos = shorten(text, leaf, inner, table, node, length, pos)
    length += 1
    if code > 0 and int(inner[code, DEPTH]) == length:
        node = code
    return node, length, pos


@kernel
def advance_cursor(text, leaf, inner, table, n, cursor, recent, tokens):
    """Feed ``tokens`` to a cursor; with none, bring it up to date with the tree.

    ``recent`` int32 [WINDOW] keeps the last tokens fed, newest last. Where the tree has changed since, the
    match is looked up again from those: what the cursor held still occurs, but something longer may by now.
    Cost: amortised O(1) per token, plus O(WINDOW) after a change.
    """
    node, length, pos = int(cursor[C_NODE]), int(cursor[C_LENGTH]), int(cursor[C_POS])
    fed = int(cursor[C_FED])
    if int(cursor[C_N]) != n:
        held = length
        node2, length2, pos2 = 0, 0, 0
        for k in range(WINDOW - fed, WINDOW):
            node2, length2, pos2 = _advance(text, leaf, inner, table, n, node2, length2, pos2, int(recent[k]))
        if length2 >= held:
            node, length, pos = node2, length2, pos2
        else:  # longer than the window: the string stands, but a split may have put a node on its path
            node, _ = descend(text, leaf, inner, table, node, length, pos)
    for k in range(tokens.shape[0]):
        token = int(tokens[k])
        if token < 0:
            node, length, pos = 0, 0, 0
            fed = 0
        else:
            node, length, pos = _advance(text, leaf, inner, table, n, node, length, pos, token)
            if tokens.shape[0] - k <= WINDOW:
                fed = min(fed + 1, WINDOW)
    kept = min(tokens.shape[0], WINDOW)
    for k in range(WINDOW - kept):
        recent[k] = recent[k + kept]
    for k in range(kept):
        recent[WINDOW - kept + k] = tokens[tokens.shape[0] - kept + k]
    cursor[C_NODE] = node
    cursor[C_LENGTH] = length
    cursor[C_POS] = pos
    cursor[C_N] = n
    cursor[C_FED] = fed
