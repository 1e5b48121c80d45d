"""Seeded scripts of weighted operations, with ``check()`` and the twin after each of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .compare import assert_all_substrings
from .oracle import ListTree, substring_table
from .script import LARGEST, random_script, run_or_shrink, run_script

SIZES = [1, 2, 3, 8, 1000]


@pytest.mark.kernels
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(6))
def test_short_scripts(seed, size):
    """Sixty operations on a growing tree agree with list slices."""
    script = random_script(seed, size=size, length=60, max_text=60)
    run_or_shrink(script, lambda ops: run_script(ops, twin_type=ListTree))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(100, 105))
def test_long_scripts(seed, size):
    """Three hundred operations agree with the twin, and in the end so does every substring."""

    def run(ops):
        tree, twin = run_script(ops, capacity=1 + seed % 3 * 40)
        assert_all_substrings(tree, twin, substring_table(twin.text, twin.counted))

    run_or_shrink(random_script(seed, size=size, length=300, max_text=150), run)


@pytest.mark.parametrize("size", [2, 40])
@pytest.mark.parametrize("seed", range(200, 204))
def test_scripts_on_longer_texts(seed, size):
    """A thousand operations on texts of up to 1,500 positions, with long repeats and long matches."""
    script = random_script(seed, size=size, length=1000, max_text=1500)
    run_or_shrink(script, lambda ops: run_script(ops, capacity=256, cheap=True, check_every=50))


TOKENS = st.sampled_from([0, 1, 2, LARGEST])
BLOCKS = st.lists(TOKENS, max_size=12).map(tuple)
SCRIPTS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), TOKENS),
        st.tuples(st.just("extend"), BLOCKS, st.booleans()),
        st.just(("end",)),
        st.tuples(st.just("find"), BLOCKS),
        st.just(("suffixes",)),
        st.just(("cursor",)),
        st.tuples(st.just("advance"), st.integers(0, 1), st.one_of(TOKENS, st.just(-1))),
        st.tuples(st.just("feed"), st.integers(0, 1), BLOCKS),
        st.tuples(st.just("match"), st.integers(0, 1)),
        st.tuples(st.just("reset"), st.integers(0, 1)),
    ),
    max_size=40,
)


@pytest.mark.kernels
@settings(derandomize=True, max_examples=150, deadline=None, print_blob=True, database=None)
@given(SCRIPTS)
def test_scripts_that_hypothesis_thinks_of(script):
    """Any script over the tokens 0, 1, 2 and 2³¹ − 1 agrees with the twin."""
    run_script(script)


def test_the_generator_covers_every_operation():
    """The scripts above are not empty talk: each holds all operations and long repeats."""
    script = [op for seed in (100, 101) for op in random_script(seed, size=3, length=300, max_text=150)]
    names = {op[0] for op in script}
    expected = "append extend end find suffixes cursor advance feed match reset"
    assert names == set(expected.split())
    assert any(op[0] == "extend" and not op[2] for op in script)
    assert max(len(op[1]) for op in script if op[0] == "extend") >= 8


def test_a_wrong_tree_is_noticed_and_shrunk():
    """A twin that forgets to count a block fails the run, and the script that is shown is short."""

    class Forgetful(ListTree):
        def extend(self, tokens, *, counted=True):
            super().extend(tokens, counted=counted and 1 not in list(tokens)[:1])

    script = random_script(0, size=3, length=60, max_text=60)
    rng = np.random.default_rng(0)
    for i, op in enumerate(script):
        if op[0] == "extend":
            script[i] = ("extend", tuple(rng.integers(0, 3, 4).tolist()), True)
    with pytest.raises(AssertionError, match="shortest failing script") as failure:
        run_or_shrink(script, lambda ops: run_script(ops, twin_type=Forgetful))
    assert str(failure.value).count("\n    (") <= 4
