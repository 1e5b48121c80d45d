"""The convert command: several inputs, unique ids, a summary, and nothing half-written."""

import argparse
import io
import json
import sys
from pathlib import Path

import pytest
from trace_samples import SAMPLES

from suffixspec.errors import InputError
from suffixspec.trace import convert, read_sessions


def _run(*arguments: str | Path) -> int:
    parser = argparse.ArgumentParser(prog="suffixspec")
    convert.add_parser(parser.add_subparsers())
    args = parser.parse_args(["convert", *map(str, arguments)])
    return args.run(args)


@pytest.fixture
def logs(tmp_path: Path) -> dict[str, Path]:
    """One file of each format."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for name, sample in SAMPLES.items():
        (folder / name).write_text(sample.text, encoding="utf-8")
    return {name: folder / name for name in SAMPLES}


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_every_format_in_one_go(suffix: str, logs: dict[str, Path], tmp_path: Path) -> None:
    """Files of all formats become one trace with all of their sessions, in the order of the inputs."""
    output = tmp_path / f"out.jsonl{suffix}"

    assert _run(*logs.values(), "-o", output) == 0
    converted = list(read_sessions(output))
    assert sum(len(sample.outputs) for sample in SAMPLES.values()) == len(converted)
    assert [s.messages for s in read_sessions(logs.values())] == [session.messages for session in converted]
    assert {path for path in tmp_path.iterdir() if path.name != "logs"} == {output}


def test_ids_become_unique_in_order(logs: dict[str, Path], tmp_path: Path) -> None:
    """An id that occurs again gets a number, the same each time, and one that is taken is not given twice."""
    for attempt in range(2):
        _run(logs["native"], logs["atif"], logs["native"], logs["atif"], "-o", tmp_path / f"{attempt}")
    first, second = (list(read_sessions(tmp_path / f"{attempt}")) for attempt in range(2))

    assert [s.session_id for s in first] == ["a__b-12#2", "T", "T/sub", "a__b-12#2#2", "T#2", "T/sub#2"]
    assert first == second
    assert first[0].task_key == first[3].task_key


def test_taken_numbers_are_passed_over(tmp_path: Path) -> None:
    """When ID#2 is in the input itself, the second ID becomes ID#3."""
    lines = [
        {"session_id": name, "messages": [{"role": "assistant", "content": "x"}]}
        for name in ("a", "a#2", "a")
    ]
    (tmp_path / "in").write_text("\n".join(map(json.dumps, lines)))
    _run(tmp_path / "in", "-o", tmp_path / "out")

    assert [session.session_id for session in read_sessions(tmp_path / "out")] == ["a", "a#2", "a#3"]


def test_the_summary_names_format_and_counts(
    logs: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each input gets a line on stderr with sessions, turns and format; stdout stays empty."""
    _run(logs["tau"], logs["aider"], "-o", tmp_path / "out.jsonl")
    printed = capfd.readouterr()

    assert printed.out == ""
    assert [
        f"{logs['tau']}: 1 session, 2 model turns (tau-bench results), left out 1 record without conversation",
        f"{logs['aider']}: 2 sessions, 3 model turns (aider chat history), left out 1 record without conversation",
        f"{tmp_path / 'out.jsonl'}: wrote 3 sessions",
    ] == printed.err.splitlines()


def test_bad_input_writes_nothing(logs: dict[str, Path], tmp_path: Path) -> None:
    """A bad line anywhere stops the conversion: no output, no temporary file, an older output untouched."""
    output = tmp_path / "out.jsonl"
    bad = tmp_path / "bad.jsonl"
    bad.write_text(SAMPLES["native"].text + "{}\n")
    with pytest.raises(InputError, match=r"bad\.jsonl:2: expected messages to be an array, got nothing"):
        _run(logs["tau"], bad, "-o", output)
    assert {"logs", "bad.jsonl"} == {path.name for path in tmp_path.iterdir()}

    output.write_text("older")
    with pytest.raises(InputError):
        _run(bad, "-o", output)
    assert output.read_text() == "older"


def test_skip_bad_goes_on_and_counts(
    logs: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With --skip-bad each bad record is reported, counted, and the rest is written."""
    bad = tmp_path / "bad.jsonl"
    bad.write_text(SAMPLES["native"].text + "{}\n7\n")

    assert _run(tmp_path / "none", bad, logs["pi"], "--skip-bad", "-o", tmp_path / "out") == 0
    assert len(list(read_sessions(tmp_path / "out"))) == 4
    printed = capfd.readouterr().err
    assert f"skipped: {bad}:2: expected messages to be an array, got nothing" in printed
    assert f"{bad}: 1 session, 2 model turns (suffixspec JSONL), skipped 2 bad records" in printed
    assert "wrote 4 sessions; skipped 3 bad records" in printed


def test_nothing_to_write_is_an_error(tmp_path: Path) -> None:
    """When every input is bad there is no output, even with --skip-bad."""
    with pytest.raises(InputError, match="expected at least one session in the input, got none"):
        _run(tmp_path / "none", "--skip-bad", "-o", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_nothing(
    logs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt in the middle leaves no file."""
    from suffixspec.trace.importers.pi import Pi

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Pi, "feed", interrupt)
    with pytest.raises(KeyboardInterrupt):
        _run(logs["tau"], logs["pi"], "-o", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_a_dash_writes_to_stdout(logs: dict[str, Path], capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """-o - prints plain lines, and nothing else, on stdout."""
    _run(logs["tau"], logs["sharegpt"], "-o", "-")
    records = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]

    assert [record["session_id"] for record in records] != ["log"]
    assert [record["version"] for record in records] == [1, 1, 1]
    assert [record["session_id"] for record in records] == ["tau/task3/trial1", "s0", "sharegpt#2"]


def test_a_reader_that_has_seen_enough_is_no_error(
    logs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When stdout is closed early (as by head), the command ends quietly."""

    class Closed(io.BytesIO):
        def write(self, _: object) -> int:
            raise BrokenPipeError

    class Stdout:
        buffer = Closed()

        def fileno(self) -> int:
            return self.spare.fileno()

        def __init__(self, spare: io.BufferedWriter) -> None:
            self.spare = spare

    with (logs["tau"].parent / "spare").open("wb") as spare:
        monkeypatch.setattr(sys, "stdout", Stdout(spare))
        assert _run(logs["tau"], "-o", "-") == 0


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    """The help lists the formats and shows commands."""
    with pytest.raises(SystemExit):
        _run("--help")
    printed = capsys.readouterr().out

    assert "suffixspec convert runs/*/*.traj -o swe.jsonl.gz" in printed
    assert all(word in printed for word in ("ATIF", "Codex", "aider", "--skip-bad"))
