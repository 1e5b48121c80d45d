"""A cursor follows a text that is not in the tree, through every change of the tree."""

import itertools

import numpy as np
import pytest

from suffixspec.index.suffix_tree import SuffixTree

from .compare import assert_match_is, build, successors_of
from .oracle import CURSOR_WINDOW, CursorContract, StringCursor, StringTree
from .script import run_or_shrink, run_script

LARGEST = 2**31 - 1


def _random(n: int, size: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, size, n).tolist()


TEXTS = {
    "empty": [],
    "one token": [[0]],
    "all equal": [[0] * 300],
    "all equal, ended": [[0] * 300, None],
    "two runs": [[0] * 200, None, [0] * 150, [1], [0] * 30],
    "alternating": [[0, 1] * 150],
    "period of 5": [[0, 0, 1, 0, 2] * 60, None],
    "two tokens": [_random(300, 2, 1)],
    "three tokens in sequences": [x for i in range(10) for x in (_random(30, 3, i), None)],
    "extremes": [[LARGEST * token for token in _random(300, 2, 2)]],
}
FEEDS = {
    "equal": [0] * 350,
    "other": [9] * 20,
    "alternating": [0, 1] * 100,
    "period of 5 with a fault": [0, 0, 1, 0, 2] * 20 + [7] + [0, 0, 1, 0, 2] * 20,
    "two tokens": _random(200, 2, 3),
    "three tokens": _random(200, 3, 4),
    "the same two tokens": _random(300, 2, 1),
    "extremes": [LARGEST * token for token in _random(150, 2, 5)],
    "with resets": [0, 0, 1, -1, 0, 0, -5, -6, 1, 0, 2, 0, 0, 1, 0],
}


@pytest.mark.parametrize("feed", FEEDS)
@pytest.mark.parametrize("text", TEXTS)
def test_matching_statistics_of_a_resting_tree_are_exact(text, feed):
    """After each token the match is the longest suffix of what was fed that occurs, however long it is."""
    tree, twin = build(TEXTS[text])
    cursor, reference = tree.cursor(), StringCursor(twin)
    for i, token in enumerate(FEEDS[feed]):
        cursor.advance(token)
        reference.extend([token])
        match, true = cursor.match(), reference.match_length()
        assert match.length == true, f"expected {true} after {i + 1} tokens, got {match.length}"
        if i % 10 == 0:
            assert_match_is(tree, twin, match, reference.fed[len(reference.fed) - true :])


@pytest.mark.kernels
@pytest.mark.parametrize("text", ["empty", "two runs", "period of 5", "three tokens in sequences"])
def test_blocks_and_single_tokens_lead_to_the_same_match(text):
    """``extend`` is ``advance`` for each token, whatever the block sizes."""
    tree, twin = build(TEXTS[text])
    for feed in ("period of 5 with a fault", "three tokens", "with resets"):
        reference = StringCursor(twin)
        reference.extend(FEEDS[feed])
        for sizes in ([1], [0, 1, 2, 3], [64], [1000]):
            cursor, at = tree.cursor(), 0
            for size in itertools.cycle(sizes):
                cursor.extend(FEEDS[feed][at : at + size])
                at += size
                if at >= len(FEEDS[feed]):
                    break
            assert cursor.match().length == reference.match_length()


@pytest.mark.kernels
def test_negative_tokens_and_reset_forget_what_was_fed():
    """The match never reaches across a negative token or a reset."""
    tree, _ = build([[1, 2, 3, 4, 5]])
    cursor = tree.cursor()
    cursor.extend([1, 2])
    assert cursor.match().length == 2
    cursor.advance(-1)
    assert cursor.match().length == 0
    cursor.extend([3, 4])
    assert cursor.match().length == 2
    cursor.reset()
    assert cursor.match().length == 0
    cursor.extend([4, -3, 4, 5])
    assert cursor.match().length == 2
    cursor.advance(6)
    assert cursor.match().length == 0


OPERATIONS = {
    "append 0": ("append", 0),
    "append 1": ("append", 1),
    "end": ("end",),
    "feed 0": ("advance", 0, 0),
    "feed 1": ("advance", 0, 1),
    "query": ("match", 0),
}


def _interleavings(names: list[str], length: int, prelude: list[tuple]) -> None:
    for combination in itertools.product(names, repeat=length):
        script = [*prelude, ("cursor",), *(OPERATIONS[name] for name in combination), ("match", 0)]
        run_or_shrink(script, lambda ops: run_script(ops, cheap=True))


@pytest.mark.kernels
def test_every_interleaving_of_three_operations():
    """Append, end, feed and query in every order, from an empty tree."""
    _interleavings(list(OPERATIONS), 3, [])


def test_every_interleaving_of_five_operations():
    """Append, feed and query in every order, from an empty tree."""
    _interleavings(["append 0", "append 1", "end", "feed 0", "feed 1"], 5, [])


@pytest.mark.parametrize(
    "text", [pytest.param((0, 1, 0, 0), marks=pytest.mark.kernels), (0, 0, 0), (1, 0, 1, 0, 1)]
)
def test_every_interleaving_of_five_operations_on_a_text(text):
    """The same on a tree with edges long enough to be split under the cursor."""
    _interleavings(["append 0", "append 1", "feed 0", "feed 1", "query"], 5, [("extend", text, True)])


@pytest.mark.parametrize("capacity", [1, 256])
def test_a_cursor_survives_the_growth_of_its_tree(capacity):
    """Made on an empty tree, it finds what came in later, through many reallocations of the arrays."""
    rng = np.random.default_rng(capacity)
    tree, twin = SuffixTree(capacity=capacity), StringTree()
    cursor, contract = tree.cursor(), CursorContract(twin)
    for _ in range(60):
        block = rng.integers(0, 4, 50).tolist()
        tree.extend(block)
        twin.extend(block)
        contract.note_change()
        start = int(rng.integers(0, len(twin.text)))
        feed = twin.text[start : start + int(rng.integers(0, 90))]
        cursor.extend(feed)
        contract.extend(feed)
        match = cursor.match()
        assert_match_is(tree, twin, match, contract.verify(match.length))


@pytest.mark.kernels
class TestAfterAChange:
    """What is promised about long matches once the tree has changed."""

    def _fed(self, length: int) -> tuple[SuffixTree, StringTree, object, CursorContract]:
        tree, twin = build([list(range(500)), None])
        cursor, contract = tree.cursor(), CursorContract(twin)
        cursor.extend(range(100, 100 + length))
        contract.extend(range(100, 100 + length))
        assert cursor.match().length == length
        return tree, twin, cursor, contract

    @pytest.mark.parametrize("length", [1, 62, 63, 64, 65, 66, 300])
    def test_a_match_is_kept_or_cut_to_the_last_64_tokens(self, length):
        """An unrelated append leaves a match of under 64 tokens whole and a longer one at 64 at least."""
        tree, twin, cursor, contract = self._fed(length)
        tree.append(900)
        twin.append(900)
        contract.note_change()
        match = cursor.match()
        assert_match_is(tree, twin, match, contract.verify(match.length))
        assert match.length >= min(length, CURSOR_WINDOW)
        for token in (100 + length, 101 + length):
            cursor.advance(token)
            contract.extend([token])
            match = cursor.match()
            assert_match_is(tree, twin, match, contract.verify(match.length))
        cursor.advance(7)
        contract.extend([7])
        assert cursor.match().length == contract.twin.match_length() == 1

    @pytest.mark.parametrize("length", [1, 40, 63])
    def test_a_match_grows_when_the_tree_gets_the_text(self, length):
        """Tokens that were fed before they came into the tree are matched as soon as they are there."""
        tree, twin, cursor, contract = self._fed(0)
        feed = list(range(800, 800 + length))
        cursor.extend(feed)
        contract.extend(feed)
        assert cursor.match().length == 0
        for target in (tree, twin):
            target.extend(feed)
        contract.note_change()
        assert cursor.match().length == length
        assert_match_is(tree, twin, cursor.match(), contract.verify(length))

    def test_the_fed_text_can_come_in_token_by_token(self):
        """A text that is written and followed at the same time: the match covers all of it, or 64 tokens."""
        tree, twin = SuffixTree(), StringTree()
        cursor, contract = tree.cursor(), CursorContract(twin)
        for token in _random(200, 5, 8):
            cursor.advance(token)
            contract.extend([token])
            match = cursor.match()
            contract.verify(match.length)
            tree.append(token)
            twin.append(token)
            contract.note_change()
            match = cursor.match()
            assert_match_is(tree, twin, match, contract.verify(match.length))

    def test_a_long_match_goes_on_where_a_branch_was_made_at_its_end(self):
        """A match of 300 tokens stays what it was, and takes the branch that the tree has grown there since."""
        tree, twin, cursor, contract = self._fed(300)
        for target in (tree, twin):
            target.extend(range(100, 400))
            target.extend([999, 998])
        contract.note_change()
        assert cursor.match().length == 300
        assert successors_of(tree, cursor.match()) == {400: 1, 999: 1}
        cursor.extend([999, 998])
        contract.extend([999, 998])
        assert cursor.match().length == 302
        assert_match_is(tree, twin, cursor.match(), contract.twin.fed)

    def test_looking_again_stops_at_a_reset(self):
        """What was fed before a negative token is not looked at again, nor is the token taken for a sentinel."""
        tree, _ = build([[1, 2], None, [3, 4], None])
        cursor = tree.cursor()
        cursor.extend([1, 2, -1, 3, 4])
        tree.append(9)
        assert cursor.match().length == 2
        cursor.extend([-2])
        tree.append(9)
        assert cursor.match().length == 0
        cursor.extend([2, *([-1] * 100), 3])
        tree.append(9)
        assert cursor.match().length == 1

    def test_two_cursors_do_not_disturb_each_other(self):
        """Each keeps its own place, also while the tree changes."""
        tree, twin = build([_random(200, 3, 9)])
        pairs = [(tree.cursor(), CursorContract(twin)) for _ in range(3)]
        rng = np.random.default_rng(10)
        for step in range(300):
            cursor, contract = pairs[int(rng.integers(0, 3))]
            token = int(rng.integers(0, 3))
            cursor.advance(token)
            contract.extend([token])
            if step % 7 == 0:
                tree.append(token)
                twin.append(token)
                for _, other in pairs:
                    other.note_change()
            for other_cursor, other in pairs:
                other.verify(other_cursor.match().length)

    def test_feeding_less_than_64_tokens_is_always_exact(self):
        """With fewer than 64 tokens fed, changes of the tree cost nothing."""
        for seed in range(30):
            rng = np.random.default_rng(seed)
            tree, twin = build([rng.integers(0, 2, 40).tolist()])
            cursor, reference = tree.cursor(), StringCursor(twin)
            for _ in range(63):
                token = int(rng.integers(0, 2))
                cursor.advance(token)
                reference.extend([token])
                if rng.random() < 0.3:
                    block = rng.integers(0, 2, 3).tolist()
                    tree.extend(block)
                    twin.extend(block)
                assert cursor.match().length == reference.match_length(), f"seed {seed}"


BAD = {
    "too large": [2**31],
    "wraps": [2**32 + 5],
    "float": [1.0],
    "two-dimensional": np.zeros((2, 2), np.int32),
    "bools": [True],
    "text": "1",
}


@pytest.mark.parametrize("name", BAD)
def test_bad_blocks_are_refused(name):
    """``extend`` says what it expected, and the cursor stays where it was."""
    tree, _ = build([[1, 2, 3]])
    cursor = tree.cursor()
    cursor.extend([1, 2])
    with pytest.raises((ValueError, TypeError), match=r"(?s)expected .*got "):
        cursor.extend(BAD[name])
    assert cursor.match().length == 2
    cursor.advance(3)
    assert cursor.match().length == 3


@pytest.mark.parametrize("token", [2**31, 2**32 + 5, 1.0, True, None, "1"])
def test_bad_tokens_are_refused(token):
    """``advance`` says what it expected, and the cursor stays where it was."""
    tree, _ = build([[1, 2, 3]])
    cursor = tree.cursor()
    cursor.extend([1, 2])
    with pytest.raises((ValueError, TypeError), match=r"(?s)expected .*got "):
        cursor.advance(token)
    assert cursor.match().length == 2
