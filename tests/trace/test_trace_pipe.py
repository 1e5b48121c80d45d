"""Live pipes: a session is there when its line is."""

import contextlib
import json
import os
import queue
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zstandard

from suffixspec.errors import InputError
from suffixspec.trace import read_sessions

PATIENCE = 60  # seconds until a test fails that would otherwise wait for ever


def _line(name: str) -> bytes:
    messages = [{"role": "user", "content": "Fix it."}, {"role": "assistant", "content": "Done."}]
    return json.dumps({"session_id": name, "messages": messages}).encode() + b"\n"


class Pipe:
    """A pipe that `read_sessions` reads in a thread of its own."""

    def __init__(self) -> None:
        self.sessions: queue.Queue[str] = queue.Queue()
        self.read_so_far: queue.Queue[int] = queue.Queue()
        self._read, self._write = os.pipe()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        def count(done: int, total: int) -> None:
            self.read_so_far.put(done)

        with contextlib.suppress(InputError):  # no writer here ends what it packs
            for session in read_sessions(f"/dev/fd/{self._read}", on_progress=count):
                self.sessions.put(session.session_id)

    def write(self, data: bytes) -> None:
        """Let the reader have some bytes."""
        os.write(self._write, data)

    def close(self) -> None:
        """End the file, and wait for the reader to see it."""
        os.close(self._write)
        self._thread.join(PATIENCE)
        os.close(self._read)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    live = Pipe()
    yield live
    live.close()


def _gzip() -> Callable[[bytes], bytes]:
    packer = zlib.compressobj(wbits=31)
    return lambda data: packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)


def _zstd() -> Callable[[bytes], bytes]:
    packer = zstandard.ZstdCompressor().compressobj()
    return lambda data: packer.compress(data) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="a pipe has no name here")  # noqa: PTH110
class TestLivePipe:
    """While its writer goes on."""

    @pytest.mark.parametrize("packer", [lambda: bytes, _gzip, _zstd], ids=["plain", "gzip", "zstd"])
    def test_a_session_comes_with_its_line(self, pipe: Pipe, packer: Any) -> None:
        """Every session is yielded before anything of the next one is written, the first one too."""
        pack = packer()
        for name in "abc":
            pipe.write(pack(_line(name)))
            assert pipe.sessions.get(timeout=PATIENCE) == name

    @pytest.mark.parametrize("packer", [lambda: bytes, _gzip, _zstd], ids=["plain", "gzip", "zstd"])
    def test_the_first_bytes_may_come_one_by_one(self, pipe: Pipe, packer: Any) -> None:
        """The compression is told from the first bytes, however few of them come at a time."""
        data = packer()(_line("a"))
        for count in range(1, 7):
            pipe.write(data[count - 1 : count])
            assert pipe.read_so_far.get(timeout=PATIENCE) == count
        pipe.write(data[6:])
        assert pipe.sessions.get(timeout=PATIENCE) == "a"

    def test_half_a_line_waits_for_the_other_half(self, pipe: Pipe) -> None:
        """A line that comes in two parts is one session, and nothing is yielded for its first part."""
        line = _line("a")
        pipe.write(line[:40])
        assert pipe.read_so_far.get(timeout=PATIENCE) == 40
        pipe.write(line[40:])
        assert pipe.sessions.get(timeout=PATIENCE) == "a"
        assert pipe.sessions.empty()
