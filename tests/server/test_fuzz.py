"""Requests made of every field that there is, most of them in order: an answer in the API's form, or a sentence."""

import json

import pytest
from anthropic.types import Message
from engine.tiny import VOCAB, target
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

from suffixspec.server import chat_wire, completions_wire, messages_wire, responses_wire

from .harness import Running
from .scripts import HERMES_TOKENIZER
from .test_errors import VALUES, message_of

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
TEXT = st.sampled_from(["x", "the abc", "12 12 é", "", "<think>", "<tool_call>{", "\u2028"])
SCHEMAS = st.sampled_from(
    [
        {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"enum": ["x", 1, None]}}},
        {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "maxItems": 2},
        {"type": "string", "pattern": "^[ab]{1,3}$"},
        {"anyOf": [{"type": "null"}, {"const": "é"}]},
        {"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "properties": {"t": {"$ref": "#/$defs/t"}}}}},
        {"type": "unicorn"},
        {"$ref": "#/nowhere"},
        {},
    ]
)
NAMES = st.sampled_from(["ls", "cat"])
FUNCTIONS = st.lists(NAMES, min_size=1, max_size=2, unique=True).flatmap(
    lambda names: st.tuples(*(st.tuples(st.just(name), SCHEMAS) for name in names))
)
NUMBERS = {
    "temperature": st.sampled_from([0, 0.0, 1e-9, 0.7, 1, 2]),
    "top_p": st.sampled_from([0, 0.1, 0.9, 1]),
    "top_k": st.sampled_from([-1, 0, 1, 40]),
    "min_p": st.sampled_from([0, 0.05, 1]),
    "presence_penalty": st.sampled_from([-2, 0, 0.5, 2]),
    "frequency_penalty": st.sampled_from([-2, 0, 0.5, 2]),
    "repetition_penalty": st.sampled_from([0.5, 1, 1.3]),
    "seed": st.sampled_from([-1, 0, 7, 2**63 - 1]),
    "logit_bias": st.dictionaries(
        st.integers(0, VOCAB - 1).map(str), st.sampled_from([-100, -1.5, 0, 100]), max_size=3
    ),
}
STOPS = st.one_of(TEXT.filter(bool), st.lists(st.sampled_from(["a", "b ", "é"]), max_size=3))
PARTS = st.lists(st.builds(lambda text: {"type": "text", "text": text}, TEXT), min_size=1, max_size=2)
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
}
TURNS = st.sampled_from(
    [
        [],
        [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "more"}],
        [CALLED, {"role": "tool", "tool_call_id": "call_1", "content": "result"}],
    ]
)
SYSTEM = st.sampled_from(["", "x-anthropic-billing-header: cch=1;\nYou are", "You are"])
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        name: st.sampled_from(["1", "a" * 600, "ü", ""])
        for name in (
            "x-claude-code-session-id",
            "session-id",
            "session_id",
            "x-session-id",
            "x-session-affinity",
            "x-litellm-session-id",
            "x-suffixspec-namespace",
            "authorization",
            "x-api-key",
        )
    },
)
HINTS = {
    "metadata": st.sampled_from([{}, {"user_id": "u"}, {"user_id": 3}]),
    "prompt_cache_key": st.just("k"),
    "session_id": st.just("s"),
}
FORMATS = st.one_of(
    st.sampled_from(
        [{"type": "text"}, {"type": "json_object"}, {"type": "grammar", "grammar": 'root ::= "a" | "b"'}]
    ),
    SCHEMAS.map(lambda schema: {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}),
)


def some(**fields) -> st.SearchStrategy:
    """Any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


@st.composite
def chats(draw):
    """A chat completion."""
    content = draw(st.one_of(TEXT, PARTS))
    body = {"messages": [{"role": "user", "content": content}, *draw(TURNS)], "max_tokens": 3}
    if draw(st.booleans()):
        body["messages"].insert(0, {"role": "system", "content": draw(SYSTEM)})
    if draw(st.booleans()):
        body["tools"] = [
            {"type": "function", "function": {"name": name, "parameters": schema}}
            for name, schema in draw(FUNCTIONS)
        ]
        named = {"type": "function", "function": {"name": draw(NAMES)}}
        body |= draw(
            some(
                tool_choice=st.sampled_from(["auto", "none", "required", named]),
                parallel_tool_calls=st.booleans(),
            )
        )
    if draw(st.booleans()):
        body |= {"stream": True} | draw(some(stream_options=st.just({"include_usage": True})))
    if draw(st.booleans()):
        body |= {"logprobs": True} | draw(some(top_logprobs=st.integers(0, 20)))
    if draw(st.booleans()):
        body["max_completion_tokens"] = body.pop("max_tokens")
    prediction = st.one_of(TEXT, PARTS).map(lambda content: {"type": "content", "content": content})
    more = {**NUMBERS, **HINTS, "stop": STOPS, "n": st.integers(1, 3), "prediction": prediction}
    return CHAT, body | draw(some(**more, response_format=FORMATS, reasoning_effort=st.just("low")))


@st.composite
def completions(draw):
    """A completion."""
    one = st.one_of(TEXT, st.lists(st.integers(0, VOCAB - 1), max_size=4))
    body = {"prompt": draw(st.one_of(one, st.lists(TEXT, min_size=1, max_size=2))), "max_tokens": 3}
    if draw(st.booleans()):
        body |= {"stream": True} | draw(some(stream_options=st.just({"include_usage": True})))
    more = {
        **NUMBERS,
        "stop": STOPS,
        "n": st.integers(1, 2),
        "logprobs": st.integers(0, 5),
        "echo": st.booleans(),
    }
    return COMPLETIONS, body | draw(some(**more))


@st.composite
def responses(draw):
    """A response."""
    items = st.sampled_from(
        [
            [{"role": "user", "content": "x"}],
            [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}],
            [
                {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "y"},
            ],
        ]
    )
    body = {"input": draw(st.one_of(TEXT, items)), "max_output_tokens": 3, "stream": draw(st.booleans())}
    if draw(st.booleans()):
        body["tools"] = [
            {"type": "function", "name": name, "parameters": schema} for name, schema in draw(FUNCTIONS)
        ]
        named = {"type": "function", "name": draw(NAMES)}
        body |= draw(
            some(
                tool_choice=st.sampled_from(["auto", "none", "required", named]),
                parallel_tool_calls=st.booleans(),
            )
        )
    schemas = SCHEMAS.map(lambda schema: {"format": {"type": "json_schema", "name": "n", "schema": schema}})
    more = {**NUMBERS, **HINTS, "instructions": SYSTEM, "text": schemas, "store": st.booleans()}
    more["include"] = st.just(["message.output_text.logprobs"])
    more["previous_response_id"] = st.just("resp_0")
    return RESPONSES, body | draw(some(**more))


@st.composite
def messages(draw):
    """A message."""
    blocks = st.one_of(TEXT, PARTS, st.just([{"type": "tool_result", "tool_use_id": "t", "content": "x"}]))
    body = {
        "messages": [{"role": "user", "content": draw(blocks)}],
        "max_tokens": 3,
        "stream": draw(st.booleans()),
    }
    if draw(st.booleans()):
        body["tools"] = [{"name": name, "input_schema": schema} for name, schema in draw(FUNCTIONS)]
        choices = st.sampled_from([{"type": "auto"}, {"type": "any"}, {"type": "tool", "name": draw(NAMES)}])
        body |= draw(some(tool_choice=choices))
        if "tool_choice" in body and draw(st.booleans()):
            body["tool_choice"] = {**body["tool_choice"], "disable_parallel_tool_use": True}
    schemas = SCHEMAS.map(lambda schema: {"format": {"type": "json_schema", "schema": schema}})
    system = st.one_of(SYSTEM, SYSTEM.map(lambda text: [{"type": "text", "text": text}]))
    more = {name: NUMBERS[name] for name in ("top_p", "top_k")} | {
        "temperature": st.sampled_from([0, 0.5, 1])
    }
    more |= {
        "stop_sequences": st.lists(TEXT.filter(bool), max_size=2),
        "system": system,
        "output_config": schemas,
    }
    return MESSAGES, body | draw(
        some(**more, thinking=st.just({"type": "enabled"}), metadata=HINTS["metadata"])
    )


FIELDS = {
    CHAT: chat_wire.FIELDS,
    COMPLETIONS: completions_wire.FIELDS,
    RESPONSES: responses_wire.FIELDS,
    MESSAGES: messages_wire.FIELDS,
}
WHOLE = {CHAT: ChatCompletion, COMPLETIONS: Completion, RESPONSES: Response, MESSAGES: Message}
OTHERS = (
    *(
        "/v1/messages/count_tokens",
        "/v1/models",
        "/v1/models/a%2Fb%ff",
        "/tokenize",
        "/detokenize",
        "/health",
    ),
    *("/metrics", "/", "/v1", "//", "/v1/chat/completions/", "/../x", "/v1/models/" + "x" * 500),
)
ENDS = {CHAT: "data: [DONE]", COMPLETIONS: "data: [DONE]", RESPONSES: "response.", MESSAGES: "message_stop"}


@pytest.fixture(scope="module")
def small():
    """A server whose model has a short context, so that no request takes long."""
    pytest.importorskip("xgrammar")
    with Running(target(context=256), tokenizer=HERMES_TOKENIZER) as running:
        yield running


METADATA = {"input": "x", "max_output_tokens": 3, "stream": False, "metadata": {"user_id": 3}}


@example(request=(RESPONSES, METADATA), headers={}, spoil=None, place=0)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(
    request=st.one_of(chats(), completions(), responses(), messages()),
    headers=HEADERS,
    spoil=st.one_of(st.none(), st.none(), VALUES),
    place=st.integers(0, 100),
)
def test_requests_of_every_field_are_answered(small, request, headers, spoil, place):
    """An answer that the client's own types take, or the client's error with a sentence; never a 500, never a hang.

    Some have one field spoilt by an arbitrary value.
    """
    path, body = request
    if spoil is not None:
        names = sorted(FIELDS[path])
        body = {**body, names[place % len(names)]: spoil}
    headers = {name: value.encode("utf-8") for name, value in headers.items()}
    status, got, answer = small.ask(path, body, headers=headers)
    assert status < 500, answer
    assert small.service.scheduler.waiting == 0
    if status >= 400:
        message_of(path, answer)
        return
    assert status == 200
    assert body.get("stream") in (True, False, None)
    if not body.get("stream"):
        WHOLE[path].model_validate(answer)
        return
    assert got["content-type"].startswith("text/event-stream")
    assert ENDS[path] in answer.strip().split("\n\n")[-1]
    chunks = [json.loads(line[6:]) for line in answer.split("\n") if line.startswith("data: {")]
    assert not any("error" in chunk and chunk["error"] for chunk in chunks), answer
    if path == CHAT:
        for chunk in chunks:
            ChatCompletionChunk.model_validate(chunk)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"]),
    path=st.sampled_from([*FIELDS, *OTHERS]),
    headers=HEADERS,
    kind=st.sampled_from(["application/json", "text/plain", "", "application/json; charset=x", "ü"]),
    raw=st.sampled_from([b"", b"{}", b"[]", b"null", b"{"]),
)
def test_no_method_path_or_header_makes_the_server_fail(small, method, path, headers, kind, raw):
    """Whatever is asked by whatever method: below 500."""
    headers = {name: value.encode("utf-8") for name, value in headers.items()}
    status, _, _ = small.ask(
        path, method=method, raw=raw, headers={**headers, "content-type": kind.encode("utf-8")}
    )
    assert status < 500
