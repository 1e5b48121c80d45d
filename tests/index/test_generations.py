"""The generational index keeps the newest sequences under its budget, and its cursors survive evictions."""

import gc
import itertools
import weakref

import numpy as np
import pytest

from suffixspec.index.generations import GenerationalIndex
from suffixspec.index.suffix_tree import Match, SuffixTree

from .compare import assert_match_is, successors_of
from .oracle import CURSOR_WINDOW, StringCursor, StringTree

SMALL = 40_000  # bytes: room for a few hundred tokens in each of two generations
KEPT_WHOLE = 100  # tokens: sequences up to this length are never cut under the budgets used here


def _sequences(tree: SuffixTree) -> list[list[int]]:
    """The sequences of one generation, oldest first."""
    found: list[list[int]] = [[]]
    for token in tree.tokens.tolist():
        if token < 0:
            found.append([])
        else:
            found[-1].append(token)
    assert found.pop() == [], "expected the last sequence to be ended by a sentinel"
    return found


def _twin(tree: SuffixTree) -> StringTree:
    twin = StringTree()
    for token in tree.tokens.tolist():
        if token < 0:
            twin.end_sequence()
        else:
            twin.append(token)
    return twin


def assert_holds_the_newest(
    index: GenerationalIndex, added: list[list[int]], budget: int, generations: int
) -> None:
    """The live text is the newest of what was added, in order, whole where it is short; within the budget."""
    index.check()
    assert index.nbytes <= budget
    assert index.nbytes == sum(tree.nbytes for tree in index.trees)
    assert 1 <= len(index.trees) <= generations
    live = [sequence for tree in reversed(index.trees) for sequence in _sequences(tree)]
    added = [sequence for sequence in added if sequence]
    assert len(live) <= len(added)
    assert bool(live) == bool(added)
    for kept, whole in zip(reversed(live), reversed(added), strict=False):
        assert kept, "expected no empty sequences"
        assert kept == whole[len(whole) - len(kept) :]
        assert len(kept) == len(whole) or len(whole) > KEPT_WHOLE


def assert_matches(index: GenerationalIndex, matches: list[Match], fed: list[int], *, exact: bool) -> None:
    """One match per live generation, newest first, each as long as promised and with the right counts."""
    trees = index.trees
    assert len(matches) == len(trees)
    for tree, match in zip(trees, matches, strict=True):
        twin = _twin(tree)
        reference = StringCursor(twin)
        reference.extend(fed)
        true = reference.match_length()
        if exact or true < CURSOR_WINDOW:
            assert match.length == true, f"expected {true}, got {match.length}"
        else:
            assert CURSOR_WINDOW <= match.length <= true, f"expected 64 … {true}, got {match.length}"
        assert_match_is(tree, twin, match, reference.fed[len(reference.fed) - match.length :])


def _evict(index: GenerationalIndex, added: list[list[int]], filler: list[int]) -> None:
    """Add sequences until the generation that is the newest now is gone."""
    newest = index.trees[0]
    for _ in range(10_000):
        index.add(filler)
        added.append(filler)
        if all(tree is not newest for tree in index.trees):
            return
    raise AssertionError("expected the oldest generation to be dropped at last")


@pytest.mark.kernels
def test_an_empty_index_matches_nothing():
    """One generation at least is there from the start, and a cursor finds the empty string in it."""
    index = GenerationalIndex(budget_bytes=SMALL)
    assert_holds_the_newest(index, [], SMALL, 2)
    cursor = index.cursor()
    cursor.extend([1, 2, 3])
    assert [match.length for match in cursor.matches()] == [0] * len(index.trees)


@pytest.mark.kernels
def test_a_sequence_is_found_in_its_generation():
    """Counts and successors come from the generation's tree; nothing matches across two sequences."""
    index = GenerationalIndex(budget_bytes=SMALL)
    added = [[1, 2, 3, 4], [1, 2, 5], [], [6]]
    for sequence in added:
        index.add(sequence)
    assert_holds_the_newest(index, added, SMALL, 2)
    cursor = index.cursor()
    cursor.extend([1, 2])
    assert_matches(index, cursor.matches(), [1, 2], exact=True)
    assert cursor.matches()[0].length == 2
    cursor.extend([5, 6])
    assert_matches(index, cursor.matches(), [1, 2, 5, 6], exact=True)
    assert cursor.matches()[0].length == 1


@pytest.mark.parametrize("generations", [2, 3, 4])
@pytest.mark.parametrize("size", [1, 3, 5000])
def test_the_budget_is_never_exceeded(generations, size):
    """After each of many sequences the allocation is within the budget and the newest text is there."""
    rng = np.random.default_rng([generations, size])
    budget = 20_000 * generations
    index = GenerationalIndex(budget_bytes=budget, generations=generations)
    added: list[list[int]] = []
    dropped, before = 0, index.trees
    for _ in range(120):
        added.append(rng.integers(0, size, rng.integers(0, 80)).tolist())
        index.add(added[-1])
        assert_holds_the_newest(index, added, budget, generations)
        trees = index.trees
        dropped += sum(all(old is not tree for tree in trees) for old in before)
        before = trees
    assert dropped >= 2, "expected the test to reach the budget"


@pytest.mark.parametrize("generations", [2, 4])
@pytest.mark.parametrize("budget", [100_000, 1_000_000])
def test_a_good_part_of_the_budget_holds_text(budget, generations):
    """Right after an eviction at least a quarter of the budget is still in use, at 64 bytes a token."""
    rng = np.random.default_rng(budget)
    index = GenerationalIndex(budget_bytes=budget, generations=generations)
    text = rng.integers(0, 300, budget // 8).tolist()
    least, added = budget, 0
    for start in range(0, len(text), 60):
        index.add(text[start : start + 60])
        added += 60
        if added * 64 > 2 * budget:
            least = min(least, sum(len(tree) for tree in index.trees))
    assert least * 64 >= budget / 4


@pytest.mark.parametrize("texture", ["random", "equal", "once"])
def test_a_sequence_longer_than_the_budget_keeps_its_tail(texture):
    """Its last tokens are there, and a second such sequence takes their place in turn."""
    n = 20_000
    rng = np.random.default_rng(1)
    index = GenerationalIndex(budget_bytes=100_000)
    added = []
    for i in range(4):
        sequence = {
            "random": rng.integers(0, 50, n),
            "equal": np.full(n, i),
            "once": np.arange(n) + n * i,
        }[texture].tolist()
        added.append(sequence)
        index.add(np.array(sequence, np.int32))
        assert_holds_the_newest(index, added, 100_000, 2)
        tail = sequence[-60:]
        assert index.trees[0].find(tail) is not None
        assert index.trees[0].tokens[-61:-1].tolist() == tail


@pytest.mark.parametrize("texture", ["three runs", "Fibonacci", "alternating", "a pending end"])
def test_the_worst_texts_stay_within_the_budget(texture):
    """Texts with the most nodes, and repeats that end all at once, do not push the allocation over it."""
    index = GenerationalIndex(budget_bytes=60_000)
    added = []
    for i in range(12):
        short, long = [i], [i, i + 1]
        while len(long) < 350:
            short, long = long, long + short
        sequence = {
            "three runs": [7] * 100 + [i + 10] + [7] * 100,
            "Fibonacci": long,
            "alternating": [0, 1] * 180,
            "a pending end": list(range(300)),
        }[texture]
        index.add(sequence)
        added.append(sequence)
        assert_holds_the_newest(index, added, 60_000, 2)


def test_the_budget_holds_when_every_generation_is_filled_to_the_last_row():
    """Sequences that make each generation grow just before its end add up to no more than the budget."""
    before, text = [1], [1, 0]
    while len(text) < 800:
        before, text = text, text + before
    index = GenerationalIndex(budget_bytes=122_594, generations=3)
    added = []
    for _ in range(3):
        for length in (35, 754):
            index.add(text[:length])
            added.append(text[:length])
            assert_holds_the_newest(index, added, 122_594, 3)


ACTIONS = ("add", "evict", "feed", "query", "cursor")


@pytest.mark.parametrize("length", [3, pytest.param(4, marks=pytest.mark.kernels), 5])
def test_every_interleaving_of_add_evict_and_query(length):
    """Whatever the order, each generation is matched exactly as far as it is promised."""
    names = ACTIONS if length < 5 else ACTIONS[:4]
    if length == 4:
        names = ("add", "evict", "feed")
    part = [3, 1, 4, 1, 5, 9, 2, 6]
    filler = [*part[2:6], *range(100, 190)]
    for combination in itertools.product(names, repeat=length):
        index = GenerationalIndex(budget_bytes=2 * 16_384)
        added: list[list[int]] = []
        index.add(part)
        cursor, fed, exact = index.cursor(), [], True
        for step, name in enumerate(combination):
            if name == "add":
                index.add([*part, 50 + step])
                exact = False
            elif name == "evict":
                _evict(index, added, filler)
                exact = False
            elif name == "feed":
                piece = part[step : step + 4]
                cursor.extend(piece)
                fed = fed + piece
            elif name == "query":
                assert_matches(index, cursor.matches(), fed, exact=exact)
            else:
                cursor, fed, exact = index.cursor(), [], True
        try:
            assert_matches(index, cursor.matches(), fed, exact=exact)
        except AssertionError as error:
            raise AssertionError(f"{error}\nafter {combination}") from error


@pytest.mark.parametrize("seed", range(6))
def test_cursors_survive_many_evictions(seed):
    """Two cursors over three generations, fed with pieces of what is and of what was in the index."""
    rng = np.random.default_rng(seed)
    budget, size = 60_000, [2, 4, 30][seed % 3]
    index = GenerationalIndex(budget_bytes=budget, generations=3)
    added: list[list[int]] = []
    cursors = [index.cursor(), index.cursor()]
    fed: list[list[int]] = [[], []]
    exact = [True, True]
    for step in range(150):
        if rng.random() < 0.6:
            sequence = rng.integers(0, size, rng.integers(1, 90)).tolist()
            if added and rng.random() < 0.3:
                sequence = added[int(rng.integers(0, len(added)))]
            index.add(sequence)
            added.append(sequence)
            exact = [False, False]
        which = int(rng.integers(0, 2))
        source = added[int(rng.integers(max(0, len(added) - 60), len(added)))] if added else [0]
        piece = source[int(rng.integers(0, len(source))) :]
        if rng.random() < 0.05:
            piece = [*piece, -1]
        if rng.random() < 0.8:
            cursors[which].extend(piece)
            fed[which] = [] if piece and piece[-1] < 0 else fed[which] + piece
            if not fed[which]:
                exact[which] = True
        if step % 3 == 0:
            other = which if rng.random() < 0.5 else 1 - which
            assert_matches(index, cursors[other].matches(), fed[other], exact=exact[other])
    assert_holds_the_newest(index, added, budget, 3)


def test_a_long_match_is_exact_while_nothing_is_added():
    """300 tokens of a sequence are matched as 300, and as 64 at least after an addition."""
    index = GenerationalIndex(budget_bytes=400_000)
    text = np.random.default_rng(0).integers(0, 1000, 400).tolist()
    index.add(text)
    cursor = index.cursor()
    cursor.extend(text[50:350])
    assert cursor.matches()[0].length == 300
    index.add([1, 2, 3])
    assert_matches(index, cursor.matches(), text[50:350], exact=False)


@pytest.mark.parametrize("generations", [2, 3])
def test_an_idle_cursor_keeps_no_dropped_generation(generations):
    """What the index drops is freed while cursors stand idle, and they match as before when used again."""
    index = GenerationalIndex(budget_bytes=generations * SMALL // 2, generations=generations)
    rng = np.random.default_rng(1)
    index.add(rng.integers(0, 4, 60))
    fed = rng.integers(0, 4, 100)
    idle, asked = index.cursor(), index.cursor()
    for cursor in (idle, asked):
        cursor.extend(fed)
        cursor.arguments()
    dropped = index.epoch + generations
    freed = [weakref.ref(part) for tree in index.trees for part in (tree, *tree.arrays, tree.state)]
    while index.epoch < dropped:
        asked.matches()
        index.add(rng.integers(0, 4, 60))
    gc.collect()
    assert [reference() for reference in freed] == [None] * len(freed)
    assert idle.matches() == asked.matches()
    fresh = index.cursor()
    fresh.extend(fed[-CURSOR_WINDOW:])
    assert idle.matches() == fresh.matches()


def test_a_cursor_is_freed_before_its_index():
    """An index keeps no cursor that nobody else keeps."""
    index = GenerationalIndex(budget_bytes=SMALL)
    forgotten = weakref.ref(index.cursor())
    gc.collect()
    assert forgotten() is None


@pytest.mark.kernels
def test_the_context_of_a_sequence_is_matched_and_not_counted():
    """What stood before a sequence leads to its first tokens; only the sequence itself is counted."""
    index = GenerationalIndex(budget_bytes=SMALL)
    index.add([5, 6], context=[1, 2])
    index.add([5, 7], context=[])
    index.add([], context=[1, 2])
    index.check()
    tree = index.trees[0]
    assert tree.tokens.tolist() == [1, 2, 5, 6, -1, 5, 7, -2]
    cursor = index.cursor()
    cursor.extend([0, 1, 2])
    match = cursor.matches()[0]
    assert match.length == 2
    assert tree.count(match) == 0
    assert successors_of(tree, match) == {5: 0}
    assert successors_of(tree, tree.find([5])) == {6: 1, 7: 1}


def test_contexts_stay_within_the_budget():
    """A context takes room like any text, and yields to a sequence that needs all of it."""
    index = GenerationalIndex(budget_bytes=60_000)
    rng = np.random.default_rng(2)
    for _ in range(80):
        sequence = rng.integers(0, 2, rng.integers(1, 400)).tolist()
        index.add(sequence, context=rng.integers(0, 2, 64))
        index.check()
        assert index.nbytes <= 60_000
        tail = sequence[-60:]
        assert index.trees[0].tokens[-len(tail) - 1 : -1].tolist() == tail


@pytest.mark.parametrize("bad", [[1, -1], [2**31], [1.5], np.zeros((2, 2), np.int32), [True], "ab", None])
def test_bad_sequences_are_refused_whole(bad):
    """``add`` says what it expected, and adds nothing."""
    index = GenerationalIndex(budget_bytes=SMALL)
    index.add([1, 2, 3])
    with pytest.raises((ValueError, TypeError), match=r"(?s)expected .*got "):
        index.add(bad)
    with pytest.raises((ValueError, TypeError), match=r"(?s)expected .*got "):
        index.add([4, 5], context=bad)
    assert_holds_the_newest(index, [[1, 2, 3]], SMALL, 2)


@pytest.mark.parametrize(
    "arguments", [{"budget_bytes": 0}, {"budget_bytes": -5}, {"budget_bytes": SMALL, "generations": 0}]
)
def test_bad_budgets_are_refused(arguments):
    """A budget without room for text, or no generations, is a mistake."""
    with pytest.raises(ValueError, match=r"expected .*got "):
        GenerationalIndex(**arguments)
