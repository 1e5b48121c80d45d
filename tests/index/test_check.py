"""``check()`` notices broken structures; a check that cannot fail would make every stress run worthless."""

import numba
import numpy as np
import pytest

from suffixspec.index.ngram_index import NgramIndex
from suffixspec.index.suffix_tree import SuffixTree
from suffixspec.native import ngram
from suffixspec.native import tree as native

# A broken position or link may also lead the check itself out of an array.
NOTICED = (AssertionError, IndexError, ValueError)


def _tree() -> SuffixTree:
    tree = SuffixTree()
    tree.extend([1, 2, 1, 2, 3, 1, 2, 3, 4, 1, 2])
    tree.end_sequence()
    tree.extend([1, 2, 3], counted=False)
    tree.extend([4, 5, 1, 2, 3])
    tree.check()
    return tree


def _live_entries(tree: SuffixTree) -> list[tuple[str, int]]:
    """(array, flat index) of what is in use, without the fields that mean nothing in the root."""
    leaves, inners = len(tree) - tree.pending, int(tree._state[native.S_INNERS])
    root = [native.DEPTH, native.COUNT, native.INNERS, native.LEAVES]
    return [
        *(("_text", i) for i in range(leaves)),
        *(("_leaf", i) for i in range(leaves * native.LEAF_FIELDS)),
        *(("_inner", i) for i in root),
        *(("_inner", i) for i in range(native.INNER_FIELDS, inners * native.INNER_FIELDS)),
        *(("_table", i) for i in range(tree._table.size)),
        *(("_state", i) for i in range(native.STATE_FIELDS)),
    ]


# The check asks the kernels too, and a compiled kernel follows a broken link out of its arrays.
@pytest.mark.skipif(not numba.config.DISABLE_JIT, reason="breaks links: only with interpreted kernels")
@pytest.mark.kernels
@pytest.mark.parametrize("by", [1, -1, 1000])
def test_every_corruption_of_a_tree_is_noticed(by):
    """Changing any one live entry of any array of a tree is found out, whichever it is."""
    missed = []
    for name, flat in _live_entries(_tree()):
        tree = _tree()
        entries = getattr(tree, name).reshape(-1)
        before = int(entries[flat])
        if before < 0 and before + by < 0:
            continue  # any negative number ends a list
        entries[flat] += np.array(by).astype(entries.dtype)
        try:
            tree.check()
        except NOTICED:
            continue
        missed.append((name, flat, before))
    assert missed == []


def _ngrams() -> NgramIndex:
    index = NgramIndex(slots=16)
    index.extend([1, 2, 1, 2, 3, 1, 2, 3, 4, 1, 2])
    index.check()
    return index


@pytest.mark.kernels
def test_impossible_rows_of_an_ngram_index_are_noticed():
    """A count above the row's total, a token listed twice, a gap, and counts without a key are found out."""
    row = int(np.flatnonzero(_ngrams().table[:, ngram.FIRST + 3])[0])
    corruptions = {
        "count above total": (ngram.FIRST + 1, 1000),
        "gap": (ngram.FIRST + 1, 0),
        "no key": (ngram.KEY, 0),
    }
    for field, value in corruptions.values():
        index = _ngrams()
        index.table[row, field] = value
        with pytest.raises(AssertionError):
            index.check()
    index = _ngrams()
    index.table[row, ngram.FIRST + 2] = index.table[row, ngram.FIRST]
    with pytest.raises(AssertionError, match="twice"):
        index.check()
