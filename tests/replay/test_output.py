"""The four forms of the output say the same, and each of them can be read by what it is for."""

import csv
import io
import json

import pytest

from suffixspec.cost import CostCurve
from suffixspec.replay.findings import findings, headline
from suffixspec.replay.metrics import RunMetrics, measure
from suffixspec.replay.output import FORMS, write_output
from suffixspec.replay.result import DrafterResult, ReplayResult, TurnResult

from .samples import hand_drafter, hand_result, plain_drafter

MID = CostCurve.named("mid")


def written(result: ReplayResult, form: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    write_output(measure(result, MID), form, out=out, err=err)
    return out.getvalue(), err.getvalue()


def one_turn(**fields: float) -> RunMetrics:
    """Figures of a drafter with a single turn of 100 tokens."""
    turn = TurnResult("A", 0, "T", 1, context_tokens=10, tokens=100, **fields)
    return measure(hand_result(DrafterResult("suffix", [turn])), MID)


def test_the_table_answers_first_and_explains_after():
    """Speed-up is the first row, the headline follows the table, then what was copied and how it develops."""
    out, err = written(hand_result(), "table")
    lines = [line.rstrip() for line in out.splitlines()]
    rows = [line for line in lines if line.endswith("x")]
    assert rows[0].split() == ["modelled", "speed-up", "7.45x", "1.00x"]
    text = " ".join(out.split())
    answer = text.index("With suffix this loop would run 7.45 times as fast as plain decoding")
    assert answer > text.index("modelled speed-up")
    assert text.index("suffix drafted 89% of the output correctly, 66% from the session itself") > answer
    assert "It gets better as the loop goes on: 2.00 tokens per step in the first half" in text
    assert "One task was tried again: 10.00 tokens per step on later tries, 3.64 on the first." in text
    assert "without them it is 5.33 tokens per step" in text
    assert "loops.jsonl, more.jsonl.gz: 3 sessions, 4 turns, 9,080 output and 500 context tokens" in text
    assert err == ""


def test_json_is_the_document_of_the_metrics():
    """The printed JSON parses back to the same document, key order included, in plain ASCII."""
    out, err = written(hand_result(), "json")
    assert json.dumps(json.loads(out)) == json.dumps(measure(hand_result(), MID).to_json())
    assert out.isascii()
    assert err == ""


def test_json_never_holds_nan():
    """A time that could not be measured prints as null, in strict JSON."""
    result = hand_result()
    result.drafters[0].turns[0].draft_us = float("nan")
    out, _ = written(result, "json")

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in JSON")

    document = json.loads(out, parse_constant=refuse)
    assert document["drafters"][0]["modelled_speedup"] is None


def test_csv_has_one_line_per_drafter_with_the_figures_of_the_json():
    """Each scalar of a drafter's JSON is a column of its line; null is an empty cell."""
    result = hand_result()
    rows = list(csv.DictReader(io.StringIO(written(result, "csv")[0])))
    drafters = measure(result, MID).to_json()["drafters"]
    assert [row["name"] for row in rows] == ["suffix", "none"]
    for row, drafter in zip(rows, drafters, strict=True):
        scalars = {k: v for k, v in drafter.items() if not isinstance(v, list | dict)}
        assert len(scalars) == 17
        for key, value in scalars.items():
            assert row[key] == ("" if value is None else str(value)), key
    assert float(rows[0]["share_session"]) == pytest.approx(6000 / 9080)
    assert float(rows[0]["tokens_per_step_later_tries"]) == 10.0
    assert (rows[0]["sessions"], rows[0]["turns"], rows[0]["cost"], rows[0]["t1_ms"]) == (
        "3",
        "4",
        "mid",
        "25.0",
    )


def test_csv_without_retries_keeps_its_columns():
    """The columns do not depend on what the run happened to hold."""
    drafter = hand_drafter()
    drafter.turns = drafter.turns[:1]
    with_retries, without = written(hand_result(), "csv")[0], written(hand_result(drafter), "csv")[0]
    assert with_retries.splitlines()[0] == without.splitlines()[0]
    assert next(csv.DictReader(io.StringIO(without)))["tokens_per_step_first_tries"] == ""


def test_markdown_is_a_table_with_a_column_per_drafter():
    """Every table line has as many cells as there are drafters and one more; the settings are echoed."""
    lines = written(hand_result(), "md")[0].splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert {line.count("|") for line in table} == {4}
    assert table[1] == "|---|---:|---:|"
    assert table[2] == "| modelled speed-up | 7.45x | 1.00x |"
    assert "- max\\_nodes: `32`" in lines
    assert "- command: `suffixspec replay loops.jsonl`" in lines


def test_names_from_outside_cannot_break_the_output():
    """A file name or setting with markup or control characters is shown, not acted on."""
    result = hand_result()
    result.paths = ["a|b\x1b[31m*_`<b>.jsonl", "\udcff"]
    result.settings = {"command": "x `y`\n# z"}
    markdown, _ = written(result, "md")
    assert markdown.startswith("# Replay of a\\|b␛\\[31m\\*\\_\\`&lt;b&gt;.jsonl, \ufffd\n")
    assert "- command: `x 'y' # z`\n" in markdown
    assert "\x1b" not in written(result, "table")[0]


@pytest.mark.parametrize("form", list(FORMS))
def test_interrupted_and_skipped_runs_say_so_in_every_form(form):
    """An incomplete run never looks like a complete one."""
    result = hand_result()
    assert "nterrupted: t" not in "".join(written(result, form))
    result.interrupted, result.skipped = True, 2
    out, err = written(result, form)
    if form == "json":
        document = json.loads(out)
        assert document["interrupted"] is True
        assert document["trace"]["skipped"] == 2
        return
    said = err if form == "csv" else out
    assert "Interrupted: the figures cover what was measured until then." in said
    assert "2 malformed sessions skipped" in said


def test_an_interrupted_comparison_names_what_each_drafter_covered():
    """When the drafters did not come equally far, that is said."""
    ahead, behind = hand_drafter(), plain_drafter()
    del behind.turns[1:]
    result = hand_result(ahead, behind)
    result.interrupted = True
    assert "not the same turns for all drafters (suffix 4 turns, none 1 turn)." in written(result, "csv")[1]


@pytest.mark.parametrize("form", list(FORMS))
def test_a_run_without_any_turn_is_written_without_an_error(form):
    """Interrupted before the first turn, every form still writes something sensible."""
    for drafters in ([], [DrafterResult("suffix")]):
        result = ReplayResult(["x.jsonl"], 0, {}, drafters, interrupted=True)
        out, err = written(result, form)
        assert "nterrupted" in out + err
        assert "nan" not in out


def test_the_headline_is_honest_about_slower_and_equal():
    """Slower than plain decoding is called slower, and a difference too small to show is called none."""
    assert "would run 2.00 times as fast" in headline(
        one_turn(steps=40, drafted=80, accepted=60, target_ms=1250.0)
    )
    slower = one_turn(steps=90, drafted=3000, accepted=10, target_ms=3125.0)
    assert (
        headline(slower) == "With suffix this loop would run slower than plain decoding: 0.80 times as fast."
    )
    assert "yields 1.11 tokens instead of one, but at the cost curve mid" in findings(slower)[0]
    assert "leave speculation off" in findings(slower)[0]
    equal = one_turn(steps=100, target_ms=2500.0, draft_us=5.0)
    assert headline(equal).endswith("would run as fast as plain decoding, and no faster.")
    rejected = one_turn(steps=100, drafted=50, target_ms=2600.0)
    assert findings(rejected) == ["No drafted token was accepted."]


def test_a_drafter_that_drafted_nothing_is_explained():
    """When the budget rule drafts nothing at all, the reason is said."""
    sentences = findings(one_turn(steps=100, target_ms=2500.0))
    assert sentences == ["suffix drafted nothing: at the cost curve mid no draft was expected to pay."]


def test_plain_decoding_alone_claims_nothing():
    """With ``--drafter none`` there is no speed-up to report."""
    metrics = measure(hand_result(plain_drafter()), MID)
    assert headline(metrics).startswith("Plain decoding: one token per forward.")
    assert findings(metrics) == []


def test_several_drafters_are_ranked_in_words():
    """The winner and the others' speed-ups are named in one sentence."""
    slow, slower = hand_drafter("ngram"), hand_drafter("other")
    for turn, other in zip(slow.turns, slower.turns, strict=True):
        turn.target_ms *= 2
        other.target_ms *= 4
    result = hand_result(slower, slow, hand_drafter("suffix"), plain_drafter())
    assert (
        findings(measure(result, MID))[0]
        == "suffix (7.45x) comes first, before ngram (3.73x) and other (1.86x)."
    )


def test_an_unknown_form_is_refused():
    """The forms are named in the error."""
    with pytest.raises(ValueError, match="expected an output form of table, json, md, csv, got 'xml'"):
        write_output(measure(hand_result(), MID), "xml")
