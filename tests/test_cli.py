"""The ``suffixspec`` program: its exit status, and what it does when its output or its cache fails."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from suffixspec import __version__, cli
from suffixspec.errors import InputError

ESTIMATE = ("estimate", "--alpha", "0.8", "--gamma", "5", "--c", "0")
PROGRAM = [sys.executable, "-m", "suffixspec.cli"]


@pytest.fixture
def trace(tmp_path) -> Path:
    path = tmp_path / "in.jsonl"
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a" * 200}]
    record = json.dumps({"session_id": "s", "messages": messages}) + "\n"
    path.write_text(record * 2000, encoding="utf-8")
    return path


def test_version_is_the_package_version(capsys):
    """``--version`` prints the name and the version of the package."""
    with pytest.raises(SystemExit) as ending:
        cli.main(["--version"])
    assert not ending.value.code
    assert capsys.readouterr().out == f"suffixspec {__version__}\n"


def test_help_names_every_command_with_a_way_to_start(capsys):
    """``--help`` lists the commands and says what to run first."""
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    out = capsys.readouterr().out
    assert all(f"\n    {command} " in out for command in ("replay", "convert", "estimate"))
    assert "suffixspec replay traces/swebench.jsonl" in out


@pytest.mark.parametrize("arguments", [[], ["dance"], ["replay"], ["replay", "x", "--speed", "9"]])
def test_wrong_usage_ends_with_2(capsys, arguments):
    """No command, an unknown one, or wrong options: status 2, usage on stderr, nothing on stdout."""
    with pytest.raises(SystemExit) as ending:
        cli.main(arguments)
    assert ending.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: suffixspec")


def test_a_command_answers_on_stdout_with_0(capsys):
    """A command that worked returns 0 and has printed its answer."""
    assert cli.main(list(ESTIMATE)) == 0
    assert "3.69x" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("failure", "status", "message"),
    [
        (
            InputError("expected this, got that", path="f", line=3),
            2,
            "suffixspec: f:3: expected this, got that\n",
        ),
        (KeyboardInterrupt(), 130, "suffixspec: interrupted\n"),
        (BrokenPipeError(), 0, ""),
        (PermissionError(13, "Permission denied", "/cache"), 1, "Permission denied: '/cache'\n"),
    ],
    ids=["bad input", "Ctrl-C", "closed pipe", "system error"],
)
def test_failures_become_an_exit_status(monkeypatch, capsys, failure, status, message):
    """Bad input is 2, Ctrl-C 130, a reader that went away 0, a failing system 1; never a traceback."""

    def fail(_: object) -> int:
        raise failure

    monkeypatch.setattr("suffixspec.estimate.run", fail)
    assert cli.main(list(ESTIMATE)) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith(message)
    assert "Traceback" not in err


def test_a_defect_of_the_program_is_not_hidden(monkeypatch):
    """An exception that nobody foresaw reaches the user with its traceback."""

    def fail(_: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr("suffixspec.estimate.run", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main(list(ESTIMATE))


def run_into(stdout: int, *arguments: str, unbuffered: str = "") -> tuple[int, str]:
    done = subprocess.run(
        [*PROGRAM, *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        check=False,
        text=True,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("command", ["--help", "estimate", "convert"])
def test_a_reader_that_went_away_is_no_error(trace, command, unbuffered):
    """``| head``: the program ends with 0 and without a word when nobody reads its output any more."""
    arguments = {"estimate": ESTIMATE, "convert": ("convert", str(trace), "-o", "-")}.get(command, (command,))
    read, write = os.pipe()
    os.close(read)
    try:
        status, err = run_into(write, *arguments, unbuffered=unbuffered)
    finally:
        os.close(write)
    assert status == 0
    assert "Traceback" not in err
    assert "BrokenPipe" not in err


def test_head_gets_its_lines(trace):
    """A reader gets what it asks for, and may then close the pipe in the middle of a long output."""
    with subprocess.Popen(
        [*PROGRAM, "convert", str(trace), "-o", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["session_id"] == "s"
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode == 0
    assert b"Traceback" not in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("command", ["estimate", "convert"])
def test_a_full_disk_is_said_plainly(trace, command, unbuffered):
    """Output that cannot be written: status 1 and the reason in one line, no traceback, not twice."""
    arguments = ESTIMATE if command == "estimate" else ("convert", str(trace), "-o", "-")
    with Path("/dev/full").open("wb") as full:
        status, err = run_into(full.fileno(), *arguments, unbuffered=unbuffered)
    assert status == 1
    assert err.endswith("suffixspec: [Errno 28] No space left on device\n")
    assert "Traceback" not in err
    assert err.count("No space left") == 1


def test_a_name_that_the_terminal_cannot_show_does_not_stop_the_output(monkeypatch):
    """On an ASCII terminal, other characters are escaped."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    monkeypatch.setattr("suffixspec.estimate.run", lambda _: print("τ = 3") or 0)
    assert cli.main(list(ESTIMATE)) == 0
    assert raw.getvalue() == b"\\u03c4 = 3\n"
