"""Folders that are built once, whatever other processes do."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from suffixspec.native import jit
from suffixspec.text import cache
from suffixspec.text.cache import build_once, cache_root, is_complete

BUILDER = """
import sys, time
from pathlib import Path
from suffixspec.text.cache import build_once

def build(folder):
    (folder / "a.txt").write_text("a" * 1000)
    Path(sys.argv[2]).touch()
    deadline = time.monotonic() + 20
    while not all(Path(name).exists() for name in sys.argv[2:]) and time.monotonic() < deadline:
        time.sleep(0.01)
    (folder / "b.txt").write_text("b")

folder = build_once(Path(sys.argv[1]), build)
assert (folder / "a.txt").read_text() == "a" * 1000 and (folder / "b.txt").read_text() == "b"
"""


def _build(folder):
    (folder / "a.txt").write_text("a" * 1000)
    (folder / "b.txt").write_text("b")


@pytest.mark.parametrize("damaged", [False, True])
def test_two_processes_at_once(tmp_path, damaged):
    """Two processes that build the same folder at the same time both succeed, also over a damaged one."""
    folder = tmp_path / "cache" / "thing"
    if damaged:
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text("half")
    marks = [str(tmp_path / "one"), str(tmp_path / "two")]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", BUILDER, str(folder), *order], stderr=subprocess.PIPE, text=True
        )
        for order in (marks, marks[::-1])
    ]
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    assert all(Path(mark).exists() for mark in marks), "both must have been building"
    assert is_complete(folder)
    assert [path.name for path in folder.parent.iterdir()] == ["thing"]


@pytest.mark.parametrize(
    "damage", ["truncate", "zero", "remove file", "no manifest", "bad manifest", "empty"]
)
def test_damage_is_repaired(tmp_path, damage):
    """A folder that is not what was built is built again."""
    folder = build_once(tmp_path / "thing", _build)
    assert is_complete(folder)
    if damage == "truncate":
        (folder / "a.txt").write_text("a" * 10)
    elif damage == "zero":
        (folder / "a.txt").write_bytes(bytes(1000))
    elif damage == "remove file":
        (folder / "b.txt").unlink()
    elif damage == "no manifest":
        (folder / cache.MANIFEST).unlink()
    elif damage == "bad manifest":
        (folder / cache.MANIFEST).write_text("[")
    else:
        for path in folder.iterdir():
            path.unlink()
    assert not is_complete(folder)
    build_once(folder, _build)
    assert is_complete(folder)
    assert (folder / "a.txt").read_text() == "a" * 1000
    assert [path.name for path in tmp_path.iterdir()] == ["thing"]


def test_a_sound_folder_is_not_built_again(tmp_path):
    """The second call builds nothing."""
    folder = build_once(tmp_path / "thing", _build)

    def fail(folder):
        raise AssertionError("built twice")

    assert build_once(folder, fail) == folder


def test_the_first_one_stays(tmp_path):
    """When another process finished first, its folder is used: someone may be reading it."""
    inodes = []

    def slow(folder):
        inodes.append(build_once(tmp_path / "thing", _build).stat().st_ino)
        _build(folder)

    assert build_once(tmp_path / "thing", slow).stat().st_ino == inodes[0]


def test_a_failing_build_leaves_nothing(tmp_path):
    """What the builder raises passes through, and no folder appears, nor a scratch one stays."""

    def fail(folder):
        (folder / "a.txt").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_once(tmp_path / "thing", fail)
    assert list(tmp_path.iterdir()) == []


def test_scratch_of_killed_processes_is_removed(tmp_path):
    """Old scratch folders go, young ones may belong to a process that is still building."""
    old, young = tmp_path / ".thing.old", tmp_path / ".thing.young"
    for path in (old, young):
        path.mkdir()
        (path / "a.txt").write_text("half")
    os.utime(old, (time.time() - 86400,) * 2)
    build_once(tmp_path / "thing", _build)
    assert not old.exists()
    assert young.exists()


def test_places(monkeypatch):
    """The cache folder is where each platform keeps such files, and an environment variable overrides it."""
    monkeypatch.delenv("SUFFIXSPEC_CACHE", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_root() == Path("/xdg/suffixspec")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_root() == Path.home() / ".cache" / "suffixspec"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_root() == Path.home() / "Library" / "Caches" / "suffixspec"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert cache_root() == Path("/local/suffixspec")
    monkeypatch.setenv("SUFFIXSPEC_CACHE", "~/mine")
    assert cache_root() == Path.home() / "mine"


@pytest.mark.parametrize("own", [None, "", "relative", "~/mine", "/absolute"])
@pytest.mark.parametrize("xdg", [None, "relative", "/xdg"])
def test_compiled_kernels_lie_in_the_same_folder(monkeypatch, own, xdg):
    """The compiled kernels are in the folder of all other derived files, whatever the environment says."""
    for name, value in (("SUFFIXSPEC_CACHE", own), ("XDG_CACHE_HOME", xdg)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    folder = jit._cache_folder.__wrapped__("")
    assert folder.is_absolute()
    assert folder.parent == cache_root() / "kernels"
