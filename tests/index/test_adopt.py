"""Text that was indexed aside, put in place while cursors look on; and all text dropped at once."""

import random

import numpy as np
import pytest

from suffixspec.index import GenerationalIndex
from suffixspec.index.history import History

BUDGET = 200_000


def texts(seed: int, count: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 6, rng.integers(5, 60)).tolist() for _ in range(count)]


def lengths(index: GenerationalIndex, context: list[int]) -> list[int]:
    """Match lengths of a fresh cursor, which is fed only now."""
    cursor = index.cursor()
    cursor.extend(context)
    return [match.length for match in cursor.matches()]


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(3))
def test_what_was_adopted_is_matched_by_cursors_that_were_there(seed):
    """A cursor fed before, and one made afterwards, match alike, and draft from the older text as from their own."""
    rng = random.Random(seed)
    index, built = GenerationalIndex(budget_bytes=BUDGET), GenerationalIndex(budget_bytes=BUDGET)
    if seed:
        index.add([1, 2, 3, 1, 2])
    cursor = index.cursor()
    context = [rng.randrange(6) for _ in range(40)]
    cursor.extend(context)
    old = texts(seed, 10)
    for text in old:
        built.add(text)
    built.add([*context[-20:], 77])
    index.adopt(built)
    assert len(built) == 0
    assert len(index.trees) == (2 if seed else 1)
    assert [match.length for match in cursor.matches()] == lengths(index, context), f"seed {seed}"
    assert max(match.length for match in cursor.matches()) >= 20, f"seed {seed}"
    cursor.extend([77])
    assert [match.length for match in cursor.matches()] == lengths(index, [*context, 77]), f"seed {seed}"
    index.add([5, 5, 5])
    assert [match.length for match in cursor.matches()] == lengths(index, [*context, 77]), f"seed {seed}"
    index.check()


@pytest.mark.kernels
def test_the_oldest_leave_where_there_are_too_many():
    """An index in use keeps its own text, and of what was built the newest."""
    index, built = GenerationalIndex(budget_bytes=BUDGET), GenerationalIndex(budget_bytes=BUDGET)
    index.add([900, 901])
    number = 0
    while len(built.trees) < 2:
        built.add(list(range(number, number + 100)))
        number += 100
    newest = built.trees[0]
    index.adopt(built)
    assert len(index.trees) == 2
    assert index.trees[1] is newest
    assert index.trees[0].find([900, 901]) is not None
    index.check()


@pytest.mark.kernels
def test_clearing_leaves_nothing_to_match():
    """Cursors that looked at the text see none of it; the index goes on as a new one, under its budget."""
    history = History(budget_bytes=4 * BUDGET, namespace_bytes=BUDGET)
    history.add("a", [1, 2, 3, 4])
    cursor = history.index("a").cursor()
    cursor.extend([1, 2])
    history.clear()
    assert [match.length for match in cursor.matches()] == [0]
    assert len(history) == 0
    built = GenerationalIndex(budget_bytes=BUDGET)
    built.add([1, 2, 9])
    history.adopt("a", built)
    assert [match.length for match in cursor.matches()] == [2]
    history.check()
