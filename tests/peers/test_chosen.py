"""What was tried is kept, and tried again when anything that it depends on has changed."""

import json

import pytest
from replay.inputs import lines, loop_like

from bench.peers import chosen, grid, lockstep


@pytest.fixture
def trace(tmp_path, monkeypatch):
    monkeypatch.setattr(chosen, "cache_root", lambda: tmp_path / "cache")
    path = tmp_path / "loop.jsonl"
    path.write_bytes(lines(loop_like(seed=1, sessions=4, turns=2)))
    return path


def test_figures_are_kept_by_all_that_they_depend_on(trace, monkeypatch):
    """The second time nothing is decoded; another limit, trace or version of the code is decoded again."""
    explored = []
    real = lockstep.explore

    def explore(recorded, drafter, settings):
        explored.append([session.session_id for session in recorded])
        return real(recorded, drafter, settings)

    monkeypatch.setattr(lockstep, "explore", explore)
    first, kept = chosen.figures(str(trace), None, "prompt-lookup")
    assert not kept
    assert list(first) == list(grid.distinct("prompt-lookup"))
    assert explored == [["s0", "s2"]]  # the tuning half
    again, kept = chosen.figures(str(trace), None, "prompt-lookup")
    assert kept
    assert again == json.loads(json.dumps(first))
    assert len(explored) == 1
    assert not chosen.figures(str(trace), None, "prompt-lookup", fresh=True)[1]
    assert not chosen.figures(str(trace), 2, "prompt-lookup")[1]
    trace.write_bytes(lines(loop_like(seed=2, sessions=4, turns=2)))
    assert not chosen.figures(str(trace), None, "prompt-lookup")[1]
    load = chosen.sessions.load
    monkeypatch.setattr(chosen.sessions, "load", lambda *files, **options: load(*files, **options)[::-1])
    assert not chosen.figures(str(trace), None, "prompt-lookup")[1]  # as if it were rendered differently
    assert explored[-1] == ["s3", "s1"]
    monkeypatch.setattr(chosen, "_MEASURING", ())
    assert not chosen.figures(str(trace), None, "prompt-lookup")[1]
    assert len(explored) == 6
