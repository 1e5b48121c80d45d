"""Comparing a suffix tree, or a cursor, with its twin."""

from collections.abc import Iterable, Sequence

import numpy as np

from suffixspec.index.suffix_tree import Match, SuffixTree

from .oracle import ListTree, StringTree


def successors_of(tree: SuffixTree, match: Match) -> dict[int, int]:
    """The successors of a match as a dict, after checking types, order and that none comes twice."""
    tokens, counts = tree.successors(match)
    assert isinstance(tokens, np.ndarray)
    assert isinstance(counts, np.ndarray)
    assert tokens.dtype == np.int32
    assert counts.dtype == np.int32
    assert tokens.ndim == counts.ndim == 1
    assert len(tokens) == len(counts)
    assert (tokens >= 0).all(), f"expected no sentinels among the successors, got {tokens}"
    assert (counts[1:] <= counts[:-1]).all(), f"expected descending counts, got {counts}"
    found = dict(zip(tokens.tolist(), counts.tolist(), strict=True))
    assert len(found) == len(tokens), f"expected distinct successors, got {tokens}"
    return found


def assert_match_is(tree: SuffixTree, twin: ListTree, match: Match | None, string: Sequence[int]) -> None:
    """The match stands for this string: its length, count and successors are those of the twin."""
    shown = f"string {list(string)[:40]} of {len(string)} tokens in a text of {len(twin.text)}"
    assert match is not None, f"expected a match, got None for {shown}"
    assert match.length == len(string), f"expected length {len(string)}, got {match.length} for {shown}"
    expected, got = twin.count(string), tree.count(match)
    assert got == expected, f"expected count {expected}, got {got} for {shown}"
    expected, got = twin.successors(string), successors_of(tree, match)
    assert got == expected, f"expected successors {expected}, got {got} for {shown}"


def assert_finds(tree: SuffixTree, twin: ListTree, string: Sequence[int]) -> None:
    """``find`` answers as the twin does."""
    match = tree.find(np.array(string, np.int32))
    if twin.occurs(string):
        assert_match_is(tree, twin, match, string)
    else:
        assert match is None, f"expected None, got {match} for the absent string {list(string)[:40]}"


def assert_same_text(tree: SuffixTree, twin: ListTree) -> None:
    """Text, length and pending suffix are those of the twin."""
    assert len(tree) == len(twin.text)
    tokens = tree.tokens
    assert tokens.dtype == np.int32
    assert tokens.tolist() == twin.text
    expected = twin.pending()
    assert tree.pending == expected, f"expected {expected} pending suffixes, got {tree.pending}"


def assert_suffix_chain(tree: SuffixTree, twin: ListTree, *, limit: int = 12) -> None:
    """The longest suffix, and the shorter ones that follow from it, are the suffixes of the text."""
    length = twin.pending()
    match = tree.longest_suffix()
    for step in range(min(length, limit) + 1):
        s = length - step
        assert_match_is(tree, twin, match, twin.text[len(twin.text) - s :])
        if s > 0:
            match = tree.shorter(match)


def assert_all_substrings(tree: SuffixTree, twin: ListTree, table: dict) -> None:
    """Every substring of the text is found with the count and successors of the table."""
    for string, (count, successors) in table.items():
        match = tree.find(np.array(string, np.int32))
        assert match is not None, f"expected a match, got None for {string} in {twin.text}"
        assert match.length == len(string)
        assert tree.count(match) == count, (
            f"expected {count}, got {tree.count(match)} for {string} in {twin.text}"
        )
        got = successors_of(tree, match)
        assert got == successors, f"expected {successors}, got {got} for {string} in {twin.text}"


def build(parts: Iterable[Sequence[int] | None]) -> tuple[SuffixTree, StringTree]:
    """A tree and its twin from blocks of tokens; None ends a sequence."""
    tree, twin = SuffixTree(), StringTree()
    for part in parts:
        if part is None:
            tree.end_sequence()
            twin.end_sequence()
        else:
            tree.extend(np.array(part, np.int32))
            twin.extend(part)
    return tree, twin
