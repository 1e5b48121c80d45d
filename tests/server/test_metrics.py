"""``/metrics``, ``/health`` and ``/v1/models``."""

import pytest
from engine.tiny import EOS, TOKENIZER, oracle
from prometheus_client.parser import text_string_to_metric_families

from suffixspec.engine.prompt import render_prompt

from .harness import LONG, Running, user

SECONDS = ("busy", "draft", "forward", "prefill", "index")


def samples(running) -> dict:
    """Name and labels → value."""
    status, headers, text = running.ask("/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain")
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_drafts_are_counted_under_vllms_names(server, tiny_target):
    """With a drafter that is right for six tokens at a time: drafts, tokens, accepted ones, also by position."""
    messages = [user("count")]
    prompt = TOKENIZER.encode(render_prompt(TOKENIZER, messages, None))
    text = prompt + server.plain(prompt, max_tokens=20, logit_bias={EOS: -100.0}).token_ids
    with Running(tiny_target, drafter=oracle(text, width=6)) as running:
        before = samples(running)
        assert before["vllm:spec_decode_num_drafts_total",] == 0
        body = {"model": "m", "messages": messages, "temperature": 0, "max_tokens": 20, **LONG}
        status, _, answer = running.ask("/v1/chat/completions", body)
        assert status == 200
        after = samples(running)
    values = {name: running.metric(f"suffixspec_{name}_seconds_total") for name in SECONDS}
    assert all(values.values()), values
    assert values["busy"] > sum(values.values()) - values["busy"], "the server's own time is a part of it"
    assert running.metric("suffixspec_prefill_forwards_total") == 1
    # Steps: 7 + 7 + 6 tokens, of drafts of 6, 6 and 5 nodes.
    assert after["vllm:spec_decode_num_drafts_total",] == 3
    assert after["vllm:spec_decode_num_draft_tokens_total",] == 17
    assert after["vllm:spec_decode_num_accepted_tokens_total",] == 17
    per_position = [
        after["vllm:spec_decode_num_accepted_tokens_per_pos_total", str(position)] for position in range(6)
    ]
    assert per_position == [3, 3, 3, 3, 3, 2]
    assert after["suffixspec_steps_total",] == 3
    assert after["suffixspec_generated_tokens_total",] == 20
    assert after["suffixspec_prompt_tokens_total",] == answer["usage"]["prompt_tokens"] == len(prompt)
    assert after["suffixspec_requests_total", "chat", "200"] == 1
    assert after["suffixspec_first_text_seconds_count",] == 1
    assert after["suffixspec_sessions",] == 1
    assert after["suffixspec_requests_running",] == after["suffixspec_requests_waiting",] == 0
    assert after["suffixspec_kv_bytes",] > 0


def test_the_server_says_that_it_is_well(server):
    """``/health``."""
    assert server.ask("/health")[::2] == (200, {"status": "ok"})


def test_the_model_is_listed_in_both_apis_forms(server):
    """Through both clients; the name is the one that responses carry."""
    (model,) = server.openai().models.list().data
    assert (model.id, model.object, model.max_model_len) == ("tiny", "model", 1024)
    assert server.openai().models.retrieve("tiny").id == "tiny"
    (model,) = server.anthropic().models.list().data
    assert (model.id, model.type) == ("tiny", "model")
    assert server.anthropic().models.retrieve("tiny").id == "tiny"


@pytest.mark.parametrize("name", ["gpt-5", "claude-opus", None])
def test_any_model_name_is_served_and_the_true_one_is_told(server, name):
    """Agents ask for models by names of their own."""
    body = {"messages": [user("x")], "max_tokens": 1} | ({} if name is None else {"model": name})
    status, _, answer = server.ask("/v1/chat/completions", body)
    assert status == 200
    assert answer["model"] == "tiny"
