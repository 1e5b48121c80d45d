"""The self-check of the suffix tree: every invariant, in plain Python over the arrays. For tests."""

from typing import Any

from suffixspec.native import tree as native


def check_tree(text: Any, leaf: Any, inner: Any, table: Any, state: Any) -> None:
    """Raise AssertionError naming the first broken node.

    Invariants: every leaf and inner node is in its parent's list and in the table, once each; an inner node
    has two or more children and a string that its children's strings start with; a suffix link leads to the
    string without its first token; a count is the sum of the children's, as far as it is not saturated, and so
    long the last start is the children's latest; the active point spells the pending suffix; nothing else is
    in the table.
    """
    n, suffixes, inners = int(state[native.S_N]), int(state[native.S_SUFFIX]), int(state[native.S_INNERS])
    assert state[native.S_OPEN] == 0, "an append was left half done"
    assert 0 <= suffixes <= n <= text.shape[0], f"sizes: {suffixes} suffixes of {n} positions"
    depth = [int(d) for d in inner[:inners, native.DEPTH]]
    root = inner[0]
    assert root[native.PARENT] == root[native.PREV] == root[native.NEXT] == -1, (
        f"the root has relatives: {root}"
    )
    seen_leaves: set[int] = set()
    children = 0
    for v in range(inners):
        row = inner[v]
        pos = int(row[native.POS])
        assert pos + depth[v] <= n, f"inner node {v} ends beyond the text: {row}"
        first_tokens: list[int] = []
        total = 0
        starts = []
        child, prev = int(row[native.INNERS]), -1
        while child >= 0:
            below = inner[child]
            assert below[native.PARENT] == v, f"inner node {child} is listed under {v}, has parent {below}"
            assert below[native.PREV] == prev, (
                f"inner node {child} is wrongly linked to its siblings: {below}"
            )
            assert depth[child] > depth[v], f"inner node {child} is not deeper than its parent {v}"
            start = int(below[native.POS])
            same = text[start : start + depth[v]] == text[pos : pos + depth[v]]
            assert same.all(), f"inner node {child} does not start with the string of its parent {v}"
            first_tokens.append(int(text[start + depth[v]]))
            total += int(below[native.COUNT])
            if below[native.COUNT] > 0:
                starts.append(int(below[native.LAST]))
            assert native.child(text, leaf, inner, table, v, first_tokens[-1]) == child, (
                f"inner {child} not in table"
            )
            prev, child = child, int(below[native.NEXT])
        child, prev = int(row[native.LEAVES]), -1
        while child >= 0:
            parent = int(leaf[child, native.L_PARENT])
            counted, parent = parent >= 0, parent if parent >= 0 else ~parent
            assert parent == v, f"leaf {child} is listed under {v}, has parent {parent}"
            assert leaf[child, native.L_PREV] == prev, f"leaf {child} is wrongly linked to its siblings"
            assert child not in seen_leaves, f"leaf {child} is listed twice"
            seen_leaves.add(child)
            same = text[child : child + depth[v]] == text[pos : pos + depth[v]]
            assert same.all(), f"leaf {child} does not start with the string of its parent {v}"
            assert child + depth[v] < n, f"leaf {child} has an empty edge under {v}"
            first_tokens.append(int(text[child + depth[v]]))
            total += counted
            if counted:
                starts.append(child)
            assert native.child(text, leaf, inner, table, v, first_tokens[-1]) == ~child, (
                f"leaf {child} not in table"
            )
            prev, child = child, int(leaf[child, native.L_NEXT])
        assert len(first_tokens) == len(set(first_tokens)), (
            f"inner node {v} has two children with one first token"
        )
        assert v == 0 or len(first_tokens) >= 2, f"inner node {v} has {len(first_tokens)} children"
        children += len(first_tokens)
        count = int(row[native.COUNT])
        assert count == min(total, native.SATURATION), f"inner node {v} counts {count}, its children {total}"
        last = int(row[native.LAST])
        if 0 < count < native.SATURATION:
            assert last == max(starts), f"inner node {v} started last at {last}, its children at {starts}"
        assert last >= 0, f"inner node {v} starts at {last}"
        same = text[last : last + depth[v]] == text[pos : pos + depth[v]]
        assert same.all(), f"inner node {v} does not start at {last}"
        if v:
            link = int(row[native.LINK])
            assert 0 <= link < inners, f"inner node {v} links to {link}"
            assert depth[link] == depth[v] - 1, (
                f"inner node {v} links to {link}, which is not one token shorter"
            )
            there = int(inner[link, native.POS])
            same = text[there : there + depth[link]] == text[pos + 1 : pos + depth[v]]
            assert same.all(), f"inner node {v} links to {link}, which is another string"
    assert seen_leaves == set(range(suffixes)), "a suffix without a leaf, or a leaf without a suffix"
    used = int((table != 0).sum())
    assert used == int(state[native.S_USED]) == children, f"table: {used} used, {children} children"
    node, below_node = int(state[native.S_NODE]), int(state[native.S_BELOW])
    assert depth[node] + below_node == n - suffixes, (
        f"active point at {node} + {below_node}, pending {n - suffixes}"
    )
    found, at, _ = native.find(text, leaf, inner, table, n, text[suffixes:n])
    assert found == n - suffixes, f"the pending suffix is not in the tree: only {found} of its tokens"
    assert at == node, f"the active node is {node}, the pending suffix ends below {at}"
    assert state[native.S_UNLINKED] == 0, f"inner node {state[native.S_UNLINKED]} has no suffix link"
