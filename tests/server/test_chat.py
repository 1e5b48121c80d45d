"""``/v1/chat/completions`` through OpenAI's own client."""

import json

import openai
import pytest
from engine.tiny import EOS, TOKENIZER
from openai.types.chat import completion_create_params

from suffixspec.engine.prompt import render_prompt
from suffixspec.server import chat_wire

from .harness import LONG, user

MODEL = "tiny"


def plain(server, messages, tools=None, **options):
    """What plain decoding says to a conversation."""
    options = {"logit_bias": {EOS: -100.0}, **options}
    return server.plain(TOKENIZER.encode(render_prompt(TOKENIZER, messages, tools)), **options)


def test_a_chat_completion_is_what_plain_decoding_writes(server):
    """Greedy: text, finish reason and usage of a whole response."""
    messages = [user("the abc the abc 12")]
    got = server.openai().chat.completions.create(
        model=MODEL, messages=messages, temperature=0, max_tokens=20, extra_body=LONG
    )
    wanted = plain(server, messages, max_tokens=20)
    (choice,) = got.choices
    assert wanted.text == choice.message.content
    assert choice.message.role == "assistant"
    assert choice.finish_reason == "length"
    assert got.model == MODEL
    assert got.object == "chat.completion"
    assert got.usage.prompt_tokens == wanted.prompt_tokens
    assert got.usage.completion_tokens == 20
    assert got.usage.total_tokens == wanted.prompt_tokens + 20


def test_a_stream_adds_up_to_the_whole_response(server):
    """Chunks of a seeded, sampled output: the same text as without streaming, and one finish reason at the end."""
    messages = [user("stream the abc"), {"role": "assistant", "content": "ok"}, user("again")]
    options = {
        "model": MODEL,
        "messages": messages,
        "temperature": 0.9,
        "seed": 7,
        "max_tokens": 24,
        "top_p": 0.95,
        "extra_body": LONG,
    }
    whole = server.openai().chat.completions.create(**options)
    chunks = list(server.openai().chat.completions.create(stream=True, **options))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert whole.choices[0].message.content == text
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason] == [
        "length"
    ]
    assert chunks[-1].choices[0].finish_reason == "length"
    assert len({chunk.id for chunk in chunks}) == 1
    assert all(chunk.usage is None for chunk in chunks)
    wanted = plain(server, messages, temperature=0.9, seed=7, max_tokens=24, top_p=0.95)
    assert wanted.text == text


def test_a_stream_tells_its_usage_when_asked(server):
    """``include_usage``: one more chunk, without choices, equal to the usage of the whole response."""
    options = {
        "model": MODEL,
        "messages": [user("usage")],
        "temperature": 0,
        "max_tokens": 5,
        "extra_body": LONG,
    }
    whole = server.openai().chat.completions.create(**options)
    *chunks, last = server.openai().chat.completions.create(
        stream=True, stream_options={"include_usage": True}, **options
    )
    assert last.choices == []
    assert last.usage.completion_tokens == whole.usage.completion_tokens == 5
    assert last.usage.prompt_tokens == whole.usage.prompt_tokens
    assert all(chunk.usage is None for chunk in chunks)


def test_timings_are_told_as_by_llama_cpp(server):
    """``timings`` counts cached and computed prompt tokens, output and draft tokens; in a stream at its end."""
    options = {
        "model": MODEL,
        "messages": [user("timings abc abc abc")],
        "temperature": 0,
        "max_tokens": 12,
        "extra_body": LONG,
    }
    whole = server.openai().chat.completions.create(**options)
    again = server.openai().chat.completions.create(**options)
    for got in (whole, again):
        assert got.usage.prompt_tokens == got.timings["cache_n"] + got.timings["prompt_n"]
        assert got.usage.prompt_tokens_details.cached_tokens == got.timings["cache_n"]
        assert got.timings["predicted_n"] == 12
        assert 0 <= got.timings["draft_n_accepted"] <= got.timings["draft_n"]
    assert again.timings["cache_n"] == again.usage.prompt_tokens - 1
    assert again.timings["draft_n_accepted"] > 0
    *_, last = server.openai().chat.completions.create(stream=True, **options)
    assert set(whole.timings) == set(last.timings)


def test_several_outputs_have_seeds_of_their_own(server):
    """``n``: output i is what the seed + i gives alone, streamed or not."""
    messages = [user("several")]
    options = {"model": MODEL, "messages": messages, "temperature": 1.0, "max_tokens": 8, "extra_body": LONG}
    whole = server.openai().chat.completions.create(n=3, seed=5, **options)
    wanted = [plain(server, messages, temperature=1.0, seed=5 + i, max_tokens=8).text for i in range(3)]
    assert wanted == [choice.message.content for choice in whole.choices]
    assert len(set(wanted)) == 3
    assert [choice.index for choice in whole.choices] == [0, 1, 2]
    assert whole.usage.completion_tokens == 24
    texts = ["", "", ""]
    for chunk in server.openai().chat.completions.create(n=3, seed=5, stream=True, **options):
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert wanted == texts


def test_log_probabilities_are_the_models(server):
    """``logprobs``: one entry per token, the chosen one among the top ones at temperature 0; streamed alike."""
    messages = [user("log")]
    options = {
        "model": MODEL,
        "messages": messages,
        "temperature": 0,
        "max_tokens": 6,
        "logprobs": True,
        "top_logprobs": 3,
        "extra_body": LONG,
    }
    whole = server.openai().chat.completions.create(**options)
    entries = whole.choices[0].logprobs.content
    wanted = plain(server, messages, max_tokens=6, logprobs=3)
    assert [token.logprob for token in wanted.logprobs] == [entry.logprob for entry in entries]
    for entry, token in zip(entries, wanted.logprobs, strict=True):
        assert [pair[1] for pair in token.top] == [top.logprob for top in entry.top_logprobs]
        assert entry.token == TOKENIZER.decode([token.token_id], continues=True)
        if entry.bytes is not None:
            assert bytes(entry.bytes).decode() == entry.token
    streamed = []
    for chunk in server.openai().chat.completions.create(stream=True, **options):
        if chunk.choices[0].logprobs is not None:
            streamed += chunk.choices[0].logprobs.content
    assert entries == streamed


def test_an_end_token_is_no_part_of_the_text_or_the_log_probabilities(server):
    """A biased end token: empty text, the reason "stop", one completion token, no entry."""
    got = server.openai().chat.completions.create(
        model=MODEL,
        messages=[user("end")],
        temperature=0,
        logprobs=True,
        max_tokens=9,
        logit_bias={str(EOS): 100},
    )
    assert got.choices[0].message.content == ""
    assert got.choices[0].finish_reason == "stop"
    assert got.choices[0].logprobs.content == []
    assert got.usage.completion_tokens == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_string_ends_the_output_before_it(server, stream):
    """``stop``: nothing of it is shown, and the reason is "stop"."""
    messages = [user("stop here")]
    text = plain(server, messages, max_tokens=30).text
    stop = text[7:10]
    options = {
        "model": MODEL,
        "messages": messages,
        "temperature": 0,
        "max_tokens": 30,
        "stop": [stop, "\0"],
        "extra_body": LONG,
    }
    got = server.openai().chat.completions.create(stream=stream, **options)
    if stream:
        chunks = list(got)
        shown = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        reason = chunks[-1].choices[0].finish_reason
    else:
        shown, reason = got.choices[0].message.content, got.choices[0].finish_reason
    assert text[: text.index(stop)] == shown
    assert reason == "stop"


@pytest.mark.parametrize(
    "options",
    [
        {"min_p": 0.2},
        {"top_k": 3},
        {"top_k": -1},
        {"top_p": 0.5},
        {"presence_penalty": 2},
        {"frequency_penalty": 2},
        {"repetition_penalty": 1.5},
        {"logit_bias": {"5": 40, str(EOS): -100}},
    ],
    ids=lambda options: next(iter(options)),
)
def test_sampling_parameters_reach_the_engine(server, options):
    """Each parameter gives the tokens that plain decoding gives with it."""
    messages = [user("parameters")]
    body = {**LONG, **options}
    got = server.openai().chat.completions.create(
        model=MODEL, messages=messages, temperature=0.6, seed=3, max_tokens=40, extra_body=body
    )
    same = {name: 0 if (name, value) == ("top_k", -1) else value for name, value in options.items()}
    same["logit_bias"] = {int(token): float(bias) for token, bias in body["logit_bias"].items()}
    wanted = plain(server, messages, temperature=0.6, seed=3, max_tokens=40, **same)
    assert wanted.text == got.choices[0].message.content
    if options != {"top_k": -1}:
        neutral = plain(server, messages, temperature=0.6, seed=3, max_tokens=40)
        assert neutral.text != wanted.text, "the test would not notice a lost parameter"


def test_the_default_temperature_is_openais(server):
    """Without a temperature the output is sampled at 1, as OpenAI has it."""
    messages = [user("default")]
    got = server.openai().chat.completions.create(
        model=MODEL, messages=messages, seed=4, max_tokens=10, extra_body=LONG
    )
    assert (
        plain(server, messages, temperature=1.0, seed=4, max_tokens=10).text == got.choices[0].message.content
    )
    assert plain(server, messages, max_tokens=10).text != got.choices[0].message.content


def test_every_field_of_openais_is_known():
    """No field of OpenAI's API is refused as unknown: it has an effect, or none by its nature, or a reason."""
    theirs = set(completion_create_params.CompletionCreateParamsBase.__annotations__) | {"stream"}
    assert theirs <= chat_wire.FIELDS


def test_what_is_not_followed_is_named(server):
    """Fields that would change the output and are not followed stand in a header of the response."""
    body = {
        "model": MODEL,
        "messages": [user("x")],
        "max_tokens": 1,
        "reasoning_effort": "low",
        "store": True,
    }
    status, headers, _ = server.ask("/v1/chat/completions", body)
    assert status == 200
    assert headers["x-suffixspec-ignored"] == "reasoning_effort"


def test_events_are_ascii_and_end_with_done(server):
    """The stream's bytes: ``data:`` lines of ASCII JSON, and ``[DONE]``."""
    body = {"model": MODEL, "messages": [user("ü\u2028")], "max_tokens": 3, "stream": True, **LONG}
    status, headers, text = server.ask("/v1/chat/completions", body)
    assert status == 200
    assert headers["content-type"].startswith("text/event-stream")
    assert text.isascii()
    *events, done, end = text.split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    assert all(
        json.loads(event.removeprefix("data: "))["object"] == "chat.completion.chunk" for event in events
    )


def test_a_wrong_field_is_refused_by_the_client_s_own_exception(server):
    """OpenAI's client raises ``BadRequestError`` with the field's name and a sentence."""
    with pytest.raises(openai.BadRequestError) as refused:
        server.openai().chat.completions.create(model=MODEL, messages=[user("x")], temperature=3)
    assert refused.value.param == "temperature"
    assert "expected temperature to be a number from 0 to 2, got 3" in str(refused.value)
