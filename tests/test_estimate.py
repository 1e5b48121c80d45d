"""``suffixspec estimate``: the answers that it prints and the values that it refuses."""

import argparse
import json

import pytest

from suffixspec import estimate
from suffixspec.errors import SuffixspecError


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser(prog="suffixspec")
    estimate.add_parser(parser.add_subparsers())
    args = parser.parse_args(["estimate", *arguments])
    return args.run(args)


def run_json(capsys, *arguments: str) -> dict:
    assert run(*arguments, "-o", "json") == 0
    return json.loads(capsys.readouterr().out)


def test_the_published_example_is_answered(capsys):
    """α = 0.75, γ = 7, c = 0.02 prints 3.16x, as a table and as JSON."""
    assert run("--alpha", "0.75", "--gamma", "7", "--c", "0.02") == 0
    assert "Drafts of 7 give 3.16x" in capsys.readouterr().out
    answer = run_json(capsys, "--alpha", "0.75", "--gamma", "7", "--c", "0.02")
    assert list(answer) == ["version", "speculation"]
    assert list(answer["speculation"]) == [
        "alpha",
        "c",
        "c_hat",
        "gamma",
        "expected_tokens",
        "speedup",
        "operations_growth",
        "pays",
        "best_gamma",
        "best_speedup",
    ]
    assert round(answer["speculation"]["speedup"], 2) == 3.16
    assert answer["speculation"]["best_gamma"] == 9


def test_without_gamma_the_best_draft_length_is_found(capsys):
    """The best length is chosen, marked, and said to be the best."""
    assert run("--alpha", "0.75", "--c", "0.02") == 0
    out = capsys.readouterr().out
    assert "Drafts of 9 give 3.20x" in out
    assert "No other draft length is faster." in out
    assert [line.split()[0] for line in out.splitlines() if line.rstrip().endswith("best")] == ["9"]


def test_when_no_draft_pays_it_says_so(capsys):
    """With α <= c the answer is plain decoding, and the best γ is 0."""
    assert run("--alpha", "0.1", "--c", "0.2") == 0
    assert "No draft pays: alpha = 0.1 does not exceed c = 0.2" in capsys.readouterr().out
    answer = run_json(capsys, "--alpha", "0.1", "--c", "0.2")["speculation"]
    assert (answer["pays"], answer["gamma"], answer["best_gamma"], answer["speedup"]) == (False, 0, 0, 1.0)


def test_a_draft_length_that_slows_down_is_called_so(capsys):
    """A γ with a speed-up below 1 is not sold as a gain, and the best one is named."""
    assert run("--alpha", "0.3", "--c", "0.2", "--gamma", "16") == 0
    out = capsys.readouterr().out
    assert "Drafts of 16 would slow decoding down to 0.34x" in out
    assert "The best are drafts of 1: 1.08x." in out


def test_free_drafting_has_no_best_length(capsys):
    """With c = 0 the search ends at its limit, says why, and JSON gives no best γ."""
    assert run("--alpha", "0.8") == 0
    assert "drafting is free (c = 0), every longer draft helps, towards 5.00x" in capsys.readouterr().out
    assert run_json(capsys, "--alpha", "0.8")["speculation"]["best_gamma"] is None


def test_a_best_length_beyond_the_search_is_not_claimed(capsys):
    """Where the speed-up still rises at --max-gamma, that is said, and JSON gives no best γ."""
    assert run("--alpha", "0.99", "--c", "0.0001", "--max-gamma", "8") == 0
    assert "longer than --max-gamma 8 would be faster still" in capsys.readouterr().out
    answer = run_json(capsys, "--alpha", "0.99", "--c", "0.0001", "--max-gamma", "8")["speculation"]
    assert (answer["gamma"], answer["best_gamma"]) == (8, None)


def test_alpha_is_worked_out_from_measured_tokens_per_step(capsys):
    """τ = 1.75 with chains of one token means α = 0.75."""
    answer = run_json(capsys, "--tokens-per-step", "1.75", "--gamma", "1")["speculation"]
    assert answer["alpha"] == pytest.approx(0.75)


def test_the_memory_floor_of_a_70b_model(capsys):
    """70e9 parameters at 3.35 TB/s: 140 GB, 42 ms per token, and divided by the speed-up with a draft."""
    assert run("--params", "70e9", "--bandwidth", "3.35e12", "--alpha", "0.8", "--gamma", "5") == 0
    out = capsys.readouterr().out
    assert (
        "70 billion parameters of 2 bytes are 140 GB; at 3.35 TB/s a forward takes at least 41.8 ms." in out
    )
    assert "With drafts of 5: at least 11.3 ms per token, 88.3 tokens/s." in out
    memory = run_json(capsys, "--params", "70e9", "--bandwidth", "3.35e12")["memory"]
    assert round(memory["ms_per_token"]) == 42
    assert memory["weight_bytes"] == 140e9
    assert memory["ms_per_token_speculative"] is None
    assert run_json(capsys, "--params", "70e9", "--bandwidth", "3.35e12", "--bytes-per-param", "0.5")[
        "memory"
    ]["ms_per_token"] == pytest.approx(memory["ms_per_token"] / 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected --alpha .* or --params with --bandwidth, got neither"),
        (["--alpha", "1.5"], "expected 0 <= alpha <= 1, got 1.5"),
        (["--alpha", "nan"], "expected 0 <= alpha <= 1, got nan"),
        (["--alpha", "0.5", "--c", "-1"], "expected a finite c >= 0, got -1.0"),
        (["--alpha", "0.5", "--c-hat", "inf"], "expected a finite c_hat >= 0, got inf"),
        (["--alpha", "0.5", "--gamma", "-2"], "expected gamma to be a whole number >= 0, got -2"),
        (["--alpha", "0.5", "--max-gamma", "-2"], "expected max_gamma >= 0, got -2"),
        (
            ["--alpha", "0.5", "--max-gamma", "10000000"],
            "expected --max-gamma of at most 1000000, got 10000000",
        ),
        (["--alpha", "0.5", "--gamma", "1" + "0" * 400], "too large"),
        (["--gamma", "4"], "expected --alpha or --tokens-per-step with --gamma"),
        (["--tokens-per-step", "2"], "expected --gamma with --tokens-per-step"),
        (["--tokens-per-step", "9", "--gamma", "4"], r"expected 1 <= tokens <= gamma \+ 1"),
        (["--params", "70e9"], "expected --bandwidth with --params, got none"),
        (["--bandwidth", "3e12"], "expected --params with --bandwidth, got none"),
        (["--params", "0", "--bandwidth", "3e12"], "expected a finite params > 0, got 0.0"),
        (
            ["--params", "7e9", "--bandwidth", "3e12", "--bytes-per-param", "-1"],
            "bytes_per_param > 0, got -1.0",
        ),
    ],
)
def test_bad_values_are_refused_before_anything_is_printed(capsys, arguments, message):
    """A value out of range or a missing partner is an error that names it, and stdout stays empty."""
    with pytest.raises(SuffixspecError, match=message):
        run(*arguments)
    assert capsys.readouterr().out == ""


def test_a_word_for_a_number_exits_with_2(capsys):
    """A value that is no number at all is refused by the command line's parser with exit code 2."""
    with pytest.raises(SystemExit) as caught:
        run("--alpha", "often")
    assert caught.value.code == 2


def test_the_help_teaches_with_examples_that_work(capsys):
    """Every ``suffixspec estimate`` line of the help runs, and the speed-up beside it is the one printed."""
    with pytest.raises(SystemExit):
        run("--help")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    examples = [line[2:] for line in lines if line[:2] == ["suffixspec", "estimate"]]
    assert len(examples) >= 4
    for example in examples:
        claim = example.pop() if example[-1].endswith("x") else ""
        arguments = [word for word in example if word != "speed-up"]
        assert run(*arguments) == 0
        assert claim in capsys.readouterr().out
