"""``suffixspec replay`` as its user meets it: results, bad input, interruption."""

import csv
import gzip
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from suffixspec import cli
from suffixspec.replay import simulate

from .inputs import lines, loop_like, session, words, write_tokenizer
from .samples import DRAFTER_KEYS

GOOD = lines([session("good", ("repeat abc abc", "abc abc"))])


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory) -> str:
    return str(write_tokenizer(tmp_path_factory.mktemp("replay") / "bytes"))


@pytest.fixture
def replay(tokenizer, capsys):
    """Runs the command in this process; returns (exit status, stdout, stderr)."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        status = cli.main(["replay", "--tokenizer", tokenizer, *map(str, arguments)])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def document(replay):
    """Runs the command with ``-o json``; returns the one document that it prints."""

    def run(*arguments: object) -> dict:
        status, out, err = replay("-o", "json", *arguments)
        assert status == 0, err
        return json.loads(out)

    return run


@pytest.fixture
def trace(tmp_path) -> Path:
    path = tmp_path / "loop.jsonl"
    path.write_bytes(lines(loop_like(seed=1)))
    return path


# -- results ----------------------------------------------------------------------------------------------


def test_json_is_one_document_with_the_documented_keys(replay, trace):
    """``-o json`` prints one JSON document and nothing else; progress goes to stderr."""
    status, out, err = replay(trace, "-o", "json")
    assert status == 0
    document = json.loads(out)
    assert document["version"] == 1
    assert {"paths", "sessions", "turns", "output_tokens", "context_tokens"} <= document["trace"].keys()
    assert document["trace"]["paths"] == [str(trace)]
    assert (document["trace"]["sessions"], document["trace"]["turns"]) == (3, 9)
    assert document["settings"]["max_nodes"] == 32
    (drafter,) = document["drafters"]
    assert list(drafter) == DRAFTER_KEYS
    assert drafter["name"] == "suffix"
    assert len(drafter["per_turn"]) == 9
    assert sum(drafter["accepted_length_histogram"]) == drafter["steps"]
    assert "replaying" in err


def test_every_recorded_token_is_decoded(document, trace):
    """With one token per byte, the tokens are the bytes that the model wrote and one end per message."""
    sessions = [json.loads(line) for line in trace.read_bytes().splitlines()]
    written = [m["content"] for s in sessions for m in s["messages"] if m["role"] == "assistant"]
    wanted = sum(len(text.encode()) + 1 for text in written)
    result = document(trace, "--drafter", "all")
    assert result["trace"]["output_tokens"] == wanted
    assert [drafter["tokens"] for drafter in result["drafters"]] == [wanted] * 4


def test_all_drafters_are_compared_side_by_side(document, trace):
    """``--drafter all`` runs the four drafters; plain decoding takes a step per token, the others fewer."""
    drafters = {d["name"]: d for d in document(trace, "--drafter", "all")["drafters"]}
    assert list(drafters) == ["suffix", "ngram", "combined", "none"]
    assert drafters["none"]["steps"] == drafters["none"]["tokens"]
    assert drafters["none"]["tokens_per_step"] == 1
    assert all(drafters[name]["tokens_per_step"] > 1.5 for name in ("suffix", "ngram", "combined"))


def test_drafters_can_be_named_one_by_one(document, trace):
    """``--drafter`` may be given more than once; a name given twice counts once."""
    result = document(trace, "--drafter", "ngram", "--drafter", "suffix", "--drafter", "ngram")
    assert [drafter["name"] for drafter in result["drafters"]] == ["ngram", "suffix"]


def test_limit_stops_after_so_many_sessions(document, trace):
    """``--limit 2`` decodes the first two sessions, over all files."""
    result = document(trace, trace, "--limit", 2)
    assert result["trace"]["sessions"] == 2
    assert [s["session_id"] for s in result["drafters"][0]["per_session"]] == ["s0", "s1"]


def test_several_files_are_replayed_in_order(document, tmp_path):
    """Sessions of several files are decoded in the order of the command line, compressed or not."""
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
    first.write_bytes(lines([session("one", ("q", "a"))]))
    second.write_bytes(gzip.compress(lines([session("two", ("q", "b"))])))
    result = document(second, first)
    assert [s["session_id"] for s in result["drafters"][0]["per_session"]] == ["two", "one"]


def test_max_nodes_bounds_every_draft(document, trace):
    """``--max-nodes 3``: no step accepts more than three nodes, and none drafts more on average."""
    (drafter,) = document(trace, "--max-nodes", 3)["drafters"]
    assert len(drafter["accepted_length_histogram"]) == 4
    assert 0 < drafter["drafted_per_step"] <= 3


def test_history_modes_differ_in_what_is_carried_over(document, tmp_path):
    """``off`` forgets between turns, ``session`` between sessions, ``namespace`` only between namespaces."""
    secret = "zq7!kv2@xw9#jm4$hb6%tn1^"
    records = [
        session("a", ("write", secret), ("again", secret)),
        session("b", ("write", secret)),
        session("c", ("write", secret), namespace="other"),
    ]
    path = tmp_path / "loop.jsonl"
    path.write_bytes(lines(records))
    taus = {
        mode: [
            turn["tokens_per_step"] for turn in document(path, "--history", mode)["drafters"][0]["per_turn"]
        ]
        for mode in ("off", "session", "namespace")
    }
    # The second turn of session a has the text in its prompt, whatever is carried over.
    assert min(taus[mode][1] for mode in taus) > 5
    assert max(taus["off"][2], taus["session"][2], *(taus[mode][3] for mode in taus)) < 1.5
    assert taus["namespace"][2] > 5


def test_warm_sessions_are_decoded_first_and_not_counted(document, trace):
    """``--warm`` with the same file: the second time nearly all is drafted, and only it is measured."""
    cold, warm = document(trace), document(trace, "--warm", trace)
    assert warm["trace"] == cold["trace"]
    assert warm["settings"]["warm"] == [str(trace)]
    tau = warm["drafters"][0]["tokens_per_step"]
    assert tau > 15
    assert tau > 1.5 * cold["drafters"][0]["tokens_per_step"]


def test_a_cost_file_decides_what_pays(document, trace, tmp_path):
    """With forwards that cost ten times as much for every node, nothing is drafted and nothing is lost."""
    costs = tmp_path / "steep.json"
    costs.write_text(json.dumps({"name": "steep", "points": [[1, 5.0], [2, 60.0], [3, 120.0]]}))
    result = document(trace, "--cost", costs)
    assert result["settings"]["cost_points"] == [[1, 5.0], [2, 60.0], [3, 120.0]]
    (drafter,) = result["drafters"]
    assert drafter["drafted_per_step"] == 0
    assert drafter["tokens_per_step"] == 1


def test_markdown_csv_and_table_hold_the_same_figures(replay, trace):
    """Each form shows tokens per step of both drafters; CSV is a header and a row per drafter."""
    rows = {}
    for form in ("md", "csv", "table"):
        status, out, _ = replay(trace, "--drafter", "suffix", "--drafter", "none", "-o", form)
        assert status == 0
        rows[form] = out
    table = list(csv.DictReader(io.StringIO(rows["csv"])))
    assert [row["name"] for row in table] == ["suffix", "none"]
    assert float(table[1]["tokens_per_step"]) == 1.0
    shown = f"{float(table[0]['tokens_per_step']):.2f}"
    assert re.search(rf"\| {shown} \| 1\.00 \|", rows["md"])
    assert re.search(rf"tokens per step.*{shown}\s+1\.00", rows["table"])


def test_report_is_one_page(replay, trace, tmp_path):
    """``--report`` writes one HTML file and says so on stderr."""
    page = tmp_path / "report.html"
    status, out, err = replay(trace, "--report", page, "-o", "json")
    assert status == 0
    assert json.loads(out)["version"] == 1
    assert page.read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html>")
    assert f"report: {page}" in err
    assert sorted(tmp_path.iterdir()) == sorted([trace, page])


def test_a_pipe_is_read_once(tokenizer, trace):
    """A trace may come through a pipe."""
    command = [
        sys.executable,
        "-m",
        "suffixspec.cli",
        "replay",
        "/dev/stdin",
        "--tokenizer",
        tokenizer,
        "-o",
        "csv",
    ]
    if not Path("/dev/stdin").exists():
        pytest.skip("needs /dev/stdin")
    done = subprocess.run(command, input=trace.read_bytes(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"\nsuffix," in done.stdout


# -- bad input --------------------------------------------------------------------------------------------


def message(role: object = "user", content: object = "hi") -> dict[str, object]:
    return {"role": role, "content": content}


BAD_LINES = {
    "malformed": (b'{"messages": [\n', "valid JSON"),
    "not an object": (b"[1, 2]\n", "object"),
    "wrong type": (lines([{"messages": "hello"}]), "messages to be an array"),
    "wrong type within": (lines([{"messages": [message(content=7), message("assistant", "a")]}]), "content"),
    "unknown role": (lines([{"messages": [message("wizard"), message("assistant", "a")]}]), "role"),
    "empty session": (lines([{"messages": []}]), "at least one message"),
    "no model output": (lines([{"messages": [message()]}]), "at least one assistant message"),
    "future version": (lines([session("x", ("q", "a"), version=99)]), "version 1"),
    "invalid UTF-8": (b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}\n', "UTF-8"),
    "NUL bytes": (b"\0" * 64 + b"\n", "got a NUL byte"),
    "50 MB": (b'{"messages": "' + b"x" * 50_000_000 + b"\n", "valid JSON"),
}


@pytest.mark.parametrize("kind", BAD_LINES)
def test_a_bad_line_is_named_by_file_and_line(replay, tmp_path, kind):
    """A bad line after a good one: ``FILE:2: expected …, got …``, status 2, no result, no report."""
    bad, expected = BAD_LINES[kind]
    path, page = tmp_path / "loop.jsonl", tmp_path / "report.html"
    path.write_bytes(GOOD + bad)
    status, out, err = replay(path, "-o", "json", "--report", page)
    assert (status, out) == (2, "")
    error = err.splitlines()[-1]
    assert re.fullmatch(rf"suffixspec: {re.escape(str(path))}:2: expected .+, got .+", error)
    assert expected in error
    assert len(error) < 2_000
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", BAD_LINES)
def test_skip_bad_goes_on_and_counts(replay, tmp_path, kind):
    """With ``--skip-bad`` the good sessions before and after are measured, and the bad one is counted."""
    bad, _ = BAD_LINES[kind]
    path = tmp_path / "loop.jsonl"
    path.write_bytes(GOOD + bad + GOOD)
    status, out, err = replay(path, "-o", "json", "--skip-bad")
    assert status == 0
    document = json.loads(out)
    assert (document["trace"]["sessions"], document["trace"]["skipped"]) == (2, 1)
    assert f"skipped: {path}:2: expected" in err


def bad_files(folder: Path) -> dict[str, tuple[Path, str]]:
    """Files that are bad as a whole, and what the message says."""
    packed = gzip.compress(lines(loop_like(seed=2)))
    contents = {
        "truncated gzip": (packed[: len(packed) // 2], "the file is truncated"),
        "damaged gzip": (packed[:40] + b"\xff" * 40 + packed[80:], "damaged"),
        "empty": (b"", "empty file"),
        "other format": (b"Dear diary,\ntoday\n", "known formats"),
    }
    files = {}
    for name, (content, expected) in contents.items():
        path = folder / f"{name}.jsonl".replace(" ", "-")
        path.write_bytes(content)
        files[name] = path, expected
    (folder / "directory").mkdir()
    files["missing"] = folder / "missing.jsonl", "no file of this name"
    files["directory"] = folder / "directory", "a directory"
    return files


BAD_FILES = ("truncated gzip", "damaged gzip", "empty", "other format", "missing", "directory")


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_file_is_named(replay, tmp_path, kind):
    """A file that cannot be read whole: ``FILE: expected …, got …`` (a line where there is one), status 2."""
    path, expected = bad_files(tmp_path)[kind]
    before = sorted(tmp_path.iterdir())
    status, out, err = replay(path, "-o", "json", "--report", tmp_path / "report.html")
    assert (status, out) == (2, "")
    error = err.splitlines()[-1]
    assert re.fullmatch(rf"suffixspec: {re.escape(str(path))}(:\d+)?: expected .+, got .+", error)
    assert expected in error
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("kind", BAD_FILES)
def test_skip_bad_passes_over_bad_files(replay, trace, tmp_path, kind):
    """With ``--skip-bad`` a bad file counts once and the other files are measured."""
    path, _ = bad_files(tmp_path)[kind]
    status, out, _ = replay(path, trace, "-o", "json", "--skip-bad")
    assert status == 0
    document = json.loads(out)
    assert document["trace"]["skipped"] == 1
    assert document["trace"]["sessions"] >= 3


def test_nothing_but_bad_sessions_is_an_error(replay, tmp_path):
    """With ``--skip-bad`` and not one good session there is no result to print: status 2."""
    path = tmp_path / "loop.jsonl"
    path.write_bytes(BAD_LINES["unknown role"][0] * 2)
    status, out, err = replay(path, "--skip-bad")
    assert (status, out) == (2, "")
    assert "expected at least one session, got none that can be replayed; 2 skipped" in err


def test_what_was_skipped_while_warming_up_is_not_counted(replay, trace, tmp_path):
    """``skipped`` is about the measured files; bad sessions of ``--warm`` are only mentioned."""
    warm = tmp_path / "warm.jsonl"
    warm.write_bytes(GOOD + BAD_LINES["unknown role"][0])
    status, out, err = replay(trace, "--warm", warm, "--skip-bad", "-o", "json")
    assert status == 0
    assert json.loads(out)["trace"]["skipped"] == 0
    assert f"skipped: {warm}:2: expected" in err


@pytest.fixture
def no_work(monkeypatch):
    """Fails the test when a session is decoded."""

    def refuse(*_: object) -> None:
        raise AssertionError("expected the error before the work begins")

    monkeypatch.setattr(simulate.Simulation, "run", refuse)


def test_a_missing_file_is_found_before_the_work_begins(replay, trace, tmp_path, no_work):
    """Of several files, one that is missing is reported before the first is decoded."""
    missing = tmp_path / "missing.jsonl"
    assert replay(trace, missing)[0] == 2
    assert replay(trace, "--warm", missing)[0] == 2


@pytest.mark.parametrize("place", ["missing/report.html", "file/report.html", "."])
def test_a_report_that_cannot_be_written_is_found_before_the_work_begins(
    replay, trace, tmp_path, no_work, place
):
    """A report in no folder, under a file, or in place of a folder is refused at once: status 2."""
    (tmp_path / "file").write_text("")
    status, out, err = replay(trace, "--report", tmp_path / place)
    assert (status, out) == (2, "")
    assert re.search(rf"suffixspec: {re.escape(str(tmp_path / place))}: expected .+, got .+", err)


BAD_COSTS = {
    "neither": (None, r"expected a cost curve of gpu, mid, cpu or a JSON file, got"),
    "not JSON": ('{"points": [[1, 2],\n  [2, ]]}', r"costs\.json:2: expected JSON, got"),
    "no points": ('{"name": "x"}', r"costs\.json: expected \"points\" to be a list"),
    "not positive": ('{"points": [[1, 0], [2, 1]]}', r"costs\.json: expected a time > 0"),
    "one point": ('{"points": [[1, 3.5]]}', r"costs\.json: expected points for at least two widths"),
}


@pytest.mark.parametrize("kind", BAD_COSTS)
def test_a_bad_cost_file_is_named(replay, trace, tmp_path, no_work, kind):
    """A cost curve that cannot be used is refused at once, with the file's name and the reason: status 2."""
    text, expected = BAD_COSTS[kind]
    path = tmp_path / "costs.json"
    if text is not None:
        path.write_text(text)
    status, out, err = replay(trace, "--cost", path)
    assert (status, out) == (2, "")
    assert re.search(f"suffixspec: .*{expected}", err)


def test_an_unknown_tokenizer_is_named(capsys, trace, tmp_path, no_work):
    """A tokenizer path that does not exist: status 2, and the message names it."""
    status = cli.main(["replay", str(trace), "--tokenizer", str(tmp_path / "nowhere" / "tokenizer.json")])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert "nowhere/tokenizer.json: expected a folder with tokenizer.json" in err


@pytest.mark.parametrize(
    "arguments",
    [["--max-nodes", "0"], ["--limit", "-1"], ["--limit", "many"], ["--drafter", "magic"], ["-o", "xml"]],
)
def test_wrong_usage_is_explained(replay, trace, capsys, arguments):
    """A value that an option cannot have: status 2, usage on stderr, nothing on stdout."""
    with pytest.raises(SystemExit) as ending:
        replay(trace, *arguments)
    assert ending.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert arguments[0] in err


# -- interruption -----------------------------------------------------------------------------------------


def interrupt_at(monkeypatch, step: int) -> None:
    """Press Ctrl-C in the given step."""
    real, steps = simulate.accept_recorded, iter(range(10**9))

    def accept(*arguments: object) -> list[int]:
        if next(steps) == step:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(simulate, "accept_recorded", accept)


def test_ctrl_c_prints_what_was_measured(replay, trace, tmp_path, monkeypatch):
    """Ctrl-C in the middle of a turn: the figures so far as one document, a report of them, status 130."""
    interrupt_at(monkeypatch, 40)
    page = tmp_path / "report.html"
    status, out, _ = replay(trace, "--drafter", "none", "-o", "json", "--report", page)
    assert status == 130
    document = json.loads(out)
    assert document["interrupted"]
    assert document["drafters"][0]["tokens"] == document["drafters"][0]["steps"] == 40
    assert document["trace"]["sessions"] == 0
    assert "Interrupted" in page.read_text(encoding="utf-8")
    assert sorted(tmp_path.iterdir()) == sorted([trace, page])


@pytest.mark.parametrize("form", ["table", "md", "csv", "json"])
@pytest.mark.parametrize("arguments", [(), ("--warm",)], ids=["measuring", "warming"])
def test_ctrl_c_before_the_first_step_prints_an_empty_result(replay, trace, monkeypatch, form, arguments):
    """Ctrl-C before anything was measured is no error of its own: status 130, whatever the form."""
    interrupt_at(monkeypatch, 0)
    warm = (*arguments, trace) if arguments else ()
    status, out, err = replay(trace, *warm, "-o", form)
    assert status == 130
    assert "interrupted" in (out + err).lower()
    if form == "json":
        assert json.loads(out)["interrupted"]


# A process that a shell starts in the background ignores SIGINT; what it starts would, too.
INTERRUPTIBLE = """\
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from suffixspec.cli import main
sys.exit(main())
"""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes and signals as POSIX has them")
def test_sigint_ends_a_running_command_cleanly(replay, tokenizer, trace, tmp_path):
    """A real SIGINT while the command waits for more input: figures of what came so far, no traceback."""
    replay(trace)  # the kernels are compiled from here on
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    rng = random.Random(3)
    sessions = lines(session(f"s{i}", (words(rng, 1500), "done")) for i in range(60))
    assert len(sessions) > 400_000
    command = [sys.executable, "-c", INTERRUPTIBLE, "replay", str(pipe), "--tokenizer", tokenizer]
    command += ["-o", "json", "--drafter", "none"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        # The command reads pieces of 256 KiB. When all but the 64 KiB that a pipe holds has been taken, the
        # first piece has been decoded, and the command waits for the rest of the second.
        with pipe.open("wb") as stream:
            stream.write(sessions)
            stream.flush()
            process.send_signal(signal.SIGINT)
        # Closed after the signal: one that comes between two reads is seen when the next one returns.
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    document = json.loads(out)
    assert document["interrupted"]
    assert 0 < document["trace"]["sessions"] < 60
    assert "Traceback" not in err
    assert sorted(tmp_path.iterdir()) == sorted([trace, pipe])
