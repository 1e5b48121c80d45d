"""Cost curves: the named ones, measured ones from a file, and the best prefix of a draft."""

import json

import numpy as np
import pytest

from suffixspec.cost import NAMES, CostCurve, best_prefix
from suffixspec.errors import InputError, SuffixspecError


def test_gpu_and_mid_are_straight_lines_in_the_nodes():
    """A draft of k nodes costs 1 + 0.002 k steps of 10 ms on ``gpu``, and 1 + 0.02 k of 25 ms on ``mid``."""
    for name, t1, slope in [("gpu", 10.0, 0.002), ("mid", 25.0, 0.02)]:
        curve = CostCurve.named(name)
        assert t1 == curve.t1_ms
        for k in (0, 1, 7, 32, 256, 5000):
            assert t1 * (1 + slope * k) == pytest.approx(curve.ms(k + 1))


def test_cpu_goes_linearly_through_its_points_and_on_with_the_last_slope():
    """The measured points are met, the middle of two is their mean, and beyond 64 the last slope goes on."""
    curve = CostCurve.named("cpu")
    for n, ms in [(1, 94), (2, 190), (4, 191), (8, 214), (16, 214), (32, 252), (64, 373)]:
        assert ms == curve.ms(n)
    assert curve.ms(3) == 190.5
    assert curve.ms(24) == 233.0
    assert curve.ms(96) == 373 + 32 * (373 - 252) / 32


@pytest.mark.parametrize("name", NAMES)
def test_the_table_holds_the_relative_cost_of_each_draft_size(name):
    """Entry k of the table is t(k + 1) / t(1) in float32, it starts at 1 and never falls."""
    curve = CostCurve.named(name)
    table = curve.table(100)
    assert ((101,), np.float32) == (table.shape, table.dtype)
    assert table.flags.c_contiguous
    np.testing.assert_allclose(table, [curve.ms(k + 1) / curve.t1_ms for k in range(101)], rtol=1e-6)
    assert table[0] == 1.0
    assert np.all(np.diff(table) >= 0)
    assert curve.table(0).tolist() == [1.0]


def test_a_stall_of_the_machine_does_not_enter_the_fit():
    """A time above that of a wider forward is noise: the wider forward's time bounds it."""
    curve = CostCurve.fit([(1, 94), (2, 190), (4, 191), (8, 232), (16, 214), (32, 252)])
    assert curve.ms(8) == 214
    assert [curve.ms(n) for n in (1, 2, 4, 8, 16, 32)] == [94, 190, 191, 214, 214, 252]


def test_repeated_widths_in_any_order_keep_the_least_time():
    """Several measurements of one width count as their minimum."""
    assert CostCurve.fit([(8, 30), (1, 11), (8, 20), (1, 10)]) == CostCurve.fit([(1, 10), (8, 20)])


def test_one_token_stands_apart_from_the_fit():
    """t(1) stays as measured when wider forwards were faster, and those are raised to it."""
    curve = CostCurve.fit([(1, 50), (2, 40), (8, 45), (16, 80)])
    assert curve.t1_ms == 50
    assert [curve.ms(n) for n in (2, 8, 16)] == [50, 50, 80]


def test_a_padded_forward_is_charged_as_its_bucket():
    """With buckets each width costs what the next bucket costs, and beyond the largest its own time."""
    curve = CostCurve.fit([(1, 10), (101, 110)], buckets=[16, 1, 4])
    assert [curve.ms(n) for n in (1, 2, 3, 4, 5, 16)] == [10, 13, 13, 13, 25, 25]
    assert curve.ms(17) == 26
    assert curve.table(3)[1] == pytest.approx(1.3)


def test_a_file_round_trips(tmp_path):
    """A curve written with ``to_json`` is read back equal, and the file's stem names one without a name."""
    curve = CostCurve.fit([(1, 10.5), (2, 12), (64, 40)], name="my box", buckets=[1, 8, 64])
    path = tmp_path / "measured.json"
    path.write_text(json.dumps(curve.to_json() | {"about": {"model": "m"}}), encoding="utf-8")
    assert curve == CostCurve.load(path)
    path.write_text('{"points": [[1, 10], [2, 20]]}', encoding="utf-8")
    assert CostCurve.load(str(path)).name == "measured"
    assert CostCurve.named("cpu") == CostCurve.load("cpu")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "1: expected JSON, got "),
        (b'{"points": [[1, 10],\n [2, 20]', "2: expected JSON, got "),
        (b"\xff", "expected UTF-8, got byte 0xff"),
        (b"[[1, 10]]", 'expected an object {"points": [[n, ms], …]}, got a list'),
        (b"{}", 'expected "points" to be a list [[n, ms], …], got nothing'),
        (b'{"points": []}', "expected a point for n = 1, got no points"),
        (b'{"points": [[2, 10], [4, 12]]}', "expected a point for n = 1, got the smallest n is 2"),
        (b'{"points": [[1, 10]]}', "expected points for at least two widths, got only n = 1"),
        (b'{"points": [[1, 10], [2]]}', "expected point 2 to be [n, ms], got [2]"),
        (
            b'{"points": [[1, 10], [0, 5]]}',
            "expected the number of tokens n to be a whole number >= 1, got 0",
        ),
        (
            b'{"points": [[1.5, 10], [2, 5]]}',
            "expected the number of tokens n to be a whole number >= 1, got 1.5",
        ),
        (b'{"points": [[true, 10], [2, 5]]}', "a whole number >= 1, got True"),
        (b'{"points": [[1, "10"], [2, 5]]}', "expected a time > 0 in ms for n = 1, got '10'"),
        (b'{"points": [[1, 0], [2, 5]]}', "expected a time > 0 in ms for n = 1, got 0"),
        (b'{"points": [[1, NaN], [2, 5]]}', "expected a time > 0 in ms for n = 1, got nan"),
        (b'{"points": [[1, 1e999], [2, 5]]}', "expected a time > 0 in ms for n = 1, got inf"),
        (
            b'{"points": [[1, 10], [2, 5]], "bucket": [8]}',
            "expected only the keys name, points, buckets, about",
        ),
        (
            b'{"points": [[1, 10], [2, 5]], "buckets": 8}',
            'expected "buckets" to be a list [n, …], got a number',
        ),
        (
            b'{"points": [[1, 10], [2, 5]], "buckets": [0]}',
            "expected buckets to be whole numbers >= 1, got 0",
        ),
        (b'{"points": [[1, 10], [2, 5]], "name": 3}', 'expected "name" to be a text, got a number'),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_malformed_file_is_explained(tmp_path, content, message):
    """What is wrong in a curve's file is said with the file's name and what was expected."""
    path = tmp_path / "curve.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        CostCurve.load(path)
    assert str(caught.value).startswith(f"{path}:")
    assert message in str(caught.value)


def test_a_name_that_is_neither_curve_nor_file_lists_the_curves():
    """A mistyped curve name is answered with the names that exist."""
    with pytest.raises(InputError, match="expected a cost curve of gpu, mid, cpu or a JSON file, got 'gqu'"):
        CostCurve.load("gqu")
    with pytest.raises(SuffixspecError, match="expected a cost curve of gpu, mid, cpu, got 'gqu'"):
        CostCurve.named("gqu")


def test_widths_below_one_are_refused():
    """A forward holds at least one token, and a draft at least none."""
    with pytest.raises(ValueError, match="n >= 1 tokens, got 0"):
        CostCurve.named("gpu").ms(0)
    with pytest.raises(ValueError, match="max_nodes >= 0, got -1"):
        CostCurve.named("gpu").table(-1)


def test_the_best_prefix_looks_past_nodes_that_do_not_pay():
    """On the CPU the first node doubles the price: a long sure draft pays as a whole, a short one never."""
    table = CostCurve.named("cpu").table(32)
    assert best_prefix([0.99], table) == 0
    assert best_prefix([0.5, 0.2, 0.1], table) == 0
    assert 1.99 / float(table[1]) < 1.0, "the first node alone does not pay"
    assert best_prefix([0.99] * 15 + [0.0] * 10, table) == 15


def test_the_best_prefix_is_the_first_maximum_of_all_prefixes():
    """Among all prefixes, the empty one included, the best is taken, of equal ones the shortest."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        probs = np.sort(rng.random(int(rng.integers(0, 12))))[::-1]
        table = np.concatenate([[1.0], 1.0 + np.cumsum(rng.random(12) * 0.6)]).astype(np.float32)
        gains = [(1.0 + sum(map(float, probs[:k]))) / float(table[k]) for k in range(len(probs) + 1)]
        assert max(gains) == pytest.approx(gains[best_prefix(probs, table)]), "seed 7"
    assert best_prefix([], CostCurve.named("gpu").table(0)) == 0
    assert best_prefix([0.5], np.array([1.0, 1.5])) == 0, "a draft that gains nothing is not drafted"
    assert best_prefix([1.0, 0.0], np.array([1.0, 1.0, 1.0])) == 1, "nor is a node that adds nothing"


def test_a_table_too_short_for_the_draft_is_refused():
    """A draft of m nodes needs m + 1 table entries."""
    with pytest.raises(ValueError, match="expected a table of at least 3 entries, got 2"):
        best_prefix([0.5, 0.4], np.ones(2))
