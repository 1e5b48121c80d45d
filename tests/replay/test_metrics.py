"""Every published figure of a replay has the value that its definition gives."""

import json

import numpy as np
import pytest

from suffixspec.cost import CostCurve
from suffixspec.replay.metrics import measure
from suffixspec.replay.result import DrafterResult, ReplayResult, TurnResult

from .samples import DRAFTER_KEYS, hand_drafter, hand_result, plain_drafter

MID = CostCurve.named("mid")

RUN_KEYS = ["version", "trace", "settings", "drafters", "cost", "interrupted"]
TRACE_KEYS = ["paths", "sessions", "turns", "output_tokens", "context_tokens", "skipped"]
TURN_KEYS = [
    "session_id",
    "turn",
    "task",
    "attempt",
    "context_tokens",
    "tokens",
    "steps",
    "drafted",
    "accepted",
    "tokens_per_step",
    "modelled_speedup",
]


def suffix_json(result: ReplayResult | None = None) -> dict:
    return measure(result or hand_result(), MID).to_json()["drafters"][0]


def test_the_json_document_has_exactly_the_published_keys_in_order():
    """Top level, trace, each drafter and each turn have the same keys in the same order, drafts or not."""
    document = measure(hand_result(), MID).to_json()
    assert list(document) == RUN_KEYS
    assert list(document["trace"]) == TRACE_KEYS
    assert [list(drafter) for drafter in document["drafters"]] == [DRAFTER_KEYS, DRAFTER_KEYS]
    assert all(list(turn) == TURN_KEYS for drafter in document["drafters"] for turn in drafter["per_turn"])
    assert list(document["drafters"][0]["sources"]) == ["session", "history", "ngram", "target"]
    assert document["version"] == 1


def test_the_trace_is_counted_over_turns():
    """Context tokens are the sum of all turns' prompts, output tokens that of all outputs."""
    assert measure(hand_result(), MID).to_json()["trace"] == {
        "paths": ["loops.jsonl", "more.jsonl.gz"],
        "sessions": 3,
        "turns": 4,
        "output_tokens": 9080,
        "context_tokens": 500,
        "skipped": 0,
    }


def test_counts_and_their_ratios():
    """Tokens per step, drafted per step, acceptance and operations growth are ratios of the totals."""
    drafter = suffix_json()
    assert (drafter["tokens"], drafter["steps"]) == (9080, 1015)
    assert drafter["tokens_per_step"] == pytest.approx(9080 / 1015)
    assert drafter["drafted_per_step"] == pytest.approx(10_120 / 1015)
    assert drafter["acceptance_rate"] == pytest.approx(8066 / 10_120)
    assert drafter["alpha_chain"] == pytest.approx(0.8)
    assert drafter["ops_growth"] == pytest.approx((10_120 + 1015) / 9080)
    assert drafter["accepted_length_histogram"] == [500, 100, 15, 400]


def test_the_two_other_forms_of_tokens_per_step():
    """The session mean weighs sessions alike, the capped form leaves out the output of 9,000 tokens."""
    drafter = suffix_json()
    assert drafter["tokens_per_step_session_mean"] == pytest.approx((40 / 11 + 10 + 9) / 3)
    assert drafter["tokens_per_step_capped"] == pytest.approx(80 / 15)


def test_an_output_of_exactly_8000_tokens_is_not_left_out():
    """The cap excludes outputs longer than 8,000 tokens, not those as long."""
    turns = [TurnResult("A", 0, "T", 1, 1, tokens, 1000) for tokens in (8000, 8001)]
    drafter = suffix_json(hand_result(DrafterResult("suffix", turns)))
    assert drafter["tokens_per_step_capped"] == 8.0


def test_measured_times():
    """Percentiles are over steps, appending is per token, c is the mean per step over t(1) = 25 ms."""
    drafter = suffix_json()
    assert drafter["draft_us_p50"] == pytest.approx(508)
    assert drafter["draft_us_p99"] == pytest.approx(np.percentile(np.arange(1, 1016), 99))
    assert drafter["append_us_per_token"] == pytest.approx(10_200 / 9440)
    assert drafter["index_bytes_per_token"] == 58.0
    assert drafter["c"] == pytest.approx(20_400 / 1015 / 25_000)


def test_the_modelled_speedup_charges_forwards_drafting_and_output_indexing():
    """Plain time over forwards, drafting and output indexing; indexing a prompt belongs to prefill."""
    assert suffix_json()["modelled_speedup"] == pytest.approx(9080 * 25 / (30_435 + 20.4 + 10.2 - 0.11))


def test_indexing_that_was_not_split_is_charged_in_full():
    """Without a separate time for the prompt, all indexing counts against the drafter."""
    drafter = hand_drafter()
    for turn in drafter.turns:
        turn.prompt_append_us = 0.0
    assert suffix_json(hand_result(drafter))["modelled_speedup"] == pytest.approx(
        9080 * 25 / (30_435 + 20.4 + 10.2)
    )


def test_sources_share_out_the_output():
    """Each source's accepted tokens and the target's own add up to the whole output."""
    sources = suffix_json()["sources"]
    assert sources["session"] == {
        "drafted": 7000,
        "accepted": 6000,
        "acceptance_rate": pytest.approx(6000 / 7000),
        "share_of_output": pytest.approx(6000 / 9080),
    }
    assert sources["target"]["share_of_output"] == pytest.approx((9080 - 8066) / 9080)
    assert sum(source["share_of_output"] for source in sources.values()) == pytest.approx(1.0)


def test_retries_compare_only_tasks_that_were_tried_again():
    """Task T was tried twice (A, then B); the single try of U stands on neither side."""
    retries = suffix_json()["retries"]
    assert (retries["tasks"], retries["first_sessions"], retries["later_sessions"]) == (1, 1, 1)
    assert retries["tokens_per_step_first"] == pytest.approx(40 / 11)
    assert retries["tokens_per_step_later"] == pytest.approx(10.0)


def test_without_retries_there_is_nothing_to_compare():
    """A later try whose first one is not in the run gives no comparison either."""
    drafter = hand_drafter()
    drafter.turns = drafter.turns[2:]
    assert suffix_json(hand_result(drafter))["retries"] is None


def test_the_loop_is_followed_turn_by_turn():
    """Turn numbers pool their tokens and steps over sessions, with quartiles over the single turns."""
    first, second = suffix_json()["by_turn_number"]
    assert (first["turn"], first["turns"], first["tokens"], first["steps"]) == (0, 3, 9050, 1009)
    assert first["tokens_per_step"] == pytest.approx(9050 / 1009)
    quartiles = [first[f"tokens_per_step_p{q}"] for q in (25, 50, 75)]
    assert quartiles == pytest.approx(list(np.percentile([2, 9, 10], [25, 50, 75])))
    assert (second["turn"], second["turns"], second["tokens_per_step"]) == (1, 1, 5.0)


def test_halves_compare_a_session_with_itself():
    """Only A has two turns: its first against its second; the middle turn of three is left out."""
    assert suffix_json()["halves"] == {"tokens_per_step_first": 2.0, "tokens_per_step_second": 5.0}
    turns = [TurnResult("A", number, "T", 1, 1, tokens, 10) for number, tokens in enumerate((10, 990, 40))]
    halves = suffix_json(hand_result(DrafterResult("suffix", turns)))["halves"]
    assert halves == {"tokens_per_step_first": 1.0, "tokens_per_step_second": 4.0}


def test_sessions_that_share_an_id_are_kept_apart_by_their_attempt():
    """Two tries of a task under one session id are two sessions."""
    drafter = hand_drafter()
    for turn in drafter.turns:
        turn.session_id = "same"
    per_session = suffix_json(hand_result(drafter))["per_session"]
    assert [(s["task"], s["attempt"], s["turns"]) for s in per_session] == [
        ("T", 1, 2),
        ("T", 2, 1),
        ("U", 1, 1),
    ]


def test_plain_decoding_has_no_draft_figures():
    """Without drafts: one token per step, speed-up 1, and what does not exist is null, not zero."""
    plain = measure(hand_result(), MID).to_json()["drafters"][1]
    assert (plain["tokens_per_step"], plain["drafted_per_step"], plain["modelled_speedup"]) == (1.0, 0.0, 1.0)
    for key in ("acceptance_rate", "draft_us_p50", "draft_us_p99", "append_us_per_token", "alpha_chain"):
        assert plain[key] is None, key
    assert plain["index_bytes_per_token"] is None
    assert plain["sources"]["session"]["acceptance_rate"] is None
    assert plain["sources"]["target"]["share_of_output"] == 1.0


def test_a_run_that_measured_nothing_has_no_figures():
    """Interrupted before the first turn: no division fails, and no ratio is invented."""
    result = ReplayResult(["x.jsonl"], 0, {}, [DrafterResult("suffix")], interrupted=True)
    metrics = measure(result, MID)
    assert metrics.best is None
    document = metrics.to_json()
    assert document["interrupted"] is True
    assert document["trace"]["turns"] == 0
    drafter = document["drafters"][0]
    assert (drafter["tokens"], drafter["steps"], drafter["per_turn"]) == (0, 0, [])
    assert drafter["tokens_per_step"] is None
    assert drafter["modelled_speedup"] is None
    assert measure(ReplayResult(["x.jsonl"], 0, {}, []), MID).to_json()["drafters"] == []


def test_the_best_drafter_is_the_one_with_the_greatest_speedup():
    """Plain decoding is never called the best drafter, and of equals the first is taken."""
    slow = hand_drafter("slow")
    for turn in slow.turns:
        turn.target_ms *= 20
    assert measure(hand_result(slow, hand_drafter("a"), hand_drafter("b")), MID).best.name == "a"
    assert measure(hand_result(plain_drafter(), slow), MID).best.name == "slow"
    assert measure(hand_result(plain_drafter()), MID).best is None


def test_no_value_leaves_what_json_can_hold(tmp_path):
    """NaN, infinity, NumPy scalars and paths in times or settings become null, numbers and text."""
    result = hand_result()
    result.settings |= {"seed": np.int64(3), "beta": float("nan"), "warm": tmp_path, "many": (1, {2})}
    result.drafters[0].turns[0].draft_us = float("inf")
    result.drafters[0].draft_us[0] = np.nan
    document = measure(result, MID).to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["settings"]["seed"] == 3
    assert document["settings"]["beta"] is None
    assert document["settings"]["warm"] == str(tmp_path)
    assert document["settings"]["many"] == [1, [2]]
    assert document["drafters"][0]["c"] is None
    assert document["drafters"][0]["draft_us_p50"] == pytest.approx(508.5)


def test_a_setting_that_json_cannot_hold_is_refused():
    """An object in the settings is a mistake of the caller, named by its type."""
    result = hand_result()
    result.settings["tokenizer"] = object()
    with pytest.raises(TypeError, match="expected a value that JSON can hold, got object"):
        measure(result, MID).to_json()
