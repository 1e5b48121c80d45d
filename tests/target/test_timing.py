"""The cost curve is measured once per target and machine, kept on disk, and measured again when it is stale."""

import json
from pathlib import Path

import pytest

from suffixspec.cost import CostCurve
from suffixspec.target import timing
from suffixspec.target.model import Target
from suffixspec.target.timing import measure_curve

from .families import tiny_model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUFFIXSPEC_CACHE", str(tmp_path))
    return tmp_path / "costs"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Forwards that take 10 + n ms times a load, and how many there were."""
    state = {"load": 1.0, "forwards": 0, "width": 0}

    def ms(self: object, n: int) -> float:
        state["forwards"] += 1
        state["width"] = max(state["width"], n)
        return (10.0 + n) * state["load"]

    monkeypatch.setattr(timing._Timer, "ms", ms)
    return state


def test_a_curve_is_measured_once(folder: Path, clock: dict[str, float]) -> None:
    """The second call reads the file, which is a cost curve that says what was measured."""
    target = Target(tiny_model("llama", "sdpa"))
    curve = measure_curve(target, widths=(1, 4, 8), rounds=3)
    assert curve.points == ((1, 11.0), (4, 14.0), (8, 18.0))
    assert clock["forwards"] == 4 * 3
    (path,) = folder.iterdir()
    assert CostCurve.load(path) == curve
    about = json.loads(path.read_text())["about"]
    assert about["target"] == target.fingerprint
    assert about["context_length"] == 248, "the model takes 256 positions"
    clock["forwards"] = 0
    assert measure_curve(target, widths=(8, 4, 1), rounds=3) == curve
    assert clock["forwards"] < 12
    assert measure_curve(target, widths=(1, 4), rounds=2) != curve
    assert len(list(folder.iterdir())) == 2


def test_a_curve_of_a_busy_machine_is_replaced(folder: Path, clock: dict[str, float]) -> None:
    """Where plain steps turn out much faster than stored; a machine that is busy now changes nothing."""
    target = Target(tiny_model("llama", "sdpa"))
    clock["load"] = 2.0
    measure_curve(target, widths=(1, 8))
    clock["load"] = 1.0
    assert measure_curve(target, widths=(1, 8)).points == ((1, 11.0), (8, 18.0))
    clock["load"] = 5.0
    assert measure_curve(target, widths=(1, 8)).points == ((1, 11.0), (8, 18.0))
    assert measure_curve(target, widths=(1, 8), fresh=True).t1_ms == 55.0


def test_damaged_and_unwritable_caches_cost_a_measurement(
    folder: Path, clock: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is an error."""
    target = Target(tiny_model("llama", "sdpa"))
    curve = measure_curve(target, widths=(1, 8))
    (path,) = folder.iterdir()
    path.write_text("{")
    assert measure_curve(target, widths=(1, 8)) == curve
    assert CostCurve.load(path) == curve
    monkeypatch.setenv("SUFFIXSPEC_CACHE", str(path))  # a file, where a folder would have to be made
    assert measure_curve(target, widths=(1, 8)) == curve


def test_forwards_are_really_timed(folder: Path) -> None:
    """A tiny model: positive times, padding charged, a cost that never falls, nothing left behind."""
    target = Target(tiny_model("gemma3", "sdpa"), buckets=(1, 8))
    curve = target.measure_cost(contexts=[32], widths=(1, 2, 8, 16), rounds=2).at(32)
    assert curve.buckets == (1, 8)
    assert 0 < curve.ms(1) <= curve.ms(2) == curve.ms(8) <= curve.ms(16)


def test_a_curve_for_each_context_that_the_model_and_the_memory_hold(
    folder: Path, clock: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lengths past the model's limit come down to it; those that memory has no room for are left out."""
    target = Target(tiny_model("llama", "sdpa"))  # 256 positions
    cost = target.measure_cost(widths=(1, 8), contexts=(64, 128, 4096))
    assert [length for length, _ in cost.curves] == [64, 128, 248]
    assert cost.at(100).points == ((1, 11.0), (8, 18.0))
    monkeypatch.setattr(timing, "free_bytes", lambda _device: 4 * target.slot_bytes * 130)
    cost = target.measure_cost(widths=(1, 8), contexts=(64, 128, 4096))
    assert [length for length, _ in cost.curves] == [64, 128]
    monkeypatch.setattr(timing, "free_bytes", lambda _device: 0)
    cost = target.measure_cost(widths=(1, 8), contexts=(64, 128))
    assert [length for length, _ in cost.curves] == [64]
