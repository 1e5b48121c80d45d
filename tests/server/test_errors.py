"""Requests that are not in order: 4xx with a sentence, in the API's own shape, and never a 500 or a hang."""

import copy
import json

import pytest
from engine.tiny import target
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suffixspec.server.settings import Settings

from .harness import Running, user

CHAT = "/v1/chat/completions"
VALID = {
    CHAT: {"model": "m", "messages": [user("x")], "max_tokens": 2},
    "/v1/completions": {"model": "m", "prompt": "x", "max_tokens": 2},
    "/v1/responses": {"model": "m", "input": "x", "max_output_tokens": 2},
    "/v1/messages": {"model": "m", "messages": [user("x")], "max_tokens": 2},
    "/v1/messages/count_tokens": {"model": "m", "messages": [user("x")]},
    "/tokenize": {"prompt": "x"},
    "/detokenize": {"tokens": [1]},
}


def message_of(path, answer) -> str:
    """The sentence of an error; checks its shape."""
    error = answer["error"]
    if path.startswith("/v1/messages"):
        assert set(answer) == {"type", "error"}
        assert answer["type"] == "error"
        assert set(error) == {"type", "message"}
    else:
        assert set(answer) == {"error"}
        assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert len(error["message"]) > 10
    return error["message"]


@pytest.mark.parametrize("path", VALID)
@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "could not parse the JSON body"),
        (b"{", "could not parse the JSON body"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'"x"', 'expected the request\'s body to be an object, got "x"'),
        (b"[" * 100_000, "nested"),
        (b"\xff{}", "expected a body in UTF-8"),
        (b'{"dance": 1, "prompt": "x", "tokens": [1]}', 'Unknown parameter: "dance"'),
    ],
    ids=["empty", "cut off", "NaN", "a string", "deep", "not UTF-8", "unknown field"],
)
def test_a_body_that_is_none(server, path, raw, says):
    """Each endpoint, each kind of garbage: 400 and what is wrong with it."""
    status, _, answer = server.ask(path, raw=raw, method="POST")
    assert status == 400
    assert says in message_of(path, answer)


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": "x"}, "messages"),
        ({"messages": [3]}, "messages[0]"),
        ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "assistant", "tool_calls": 3}]}, "messages"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"n": 0}, "n"),
        ({"n": 1000}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1, "max_completion_tokens": 2}, "max_tokens"),
        ({"stop": [""]}, "stop"),
        ({"stop": 3}, "stop"),
        ({"seed": 2**70}, "seed"),
        ({"seed": True}, "seed"),
        ({"logprobs": 1}, "logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"99999": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 101}}, "logit_bias.1"),
        ({"stop_token_ids": [-1]}, "stop_token_ids"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"dance": True}}, "stream_options.dance"),
        ({"stream": "yes"}, "stream"),
        ({"tools": [{"type": "retrieval"}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"tool_choice": "maybe"}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"functions": [{}]}, "functions"),
        ({"audio": {}}, "audio"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"prediction": {"type": "guess"}}, "prediction.type"),
        ({"prediction": {"type": "content", "content": [{"type": "text"}]}}, "prediction.content[0].text"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"model": 3}, "model"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"repetition_penalty": -1}, None),
    ],
    ids=lambda value: json.dumps(value)[:50],
)
def test_a_field_that_is_out_of_order(server, change, param):
    """400; the error names the field."""
    status, _, answer = server.ask(CHAT, VALID[CHAT] | change)
    message = message_of(CHAT, answer)
    assert status == 400, message
    assert answer["error"]["param"] == param, message
    assert answer["error"]["type"] == "invalid_request_error"


def test_a_prompt_that_is_too_long(server):
    """400 with OpenAI's code and words, so that an agent recognises it and compacts its conversation."""
    for path, body in (
        (CHAT, {"messages": [user("y" * 2000)]}),
        ("/v1/completions", {"prompt": "y" * 2000}),
        ("/v1/responses", {"input": "y" * 2000}),
    ):
        status, _, answer = server.ask(path, body)
        assert status == 400
        assert answer["error"]["code"] == "context_length_exceeded"
        assert "maximum context length is 1024 tokens" in message_of(path, answer)


def test_paths_and_methods_that_there_are_not(server):
    """404 and 405, in each API's shape."""
    assert server.ask("/v1/dance")[0] == 404
    status, _, answer = server.ask("/v1/messages/dance", {})
    assert status == 404
    assert answer["error"]["type"] == "not_found_error"
    status, _, answer = server.ask(CHAT, method="GET")
    assert status == 405
    assert "GET" in message_of(CHAT, answer)
    status, _, answer = server.ask("/v1/models/other")
    assert status == 404
    assert answer["error"]["code"] == "model_not_found"


def test_a_body_of_another_type(server):
    """415: a form, as curl sends it without a header, and a compressed body."""
    for headers in ({"content-type": "application/x-www-form-urlencoded"}, {"content-encoding": "gzip"}):
        status, _, answer = server.ask(CHAT, VALID[CHAT], headers=headers)
        assert status == 415
        message_of(CHAT, answer)


def test_limits_of_size_and_time(tiny_target):
    """413 for a long body, announced or not; 408 for one that does not come."""
    with Running(tiny_target, Settings(body_bytes=1000, read_seconds=1.0)) as running:
        status, _, answer = running.ask(CHAT, {**VALID[CHAT], "user": "x" * 1000})
        assert status == 413
        assert "at most 1,000 bytes" in message_of(CHAT, answer)
        status, _, answer = running.ask(
            "/v1/messages", {**VALID["/v1/messages"], "metadata": {"x": "x" * 1000}}
        )
        assert answer["error"]["type"] == "request_too_large"
        chunks = iter([b'{"user": "', *[b"x" * 100] * 20, b'"}'])
        status, _, answer = running.ask(CHAT, raw=chunks, method="POST")
        assert status == 413, "a body without an announced length"
        status, _, answer = running.ask(CHAT, raw=b"{", method="POST", headers={"content-length": "100"})
        assert status == 408
        assert running.ask(CHAT, VALID[CHAT])[0] == 200
        assert running.service.scheduler.waiting == 0, "a place is kept for nobody"


def test_unknown_fields_can_be_let_through(tiny_target):
    """``ignore_unknown_fields``: they are named in a header instead, cleaned of what a header cannot hold."""
    with Running(tiny_target, Settings(ignore_unknown_fields=True)) as running:
        status, headers, _ = running.ask(CHAT, {**VALID[CHAT], "dance": 1, "ü\n": 2})
        assert status == 200
        assert headers["x-suffixspec-ignored"] == "dance, ??"


def test_a_defect_is_told_without_details(tiny_target, monkeypatch, caplog):
    """A failing forward: a 500 that names no file, the traceback in the log, and the next call is served."""
    with Running(tiny_target) as running:
        with monkeypatch.context() as patch:

            def fails(*_arguments, **_more):
                raise RuntimeError("/secret/path")

            patch.setattr(tiny_target, "forward_tree", fails)
            for path in (CHAT, "/v1/messages"):
                status, _, answer = running.ask(path, VALID[path])
                assert status == 500
                assert "secret" not in message_of(path, answer)
        assert "/secret/path" in caplog.text
        assert running.ask(CHAT, VALID[CHAT])[0] == 200


# -- fuzz -----------------------------------------------------------------------------------------------------

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-3, 300),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
    st.sampled_from(
        [
            "user",
            "assistant",
            "tool",
            "text",
            "auto",
            "json_object",
            "content",
            "function",
            "\ud800",
            "<|im_end|>",
        ]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                st.text(max_size=5),
                st.sampled_from(["role", "content", "type", "text", "name", "function", "tool_calls", "id"]),
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@st.composite
def requests(draw, fields):
    """A valid request with some of its parts replaced, removed or added."""
    path = draw(st.sampled_from(sorted(VALID)))
    body = copy.deepcopy(VALID[path])
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted({*body, *fields[path]})))
        how = draw(st.sampled_from(["replace", "remove", "inside"]))
        if how == "remove":
            body.pop(name, None)
        elif how == "inside" and isinstance(body.get(name), list) and body[name]:
            item = body[name][0]
            if isinstance(item, dict):
                key = draw(st.sampled_from(sorted({*item, "content", "tool_calls", "name", "type"})))
                item[key] = draw(VALUES)
            else:
                body[name][0] = draw(VALUES)
        else:
            body[name] = draw(VALUES)
    return path, body


def known_fields():
    from suffixspec.server import chat_wire, completions_wire, messages_wire, responses_wire

    return {
        CHAT: chat_wire.FIELDS,
        "/v1/completions": completions_wire.FIELDS,
        "/v1/responses": responses_wire.FIELDS,
        "/v1/messages": messages_wire.FIELDS,
        "/v1/messages/count_tokens": messages_wire.FIELDS,
        "/tokenize": {"messages", "tools", "content"},
        "/detokenize": {"model"},
    }


@pytest.fixture(scope="module")
def small():
    """A server whose model has a short context, so that no request takes long."""
    with Running(target(context=64)) as running:
        yield running


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(request=requests(known_fields()))
def test_no_request_makes_the_server_fail_or_hang(small, request):
    """Whatever a body holds: an answer, and if it is an error, the client's with a sentence."""
    path, body = request
    status, headers, answer = small.ask(path, raw=json.dumps(body).encode(), method="POST")
    assert status < 500, answer
    if status >= 400:
        message_of(path, answer)
    elif headers["content-type"].startswith("text/event-stream"):
        assert "error" not in answer.split("\n")[0]
    assert small.service.scheduler.waiting == 0


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(path=st.sampled_from(sorted(VALID)), raw=st.binary(max_size=60))
def test_no_bytes_make_the_server_fail(small, path, raw):
    """Bytes that are no JSON: 400."""
    status, _, answer = small.ask(path, raw=raw, method="POST")
    assert 400 <= status < 500
    message_of(path, answer)
