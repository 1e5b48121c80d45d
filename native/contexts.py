"""Kernels of contexts: the strings before a draft row that occurred earlier, and what followed them.

A *context* is a string that occurs in one of the texts, in six int32 fields::

    TREE     which text: 0 the session's, 1 and 2 newer and older history, 3 sealed history, 4 the prior
    CODE     its locus: a node code of a suffix tree, or a record of a sealed index
    LENGTH   tokens
    AT       a position of the token after it, the latest one where the text is a tree
    END      from AT up to here all its occurrences go on alike, and a look at the text is all it takes
    SEEN     its occurrences, at least 1

A draft *row* is one drafted token; row 0 stands for the context that the tree grows from::

    rows   int32 [.., ROW_FIELDS]    a candidate's fields (see ``evidence``), how many contexts, the contexts,
                                     and per tree where the row resumes what it strayed from (see ``resume``)

Every row has up to CONTEXTS of them per text, the longest first, and the texts in ascending order. Those of a
child are the parent's that go on with the child's token; where nothing is known, a tree is asked for the last two
tokens, or for the last one.
"""

from .evidence import CONTEXTS, LIVE, POOL_FIELDS, TEXTS
from .jit import inlined, kernel
from .sealed import AT, CODE, CONTEXT_FIELDS, END, LENGTH, SEEN, TREE
from .tree import COUNT, DEPTH, LAST, child, descend, shorten

N_CONTEXTS = POOL_FIELDS
CONTEXT0 = N_CONTEXTS + 1
# Per tree the position that the row resumes at, or -1, and how sure that is.
RESUMES0 = CONTEXT0 + CONTEXT_FIELDS * CONTEXTS * TEXTS
RUN0 = RESUMES0 + LIVE
ROW_FIELDS = RUN0 + LIVE

JUMP = 16  # below its longest match, a tree is asked for contexts of at most so many tokens


@inlined
def put_context(inner, n, tree, code, length, rows, row, column):
    """Write a context of a row: a locus of a suffix tree whose text has ``n`` positions."""
    if code < 0:
        at, end, count = ~code + length, n, 1
    else:
        start = int(inner[code, LAST])
        at, end, count = start + length, start + int(inner[code, DEPTH]), max(1, int(inner[code, COUNT]))
    rows[row, column + TREE] = tree
    rows[row, column + CODE] = code
    rows[row, column + LENGTH] = length
    rows[row, column + AT] = at
    rows[row, column + END] = end
    rows[row, column + SEEN] = count


@kernel
def root_contexts(text, leaf, inner, table, n, node, length, pos, tree, rows):
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
            put_context(inner, n, tree, code, length, rows, 0, CONTEXT0 + CONTEXT_FIELDS * (at + found))
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
def root_sealed_contexts(cursor, tree, rows):
    """Append the contexts of row 0 in one sealed index: the longest ones of its cursor."""
    at = int(rows[0, N_CONTEXTS])
    found = min(CONTEXTS, int(cursor[0, 0]))
    for k in range(found):
        column = CONTEXT0 + CONTEXT_FIELDS * (at + k)
        rows[0, column + TREE] = tree
        for field in range(CODE, CONTEXT_FIELDS):
            rows[0, column + field] = cursor[k + 1, field]
    rows[0, N_CONTEXTS] = at + found


@inlined
def follow(text, leaf, inner, table, n, rows, parent, had, row, have, token):
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
    tree, length = int(rows[parent, had + TREE]), int(rows[parent, had + LENGTH])
    put_context(inner, n, tree, code, length + 1, rows, row, have)
    return True


@inlined
def short_context(text, leaf, inner, table, n, before, token):
    """Locus (code, length) of the last two tokens, or of the last one; length 0 where the tree has neither."""
    if before >= 0:
        code = child(text, leaf, inner, table, 0, before)
        if code > 0 and int(inner[code, DEPTH]) == 1:
            code = child(text, leaf, inner, table, code, token)
        elif code != 0:
            at = (~code if code < 0 else int(inner[code, LAST])) + 1
            if at >= n or int(text[at]) != token:
                code = 0
        if code > 0 or (code < 0 and ~code + 2 < n):
            return code, 2
    code = child(text, leaf, inner, table, 0, token)
    if code > 0 or (code < 0 and ~code + 1 < n):
        return code, 1
    return 0, 0
