"""The recorded tool loops are complete, honest, free of machine paths, and can be run again."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

TRACES = Path(__file__).resolve().parents[2] / "traces"
TRACE = TRACES / "swebench.jsonl"


@pytest.fixture(scope="module")
def sessions():
    with TRACE.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def model_turns(session):
    return [message for message in session["messages"] if message["role"] == "assistant"]


def texts(session):
    for message in session["messages"]:
        yield message["content"]
        for call in message.get("tool_calls", ()):
            yield call["function"]["arguments"]


def run_verify(*args):
    command = [sys.executable, str(TRACES / "verify"), "--no-progress", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_size(sessions):
    """There are at least 12 sessions and 150 model turns, each session under its own id."""
    assert len(sessions) >= 12
    assert sum(len(model_turns(session)) for session in sessions) >= 150
    ids = [session["session_id"] for session in sessions]
    assert len(set(ids)) == len(ids)


def test_kinds(sessions):
    """There are retries, a failure, both styles of calling, and modules written as a whole more than once."""
    tasks = [session["task"] for session in sessions]
    assert len(tasks) > len(set(tasks)), "no task was tried twice"
    assert {session["outcome"] for session in sessions} == {"solved", "failed"}
    assert any("tools" in session for session in sessions)
    assert any("tools" not in session for session in sessions)
    written = [
        re.findall(r"cat > (\w+/\w+\.py) <<", "".join(m["content"] for m in model_turns(session)))
        for session in sessions
    ]
    assert any(len(files) > len(set(files)) for files in written), (
        "no module was rewritten twice in a session"
    )


def test_outcome_is_honest(sessions):
    """A session counts as solved only if its hidden check passed and the solver said so."""
    for session in sessions:
        solved = session["check_passed"] and session["claimed"] == "solved"
        assert session["outcome"] == ("solved" if solved else "failed"), session["session_id"]


def test_roles_alternate(sessions):
    """Every command is followed by its output, and only the last message may lack one."""
    for session in sessions:
        roles = ["system", "user"]
        for message in model_turns(session):
            roles += ["assistant", "tool" if message.get("tool_calls") else "user"]
        assert [message["role"] for message in session["messages"]] == roles[: len(session["messages"])]
        assert len(session["messages"]) >= len(roles) - 1


def test_no_machine_paths(sessions):
    """Nothing in the trace tells where it was recorded."""
    for session in sessions:
        for text in texts(session):
            found = re.search(
                r"/(?:root|home/\w+|work|Users|opt|tmp/[a-z0-9]{5})/\S*|\.pyenv|python3\.\d+/", text
            )
            assert found is None, (session["session_id"], found)


def test_trace_is_built_from_sessions(sessions):
    """swebench.jsonl holds what the session files hold."""
    stored = [json.loads(path.read_text(encoding="utf-8")) for path in (TRACES / "sessions").glob("*.json")]
    stored = [session for session in stored if "outcome" in session]
    assert sorted(stored, key=lambda s: s["session_id"]) == sorted(sessions, key=lambda s: s["session_id"])


def test_shortest_sessions_run_again(sessions):
    """The shortest session of each style gives the recorded outputs when its commands are run again."""
    chosen = [
        min((s for s in sessions if ("tools" in s) == native), key=lambda s: len(s["messages"]))
        for native in (False, True)
    ]
    args = [arg for session in chosen for arg in ("--session", session["session_id"])]
    result = run_verify(*args)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("ok ") == len(chosen)


def test_verify_finds_a_changed_output(sessions, tmp_path):
    """A single changed output makes verify fail and show the difference."""
    session = min(sessions, key=lambda s: len(s["messages"]))
    session = json.loads(json.dumps(session))
    message = session["messages"][3]
    message["content"] = message["content"].replace("<output>\n", "<output>\nnever printed\n")
    changed = tmp_path / "changed.jsonl"
    changed.write_text(json.dumps(session) + "\n", encoding="utf-8")
    result = run_verify(str(changed))
    assert result.returncode == 1
    assert "MISMATCH" in result.stdout
    assert "-never printed" in result.stdout
