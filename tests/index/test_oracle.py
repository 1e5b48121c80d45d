"""The oracle is right: by hand, and because twins written in different ways agree."""

import numpy as np
import pytest

from .oracle import (
    CursorContract,
    ListCursor,
    ListTree,
    StringCursor,
    StringTree,
    ngram_counts,
    substring_table,
)


def _tree(twin_type: type[ListTree], text: str) -> ListTree:
    """A twin of a text of letters: ``$`` ends a sequence, upper-case means uncounted."""
    twin = twin_type()
    for letter in text:
        if letter == "$":
            twin.end_sequence()
        else:
            twin.extend([ord(letter.lower()) - ord("a")], counted=letter.islower())
    return twin


def _ids(letters: str) -> list[int]:
    return [ord(letter) - ord("a") for letter in letters]


def _shown(successors: dict[int, int]) -> dict[str, int]:
    return {chr(token + ord("a")): count for token, count in successors.items()}


@pytest.mark.parametrize("twin_type", [ListTree, StringTree])
class TestByHand:
    """Answers worked out on paper."""

    @pytest.mark.parametrize(
        ("text", "pending"),
        [
            ("", 0),
            ("a", 0),
            ("ab", 0),
            ("aba", 1),
            ("abab", 2),
            ("banana", 3),
            ("aaaa", 3),
            ("aa$", 0),
            ("aa$aa", 2),
            ("aa$$", 0),
            ("ABab", 2),
        ],
    )
    def test_pending_is_the_longest_suffix_that_starts_earlier(self, twin_type, text, pending):
        """Occurrences may overlap, and none contains a sentinel."""
        assert _tree(twin_type, text).pending() == pending

    def test_pending_occurrences_are_found_but_not_counted(self, twin_type):
        """In ``banana`` the suffix ``ana`` is pending: only positions 0, 1 and 2 count."""
        twin = _tree(twin_type, "banana")
        assert twin.occurs(_ids("nana"))
        assert not twin.occurs(_ids("nb"))
        assert twin.count(_ids("a")) == 1
        assert twin.count(_ids("na")) == 1
        assert _shown(twin.successors(_ids("an"))) == {"a": 1}

    def test_the_end_of_the_pending_suffix_flushes_it(self, twin_type):
        """After ``bananab`` only ``b`` is pending, and after a sentinel nothing is."""
        twin = _tree(twin_type, "bananab")
        assert twin.count(_ids("a")) == 3
        assert _shown(twin.successors(_ids("a"))) == {"n": 2, "b": 1}
        twin.end_sequence()
        assert twin.count(_ids("b")) == 2
        assert _shown(twin.successors(_ids("b"))) == {"a": 1}

    def test_an_occurrence_at_the_end_is_not_counted(self, twin_type):
        """Nothing follows ``ab`` in the text ``ab``."""
        twin = _tree(twin_type, "ab")
        assert twin.occurs(_ids("ab"))
        assert twin.count(_ids("ab")) == 0
        assert twin.successors(_ids("ab")) == {}
        assert twin.count(_ids("a")) == 1

    def test_the_empty_string_is_counted_at_each_flushed_position(self, twin_type):
        """``ab$ab`` has three flushed positions, one of them the sentinel's own."""
        twin = _tree(twin_type, "ab$ab")
        assert twin.count([]) == 3
        assert _shown(twin.successors([])) == {"a": 1, "b": 1}

    def test_uncounted_occurrences_are_listed_with_their_share(self, twin_type):
        """An occurrence belongs to the block in which it starts."""
        twin = _tree(twin_type, "abx$ABy$Abz$")
        assert twin.count(_ids("ab")) == 1
        assert _shown(twin.successors(_ids("ab"))) == {"x": 1, "y": 0, "z": 0}
        assert _shown(twin.successors(_ids("b"))) == {"x": 1, "y": 0, "z": 1}

    def test_counts_saturate(self, twin_type):
        """The 1,024th occurrence changes nothing."""
        twin = _tree(twin_type, "ab$" * 1023)
        assert twin.count(_ids("a")) == 1023
        twin = _tree(twin_type, "ab$" * 1024)
        assert twin.count(_ids("a")) == 1023
        assert _shown(twin.successors(_ids("a"))) == {"b": 1023}

    def test_sentinels_and_negative_tokens_never_occur(self, twin_type):
        """Not even a sentinel that is in the text."""
        twin = _tree(twin_type, "a$b")
        assert twin.text == [0, -1, 1]
        assert not twin.occurs([-1])
        assert not twin.occurs([0, -1])
        assert twin.occurs([])
        assert not twin.occurs([0, 1])


@pytest.mark.parametrize("size", [1, 2, 3, 8, 1000])
@pytest.mark.parametrize("seed", range(6))
def test_three_twins_agree(seed, size):
    """Lists, strings and the table agree on pending lengths, counts and successors of all substrings."""
    rng = np.random.default_rng([seed, size])
    lists, strings = ListTree(), StringTree()
    for _ in range(14):
        block = rng.integers(0, size, rng.integers(0, 5)).tolist()
        if lists.text and rng.random() < 0.4:
            start = rng.integers(0, len(lists.text))
            block = [token for token in lists.text[start : start + 6] if token >= 0]
        counted = bool(rng.random() < 0.7)
        for twin in (lists, strings):
            twin.extend(block, counted=counted)
        if rng.random() < 0.2:
            lists.end_sequence()
            strings.end_sequence()
        table = substring_table(lists.text, lists.counted)
        assert lists.pending() == strings.pending()
        for string, (count, successors) in table.items():
            assert lists.occurs(string)
            assert strings.occurs(string)
            assert lists.count(string) == strings.count(string) == count
            assert lists.successors(string) == strings.successors(string) == successors
        absent = rng.integers(0, size + 1, 5).tolist()
        assert lists.occurs(absent) == strings.occurs(absent) == (tuple(absent) in table)


@pytest.mark.parametrize("seed", range(8))
def test_both_cursor_twins_agree(seed):
    """Looking longest suffix by suffix and bisecting give the same lengths."""
    rng = np.random.default_rng(seed)
    tree = StringTree()
    cursors = ListCursor(tree), StringCursor(tree)
    for _ in range(60):
        tree.extend(rng.integers(0, 3, 2).tolist())
        tokens = rng.integers(-1 if rng.random() < 0.1 else 0, 3, 2).tolist()
        for cursor in cursors:
            cursor.extend(tokens)
        assert cursors[0].match_length() == cursors[1].match_length()


def test_the_contract_refuses_a_wrong_length():
    """Exact at rest; after a change a long match may be reported short, but not below 64 tokens."""
    tree = ListTree()
    tree.extend(range(100))
    contract = CursorContract(tree)
    contract.extend(range(10, 90))
    assert contract.verify(80) == list(range(10, 90))
    with pytest.raises(AssertionError, match="expected a match of 80"):
        contract.verify(79)
    tree.extend([5])
    contract.note_change()
    assert contract.verify(70) == list(range(20, 90))
    for wrong in (63, 81):
        with pytest.raises(AssertionError, match="expected a match of 64"):
            contract.verify(wrong)
    contract.extend([7, 8])
    with pytest.raises(AssertionError, match="expected a match of 2 "):
        contract.verify(1)
    contract.verify(2)
    contract.extend([9])
    with pytest.raises(AssertionError, match="expected a match of 3 "):
        contract.verify(2)


def test_ngram_counts_stay_within_a_sequence():
    """``aab`` and ``ab`` give ``a`` → ``a`` once and ``b`` twice, and nothing across the end."""
    counts = ngram_counts([[0, 0, 1], [0, 1]], 1)
    assert counts == {(0,): {0: 1, 1: 2}}
    assert ngram_counts([[0, 0, 1], [0, 1]], 2) == {(0, 0): {1: 1}}
