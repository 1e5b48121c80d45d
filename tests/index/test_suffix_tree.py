"""The suffix tree answers as its definition says, on every small text and on texts made to hurt it."""

import itertools
import math

import numpy as np
import pytest

from suffixspec.index.suffix_tree import SuffixTree

from .compare import (
    assert_all_substrings,
    assert_finds,
    assert_match_is,
    assert_same_text,
    assert_suffix_chain,
    build,
    successors_of,
)
from .oracle import SATURATION, ListTree, StringTree, substring_table

LARGEST = 2**31 - 1


def _apply(tree: SuffixTree | ListTree, letter: str) -> None:
    """One letter of a small text: ``$`` ends a sequence, upper-case letters are uncounted."""
    if letter == "$":
        tree.end_sequence()
    else:
        tree.extend([ord(letter.lower()) - ord("a")], counted=letter.islower())


def _assert_exact(letters: str, tree: SuffixTree, absent: list[list[int]]) -> None:
    twin = ListTree()
    for letter in letters:
        _apply(twin, letter)
    assert_same_text(tree, twin)
    table = substring_table(twin.text, twin.counted)
    assert_all_substrings(tree, twin, table)
    for string in absent:
        if tuple(string) not in table:
            assert tree.find(string) is None
    assert_suffix_chain(tree, twin)


def _every_text(letters: str, most: int) -> None:
    """Build each text of up to ``most`` letters, check after each append, compare every substring."""
    absent = [list(string) for s in (1, 2, 3) for string in itertools.product((0, 1, 9), repeat=s)]
    for length in range(most + 1):
        for text in itertools.product(letters, repeat=length):
            tree = SuffixTree(capacity=1)
            for letter in text:
                _apply(tree, letter)
                tree.check()
            _assert_exact("".join(text), tree, absent[:: max(1, length)])


class TestEveryShortText:
    """All texts up to a length, each substring of each text."""

    @pytest.mark.kernels
    def test_every_text_of_two_letters_and_sentinels(self):
        """All texts of up to five positions are indexed exactly."""
        _every_text("ab$", 5)

    def test_every_longer_text_of_two_letters(self):
        """All texts of up to nine tokens are indexed exactly."""
        _every_text("ab", 9)

    def test_every_text_with_uncounted_letters(self):
        """All texts of up to four positions, counted or not, with sentinels, are indexed exactly."""
        _every_text("abAB$", 4)

    def test_every_text_of_three_letters(self):
        """All texts of up to six tokens are indexed exactly."""
        _every_text("abc", 6)


# --- texts made to hurt -----------------------------------------------------------------------------


def _fibonacci(n: int) -> list[int]:
    short, long = [1], [1, 0]
    while len(long) < n:
        short, long = long, long + short
    return long[:n]


def _thue_morse(n: int) -> list[int]:
    return [i.bit_count() % 2 for i in range(n)]


def _random(n: int, size: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, size, n).tolist()


def _runs(n: int, *between: int | None) -> list[list[int] | None]:
    parts: list[list[int] | None] = [[7] * n]
    for token in between:
        parts += [None if token is None else [token], [7] * n]
    return parts


ADVERSARIAL = {
    "all equal": lambda n: [[5] * n],
    "all equal, largest token": lambda n: [[LARGEST] * n],
    "all equal, smallest token": lambda n: [[0] * n],
    "all equal, ended": lambda n: [[5] * n, None],
    "three runs between tokens": lambda n: _runs(n // 3, 1, 2),
    "three runs between sentinels": lambda n: [*_runs(n // 3, None, None), None],
    "falling runs": lambda n: [x for r in range(math.isqrt(2 * n), 0, -1) for x in ([3] * r, None)],
    "rising runs": lambda n: [x for r in range(1, math.isqrt(2 * n)) for x in ([3] * r, [4])],
    "period of 7": lambda n: [(list(range(7)) * n)[:n]],
    "period of 97, ended": lambda n: [(_random(97, 3) * n)[:n], [99], None],
    "Fibonacci": lambda n: [_fibonacci(n)],
    "Fibonacci, ended": lambda n: [_fibonacci(n), None],
    "Thue-Morse": lambda n: [_thue_morse(n)],
    "two random tokens": lambda n: [_random(n, 2)],
    "many random tokens": lambda n: [_random(n, 100_000)],
    "the extremes": lambda n: [[LARGEST * token for token in _random(n, 2)]],
    "alternating": lambda n: [[0, LARGEST] * (n // 2)],
    "alternating, ended": lambda n: [[0, 1] * (n // 2), None],
    "each token once": lambda n: [list(range(n))],
    "a repeat that goes on": lambda n: [_random(n // 2, 50), None, _random(n // 2, 50)],
    "a repeat that ends": lambda n: [_random(n // 2, 50), [60], _random(n // 2, 50), [61]],
    "a palindrome": lambda n: [_random(n // 2, 4), _random(n // 2, 4)[::-1]],
    "only sentinels": lambda n: [None] * n,
}


def _sampled(tree: SuffixTree, twin: StringTree, seed: int, samples: int) -> None:
    """Compare substrings of all lengths, and strings one token off, drawn at random."""
    rng = np.random.default_rng(seed)
    text, n = twin.text, len(twin.text)
    for _ in range(samples):
        start = int(rng.integers(0, n + 1))
        most = max(1, n - start)
        length = int(np.exp(rng.uniform(0, np.log(most + 1)))) - (rng.random() < 0.1)
        string = text[start : start + length]
        if rng.random() < 0.3:
            string = [*string, text[int(rng.integers(0, n))] if rng.random() < 0.7 else 123_456]
        assert_finds(tree, twin, string)


def _one_by_one(parts: list[list[int] | None]) -> SuffixTree:
    tree = SuffixTree()
    for part in parts:
        if part is None:
            tree.end_sequence()
        else:
            for token in part:
                tree.append(token)
    return tree


@pytest.mark.kernels
@pytest.mark.parametrize("name", ADVERSARIAL)
def test_adversarial_texts_of_a_hundred_positions(name):
    """Every substring of a short adversarial text has the count and the successors of the definition."""
    tree, twin = build(ADVERSARIAL[name](48))
    tree.check()
    assert_same_text(tree, twin)
    assert_all_substrings(tree, twin, substring_table(twin.text, twin.counted))


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_long_adversarial_texts(name):
    """3·10⁴ positions: sampled substrings and the longest suffixes are exact, in blocks and one by one."""
    parts = ADVERSARIAL[name](30_000 if "runs between" in name else 8_000)
    tree, twin = build(parts)
    tree.check()
    assert_same_text(tree, twin)
    assert_suffix_chain(tree, twin, limit=3)
    _sampled(tree, twin, seed=1, samples=15)
    other = _one_by_one(parts)
    other.check()
    assert_same_text(other, twin)
    _sampled(other, twin, seed=2, samples=5)


@pytest.mark.parametrize("separator", [None, 1])
def test_three_runs_of_ten_thousand_equal_tokens(separator):
    """The counts of three separated runs are the sums over the runs, and saturate."""
    n = 10_000
    tree, twin = build(_runs(n, *([None, None] if separator is None else [1, 2])))
    tree.end_sequence()
    twin.end_sequence()
    tree.check()
    for length in (1, 2, n - 400, n - 300, n - 100, n - 2, n - 1, n):
        # A run holds n − length + 1 occurrences of a string of its own token; the sentinel follows the last.
        match = tree.find([7] * length)
        assert tree.count(match) == min(SATURATION, 3 * (n - length + 1))
        successors = successors_of(tree, match)
        assert successors.pop(7, 0) == min(SATURATION, 3 * (n - length))
        assert successors == ({} if separator is None else {1: 1, 2: 1})
    assert tree.find([7] * (n + 1)) is None
    assert_suffix_chain(tree, twin)


@pytest.mark.kernels
class TestPending:
    """The suffix that is being repeated, and what happens when the repeat ends."""

    @pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 3_000])
    def test_a_long_repeat_counts_once_it_ends(self, length):
        """While it goes on its occurrences are not counted; the token that ends it adds all at once."""
        block = np.random.default_rng(length).permutation(10_000)[:length].astype(np.int32)
        tree = SuffixTree()
        tree.extend(block)
        tree.append(LARGEST)
        tree.extend(block)
        tree.check()
        assert tree.pending == length
        assert tree.longest_suffix().length == length
        for start in range(0, length, max(1, length // 7)):
            assert tree.count(tree.find(block[start:])) == 1
        tree.append(20_000)
        tree.check()
        assert tree.pending == 0
        assert tree.longest_suffix().length == 0
        for start in range(0, length, max(1, length // 7)):
            match = tree.find(block[start:])
            assert tree.count(match) == 2
            assert successors_of(tree, match) == {LARGEST: 1, 20_000: 1}

    def test_a_sentinel_ends_a_repeat(self):
        """A sequence that repeats the one before counts fully once it is ended, and nothing is pending."""
        tree = SuffixTree()
        for _ in range(2):
            tree.extend(range(500))
            tree.end_sequence()
        tree.check()
        assert tree.pending == 0
        match = tree.find(range(100, 200))
        assert tree.count(match) == 2
        assert successors_of(tree, match) == {200: 2}

    def test_a_repeat_can_be_repeated(self):
        """Eight copies of a block, in one text: seven of them are flushed at the end of the eighth."""
        block = list(range(300))
        tree, twin = build([block] * 8)
        tree.check()
        assert_same_text(tree, twin)
        assert tree.pending == 7 * 300
        tree.append(999)
        assert tree.count(tree.find(block)) == 8
        assert successors_of(tree, tree.find(block)) == {0: 7, 999: 1}

    def test_shorter_reaches_the_empty_string(self):
        """The longest suffix gets shorter by its first token until nothing is left of it."""
        text = [1, 2, 3, 4, 9, 1, 2, 3, 4]
        tree = SuffixTree()
        tree.extend(text)
        match = tree.longest_suffix()
        lengths = [match.length]
        while match.length:
            match = tree.shorter(match)
            lengths.append(match.length)
        assert lengths == [4, 3, 2, 1, 0]
        with pytest.raises(ValueError, match=r"expected .*got"):
            tree.shorter(match)


@pytest.mark.kernels
class TestSaturation:
    """Counts stop at 1,023 and stay right on both sides of it."""

    def test_counts_pass_through_saturation_one_by_one(self):
        """The count of a token that gets a new successor each time is exact up to 1,023 and then stays."""
        tree = SuffixTree()
        for i in range(1, 1031):
            tree.extend([5, 10 + i])
            if i in {1, 2, 1021, 1022, 1023, 1024, 1030}:
                match = tree.find([5])
                assert tree.count(match) == min(SATURATION, i)
                successors = successors_of(tree, match)
                assert len(successors) == i
                assert set(successors.values()) == {1}
        tree.check()

    def test_a_saturated_edge_can_be_split(self):
        """After 1,100 equal sequences a branch in the middle takes over the saturated count below it."""
        tree, twin = SuffixTree(), StringTree()
        for _ in range(1100):
            tree.extend([1, 2, 3, 4, 5, 6])
            tree.end_sequence()
            twin.extend([1, 2, 3, 4, 5, 6])
            twin.end_sequence()
        for extra in ([1, 2, 3, 8], [2, 3, 9], [3, 4, 5, 9]):
            tree.extend(extra)
            twin.extend(extra)
            tree.check()
            for string in ([1], [1, 2], [1, 2, 3], [2, 3], [3], [3, 4], [3, 4, 5], [5, 6], [6], []):
                assert_finds(tree, twin, string)
        assert successors_of(tree, tree.find([1, 2, 3])) == {4: SATURATION, 8: 1}

    def test_several_branches_saturate_one_ancestor(self):
        """Successors that come 1,022, 600 and 10 times: the parent saturates, they stay exact and go on."""
        rng = np.random.default_rng(3)
        order = rng.permutation(np.repeat([1, 2, 3], [1022, 600, 10])).tolist()
        tree, twin = SuffixTree(), StringTree()
        for token in [*order, 1, 1, 1, 3, 2]:
            tree.extend([9, token])
            tree.end_sequence()
            twin.extend([9, token])
            twin.end_sequence()
        tree.check()
        for string in ([9], [9, 1], [9, 2], [9, 3], [1], []):
            assert_finds(tree, twin, string)
        assert successors_of(tree, tree.find([9])) == {1: SATURATION, 2: 601, 3: 11}

    def test_uncounted_occurrences_do_not_saturate(self):
        """1,500 uncounted occurrences leave room for the counted ones, before and after them."""
        tree = SuffixTree()
        for _ in range(3):
            tree.extend([4, 6])
            tree.end_sequence()
        for _ in range(1500):
            tree.extend([4, 5], counted=False)
            tree.end_sequence()
        assert tree.count(tree.find([4])) == 3
        assert successors_of(tree, tree.find([4])) == {6: 3, 5: 0}
        for _ in range(1030):
            tree.extend([4, 5])
            tree.end_sequence()
        tree.check()
        assert tree.count(tree.find([4])) == SATURATION
        assert successors_of(tree, tree.find([4])) == {5: SATURATION, 6: 3}


class TestUncounted:
    """Blocks that are matched and drafted from, but add nothing to counts."""

    @pytest.mark.kernels
    def test_an_overlap_gives_left_context_without_counting_twice(self):
        """A branch: sentinel, uncounted overlap, new text. Only the first writing of the overlap counts."""
        main = list(range(100))
        tree, twin = build([main])
        for target in (tree, twin):
            target.end_sequence()
            target.extend(main[20:50], counted=False)
            target.extend([500, 501, 502])
        tree.check()
        assert_same_text(tree, twin)
        assert_all_substrings(tree, twin, substring_table(twin.text, twin.counted))
        match = tree.find(main[40:50])
        assert tree.count(match) == 1
        assert successors_of(tree, match) == {50: 1, 500: 0}

    def test_pending_suffixes_remember_where_they_started(self):
        """A repeat that starts in an uncounted block and ends in a counted one counts from there on only."""
        tree, twin = build([[1, 2, 3, 4, 5, 6]])
        for target in (tree, twin):
            target.append(90)
            target.extend([1, 2, 3], counted=False)
            target.extend([4, 5, 6])
            target.append(91)
        tree.check()
        assert_all_substrings(tree, twin, substring_table(twin.text, twin.counted))
        assert tree.count(tree.find([3, 4])) == 1
        assert tree.count(tree.find([4, 5])) == 2

    def test_only_uncounted_text_has_counts_of_zero(self):
        """It is found, and its successors are listed with 0."""
        tree = SuffixTree()
        tree.extend([1, 2, 1, 3, 0], counted=False)
        tree.check()
        match = tree.find([1])
        assert tree.count(match) == 0
        assert successors_of(tree, match) == {2: 0, 3: 0}

    @pytest.mark.parametrize("seed", range(4))
    def test_many_branches_of_one_text(self, seed):
        """Thirty cut-backs with an overlap of 64 tokens each leave every sampled count exact."""
        rng = np.random.default_rng(seed)
        tree, twin = build([_random(400, 12, seed)])
        for _ in range(30):
            at = int(rng.integers(70, 400))
            overlap, branch = twin.text[at - 64 : at], rng.integers(0, 12, 20).tolist()
            overlap = [token for token in overlap if token >= 0]
            for target in (tree, twin):
                target.end_sequence()
                target.extend(overlap, counted=False)
                target.extend(branch)
            tree.check()
            assert_same_text(tree, twin)
            assert_suffix_chain(tree, twin, limit=4)
        _sampled(tree, twin, seed, 60)


class TestBlocks:
    """How the text arrives makes no difference."""

    @pytest.mark.kernels
    @pytest.mark.parametrize("capacity", [1, 2, 3, 256, 5000])
    def test_capacity_and_block_sizes_do_not_change_answers(self, capacity):
        """One block, blocks of 1 … 7 and single tokens give the same text, pending length and counts."""
        text = _fibonacci(150) + _random(150, 3)
        twin = StringTree()
        twin.extend(text)
        whole, blocks, single = (SuffixTree(capacity=capacity) for _ in range(3))
        whole.extend(text)
        at = 0
        for size in itertools.cycle(range(8)):
            blocks.extend(text[at : at + size])
            at += size
            if at >= len(text):
                break
        for token in text:
            single.append(token)
        for tree in (whole, blocks, single):
            tree.check()
            assert_same_text(tree, twin)
            _sampled(tree, twin, 5, 25)

    @pytest.mark.parametrize(
        "convert",
        [list, tuple, *(lambda x, t=t: np.array(x, t) for t in (np.int32, np.int64, np.uint32))],
        ids=["list", "tuple", "int32", "int64", "uint32"],
    )
    def test_any_sequence_of_integers_is_a_block(self, convert):
        """Lists, tuples and integer arrays are accepted by ``extend`` and ``find``."""
        tree = SuffixTree()
        tree.extend(convert([0, 3, LARGEST, 3]))
        assert tree.tokens.tolist() == [0, 3, LARGEST, 3]
        assert tree.find(convert([3, LARGEST])).length == 2

    def test_strided_and_read_only_arrays_are_blocks(self):
        """A view with gaps, a reversed view and a read-only array are copied in as they read."""
        tree = SuffixTree()
        source = np.arange(20, dtype=np.int32)
        frozen = np.array([7, 8], np.int32)
        frozen.flags.writeable = False
        tree.extend(source[::4])
        tree.extend(source[3::-1])
        tree.extend(frozen)
        assert tree.tokens.tolist() == [0, 4, 8, 12, 16, 3, 2, 1, 0, 7, 8]
        assert tree.find(source[::4]).length == 5
        assert tree.find(frozen).length == 2

    def test_the_tree_keeps_no_hold_of_the_callers_array(self):
        """Overwriting an array after it was appended changes nothing."""
        tree = SuffixTree()
        block = np.array([1, 2, 3], np.int32)
        tree.extend(block)
        block[:] = 9
        assert tree.tokens.tolist() == [1, 2, 3]

    def test_empty_blocks_change_nothing(self):
        """Not the length, not the pending suffix."""
        tree = SuffixTree()
        tree.extend([1, 2, 1, 2])
        for nothing in ([], (), np.zeros(0, np.int32), np.zeros(0, np.int64)):
            tree.extend(nothing)
            tree.extend(nothing, counted=False)
        tree.check()
        assert len(tree) == 4
        assert tree.pending == 2


class TestEmptyAndOne:
    """The smallest texts."""

    @pytest.mark.kernels
    def test_an_empty_tree_knows_the_empty_string_only(self):
        """Length 0, count 0, no successors; nothing else is found."""
        tree, twin = SuffixTree(), ListTree()
        tree.check()
        assert_same_text(tree, twin)
        assert_suffix_chain(tree, twin)
        assert_finds(tree, twin, [])
        assert_finds(tree, twin, [0])
        assert tree.cursor().match().length == 0

    @pytest.mark.parametrize("token", [0, 1, LARGEST])
    def test_one_token(self, token):
        """It is found; nothing follows it; it follows the empty string once."""
        tree = SuffixTree()
        tree.append(token)
        tree.check()
        assert tree.pending == 0
        assert tree.count(tree.find([token])) == 0
        assert successors_of(tree, tree.find([])) == {token: 1}

    def test_sentinels_are_numbered_and_separate(self):
        """-1, -2, … in order, also at the start and in a row; no string crosses one."""
        tree = SuffixTree()
        tree.end_sequence()
        tree.extend([1, 2])
        tree.end_sequence()
        tree.end_sequence()
        tree.extend([1, 2])
        tree.check()
        assert tree.tokens.tolist() == [-1, 1, 2, -2, -3, 1, 2]
        assert tree.find([2, 1]) is None
        assert tree.find([2, 1, 2]) is None
        assert tree.pending == 2

    @pytest.mark.parametrize("string", [[-1], [1, -1], [-1, 1], [-(2**31)], [1, 2, -2]])
    def test_negative_tokens_are_never_found(self, string):
        """Not even a sentinel that stands right there in the text."""
        tree = SuffixTree()
        tree.extend([1])
        tree.end_sequence()
        tree.extend([1, 2])
        tree.end_sequence()
        assert tree.find(string) is None

    def test_tokens_are_read_only(self):
        """The text cannot be changed through ``tokens``, and what was returned stays as it was."""
        tree = SuffixTree()
        tree.extend([1, 2, 3])
        tokens = tree.tokens
        with pytest.raises(ValueError, match="read-only"):
            tokens[0] = 5
        tree.extend(range(1000))
        assert tokens.tolist() == [1, 2, 3]
        assert tree.tokens[:3].tolist() == [1, 2, 3]


BAD_BLOCKS = {
    "negative": [1, -1],
    "lowest": [-(2**31)],
    "too large": [2**31],
    "much too large": [2**40],
    "beyond int64": [2**70],
    "uint64": np.array([2**63], np.uint64),
    "wraps to a good int32": [2**32 + 5],
    "float": [1.0, 2.0],
    "float array": np.array([1.0], np.float32),
    "nan": [float("nan")],
    "two-dimensional": np.zeros((2, 2), np.int32),
    "nested": [[1, 2], [3, 4]],
    "two-dimensional, empty": np.zeros((0, 2), np.int32),
    "scalar array": np.array(3),
    "bools": [True, False],
    "bool array": np.array([True]),
    "text": "12",
    "list of text": ["a"],
    "none": None,
    "list of none": [None],
}
BAD_TOKENS = {
    "negative": -1,
    "lowest": -(2**31),
    "too large": 2**31,
    "wraps to a good int32": 2**32 + 5,
    "beyond int64": 2**70,
    "float": 1.0,
    "nan": float("nan"),
    "bool": True,
    "numpy bool": np.bool_(True),
    "numpy float": np.float64(3),
    "list": [1],
    "text": "1",
    "none": None,
}


class TestBadValues:
    """What is not a token is refused with a message, and leaves the tree as it was."""

    @pytest.mark.parametrize("name", BAD_BLOCKS)
    def test_a_bad_block_is_refused_whole(self, name):
        """``extend`` says what it expected and what it got, and appends nothing of the block."""
        tree = SuffixTree()
        tree.extend([1, 2, 1])
        with pytest.raises((ValueError, TypeError), match=r"(?s)expected .*got "):
            tree.extend(BAD_BLOCKS[name])
        tree.check()
        assert tree.tokens.tolist() == [1, 2, 1]
        assert tree.pending == 1

    @pytest.mark.parametrize("name", BAD_TOKENS)
    def test_a_bad_token_is_refused(self, name):
        """``append`` says what it expected and what it got."""
        tree = SuffixTree()
        tree.append(1)
        with pytest.raises((ValueError, TypeError), match=r"(?s)expected .*got "):
            tree.append(BAD_TOKENS[name])
        tree.check()
        assert tree.tokens.tolist() == [1]

    @pytest.mark.parametrize("name", ["float", "two-dimensional", "bools", "text"])
    def test_find_refuses_what_is_no_string_of_tokens(self, name):
        """``find`` answers None for absent strings only, not for mistakes."""
        tree = SuffixTree()
        tree.extend([1, 2, 1])
        with pytest.raises((ValueError, TypeError), match=r"(?s)expected .*got "):
            tree.find(BAD_BLOCKS[name])

    def test_numpy_integers_are_tokens(self):
        """Any integer type will do for a single token."""
        tree = SuffixTree()
        for token in (np.int32(4), np.int64(LARGEST), np.uint8(200)):
            tree.append(token)
        assert tree.tokens.tolist() == [4, LARGEST, 200]


class TestMemory:
    """What the tree says about its size."""

    @pytest.mark.parametrize("name", ["all equal", "many random tokens", "Fibonacci", "two random tokens"])
    def test_live_bytes_grow_with_the_text_and_fit_in_what_is_allocated(self, name):
        """The live share never exceeds the allocation, and neither shrinks while text is added."""
        parts = [part for part in ADVERSARIAL[name](4_000) if part is not None]
        tree = SuffixTree()
        seen = [(tree.live_nbytes, tree.nbytes)]
        for part in parts:
            for start in range(0, len(part), 100):
                tree.extend(part[start : start + 100])
                seen.append((tree.live_nbytes, tree.nbytes))
        for (live, allocated), (live_before, allocated_before) in itertools.pairwise(reversed(seen)):
            assert 0 <= live <= allocated
            assert live >= live_before
            assert allocated >= allocated_before
        assert seen[-1][0] >= 4 * len(tree)

    @pytest.mark.parametrize("seed", range(12))
    def test_the_bound_on_the_allocation_holds(self, seed):
        """``nbytes_at_most(k)`` holds for the next k tokens, whether they come in one call or in several."""
        rng = np.random.default_rng(seed)
        text = [_fibonacci(4000), _random(4000, 2, seed), [5] * 4000, _random(4000, 50, seed)][seed % 4]
        for capacity in rng.integers(1, 300, 30).tolist():
            tree, at = SuffixTree(capacity=capacity), 0
            while at < 1500:
                block = text[at : at + int(np.exp(rng.uniform(0, 6)))]
                at += len(block)
                bound = tree.nbytes_at_most(len(block) + 1)
                tree.extend(block)
                tree.end_sequence()
                assert tree.nbytes <= bound
            assert bound <= 160 * len(tree) + 4096, "expected a bound that is near"

    def test_matches_stay_valid_while_the_tree_grows(self):
        """A match made long ago still stands for its string: counts and successors are today's."""
        rng = np.random.default_rng(4)
        tree, twin = SuffixTree(), StringTree()
        held = []
        for _ in range(60):
            block = rng.integers(0, 3, 6).tolist()
            tree.extend(block)
            twin.extend(block)
            for match, string in held:
                assert_match_is(tree, twin, match, string)
                assert_match_is(tree, twin, tree.shorter(match), string[1:])
            start = int(rng.integers(0, len(twin.text)))
            string = twin.text[start : start + int(rng.integers(1, 9))]
            held.append((tree.find(string), string))
            suffix = tree.longest_suffix()
            if suffix.length:
                held.append((suffix, twin.text[len(twin.text) - suffix.length :]))

    def test_matches_stay_valid_while_the_tree_rests(self):
        """Asking about one match does not disturb another."""
        tree, twin = build([_random(200, 3)])
        strings = [twin.text[i : i + 3] for i in range(0, 100, 9)]
        matches = [tree.find(string) for string in strings]
        for match, string in reversed(list(zip(matches, strings, strict=True))):
            assert_match_is(tree, twin, match, string)
