"""Compile every kernel once, before the first token waits for it."""

import numba
import numpy as np

from . import contexts, draft, evidence, learning, ngram, resume, sealed, tree

_done = False


def warm_up() -> None:
    """Compile every entry point for the declared types, then forbid further compilation.

    After it, an array that is strided, read-only or of another dtype raises TypeError instead of compiling
    one more version silently. Cost: some 20 s the first time on a machine, tens of milliseconds with a warm
    cache; nothing when called again.
    """
    global _done  # noqa: PLW0603 (compiled kernels are state of the process)
    if _done:
        return
    text, leaf = np.zeros(8, np.int32), np.zeros((8, tree.LEAF_FIELDS), np.int32)
    inner, table = np.zeros((8, tree.INNER_FIELDS), np.int32), np.zeros(32, np.uint32)
    inner[0, [tree.PARENT, tree.NEXT, tree.PREV, tree.INNERS, tree.LEAVES]] = -1
    state, cursor = np.zeros(tree.STATE_FIELDS, np.int64), np.zeros(tree.CURSOR_FIELDS, np.int64)
    state[tree.S_INNERS] = 1
    recent, tokens = np.zeros(tree.WINDOW, np.int32), np.zeros(2, np.int32)
    arrays = text, leaf, inner, table
    tree.extend(*arrays, state, tokens, 0, True)
    tree.rehash(*arrays, state)
    tree.find(*arrays, 2, tokens)
    node, code = tree.descend(*arrays, 0, 0, 0)
    tree.shorten(*arrays, node, 1, 0)
    tree.successors(text, leaf, inner, 2, code, 0, tokens.copy(), tokens.copy())
    tree.advance_cursor(*arrays, 2, cursor, recent, tokens)
    ngrams, tail = np.zeros((4, ngram.ROW_FIELDS), np.int32), np.zeros(ngram.TAIL_FIELDS, np.int32)
    ngram.extend(ngrams, tail, tokens)
    ngram.find_context(ngrams, tokens, 2, 1)
    rows, keys = np.zeros((3, contexts.ROW_FIELDS), np.int32), np.zeros(draft.POOL, np.float32)
    cells, weights = np.ones((evidence.CELLS, 3), np.float32), np.ones((evidence.WEIGHTS, 2), np.float32)
    probs = np.zeros((2, 3), np.float32)
    strayed = np.full((evidence.LIVE, resume.STRAYED_FIELDS), -1, np.int32)
    sealed_text, place = (
        np.array([-1], np.int32),
        np.zeros((sealed.CURSOR_ROWS, sealed.CONTEXT_FIELDS), np.int32),
    )
    sealed_nodes = np.array([1, 0, 0, 0, 0], np.int32)
    branches = np.zeros((sealed.MOST_BRANCHES, 2), np.int32)
    for array in (sealed_text, sealed_nodes):
        array.flags.writeable = False
    index = sealed_text, sealed_text, sealed_nodes
    frozen = (*index, place)
    sealed.advance(*index, place, tokens)
    sealed.find(*index, tokens, place[:1])
    sealed.successors(*index, place[:1], branches)
    draft.draft(
        *arrays, state, *arrays, cursor, *arrays, cursor, *frozen, *frozen,
        ngrams, tail, strayed, tail[1:], branches, cells, weights, np.zeros(1, np.uint8), np.ones(3, np.float32),
        rows, probs, np.zeros((2, 3), np.int32), np.zeros((draft.POOL, evidence.POOL_FIELDS), np.int32),
        keys, keys.view(np.int32), keys.copy(), np.zeros(draft.POOL, np.int32),
        np.zeros(draft.BUCKETS, np.int32),
    )  # fmt: skip
    learning.learn(rows, probs[draft.GIVEN], 1, tokens, cells, weights, 8.0, True, strayed)
    if not numba.config.DISABLE_JIT:
        for kernel in _ENTRY_POINTS:
            kernel.disable_compile()
    _done = True


_ENTRY_POINTS = (
    tree.extend,
    tree.rehash,
    tree.find,
    tree.descend,
    tree.shorten,
    tree.successors,
    tree.advance_cursor,
    ngram.extend,
    ngram.find_context,
    draft.draft,
    learning.learn,
    sealed.advance,
    sealed.find,
    sealed.successors,
)
