"""Kernels that sort the suffixes of a text, and measure what neighbours in that order have in common.

Suffix array by induced sorting (SA-IS; Nong, Zhang and Chan 2009), common prefixes by way of the array of
predecessors (Kärkkäinen, Manzini and Puglisi 2009): both linear. Every kernel works on a slice of a pass and
keeps its state in arrays, so that the caller may stop between two slices; ``suffixspec.index.sealed`` runs them.

Layout of one level (n symbols from 0 to k - 1)::

    s       int32 [n]        symbols
    types   uint8 [n]        1: the suffix is smaller than the next one (S), 0: larger (L)
    sa      int32 [n]        positions in the order of their suffixes; -1 = not known yet
    heads   int32 [k]        next free place of each symbol's bucket, from the left or from the right

A suffix that begins with S and has an L before it is an *LMS* suffix: their order decides all others'.
The end of the text is smaller than every symbol, so a suffix that is a prefix of another one comes first.
"""

from .jit import inlined, kernel


@kernel
def mark(tokens, present, start, stop):
    """Set ``present[token + 1]`` for every token of the slice, and ``present[0]`` where one is negative."""
    for i in range(start, stop):
        token = int(tokens[i])
        present[0 if token < 0 else token + 1] = 1


@kernel
def translate(tokens, ranks, s, start, stop):
    """Write the rank of each token of the slice: ``ranks[token + 1]``, ``ranks[0]`` for negative ones."""
    for i in range(start, stop):
        token = int(tokens[i])
        s[i] = ranks[0 if token < 0 else token + 1]


@kernel
def classify(s, types, sizes, larger, start, stop):
    """Set the types of the slice, from right to left; count the symbols, and the L among them.

    The slice to the right has to be done already.
    """
    n = s.shape[0]
    for i in range(stop - 1, start - 1, -1):
        c = int(s[i])
        kind = 0
        if i + 1 < n:
            after = int(s[i + 1])
            kind = int(types[i + 1]) if c == after else int(c < after)
        types[i] = kind
        sizes[c] += 1
        if kind == 0:
            larger[c] += 1


@kernel
def gather_lms(types, lms, found, start, stop):
    """Append the slice's LMS positions in the order of the text; return how many there are now.

    With an empty ``lms``, they are only counted.
    """
    keep = lms.shape[0] > 0
    for i in range(max(start, 1), stop):
        if types[i] == 1 and types[i - 1] == 0:
            if keep:
                lms[found] = i
            found += 1
    return found


@kernel
def place(s, sa, heads, order, start, stop):
    """Put the LMS positions ``order[start:stop]`` at the heads of their buckets."""
    for j in range(start, stop):
        i = int(order[j])
        c = int(s[i])
        sa[int(heads[c])] = i
        heads[c] += 1


@kernel
def induce_larger(s, sa, heads, start, stop):
    """Sort the L suffixes by the ones before which they stand: left to right over the slice."""
    for i in range(start, stop):
        v = int(sa[i])
        if v >= 1:
            c = int(s[v - 1])
            if c >= int(s[v]):  # v is L, or an LMS with an L before it: so v - 1 is L
                sa[int(heads[c])] = v - 1
                heads[c] += 1


@kernel
def induce_smaller(s, sa, heads, start, stop):
    """Sort the S suffixes likewise: right to left over the slice, from the right ends of the buckets.

    Where v and v - 1 begin alike, v - 1 may be L. By then its bucket's S are in place, and of the L those that go
    on with the same symbol are the last: they are written once more where they stand.
    """
    for i in range(stop - 1, start - 1, -1):
        v = int(sa[i])
        if v >= 1:
            c = int(s[v - 1])
            if c <= int(s[v]):
                heads[c] -= 1
                sa[int(heads[c])] = v - 1


@kernel
def sorted_lms(types, sa, order, found, start, stop):
    """Append the slice's LMS positions in the order of ``sa``; return how many there are now."""
    for i in range(start, stop):
        v = int(sa[i])
        if v >= 1 and types[v] == 1 and types[v - 1] == 0:
            order[found] = v
            found += 1
    return found


@inlined
def _same(s, types, left, right):
    """Whether the two LMS substrings, each up to the next LMS position, are the same."""
    n = s.shape[0]
    k = 0
    while True:
        a, b = left + k, right + k
        if a >= n or b >= n or s[a] != s[b] or types[a] != types[b]:
            return False
        if k > 0 and types[a] == 1 and types[a - 1] == 0:  # types before are equal: b is LMS too
            return True
        k += 1


@kernel
def name(s, types, order, names, named, start, stop):
    """Name the LMS substrings in their order, equal ones alike: ``names[position >> 1]``; return the last name."""
    for j in range(start, stop):
        if j == 0 or not _same(s, types, int(order[j - 1]), int(order[j])):
            named += 1
        names[int(order[j]) >> 1] = named - 1
    return named


@kernel
def rename(lms, names, reduced, start, stop):
    """The text of names: one per LMS position, in the order of the text."""
    for j in range(start, stop):
        reduced[j] = names[int(lms[j]) >> 1]


@kernel
def reorder(lms, below, order, start, stop):
    """LMS positions in the order that the sorted text of names says."""
    for j in range(start, stop):
        order[j] = lms[int(below[j])]


@kernel
def link(sa, before, start, stop):
    """``before[position]``: the position whose suffix comes just before; -1 for the first."""
    for i in range(start, stop):
        before[int(sa[i])] = -1 if i == 0 else sa[i - 1]


@kernel
def common(text, before, shared, most, length, start, stop):
    """How many tokens each suffix shares with the one before it, at most ``most``, none across a negative token.

    Args:
        shared: uint8 [n], by position in the text.
        length: what the position before the slice shared.

    Returns:
        What the slice's last position shares. Cost: amortised O(1) per position, since the next one shares at
        most one less.
    """
    n = text.shape[0]
    for i in range(start, stop):
        j = int(before[i])
        if j < 0:
            length = 0
        else:
            far = n - max(i, j)
            while (
                length < most
                and length < far
                and text[i + length] >= 0
                and text[i + length] == text[j + length]
            ):
                length += 1
        shared[i] = length
        if length > 0:
            length -= 1
    return length


@kernel
def arrange(sa, shared, lcp, start, stop):
    """The same in the order of the suffixes: ``lcp[i]`` is what number i shares with number i - 1."""
    for i in range(start, stop):
        lcp[i] = shared[int(sa[i])]
