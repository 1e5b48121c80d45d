"""``/v1/messages`` through Anthropic's client."""

import anthropic
import pytest
from anthropic.types import message_create_params
from anthropic.types.beta import message_create_params as beta_params
from engine.tiny import TOKENIZER

from suffixspec.engine.prompt import render_prompt
from suffixspec.server import messages_wire

from .harness import GREEDY, user

MODEL = "tiny"


def plain(server, messages, **options):
    return server.plain(TOKENIZER.encode(render_prompt(TOKENIZER, messages, None)), **options)


def test_a_message_is_what_plain_decoding_writes(server):
    """Text, stop reason and usage, whole and streamed, with a system prompt in blocks."""
    system = [{"type": "text", "text": "You are"}, {"type": "text", "text": "an agent."}]
    conversation = [{"role": "system", "content": "You are\nan agent."}, user("hello the abc")]
    wanted = plain(server, conversation, max_tokens=18)
    options = {
        "model": MODEL,
        "system": system,
        "messages": [user("hello the abc")],
        "max_tokens": 18,
        "extra_body": GREEDY,
    }
    got = server.anthropic().messages.create(**options)
    assert [block.text for block in got.content] == [wanted.text]
    assert got.stop_reason == ("max_tokens" if wanted.finish_reason == "length" else "end_turn")
    assert got.model == MODEL
    assert got.usage.output_tokens == len(wanted.token_ids)
    assert got.usage.input_tokens + got.usage.cache_read_input_tokens == wanted.prompt_tokens
    with server.anthropic().messages.stream(**options) as stream:
        assert "".join(stream.text_stream) == wanted.text
        final = stream.get_final_message()
    assert final.stop_reason == got.stop_reason
    assert final.usage.output_tokens == got.usage.output_tokens
    assert final.usage.cache_read_input_tokens == wanted.prompt_tokens - 1


def test_a_stream_has_anthropics_events_in_their_order(server):
    """message_start, a block, message_delta, message_stop."""
    events = server.anthropic().messages.create(
        model=MODEL, messages=[user("events")], max_tokens=3, stream=True
    )
    kinds = [event.type for event in events if event.type != "ping"]
    deltas = kinds.count("content_block_delta")
    assert deltas >= 1
    assert kinds == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * deltas,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_the_stop_sequence_is_named(server):
    """``stop_sequences``: the reason and which one it was."""
    wanted = plain(server, [user("stop at")], max_tokens=20)
    stop = wanted.text[5:8]
    got = server.anthropic().messages.create(
        model=MODEL, messages=[user("stop at")], max_tokens=20, stop_sequences=["\0", stop], extra_body=GREEDY
    )
    assert (got.stop_reason, got.stop_sequence) == ("stop_sequence", stop)
    assert got.content[0].text == wanted.text[: wanted.text.index(stop)]


def test_tokens_are_counted_without_a_model_call(server):
    """``count_tokens`` is what a call then reports."""
    messages = [user("count me the abc")]
    steps = len(server.service.engine.target.steps)
    counted = server.anthropic().messages.count_tokens(model=MODEL, messages=messages, system="s")
    assert len(server.service.engine.target.steps) == steps
    got = server.anthropic().messages.create(model=MODEL, messages=messages, system="s", max_tokens=1)
    assert counted.input_tokens == got.usage.input_tokens + got.usage.cache_read_input_tokens


def test_a_billing_line_does_not_reach_the_model(server):
    """Calls that differ in it have the same prompt, and so the second one's is cached; the header says so."""
    texts = []
    for number in range(2):
        billing = f"x-anthropic-billing-header: cc_version=2; cch={number}a{number};"
        body = {
            "model": MODEL,
            "system": [{"type": "text", "text": billing}, {"type": "text", "text": "You bill."}],
            "messages": [user("what")],
            "max_tokens": 2,
            "temperature": 0,
        }
        status, headers, got = server.ask("/v1/messages", body)
        assert status == 200
        assert headers["x-suffixspec-ignored"] == "x-anthropic-billing-header"
        texts.append(got["content"])
    assert texts[0] == texts[1]
    assert got["usage"]["input_tokens"] == 1
    wanted = plain(server, [{"role": "system", "content": "You bill."}, user("what")], max_tokens=2)
    assert got["usage"]["cache_read_input_tokens"] == wanted.prompt_tokens - 1


def test_every_field_of_anthropics_is_known():
    """No field of Anthropic's API is refused as unknown, those of beta versions included."""
    for params in (message_create_params, beta_params):
        assert set(params.MessageCreateParamsBase.__annotations__) | {"stream"} <= messages_wire.FIELDS


def test_tools_that_only_anthropic_has_are_left_out_and_named(server):
    """A server tool does not reach the model; the response's header names it, and what else is not followed."""
    body = {
        "model": MODEL,
        "messages": [user("x")],
        "max_tokens": 1,
        "tools": [{"type": "web_search_20250305", "name": "web_search"}],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }
    status, headers, _ = server.ask("/v1/messages", body)
    assert status == 200
    assert headers["x-suffixspec-ignored"] == "thinking, tools[0] (web_search_20250305)"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"max_tokens": None}, "expected max_tokens to be a whole number from 1, got null"),
        ({"messages": []}, "expected messages to be an array of at least one message"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "expected messages[0].role to be one of"),
        ({"messages": [{"role": "user", "content": 3}]}, "expected messages[0].content to be an array"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
            'expected messages[0].content[0].type to be "text", since the model reads text only',
        ),
        ({"messages": [user("x"), {"role": "assistant", "content": "y"}]}, "cannot be prefilled"),
        ({"temperature": 1.5}, "expected temperature to be a number from 0 to 1, got 1.5"),
        ({"tools": [{"name": "x"}]}, "expected tools[0].input_schema"),
        ({"tool_choice": {"type": "tool", "name": "x"}}, "expected tool_choice to name one of the tools"),
        ({"system": 3}, "expected system to be a string or an array of blocks"),
        ({"mcp_servers": [{}]}, "expected no mcp_servers"),
        ({"dance": 1}, 'Unknown parameter: "dance"'),
    ],
    ids=lambda value: str(value)[:40],
)
def test_errors_have_anthropics_shape(server, change, says):
    """400 as ``invalid_request_error`` with a sentence; the client raises its ``BadRequestError``."""
    body = {"model": MODEL, "messages": [user("x")], "max_tokens": 1, **change}
    status, headers, answer = server.ask("/v1/messages", body)
    assert status == 400
    assert answer["type"] == "error"
    assert answer["error"]["type"] == "invalid_request_error"
    assert says in answer["error"]["message"]
    assert headers["x-request-id"].startswith("req_")
    with pytest.raises(anthropic.BadRequestError):
        server.anthropic().post("/v1/messages", body=body, cast_to=object)


def test_a_prompt_that_is_too_long_is_told_in_anthropics_words(server):
    """So that an agent recognises it and compacts its conversation."""
    status, _, answer = server.ask(
        "/v1/messages", {"model": MODEL, "messages": [user("x" * 2000)], "max_tokens": 1}
    )
    assert status == 400
    assert "prompt is too long: " in answer["error"]["message"]
    assert "> 1023 maximum" in answer["error"]["message"]
