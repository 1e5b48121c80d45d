"""Files appear whole or not at all."""

import os
import stat

import pytest

from suffixspec import atomic_file
from suffixspec.atomic_file import replacing


@pytest.mark.parametrize("there", [False, True], ids=["new", "in place of another"])
def test_a_file_is_there_when_it_is_whole(tmp_path, there):
    """Until the block ends, what was there is there; then the new one is, and nothing beside it."""
    path = tmp_path / "file"
    if there:
        path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new, and ")
        file.flush()
        assert (path.read_bytes() == b"old") if there else not path.exists()
        file.seek(0)
        file.write(b"NEW")
    assert path.read_bytes() == b"NEW, and "
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("when", ["while it is written", "on the disk", "at its place"])
def test_an_error_leaves_what_was_there(tmp_path, monkeypatch, error, when):
    """A full disk or Ctrl-C, at any point: the old content, and no other file."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*_):
        raise error

    if when == "on the disk":
        monkeypatch.setattr(atomic_file.os, "fsync", fail)
    if when == "at its place":
        monkeypatch.setattr(atomic_file.Path, "replace", fail)
    with pytest.raises(error), replacing(path) as file:  # noqa: PT012 (three places to fail)
        file.write(b"new")
        if when == "while it is written":
            fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_it_is_on_the_disk_before_it_takes_its_place_and_its_name_after(tmp_path, monkeypatch):
    """In this order a power cut leaves the old content or the new one, and no empty file."""
    done = []
    sync, replace = os.fsync, atomic_file.Path.replace

    def synced(fd):
        done.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        sync(fd)

    def replaced(path, target):
        done.append("name")
        return replace(path, target)

    monkeypatch.setattr(atomic_file.os, "fsync", synced)
    monkeypatch.setattr(atomic_file.Path, "replace", replaced)
    with replacing(tmp_path / "file") as file:
        file.write(b"new")
    assert done == ["file", "name", "folder"]


@pytest.mark.skipif(os.name != "posix", reason="needs permissions")
def test_who_may_read_it(tmp_path):
    """Its owner only, or whom the user's mask lets; also while it is being written."""
    before = os.umask(0o022)
    try:
        for private, expected in ((True, 0o600), (False, 0o644)):
            with replacing(tmp_path / "file", private=private):
                (scratch,) = tmp_path.glob(".file.*.tmp")
                assert stat.S_IMODE(scratch.stat().st_mode) == expected
            assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == expected
    finally:
        os.umask(before)
