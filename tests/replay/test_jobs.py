"""``--jobs``: several processes decode what one would, each its part, and share a history folder."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from suffixspec import cli
from suffixspec.cost import CostCurve
from suffixspec.errors import SuffixspecError
from suffixspec.replay import jobs
from suffixspec.replay.decode import Part, decode
from suffixspec.replay.progress import ReplayProgress
from suffixspec.replay.share import merged
from suffixspec.store import HistoryStore
from suffixspec.text import load_tokenizer

from .inputs import lines, loop_like, session, write_tokenizer

BAD = b'{"version": 1, "session_id": "bad"}\n'


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> str:
    return str(write_tokenizer(tmp_path_factory.mktemp("jobs") / "bytes"))


@pytest.fixture
def trace(tmp_path) -> Path:
    """Seven sessions, two of one task, and a malformed one."""
    path = tmp_path / "loops.jsonl"
    retried = [session(f"t#{n}", ("fix it", "abc abc abd")) for n in range(2)]
    sessions = [*loop_like(seed=1), retried[0], *loop_like(seed=2), retried[1]]
    data = lines(sessions).splitlines(keepends=True)
    path.write_bytes(b"".join([*data[:2], BAD, *data[2:]]))
    return path


def arguments(tokenizer: str, *given: object):
    return cli.build_parser().parse_args(["replay", "--tokenizer", tokenizer, *map(str, given)])


def untimed(result) -> list:
    """All figures that are no measured times, and those of memory."""
    turns = [
        (t.session_id, t.turn, t.task_key, t.attempt, t.tokens, t.steps, t.drafted, t.accepted)
        for t in result.turns
    ]
    counted = (result.accepted_by_source.tolist(), result.drafted_by_source.tolist())
    return [
        result.name,
        turns,
        result.draft_nodes.tolist(),
        result.accepted_length_histogram.tolist(),
        *counted,
    ]


def test_parts_put_together_are_the_whole(tokenizer, trace):
    """With nothing carried over between sessions, two or nine parts give one process's figures, in its order."""
    args = arguments(tokenizer, trace, "--drafter", "none", "--compare", "prompt-lookup", "--skip-bad")
    cost, loaded = CostCurve.load("gpu"), load_tokenizer(tokenizer)
    wholes = []
    for of in (1, 2, 9):
        with ReplayProgress() as progress:
            shares = [decode(args, loaded, cost, progress, Part(index, of)) for index in range(of)]
        share = merged(shares)
        assert (share.done, share.numbers, share.skipped > 0) == (8, list(range(8)), True)
        wholes.append([untimed(result) for result in share.results])
        assert len(share.results[0].draft_us) == sum(turn.steps for turn in share.results[0].turns)
        assert share.results[1].sample
    assert wholes[0] == wholes[1] == wholes[2]
    assert [turn[3] for turn in wholes[0][0][1] if turn[0].startswith("t#")] == [1, 2], "tries of a task"


def run(tokenizer: str, capsys, *given: object, status: int = 0) -> tuple[dict, str]:
    capsys.readouterr()
    assert cli.main(["replay", "--tokenizer", tokenizer, "-o", "json", *map(str, given)]) == status
    out, err = capsys.readouterr()
    return json.loads(out) if out else {}, err


def test_processes_give_the_same_figures_each_time(tokenizer, trace, capsys):
    """Two runs in two processes agree in all but measured times, and with the parts decoded one after the other."""
    args = arguments(tokenizer, trace, "--skip-bad", "--jobs", 2)
    with ReplayProgress() as progress:
        parts = [
            decode(args, load_tokenizer(tokenizer), CostCurve.load("gpu"), progress, Part(index, 2))
            for index in range(2)
        ]
    expected = merged(parts).results[0]
    document, err = run(tokenizer, capsys, trace, "--skip-bad", "--jobs", 2)
    assert document["trace"]["sessions"] == 8
    assert document["trace"]["skipped"] == 1
    assert err.count("skipped:") == 1
    assert document["settings"]["jobs"] == 2
    drafter = document["drafters"][0]
    assert drafter["tokens"] == sum(turn.tokens for turn in expected.turns)
    assert drafter["steps"] == sum(turn.steps for turn in expected.turns)
    assert drafter["accepted_length_histogram"] == expected.accepted_length_histogram.tolist()
    assert [one["session_id"] for one in drafter["per_turn"]] == [turn.session_id for turn in expected.turns]


def test_processes_share_a_history(tokenizer, trace, tmp_path, capsys):
    """Every output is kept once, whichever process wrote it; the next run drafts from all of them."""
    given = [trace, "--skip-bad", "--jobs", 2, "--history", f"{tmp_path}/h", "--drafter", "suffix"]
    first, _ = run(tokenizer, capsys, *given, "--drafter", "ngram")
    with HistoryStore(tmp_path / "h") as store:
        names = [record.session for record in store.records("default")]
        texts = sum(len(record.tokens) for record in store.records("default"))
        assert store.verify() == []
    assert len(names) == first["trace"]["turns"]
    assert texts == first["trace"]["output_tokens"]
    second, _ = run(tokenizer, capsys, *given)
    assert second["drafters"][0]["tokens_per_step"] > 1.5 * first["drafters"][0]["tokens_per_step"]


def test_a_bad_session_ends_all_processes_with_one_sentence(tokenizer, trace, capsys):
    """Status 2, the file and the line, once; no traceback and nothing on stdout."""
    document, err = run(tokenizer, capsys, trace, "--jobs", 2, status=2)
    assert document == {}
    assert err.count(f"suffixspec: {trace}:3: expected") == 1
    assert "Traceback" not in err


def test_what_jobs_cannot_do_is_refused(tokenizer, trace, tmp_path, capsys):
    """A pipe can be read once, and a model is one: both are said before any work."""
    _, err = run(tokenizer, capsys, trace, "--jobs", 2, "--model", status=2)
    assert "expected no --jobs with --model" in err
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        _, err = run(tokenizer, capsys, tmp_path / "pipe", "--jobs", 2, "--skip-bad", status=2)
        assert "got a pipe, which only one process can read" in err


def _dies(_args, number, connection, _stop) -> None:
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
    connection.close()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_process_that_is_killed_is_named(tokenizer, trace, monkeypatch):
    """An error that says which and what to do; the others are ended."""
    monkeypatch.setattr(jobs, "_work", _dies)
    with (
        ReplayProgress() as progress,
        pytest.raises(
            SuffixspecError,
            match=r"expected process 2 of 2 to end with its figures, got exit status -9.*fewer --jobs",
        ),
    ):
        jobs.decode_in_parallel(arguments(tokenizer, trace, "--jobs", 2), progress)


def _alive(group: int) -> str:
    listed = subprocess.run(
        ["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    fields = [line.split(None, 2) for line in listed]
    return "; ".join(text for pgid, stat, text in fields if int(pgid) == group and stat[0] != "Z")


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
def test_ctrl_c_keeps_what_was_measured(tokenizer, tmp_path):
    """SIGINT for the whole group, as a terminal sends it: figures until then, status 130, no traceback, nobody left."""
    trace = tmp_path / "long.jsonl"
    trace.write_bytes(b"".join(lines(loop_like(seed=seed)) for seed in range(400)))
    code = "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "from suffixspec.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
    (tmp_path / "main.py").write_text(code, encoding="ascii")
    command = [sys.executable, str(tmp_path / "main.py"), "replay", str(trace), "--jobs", "2", "-o", "json"]
    command += ["--tokenizer", tokenizer, "--history", f"{tmp_path}/h"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("replaying: "):  # some sessions are through
                break
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, [*said, err]
    document = json.loads(out)
    assert document["interrupted"]
    assert 0 < document["trace"]["sessions"] < 1200
    assert "Traceback" not in err
    deadline = time.monotonic() + 30  # the tracker of multiprocessing's resources ends a moment later
    while alive := _alive(process.pid):
        assert time.monotonic() < deadline, f"still there: {alive}"
        time.sleep(0.05)
    with HistoryStore(tmp_path / "h") as store:
        assert store.verify() == []
        assert store.summary("default").records >= document["trace"]["turns"] - 2
