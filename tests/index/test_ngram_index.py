"""The n-gram index never counts too much, misses nothing while it has room, and never grows."""

import itertools

import numpy as np
import pytest

from suffixspec.index.ngram_index import NgramIndex

from .oracle import SATURATION, ngram_counts

LARGEST = 2**31 - 1
ORDERS = (1, 2, 3, 4)


def _build(sequences: list[list[int]], **settings: int) -> NgramIndex:
    index = NgramIndex(**settings)
    for sequence in sequences:
        index.extend(sequence)
        index.end_sequence()
    return index


def _successors(index: NgramIndex, context: tuple[int, ...]) -> dict[int, int]:
    tokens, counts = index.successors(np.array(context, np.int32), len(context))
    assert isinstance(tokens, np.ndarray)
    assert isinstance(counts, np.ndarray)
    assert tokens.dtype.kind == counts.dtype.kind == "i"
    assert len(tokens) == len(counts) <= 4
    assert (counts[1:] <= counts[:-1]).all(), f"expected descending counts, got {counts}"
    assert (counts > 0).all()
    assert (tokens >= 0).all()
    found = dict(zip(tokens.tolist(), counts.tolist(), strict=True))
    assert len(found) == len(tokens), f"expected distinct successors, got {tokens}"
    return found


def assert_lower_bounds(index: NgramIndex, sequences: list[list[int]], *, most: int = 400) -> int:
    """Nothing is counted more often than it occurred; returns how many contexts are known."""
    known = 0
    for order in ORDERS:
        counts = ngram_counts(sequences, order)
        for context in itertools.islice(reversed(counts), most):
            found = _successors(index, context)
            known += bool(found)
            for token, count in found.items():
                assert count <= counts[context][token], (
                    f"expected at most {counts[context][token]}, got {count}"
                )
    return known


def _random_sequences(seed: int, size: int, total: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    ids = [0, LARGEST, *(int(i) for i in rng.integers(1, LARGEST, size))][:size]
    lengths = rng.integers(0, 60, total // 30)
    return [[ids[i] for i in rng.integers(0, size, n)] for n in lengths]


@pytest.mark.kernels
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_counts_are_exact_while_there_is_room(seed, size):
    """With at most four successors a context, and slots for all contexts, every count is the true one."""
    sequences = _random_sequences(seed, size, 300)
    index = _build(sequences)
    index.check()
    for order in ORDERS:
        for context, true in ngram_counts(sequences, order).items():
            assert _successors(index, context) == {t: min(SATURATION, c) for t, c in true.items()}


@pytest.mark.kernels
@pytest.mark.parametrize("slots", [4, 64, 1 << 10])
@pytest.mark.parametrize("size", [5, 40, 3000])
def test_counts_never_exceed_the_truth(slots, size):
    """Under pressure, contexts go and come back, and what is left is a lower bound."""
    sequences = _random_sequences(slots + size, size, 1500)
    index = _build(sequences, slots=slots)
    index.check()
    assert_lower_bounds(index, sequences, most=150)


@pytest.mark.parametrize("seed", range(4))
def test_counts_never_exceed_the_truth_in_long_texts(seed):
    """The same over 3·10⁴ tokens, with ``check()`` on the way."""
    sequences = _random_sequences(seed, [6, 60, 600, 60_000][seed], 30_000)
    index = NgramIndex(slots=1 << 12)
    for i, sequence in enumerate(sequences):
        index.extend(sequence)
        index.end_sequence()
        if i % 250 == 0:
            index.check()
    index.check()
    assert assert_lower_bounds(index, sequences) > 100


def test_unknown_contexts_have_no_successors():
    """A context that never occurred is not taken for another one, in a table that is full."""
    rng = np.random.default_rng(7)
    index = NgramIndex(slots=1 << 16)
    index.extend(rng.integers(0, LARGEST // 2, 100_000))
    wrong = [
        c for c in rng.integers(LARGEST // 2, LARGEST, (40_000, 2)).tolist() if len(index.successors(c, 2)[0])
    ]
    assert wrong == []


@pytest.mark.parametrize("order", ORDERS)
def test_a_frequent_successor_is_not_lost_among_rare_ones(order):
    """Of many successors the one that comes in three of five cases is listed first."""
    rng = np.random.default_rng(order)
    context = list(range(1000, 1000 + order))
    index = NgramIndex()
    for _ in range(600):
        token = 7 if rng.random() < 0.6 else int(rng.integers(10_000, 20_000))
        index.extend([*context, token])
        index.end_sequence()
    index.check()
    found = _successors(index, tuple(context))
    assert next(iter(found)) == 7
    assert found[7] >= 60


@pytest.mark.kernels
def test_orders_do_not_mix():
    """One, two, three and four zeros are four contexts, and so are those of the largest token."""
    for token in (0, LARGEST):
        sequences = [[token] * 5 + [1], [token, 2], [5, token, token, 3]]
        index = _build(sequences)
        for order in ORDERS:
            true = ngram_counts(sequences, order)[(token,) * order]
            assert _successors(index, (token,) * order) == true


@pytest.mark.kernels
def test_the_context_is_the_last_tokens_of_what_is_given():
    """``successors(context, order)`` reads the last ``order`` tokens and leaves the rest alone."""
    index = _build([[1, 2, 3, 4, 5, 6]])
    for order in ORDERS:
        tokens, counts = index.successors([9, 9, 2, 3, 4, 5], order)
        assert (tokens.tolist(), counts.tolist()) == ([6], [1])
    assert len(index.successors([9, 9, 9, 5], 2)[0]) == 0


@pytest.mark.kernels
def test_contexts_do_not_cross_the_end_of_a_sequence():
    """Nothing is known after a sentinel until new tokens have come."""
    index = _build([[1, 2], [3, 4]])
    assert _successors(index, (2,)) == {}
    assert _successors(index, (1, 2)) == {}
    assert _successors(index, (2, 3)) == {}
    assert _successors(index, (1,)) == {2: 1}
    assert _successors(index, (3,)) == {4: 1}


@pytest.mark.kernels
@pytest.mark.parametrize("sizes", [(1,), (2, 3), (0, 1, 4, 5), (100,)])
def test_block_sizes_make_no_difference(sizes):
    """Contexts reach across block borders within a sequence."""
    text = np.random.default_rng(3).integers(0, 3, 200).tolist()
    index, at = NgramIndex(), 0
    for size in itertools.cycle(sizes):
        index.extend(text[at : at + size])
        at += size
        if at >= len(text):
            break
    index.check()
    for order in ORDERS:
        for context, true in ngram_counts([text], order).items():
            assert _successors(index, context) == true


def test_memory_is_fixed_from_the_start():
    """Neither many contexts nor long runs change what is allocated."""
    index = NgramIndex(slots=256)
    before = index.nbytes
    assert before > 0
    index.extend(np.arange(20_000))
    index.extend([5] * 20_000)
    index.check()
    assert index.nbytes == before
    assert 1 <= _successors(index, (5,))[5] <= 19_999


def test_a_new_context_gets_in_when_the_table_is_full():
    """What is repeated now is known even after a flood of contexts that came once each."""
    index = NgramIndex(slots=64)
    index.extend(np.arange(50_000))
    index.end_sequence()
    for _ in range(50):
        index.extend([70_000, 70_001])
        index.end_sequence()
    assert _successors(index, (70_000,)).get(70_001, 0) >= 25


def test_what_was_frequent_long_ago_gives_way():
    """A table full of contexts of many uses comes to hold the contexts that are used now."""
    index = NgramIndex(slots=64)
    for token in range(200):
        for _ in range(30):
            index.extend([token, token + 1000])
            index.end_sequence()
    now = range(5000, 5008)
    for _ in range(60):
        for token in now:
            index.extend([token, token + 1000])
            index.end_sequence()
    index.check()
    known = [token for token in now if _successors(index, (token,)).get(token + 1000, 0) >= 20]
    assert known == list(now)


@pytest.mark.kernels
def test_texts_that_take_turns_do_not_mix():
    """Each cursor counts a text of its own; no context reaches from one into another."""
    index = NgramIndex()
    one, two = index.cursor(), index.cursor()
    one.extend([1, 2])
    two.extend([5, 6])
    one.extend([3])
    two.end_sequence()
    two.extend([7])
    index.extend([8, 9])
    one.extend([4])
    index.check()
    for order in (1, 2):
        counts = ngram_counts([[1, 2, 3, 4], [5, 6], [7], [8, 9]], order)
        for context in itertools.product(range(1, 10), repeat=order):
            assert _successors(index, context) == counts.get(context, {})
    assert _successors(index, (1, 2, 3)) == {4: 1}


@pytest.mark.parametrize(
    "bad", [[1, -1], [2**31], [2**32 + 5], [1.5], np.zeros((2, 2), np.int32), [True], "ab", None]
)
def test_bad_tokens_are_refused_whole(bad):
    """``extend`` says what it expected, and counts nothing of the block."""
    index = NgramIndex()
    index.extend([1, 2])
    with pytest.raises((ValueError, TypeError), match=r"(?s)expected .*got "):
        index.extend(bad)
    index.extend([3])
    assert _successors(index, (1,)) == {2: 1}
    assert _successors(index, (2,)) == {3: 1}
    assert _successors(index, (1, 2)) == {3: 1}


@pytest.mark.parametrize(("context", "order"), [([1, 2], 0), ([1, 2], 5), ([1, 2], -1), ([1, 2], 3), ([], 1)])
def test_bad_orders_are_refused(context, order):
    """An order is 1 to 4, and there are as many tokens as it says."""
    index = _build([[1, 2, 3]])
    with pytest.raises(ValueError, match=r"expected .*got "):
        index.successors(context, order)


@pytest.mark.parametrize("slots", [0, -1])
def test_bad_sizes_are_refused(slots):
    """An index without slots is a mistake."""
    with pytest.raises(ValueError, match=r"expected .*got "):
        NgramIndex(slots=slots)
