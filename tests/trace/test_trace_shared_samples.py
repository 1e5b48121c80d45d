"""Real logs of every format, where a folder of them is at hand."""

import os
from pathlib import Path

import pytest

from suffixspec.trace import read_sessions


def _samples() -> list[Path]:
    given = os.environ.get("SUFFIXSPEC_SHARED")
    folder = Path(given) if given else Path(__file__).resolve().parents[2].parent / "shared"
    folder = folder / "trace_formats" if (folder / "trace_formats").is_dir() else folder
    if folder.name != "trace_formats" and not given:
        return []
    return sorted(path for path in folder.glob("*/*") if path.is_file())


_SAMPLES = _samples()


@pytest.mark.skipif(not _SAMPLES, reason="needs real logs: set SUFFIXSPEC_SHARED to their folder")
def test_every_real_log_is_read() -> None:
    """Each log gives at least one session, and each has a model turn with text or a tool call."""
    empty = []
    for path in _SAMPLES:
        sessions = list(read_sessions(path))
        outputs = [message for session in sessions for message in session.messages if message.is_output]
        if not any(message.content or message.tool_calls for message in outputs):
            empty.append(path.name)

    assert empty == []
