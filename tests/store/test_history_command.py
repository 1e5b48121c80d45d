"""``suffixspec history`` and ``--history``: what the commands say and leave behind."""

import argparse
import json
import time
from typing import get_args

import pytest

from suffixspec import cli
from suffixspec.engine import Engine
from suffixspec.store import HistoryStore
from suffixspec.store.budget import Eviction
from suffixspec.store.command import moment
from suffixspec.store.options import HistoryAction, add_eviction_option
from suffixspec.text import load_tokenizer

from .inputs import numbers, opened, record


@pytest.fixture
def place(tmp_path):
    with opened(tmp_path / "h") as store:
        store.append("n", [record(number) for number in range(4)])
        store.append("m", [record(9, session="of m\x1b[31m", time=time.time())])
    return tmp_path / "h"


def history(capsys, *arguments: object, status: int = 0) -> str:
    assert cli.main(["history", *map(str, arguments)]) == status
    captured = capsys.readouterr()
    return captured.err if status == 2 else captured.out


def test_list_and_show_say_what_is_kept(place, capsys):
    """Names, counts, dates; the texts of a session; control characters of a name do nothing to the terminal."""
    out = history(capsys, "list", "--history", place)
    assert [line.split()[:4] for line in out.splitlines()[1:]] == [
        ["m", "6", "1", "1"],
        ["n", "24", "4", "1"],
    ]
    assert "words0" in out
    assert "\x1b" not in history(capsys, "show", "m", "--history", place)
    assert record(2).text in history(capsys, "show", "n", "--session", "session-002", "--history", place)
    assert "got 'nobody'" in history(capsys, "show", "n", "--session", "nobody", "--history", place, status=2)
    assert "('m', 'n'), got 'x'" in history(capsys, "show", "x", "--history", place, status=2)
    assert "expected a history, got no such folder" in history(
        capsys, "list", "--history", place / "x", status=2
    )


def test_verify_ends_with_1_where_something_is_damaged(place, capsys):
    """It names the file and changes nothing."""
    assert "0 problems" in history(capsys, "verify", "--history", place)
    path = max(place.glob("namespaces/*/*.seg"))
    data = path.read_bytes()[:-1]
    path.write_bytes(data)
    assert str(path) in history(capsys, "verify", "--history", place, status=1)
    assert path.read_bytes() == data


def test_forget_removes_and_says_how_much(place, capsys):
    """By session and by age; nothing said is an error."""
    assert "expected --session, --namespace or --before" in history(
        capsys, "forget", "--history", place, status=2
    )
    assert history(capsys, "forget", "--session", "session-001", "--history", place) == "1 record forgotten\n"
    assert history(capsys, "forget", "--before", "1d", "--history", place) == "3 records forgotten\n"
    with HistoryStore(place) as store:
        assert numbers(store, "m") == [9]
        assert store.names() == ["m"]


def test_before_takes_dates_and_ages():
    """Dates, times and ages; anything else is refused."""
    assert abs(moment("2h") - (time.time() - 7200)) < 5
    assert moment("2026-01-02T03:04") - moment("2026-01-02") == pytest.approx(3 * 3600 + 240)
    with pytest.raises(argparse.ArgumentTypeError, match="got 'yesterday'"):
        moment("yesterday")


def test_export_and_import_give_the_same_records(place, tmp_path, capsys):
    """What is there already is passed over; another tokenizer's ids are encoded anew from the texts."""
    out = history(capsys, "export", "n", "--history", place)
    lines = out.splitlines()
    assert [json.loads(line)["session"] for line in lines[1:]] == [
        f"session-00{number}" for number in range(4)
    ]
    file = tmp_path / "n.jsonl"
    file.write_text(out, encoding="ascii")
    target = tmp_path / "other"
    said = history(capsys, "import", file, "--namespace", "k", "--history", target)
    assert said == "k: 4 records added, 0 were there\n"
    assert history(capsys, "import", file, "--namespace", "k", "--history", target).startswith(
        "k: 0 records added, 4"
    )
    tokenizer = load_tokenizer()
    with HistoryStore(target) as store:
        found = list(store.records("k"))
    assert [one.text for one in found] == [record(number).text for number in range(4)]
    assert found[0].tokens.tolist() == tokenizer.encode(record(0).text)
    file.write_text(lines[0] + "\nnot json\n", encoding="ascii")
    assert f"{file}:2: expected a JSON object" in history(
        capsys, "import", file, "--history", target, status=2
    )


def loop(tmp_path) -> str:
    """A trace of one session with one long output; its path."""
    trace = tmp_path / "loop.jsonl"
    answer = " ".join(f"word{number * 7919 % 1000}" for number in range(120))
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": answer}]
    trace.write_text(json.dumps({"session_id": "s", "messages": messages}) + "\n", encoding="utf-8")
    return str(trace)


def test_a_replay_keeps_its_outputs_and_drafts_from_them(tmp_path, capsys):
    """The second run of a session needs fewer steps; the first writes each output once, whatever drafters it has."""
    trace = loop(tmp_path)
    taus = []
    for _ in range(2):
        command = [
            "replay",
            trace,
            "--history",
            f"{tmp_path}/h",
            "--drafter",
            "suffix",
            "--drafter",
            "ngram",
        ]
        assert cli.main([*command, "-o", "json"]) == 0
        taus.append(json.loads(capsys.readouterr().out)["drafters"][0]["tokens_per_step"])
    assert taus[1] > 2 * taus[0]
    with HistoryStore(tmp_path / "h") as store:
        assert [one.session for one in store.records("default")] == ["s", "s"]
        assert "word919 word838" in str(next(store.records("default")).text)


def test_a_replay_counts_what_was_useful_where_it_is_told_to(tmp_path, capsys):
    """With least-useful, tokens that a draft gave are credited to the segment that they came from; else none is."""
    trace = loop(tmp_path)
    for eviction, counts in (("oldest", False), ("least-useful", True)):
        place = tmp_path / eviction
        command = ["replay", trace, "--history", str(place), "--history-eviction", eviction, "-o", "json"]
        for _ in range(2):
            assert cli.main(command) == 0
        capsys.readouterr()
        with HistoryStore(place) as store:
            first, _ = store.log("default").segments()
            counted = store.log("default").useful.read()
        assert set(counted) == ({first.name} if counts else set())
        assert counts == (counted.get(first.name, 0.0) > 100)


def test_what_leaves_first_can_be_said_wherever_a_history_is_written(place, tmp_path, capsys, monkeypatch):
    """Every command that writes takes ``--history-eviction``, and the store or the engine has it in its budget."""
    opened_with, engines = [], []
    begin = HistoryStore.__init__

    def noted(store, *given, budget=None, **more):
        begin(store, *given, budget=budget, **more)
        opened_with.append(store.budget.eviction)

    def engine(*_, history_budget, **__):
        engines.append(history_budget.eviction)
        raise KeyboardInterrupt

    lines = tmp_path / "n.jsonl"
    lines.write_text(history(capsys, "export", "n", "--history", place), encoding="ascii")
    (tmp_path / "repository").mkdir()
    monkeypatch.setattr(HistoryStore, "__init__", noted)
    monkeypatch.setattr(Engine, "from_pretrained", engine)
    for given, expected in ((["--history-eviction", "least-useful"], "least-useful"), ([], "oldest")):
        for command in (
            ["history", "compact", "--history", str(place)],
            ["history", "import", str(lines), "--history", str(tmp_path / "k")],
            ["index", str(tmp_path / "repository"), "--history", str(tmp_path / "k")],
        ):
            assert cli.main([*command, *given]) == 0
            assert opened_with.pop() == expected, command
        for command in (["chat"], ["generate", "--raw", "x"], ["serve", "--port", "0"]):
            cli.main([*command, "--history", str(place), *given])
            assert engines.pop() == expected, command


def test_what_leaves_first_is_one_of_two_and_of_a_history(tmp_path, capsys):
    """The option offers what a budget takes; where nothing is kept, it is refused before any work."""
    parser = argparse.ArgumentParser()
    add_eviction_option(parser)
    (action,) = [one for one in parser._actions if one.dest == "history_eviction"]
    assert action.choices == get_args(Eviction)
    trace = loop(tmp_path)
    for command in (["replay", trace], ["replay", trace, "--model"], ["chat"], ["serve", "--port", "0"]):
        assert cli.main([*command, "--history-eviction", "oldest"]) == 2
        assert "expected a folder as --history with --history-eviction oldest" in capsys.readouterr().err


def test_history_takes_a_mode_or_a_folder(tmp_path, capsys):
    """A word that is neither is refused: a new folder is named with a slash."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--history", action=HistoryAction, default="namespace")
    for value, expected in (("off", ("off", None)), (f"{tmp_path}/new", ("namespace", f"{tmp_path}/new"))):
        args = parser.parse_args(["--history", value])
        assert (args.history, args.history_store) == expected
    with pytest.raises(SystemExit):
        parser.parse_args(["--history", "sesion"])
    assert "a new folder is named with a slash: sesion/" in capsys.readouterr().err
