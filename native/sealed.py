"""Kernels of the sealed index: a text that no longer changes, and what followed every string in it.

Layout (m text positions; everything C-contiguous, int32, read-only)::

    text    [m]       tokens >= 0; -1 separates texts and ends the last one
    sa      [m]       the text's positions in the order of their suffixes
    nodes   [words]   nodes[0] is where the root's record starts; then the records, one after the other

The occurrences of a string are an interval of ``sa``, and its count is the interval's length: exact, without a
limit. An interval whose occurrences go on differently, with ``least`` of them at least and at most
``MOST_DEPTH`` tokens deep, has a *record*: a header and its *branches*, what may follow and how often::

    header   LO        where the interval starts in ``sa``
             POS       sa[LO]: a position where the string starts
             SHAPE     its length << TOP_BITS, plus the number of top branches
             REST      number of further branches
    branch   TOKEN COUNT REF

The top branches are the most frequent tokens, at most ``TOP``, by descending count; the rest are all others, by
ascending token. A branch's REF is the record of the next such interval below it, or ~LO of the branch's own
interval where there is none, or where COUNT is 1, ~position where that occurrence starts. So offering at a
frequent context reads one record, and following one of its top branches reads one more; a token that never
followed is found missing in a binary search over neighbours in memory. Searching ``sa`` instead took ten times
as long, every step a read somewhere else.

A *context* is a string that occurs, in six fields, laid out as a context of ``draft``::

    TREE      whose index it is; for the drafter, who has contexts of several
    CODE      offset of the record at or below it; or, where it has none, ~LO of its interval; or, where it
              occurs once, ~position where it starts
    LENGTH    tokens
    AT        a position of the token after it
    END       from there up to here all its occurrences go on alike, and a look at the text is all it takes
    SEEN      its occurrences

Where AT < END, ``text[AT]`` is the only token that ever followed, SEEN times. (A negative one: the text ended
there.) A context that occurs once has END = m, which no context reaches: the text ends with -1. At AT == END the
branches are looked at (``follow_branch``, ``list_branches``).
"""

from .jit import inlined, kernel

# A record.
LO, POS, SHAPE, REST = 0, 1, 2, 3
HEADER = 4
TOKEN, COUNT, REF = 0, 1, 2
BRANCH = 3
TOP = 8
TOP_BITS = 4
MOST_DEPTH = 128  # of a record: a cursor counts up to 64 tokens, and a draft is hardly deeper than that again
MOST_TOKENS = 1 << 27

# A context.
TREE, CODE, LENGTH, AT, END, SEEN = 0, 1, 2, 3, 4, 5
CONTEXT_FIELDS = 6

MOST_BRANCHES = 12  # that ``list_branches`` lists
_SCANNED = 64  # occurrences without a record that are looked at one by one; more are searched
_RUNS = 32  # different tokens among them that are looked for at most
_AHEAD = 16  # tokens by which a common continuation is looked ahead

# Entries of the state of ``build``.
B_OPEN = 0  # the innermost open interval
B_USED = 1  # pending branches
B_WORDS = 2  # words written
B_RECORDS = 3
BUILD_FIELDS = 4
SIZES = 1 << 12
# Columns of its stack: one row per open interval.
_DEPTH, _START, _RUN, _REF, _BASE = 0, 1, 2, 3, 4
STACK_FIELDS = 5
_NO_RECORD = 0  # offset 0 holds where the root is


@inlined
def _end_run(text, sa, stack, pending, top, used, end):
    """The innermost interval's current run of equal next tokens ends before ``end``: it becomes a branch."""
    start = int(stack[top, _RUN])
    token = int(text[int(sa[start]) + int(stack[top, _DEPTH])])
    if token < 0:
        return used
    pending[used, TOKEN] = token
    pending[used, COUNT] = end - start
    if end - start == 1:
        pending[used, REF] = ~int(sa[start])
    elif stack[top, _REF] != _NO_RECORD:  # a run of several was an interval, and left this when it was closed
        pending[used, REF] = stack[top, _REF]
    else:
        pending[used, REF] = ~start
    return used + 1


@inlined
def _write_branch(nodes, at, pending, k):
    nodes[at + TOKEN] = pending[k, TOKEN]
    nodes[at + COUNT] = pending[k, COUNT]
    nodes[at + REF] = pending[k, REF]
    return at + BRANCH


@inlined
def _record(sa, nodes, pending, chosen, base, used, lo, depth, words):
    """Write a record of the branches ``pending[base:used]``; return the words written in all."""
    # The TOP largest counts, of equal ones the smaller token first; tokens ascend in ``pending``.
    tops = 0
    for k in range(base, used):
        count = int(pending[k, COUNT])
        if tops < TOP:
            i = tops
            tops += 1
        elif count > int(pending[int(chosen[TOP - 1]), COUNT]):
            i = TOP - 1
        else:
            continue
        while i > 0 and int(pending[int(chosen[i - 1]), COUNT]) < count:
            chosen[i] = chosen[i - 1]
            i -= 1
        chosen[i] = k
    at = words + HEADER
    for i in range(tops):
        k = int(chosen[i])
        at = _write_branch(nodes, at, pending, k)
        pending[k, COUNT] = 0  # written
    for k in range(base, used):
        if pending[k, COUNT] > 0:
            at = _write_branch(nodes, at, pending, k)
    nodes[words + LO] = lo
    nodes[words + POS] = sa[lo]
    nodes[words + SHAPE] = (depth << TOP_BITS) | tops
    nodes[words + REST] = used - base - tops
    return at


@kernel
def build(text, sa, lcp, nodes, stack, pending, chosen, sizes, state, least, start, stop):
    """Write the records of all intervals that end within the slice of ``sa``; one pass, children first.

    Args:
        lcp: uint8 [m], tokens shared with the suffix before, at most ``MOST_DEPTH`` + 1.
        nodes: none: the words are only added up in ``sizes``.
        stack: int32 [MOST_DEPTH + 3, STACK_FIELDS], zeros before the first slice.
        pending: int32 [state[B_USED] + stop - start + 2 at least, BRANCH].
        chosen: int32 [TOP], scratch.
        sizes: int64 [SIZES]: words of all records by the number of occurrences, in the last entry also those of
            more occurrences; in the first one the root's.
        state: int64 [BUILD_FIELDS]; (0, 0, 1, 0) before the first slice.
        least: occurrences of an interval that has a record.
        start: of the slice, 1 or where the last one stopped.
        stop: at the last slice m + 1, which closes the root.

    Cost: O(slice).
    """
    m = sa.shape[0]
    top, used = int(state[B_OPEN]), int(state[B_USED])
    words, records = int(state[B_WORDS]), int(state[B_RECORDS])
    for i in range(start, stop):
        shared = int(lcp[i]) if i < m else -1
        while top >= 0 and int(stack[top, _DEPTH]) > shared:
            used = _end_run(text, sa, stack, pending, top, used, i)
            depth, lo, base = int(stack[top, _DEPTH]), int(stack[top, _START]), int(stack[top, _BASE])
            ref = _NO_RECORD
            if (i - lo >= least and depth <= MOST_DEPTH) or depth == 0:
                if nodes.shape[0] == 0:
                    occurrences = 0 if depth == 0 else min(i - lo, SIZES - 1)
                    sizes[occurrences] += HEADER + BRANCH * (used - base)
                else:
                    ref = words
                    words = _record(sa, nodes, pending, chosen, base, used, lo, depth, words)
                    records += 1
                    if depth == 0:
                        nodes[0] = ref
            used = base
            top -= 1
            if top >= 0 and int(stack[top, _DEPTH]) < shared:
                top += 1  # it is the first part of an interval in between
                stack[top, _DEPTH] = shared
                stack[top, _START] = lo
                stack[top, _RUN] = lo
                stack[top, _BASE] = used
            if top >= 0:
                stack[top, _REF] = ref
        if top < 0:
            break
        if int(stack[top, _DEPTH]) < shared:
            top += 1
            stack[top, _DEPTH] = shared
            stack[top, _START] = i - 1
            stack[top, _RUN] = i - 1
            stack[top, _BASE] = used
        used = _end_run(text, sa, stack, pending, top, used, i)
        stack[top, _RUN] = i
    state[B_OPEN] = top
    state[B_USED] = used
    state[B_WORDS] = words
    state[B_RECORDS] = records


# -- contexts -------------------------------------------------------------------------------------


@inlined
def _interval_context(text, sa, lo, count, length):
    """Context of an interval without a record: (code, at, end, seen)."""
    if count == 1:
        pos = int(sa[lo])
        return ~pos, pos + length, text.shape[0], 1
    first, last = int(sa[lo]) + length, int(sa[lo + count - 1]) + length
    ahead = 0
    while ahead < _AHEAD and text[first + ahead] >= 0 and text[first + ahead] == text[last + ahead]:
        ahead += 1
    return ~lo, first, first + ahead, count


@inlined
def _branch_context(text, sa, nodes, ref, count, length):
    """Context of a branch of a record."""
    if ref > 0:
        at = int(nodes[ref + POS]) + length
        return ref, at, at + (int(nodes[ref + SHAPE]) >> TOP_BITS) - length, count
    if count == 1:
        return ref, ~ref + length, text.shape[0], 1
    return _interval_context(text, sa, ~ref, count, length)


@inlined
def _first_at_least(text, sa, low, high, offset, token):
    """Smallest i from low to high with text[sa[i] + offset] >= token; the tokens ascend with i."""
    while low < high:
        middle = (low + high) >> 1
        if int(text[int(sa[middle]) + offset]) < token:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _after_run(text, sa, low, high, offset, token):
    """Smallest i > low with another token than ``token``, which stands at low, or high: O(log of the run)."""
    step = 1
    while low + step < high and int(text[int(sa[low + step]) + offset]) == token:
        low += step
        step <<= 1
    return _first_at_least(text, sa, low + 1, min(low + step, high), offset, token + 1)


@inlined
def follow_branch(text, sa, nodes, code, length, seen, token):
    """One token on from a context at which AT == END: (code, at, end, seen), seen 0 where it never followed.

    Cost: a record or two for a top branch, O(log branches) for others; without a record, O(seen) up to 64
    occurrences and O(log seen) above.
    """
    if code > 0:
        tops = int(nodes[code + SHAPE]) & ((1 << TOP_BITS) - 1)
        branch = code + HEADER
        for _ in range(tops):
            if int(nodes[branch + TOKEN]) == token:
                count = int(nodes[branch + COUNT])
                return _branch_context(text, sa, nodes, int(nodes[branch + REF]), count, length + 1)
            branch += BRANCH
        rest = int(nodes[code + REST])
        low, high = 0, rest
        while low < high:
            middle = (low + high) >> 1
            if int(nodes[branch + BRANCH * middle + TOKEN]) < token:
                low = middle + 1
            else:
                high = middle
        branch += BRANCH * low
        if low == rest or int(nodes[branch + TOKEN]) != token:
            return 0, 0, 0, 0
        count = int(nodes[branch + COUNT])
        return _branch_context(text, sa, nodes, int(nodes[branch + REF]), count, length + 1)
    first, high = ~code, ~code + seen
    if seen > _SCANNED:
        first = _first_at_least(text, sa, first, high, length, token)
    else:
        while first < high and int(text[int(sa[first]) + length]) != token:
            first += 1
    if first == high or int(text[int(sa[first]) + length]) != token:
        return 0, 0, 0, 0
    after = _after_run(text, sa, first, high, length, token)
    return _interval_context(text, sa, first, after - first, length + 1)


@inlined
def list_branches(text, sa, nodes, code, length, seen, branches):
    """What followed a context at which AT == END: fill ``branches`` int32 [MOST_BRANCHES, 2], return how many.

    Rows are (token, count), counts exact, by descending count: the most frequent ones, at most ``TOP`` of a
    record, ``MOST_BRANCHES`` without one. What has no record occurs fewer than ``least`` times; more often only
    under very long strings, and in a text that repeats itself so much that its records had to be thinned out:
    there the first 32 different tokens are looked at.

    Cost: one record, or O(branches × log occurrences).
    """
    found = 0
    if code > 0:
        found = int(nodes[code + SHAPE]) & ((1 << TOP_BITS) - 1)
        branch = code + HEADER
        for k in range(found):
            branches[k, 0] = nodes[branch + TOKEN]
            branches[k, 1] = nodes[branch + COUNT]
            branch += BRANCH
        return found
    i, high = ~code, ~code + seen
    runs = 0
    while i < high and runs < _RUNS:
        token = int(text[int(sa[i]) + length])
        after = _after_run(text, sa, i, high, length, token)
        count = after - i
        i = after
        runs += 1
        if token < 0:
            continue
        if found < MOST_BRANCHES:
            k = found
            found += 1
        elif count > int(branches[MOST_BRANCHES - 1, 1]):
            k = MOST_BRANCHES - 1
        else:
            continue
        while k > 0 and int(branches[k - 1, 1]) < count:
            branches[k, 0] = branches[k - 1, 0]
            branches[k, 1] = branches[k - 1, 1]
            k -= 1
        branches[k, 0] = token
        branches[k, 1] = count
    return found


# -- cursors --------------------------------------------------------------------------------------

# A cursor is int32 [CURSOR_ROWS, CONTEXT_FIELDS]: row 0 begins with the number of contexts; the contexts follow,
# the longest first, each one seen more often than the one before it. Together they stand for every suffix of the
# tokens fed that occurs in the text, up to WINDOW tokens: those between two of them occur where the longer one
# does. Of the longer suffixes the shortest is kept, and another one that was the longest while it goes on.
WINDOW = 64
CURSOR_ROWS = WINDOW + 2


@inlined
def follow_context(text, sa, nodes, rows, row, column, new_row, new_column, token):
    """Write the context at a column of a row, one token on, to another place, or there; whether it goes on."""
    at = int(rows[row, column + AT])
    length = int(rows[row, column + LENGTH])
    code, end, seen = (
        int(rows[row, column + CODE]),
        int(rows[row, column + END]),
        int(rows[row, column + SEEN]),
    )
    if at < end:
        if int(text[at]) != token:
            return False
        at += 1
    else:
        code, at, end, seen = follow_branch(text, sa, nodes, code, length, seen, token)
        if seen == 0:
            return False
    rows[new_row, new_column + TREE] = rows[row, column + TREE]
    rows[new_row, new_column + CODE] = code
    rows[new_row, new_column + LENGTH] = length + 1
    rows[new_row, new_column + AT] = at
    rows[new_row, new_column + END] = end
    rows[new_row, new_column + SEEN] = seen
    return True


@inlined
def _begin(text, nodes, rows, row):
    """Write the context of the empty string."""
    root = int(nodes[0])
    rows[row, CODE] = root
    rows[row, LENGTH] = 0
    rows[row, AT] = nodes[root + POS]
    rows[row, END] = nodes[root + POS]
    rows[row, SEEN] = text.shape[0]


@kernel
def advance(text, sa, nodes, cursor, tokens):
    """Feed tokens to a cursor; a negative one resets it.

    Every context is followed on its own, and those that do not go on drop out: what is left are the contexts of
    the suffixes one token later, and the token alone joins them. Cost: O(contexts) per token, usually 5 to 10.
    """
    held = int(cursor[0, 0])
    for k in range(tokens.shape[0]):
        token = int(tokens[k])
        have = 0
        if token >= 0:
            for row in range(1, held + 1):
                if not follow_context(text, sa, nodes, cursor, row, 0, have + 1, 0, token):
                    continue
                if have > 0 and cursor[have + 1, SEEN] == cursor[have, SEEN]:
                    continue  # the same occurrences: nothing new
                if have > 1 and cursor[have, LENGTH] >= WINDOW and cursor[have + 1, LENGTH] >= WINDOW:
                    for field in range(CONTEXT_FIELDS):
                        cursor[have, field] = cursor[have + 1, field]
                else:
                    have += 1
            _begin(text, nodes, cursor, have + 1)
            if follow_context(text, sa, nodes, cursor, have + 1, 0, have + 1, 0, token) and (
                have == 0 or cursor[have + 1, SEEN] != cursor[have, SEEN]
            ):
                have += 1
        held = have
    cursor[0, 0] = held


@kernel
def find(text, sa, nodes, tokens, context):
    """Look tokens up: write the context of the longest prefix found, int32 [1, CONTEXT_FIELDS]; return its length."""
    _begin(text, nodes, context, 0)
    for k in range(tokens.shape[0]):
        if not follow_context(text, sa, nodes, context, 0, 0, 0, 0, int(tokens[k])):
            break
    return int(context[0, LENGTH])


@kernel
def successors(text, sa, nodes, context, branches):
    """As ``list_branches``, for any context, int32 [1, CONTEXT_FIELDS]."""
    at = int(context[0, AT])
    if at < int(context[0, END]):
        if text[at] < 0:
            return 0
        branches[0, 0] = text[at]
        branches[0, 1] = context[0, SEEN]
        return 1
    return list_branches(
        text, sa, nodes, int(context[0, CODE]), int(context[0, LENGTH]), int(context[0, SEEN]), branches
    )
