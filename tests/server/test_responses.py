"""``/v1/responses`` through OpenAI's client."""

import openai
import pytest
from engine.tiny import EOS, TOKENIZER
from openai.types.responses import response_create_params

from suffixspec.engine.prompt import render_prompt
from suffixspec.server import responses_wire
from suffixspec.server.stored import StoredResponses

from .harness import LONG, user

MODEL = "tiny"


def plain(server, messages, **options):
    ids = TOKENIZER.encode(render_prompt(TOKENIZER, messages, None))
    return server.plain(ids, logit_bias={EOS: -100.0}, **options)


def test_a_response_is_what_plain_decoding_writes(server):
    """Text, status and usage, whole and streamed, with instructions."""
    options = {
        "model": MODEL,
        "instructions": "Be brief.",
        "input": "the abc",
        "temperature": 0,
        "max_output_tokens": 14,
        "extra_body": LONG,
    }
    got = server.openai().responses.create(**options)
    wanted = plain(server, [{"role": "system", "content": "Be brief."}, user("the abc")], max_tokens=14)
    assert got.output_text == wanted.text
    assert got.status == "incomplete"
    assert got.incomplete_details.reason == "max_output_tokens"
    assert got.usage.input_tokens == wanted.prompt_tokens
    assert got.usage.output_tokens == 14
    events = list(server.openai().responses.create(stream=True, **options))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert events[-1].type == "response.incomplete"
    final = events[-1].response
    assert text == final.output_text == wanted.text
    assert final.usage.input_tokens_details.cached_tokens == wanted.prompt_tokens - 1


def test_an_output_that_ends_is_completed(server):
    """An end token at once: the status "completed", one message without text, streamed too."""
    options = {
        "model": MODEL,
        "input": "end",
        "temperature": 0,
        "extra_body": {"logit_bias": {str(EOS): 100}},
    }
    whole = server.openai().responses.create(**options)
    events = list(server.openai().responses.create(stream=True, **options))
    assert events[-1].type == "response.completed"
    for got in (whole, events[-1].response):
        assert got.status == "completed"
        assert [item.type for item in got.output] == ["message"]
        assert got.output_text == ""


def test_a_conversation_in_items_is_a_conversation_in_messages(server):
    """Roles, parts, reasoning, calls and their results become the messages of a chat completion."""
    items = [
        {"role": "developer", "content": "d"},
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "r"}],
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "t"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "o"},
    ]
    messages = [
        {"role": "developer", "content": "d"},
        user("ab"),
        {
            "role": "assistant",
            "content": "t",
            "reasoning_content": "r",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "o"},
    ]
    options = {"model": MODEL, "temperature": 0, "extra_body": LONG}
    got = server.openai().responses.create(input=items, max_output_tokens=6, **options)
    same = server.openai().chat.completions.create(messages=messages, max_tokens=6, **options)
    assert got.output_text == same.choices[0].message.content
    assert got.usage.input_tokens == same.usage.prompt_tokens
    assert same.usage.prompt_tokens_details.cached_tokens == same.usage.prompt_tokens - 1


def test_log_probabilities_are_included_when_asked_for(server):
    """``include``: with the text's part, and with the deltas of a stream."""
    options = {
        "model": MODEL,
        "input": "logs",
        "temperature": 0,
        "max_output_tokens": 4,
        "top_logprobs": 2,
        "include": ["message.output_text.logprobs"],
        "extra_body": LONG,
    }
    (part,) = server.openai().responses.create(**options).output[0].content
    assert len(part.logprobs) == 4
    assert all(len(entry.top_logprobs) == 2 for entry in part.logprobs)
    events = server.openai().responses.create(stream=True, **options)
    told = [
        entry.logprob
        for event in events
        if event.type in {"response.output_text.delta", "response.output_text.done"}
        for entry in event.logprobs
    ]
    assert told == [entry.logprob for entry in part.logprobs]


def test_every_field_of_openais_is_known():
    """No field of OpenAI's API is refused as unknown."""
    theirs = set(response_create_params.ResponseCreateParamsBase.__annotations__) | {"stream"}
    assert theirs <= responses_wire.FIELDS


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": 3}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"type": "image_generation_call"}]}, "input[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].type"),
        ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].arguments"),
        ({"input": "x", "previous_response_id": "resp_none"}, "previous_response_id"),
        ({"input": "x", "background": True}, "background"),
        ({"input": "x", "conversation": "c"}, "conversation"),
        ({"input": "x", "max_output_tokens": 0}, "max_output_tokens"),
        ({"input": "x", "tools": [{"type": "function"}]}, "tools[0].function.name"),
        ({"input": "x", "tool_choice": {"type": "web_search"}}, "tool_choice.type"),
        ({"input": "x", "text": {"format": {"type": "poem"}}}, "response_format.type"),
    ],
    ids=str,
)
def test_what_cannot_be_answered_is_refused(server, body, param):
    """400 with the name of the field, as OpenAI's client expects it."""
    with pytest.raises(openai.BadRequestError) as refused:
        server.openai().post("/responses", body={"model": MODEL, **body}, cast_to=object)
    assert refused.value.param == param


def test_what_is_not_followed_is_named(server):
    """Reasoning settings, tools of OpenAI's servers and the like stand in a header of the response."""
    body = {
        "model": MODEL,
        "input": "x",
        "max_output_tokens": 1,
        "reasoning": {"effort": "low"},
        "tools": [{"type": "web_search"}],
        "truncation": "auto",
        "text": {"verbosity": "low"},
    }
    status, headers, _ = server.ask("/v1/responses", body)
    assert status == 200
    assert headers["x-suffixspec-ignored"] == "reasoning, tools[0] (web_search), truncation, text.verbosity"


def test_stored_conversations_are_bounded():
    """The oldest leave when there are too many, or their texts are too long."""
    stored = StoredResponses(3, most_characters=100)
    for name in "abcd":
        stored.put("n", name, [user(name)], 10)
    assert [stored.get("n", name) is not None for name in "abcd"] == [False, True, True, True]
    stored.put("n", "e", [user("e")], 85)
    assert [stored.get("n", name) is not None for name in "abcde"] == [False, False, False, True, True]
    stored.put("n", "f", [user("f")], 101)
    assert stored.get("n", "f") is None
    assert stored.get("n", "e") is None


def test_what_is_not_to_be_stored_is_not(server):
    """``store``: false."""
    got = server.openai().responses.create(model=MODEL, input="x", max_output_tokens=1, store=False)
    with pytest.raises(openai.BadRequestError):
        server.openai().responses.create(model=MODEL, input="y", previous_response_id=got.id)


def test_part_of_a_character_has_no_bytes_here():
    """A list in every case, unlike in chats: the SDK's type has no null."""
    entry = {"token": "\ufffd", "logprob": -1.0, "bytes": None}
    assert responses_wire._known_bytes([{**entry, "top_logprobs": [dict(entry)]}]) == [
        {**entry, "bytes": [], "top_logprobs": [{**entry, "bytes": []}]}
    ]
