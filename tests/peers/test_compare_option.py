"""``suffixspec replay --compare`` as its user meets it."""

import json
import sys

import pytest
from replay.inputs import lines, loop_like, write_tokenizer

from suffixspec import cli
from suffixspec.replay import simulate

PEERS = "prompt-lookup,automaton:occurrence=first:tokens=6"


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("compare") / "loop.jsonl"
    path.write_bytes(lines(loop_like(seed=1)))
    return path


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> str:
    return str(write_tokenizer(tmp_path_factory.mktemp("compare") / "bytes"))


@pytest.fixture
def run(tokenizer, trace, capsys):
    """Runs the command on the trace; returns (exit status, stdout, stderr)."""

    def replay(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = cli.main(["replay", "--tokenizer", tokenizer, str(trace), *arguments])
        return status, *capsys.readouterr()

    return replay


def test_peers_are_shown_beside_ours_in_every_form(run, tmp_path):
    """A column per peer under the name that was given, in the table, the JSON and the page."""
    page = tmp_path / "report.html"
    status, out, err = run("--compare", PEERS, "-o", "json", "--report", str(page), "--max-nodes", "8")
    assert status == 0, err
    document = json.loads(out)
    names = ["suffix", "prompt-lookup", "automaton:occurrence=first:tokens=6"]
    assert [drafter["name"] for drafter in document["drafters"]] == names
    assert document["settings"]["compare"] == names[1:]
    ours, lookup, automaton = document["drafters"]
    assert ours["tokens"] == lookup["tokens"] == automaton["tokens"]
    assert ours["tokens_per_step"] > automaton["tokens_per_step"] > 1
    assert len(lookup["accepted_length_histogram"]) <= 9  # ten tokens by its rule, eight by the budget
    assert len(automaton["accepted_length_histogram"]) <= 7
    assert ours["overhead_us_per_token"] > 0
    text = page.read_text(encoding="utf-8")
    assert all(name in text for name in names)
    status, out, _ = run("--compare", "prompt-lookup", "--compare", "vllm-ngram,prompt-lookup")
    assert status == 0
    (header,) = (
        line
        for line in out.splitlines()
        if "prompt-lookup" in line and "vllm-ngram" in line and "suffix" in line and "first" not in line
    )
    assert header.split() == ["suffix", "prompt-lookup", "vllm-ngram"]


def test_a_cost_does_not_change_what_a_peer_drafts(run):
    """Where ours stops drafting, a peer goes on: it knows no cost."""
    by_curve = {}
    for cost in ("gpu", "cpu"):
        status, out, _ = run("--compare", "automaton", "-o", "json", "--cost", cost)
        assert status == 0
        by_curve[cost] = {d["name"]: d["drafted_per_step"] for d in json.loads(out)["drafters"]}
    assert by_curve["gpu"]["automaton"] == by_curve["cpu"]["automaton"]
    assert by_curve["gpu"]["suffix"] != by_curve["cpu"]["suffix"]


@pytest.fixture
def _no_work(monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError("expected the error before the work begins")

    monkeypatch.setattr(simulate.Simulation, "run", refuse)


@pytest.mark.usefixtures("_no_work")
def test_an_unknown_peer_is_refused_and_the_known_ones_are_listed(run):
    """Status 2, one line, nothing decoded."""
    status, out, err = run("--compare", "prompt-lookup,magic")
    assert (status, out) == (2, "")
    assert err == (
        "suffixspec: expected a peer of arctic, prompt-lookup, vllm-ngram, automaton, got 'magic'\n"
    )


@pytest.mark.usefixtures("_no_work")
def test_arctic_that_is_not_installed_is_explained(run, monkeypatch):
    """Status 2, and the commands that install it."""
    monkeypatch.setitem(sys.modules, "arctic_inference", None)
    monkeypatch.delitem(sys.modules, "arctic_inference.suffix_decoding", raising=False)
    status, out, err = run("--compare", "arctic")
    assert (status, out) == (2, "")
    assert err.startswith("suffixspec: expected arctic-inference 0.1.2 for the peer arctic, got none")
    assert "ARCTIC_MINIMAL_BUILD=1 pip install" in err


@pytest.mark.usefixtures("_no_work")
def test_peers_are_not_decoded_with_a_model(run, trace):
    """``--compare`` with ``--model`` is refused before a model is loaded."""
    assert cli.main(["replay", str(trace), "--compare", "automaton", "--model"]) == 2


def test_the_help_names_every_peer_and_its_options(capsys):
    """``--help`` teaches what can be compared with."""
    with pytest.raises(SystemExit):
        cli.main(["replay", "--help"])
    text = capsys.readouterr().out
    assert "--compare PEER" in text
    assert all(f"\n  {name} " in text for name in ("arctic", "prompt-lookup", "vllm-ngram", "automaton"))
    assert "factor, offset, min_prob, tree, nodes, depth" in text
    assert "occurrence, shortest, tokens" in text
