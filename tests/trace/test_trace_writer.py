"""Writing: whole files or none, the same bytes each time, and everything comes back."""

import gzip
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from suffixspec.errors import InputError
from suffixspec.trace import ROLES, Message, ToolCall, TraceSession, read_sessions, write_sessions

_SESSION = TraceSession("a", (Message("user", "Fix it."), Message("assistant", "Done.")))
_SUFFIXES = ("", ".gz", ".zst")

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_maybe = st.none() | _texts
_calls = st.builds(ToolCall, _texts, _texts, _maybe)
_messages = st.builds(
    Message,
    role=st.sampled_from(ROLES),
    content=_texts,
    reasoning=_maybe,
    tool_calls=st.lists(_calls, max_size=2).map(tuple),
    tool_call_id=_maybe,
    name=_maybe,
    token_ids=st.none() | st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple),
    model_output=st.booleans(),
)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_texts, inner, max_size=2),
    max_leaves=4,
)
_sessions = st.builds(
    lambda messages, **fields: TraceSession(messages=(*messages, Message("assistant", "Done.")), **fields),
    messages=st.lists(_messages, max_size=4),
    session_id=_texts,
    model=_maybe,
    tools=st.none() | st.lists(st.dictionaries(_texts, _values, max_size=2), max_size=2).map(tuple),
    namespace=_maybe,
    task=_maybe,
    source=_maybe,
)


@pytest.mark.parametrize("suffix", _SUFFIXES)
def test_what_is_written_is_read(suffix: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Any sessions come back equal, in order, with all three compressions."""
    path = tmp_path_factory.mktemp("round") / f"trace.jsonl{suffix}"

    @settings(max_examples=50, deadline=None, derandomize=True, database=None)
    @given(st.lists(_sessions, min_size=1, max_size=3))
    def check(sessions: list[TraceSession]) -> None:
        assert len(sessions) == write_sessions(path, sessions)
        assert sessions == list(read_sessions(path))

    check()


def test_the_suffix_chooses_the_compression(tmp_path: Path) -> None:
    """The same bytes lie in the file plain, as gzip, or as zstandard."""
    for suffix in _SUFFIXES:
        write_sessions(tmp_path / f"t{suffix}", [_SESSION])
    plain = (tmp_path / "t").read_bytes()

    assert plain == gzip.decompress((tmp_path / "t.gz").read_bytes())
    assert plain == zstandard.ZstdDecompressor().decompressobj().decompress((tmp_path / "t.zst").read_bytes())


@pytest.mark.parametrize("suffix", _SUFFIXES)
def test_the_same_sessions_give_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    """No time stamp and no name gets into the file."""
    for name in ("one", "two"):
        write_sessions(tmp_path / f"{name}{suffix}", [_SESSION])
    one = (tmp_path / f"one{suffix}").read_bytes()

    assert one == (tmp_path / f"two{suffix}").read_bytes()
    assert suffix != ".gz" or one[3:8] == bytes(5), "the flags (a name) and the time stamp of gzip's header"


@pytest.mark.parametrize("suffix", _SUFFIXES)
@pytest.mark.parametrize("error", [InputError("bad"), KeyboardInterrupt(), MemoryError()])
def test_errors_leave_nothing(error: BaseException, suffix: str, tmp_path: Path) -> None:
    """On an error and on Ctrl-C an older file stays as it was, and no partial one lies beside it."""
    path = tmp_path / f"trace.jsonl{suffix}"
    path.write_bytes(b"older")

    def sessions() -> Iterator[TraceSession]:
        yield _SESSION
        assert len(list(tmp_path.iterdir())) == 2, "the temporary file should be in the same folder"
        raise error

    with pytest.raises(type(error)):
        write_sessions(path, sessions())
    assert [path] == list(tmp_path.iterdir())
    assert path.read_bytes() == b"older"


def test_an_older_file_is_replaced(tmp_path: Path) -> None:
    """Writing again leaves the new sessions only, also when the old file is the input."""
    path = tmp_path / "t.jsonl"
    write_sessions(path, [_SESSION, replace(_SESSION, session_id="b")])
    write_sessions(path, (replace(session, model="m") for session in read_sessions(path)))

    assert [(session.session_id, session.model) for session in read_sessions(path)] == [
        ("a", "m"),
        ("b", "m"),
    ]


def test_files_are_the_users_own(tmp_path: Path) -> None:
    """The file has the permissions that any new file of the user has."""
    (tmp_path / "other").touch()
    write_sessions(tmp_path / "t.jsonl", [_SESSION])

    assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == stat.S_IMODE(
        (tmp_path / "t.jsonl").stat().st_mode
    )


def test_links_stay_links(tmp_path: Path) -> None:
    """Writing to a symbolic link replaces what it points to."""
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_sessions(tmp_path / "link", [_SESSION])

    assert (tmp_path / "link").is_symlink()
    assert list(read_sessions(tmp_path / "target")) == [_SESSION]


def test_devices_and_pipes_are_written_to_directly(tmp_path: Path) -> None:
    """A place that is no file stays what it is."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_sessions(fifo, [_SESSION])
        data = os.read(reader, 1 << 16)
    finally:
        os.close(reader)

    assert data.startswith(b'{"version": 1, "session_id": "a"')
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert [fifo] == list(tmp_path.iterdir())


def test_bad_places_are_named(tmp_path: Path) -> None:
    """A missing folder and a directory are input errors, before anything is read."""

    def never() -> Iterator[TraceSession]:
        pytest.fail("a session was asked for")
        yield _SESSION

    with pytest.raises(
        InputError, match=r"no/t\.jsonl: expected the folder to exist, got none; create it first"
    ):
        write_sessions(tmp_path / "no" / "t.jsonl", never())
    with pytest.raises(InputError, match="expected a file name to write to, got a directory"):
        write_sessions(tmp_path, never())
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_encoded_is_named(tmp_path: Path) -> None:
    """A lone surrogate, and nesting beyond what JSON can hold here, is an error that names the session."""
    nested: dict = {}
    for _ in range(100_000):
        nested = {"a": nested}
    surrogate = TraceSession("s", (Message("assistant", "a\ud800"),))
    for session, problem in (
        (surrogate, "lone surrogate"),
        (replace(_SESSION, tools=(nested,)), "JSON values"),
    ):
        with pytest.raises(InputError, match=problem):
            write_sessions(tmp_path / "t.jsonl", [_SESSION, session])
    assert list(tmp_path.iterdir()) == []
    while nested:  # taken apart by hand: freeing it in one go would recurse
        nested = nested.pop("a")
