"""Kernels of resuming: where a text goes on that the context followed, and then strayed from.

An agent that repeats something with a change (a renamed variable, another path) leaves the text it was copying
for a few tokens and comes back to it. The match is lost at the change: the tokens after it never stood together.
So the place is remembered for some tokens: where the last token written stands shortly behind it, the text behind
that one is a likely continuation, and failing that the text as many tokens on as were written since (a
substitution). Drafts cost c = 0, so a wrong guess costs a node.

State: ``strayed`` int32 [LIVE, 2], per suffix tree the place (PLACE, a text position; -1 for none) and the tokens
written since (GAP).
"""

from .contexts import AT, CONTEXT0, CONTEXT_FIELDS, LENGTH, N_CONTEXTS, TREE
from .evidence import LIVE
from .jit import inlined

PLACE, GAP = 0, 1
STRAYED_FIELDS = 2
LEAST_MATCH = 4  # tokens of a match that is worth coming back to
MOST_GAP = 16  # tokens after which the place is given up
AHEAD = 16  # positions behind the place at which the last token is looked for
# How sure a row is of its place; one more for each token that it followed.
SUBSTITUTED, FOUND, FOUND_BOTH, FOLLOWED = 1, 2, 3, 4


@inlined
def longest_context(rows, row, tree):
    """Column of the row's longest context in a text, or 0."""
    for c in range(int(rows[row, N_CONTEXTS])):
        column = CONTEXT0 + CONTEXT_FIELDS * c
        if int(rows[row, column + TREE]) == tree:
            return column
    return 0


@inlined
def remember(rows, row, strayed):
    """After one more token, at which the context stands at ``row``: note its matches, or that they are lost."""
    for tree in range(LIVE):
        column = longest_context(rows, row, tree)
        if column > 0 and int(rows[row, column + LENGTH]) >= LEAST_MATCH:
            strayed[tree, PLACE] = rows[row, column + AT]
            strayed[tree, GAP] = 0
        elif row > 0:
            stray(strayed, tree)


@inlined
def stray(strayed, tree):
    """One more token was written that is not where the match went on."""
    if strayed[tree, PLACE] >= 0:
        strayed[tree, GAP] += 1
        if strayed[tree, GAP] > MOST_GAP:
            strayed[tree, PLACE] = -1
            strayed[tree, GAP] = 0


@inlined
def resume_at(text, n, place, gap, before, token):
    """(position that the text goes on at, how sure), or (-1, 0), for a context that ends with before, token."""
    if place < 0 or gap == 0:
        return -1, 0
    at, run = -1, 0
    for k in range(place, min(place + AHEAD, n - 1)):
        if text[k] < 0:
            break
        if int(text[k]) == token:
            both = k > 0 and int(text[k - 1]) == before
            if run == 0 or (both and run == FOUND):
                at = k + 1
                run = FOUND_BOTH if both else FOUND
    if at < 0 and place + gap < n:
        return place + gap, SUBSTITUTED
    return at, run
