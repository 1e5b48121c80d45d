"""Streams put together again."""

import json
import random

import pytest

from suffixspec.recorder import StreamJoiner


def sse(*events, named: bool = False) -> bytes:
    texts = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
        texts.append((f"event: {event['type']}\n" if named else "") + f"data: {data}\n\n")
    return ": a comment\n\n".join(texts).encode()


def chunk(delta=None, *, index=0, reason=None, **more):
    return {
        "id": "c1",
        "model": "m",
        "object": "chat.completion.chunk",
        "choices": [{"index": index, "delta": delta or {}, "finish_reason": reason}],
    } | more


def tool(number: int, **fields):
    return chunk({"tool_calls": [{"index": number} | fields]})


CHAT = sse(
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning_content": "h"}),
    chunk({"reasoning_content": "mm"}),
    chunk({"content": "gr"}),
    chunk({"content": "üß ⟂"}),
    chunk({"content": "other"}, index=1),
    tool(0, id="a", type="function", function={"name": "bash", "arguments": ""}),
    tool(0, function={"arguments": '{"x":'}),
    tool(1, id="b", type="function", function={"name": "ls", "arguments": "{}"}),
    tool(0, function={"arguments": " 1}"}),
    chunk(reason="tool_calls"),
    chunk(index=1, reason="stop"),
    {"id": "c1", "choices": [], "usage": {"total_tokens": 9}},
    "[DONE]",
)
COMPLETIONS = sse(
    {"id": "t", "choices": [{"index": 0, "text": "a", "finish_reason": None}]},
    {"id": "t", "choices": [{"index": 0, "text": "b\n", "finish_reason": "length"}]},
    "[DONE]",
)
RESPONSES = sse(
    {"type": "response.created", "response": {"id": "r", "output": []}},
    {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {"type": "message", "role": "assistant"},
    },
    {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "he"},
    {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "llo"},
    {
        "type": "response.output_item.added",
        "output_index": 1,
        "item": {"type": "function_call", "name": "f", "call_id": "c", "arguments": ""},
    },
    {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": '{"a"'},
    {
        "type": "response.completed",
        "response": {"id": "r", "output": [{"type": "message", "content": "whole"}]},
    },
    named=True,
)
CALL = {"type": "tool_use", "input": {}}
MESSAGES = sse(
    {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 3}}},
    {"type": "ping"},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "so"}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "ok ⟂"}},
    {"type": "content_block_start", "index": 2, "content_block": CALL | {"id": "u", "name": "f"}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"b":1 ,'}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '"a":2}'}},
    {"type": "content_block_start", "index": 3, "content_block": CALL | {"id": "v", "name": "g"}},
    {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": ""}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
    named=True,
)  # fmt: skip
STREAMS = {"chat": CHAT, "completions": COMPLETIONS, "responses": RESPONSES, "messages": MESSAGES}
WHOLE = {
    "chat": {
        "id": "c1",
        "model": "m",
        "object": "chat.completion",
        "usage": {"total_tokens": 9},
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": "grüß ⟂",
                    "reasoning_content": "hmm",
                    "tool_calls": [
                        {"id": "a", "type": "function", "function": {"name": "bash", "arguments": '{"x": 1}'}},
                        {"id": "b", "type": "function", "function": {"name": "ls", "arguments": "{}"}},
                    ],
                },
            },
            {"index": 1, "finish_reason": "stop", "message": {"role": "assistant", "content": "other"}},
        ],
    },
    "completions": {
        "id": "t",
        "object": "text_completion",
        "choices": [{"index": 0, "finish_reason": "length", "text": "ab\n"}],
    },
    "responses": {"id": "r", "output": [{"type": "message", "content": "whole"}]},
    "messages": {
        "id": "m",
        "role": "assistant",
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 5},
        "content": [
            {"type": "thinking", "thinking": "so"},
            {"type": "text", "text": "ok ⟂"},
            {"type": "tool_use", "id": "u", "name": "f", "input": {"b": 1, "a": 2}, "input_json": '{"b":1 ,"a":2}'},
            {"type": "tool_use", "id": "v", "name": "g", "input": {}},
        ],
    },
}  # fmt: skip


@pytest.mark.parametrize("api", STREAMS)
def test_cuts_do_not_matter(api):
    """The bytes may be cut anywhere, in the middle of a character too, with either line end."""
    for seed in range(30):
        rng = random.Random(seed)
        data = STREAMS[api] if seed % 2 else STREAMS[api].replace(b"\n", b"\r\n")
        joiner = StreamJoiner(api)
        while data:
            size = rng.choice([1, 2, 7, 100, len(data)])
            assert not joiner.complete or len(data) < 400
            joiner.feed(data[:size])
            data = data[size:]
        assert joiner.complete, f"seed {seed}"
        assert joiner.response() == WHOLE[api], f"seed {seed}"


def test_what_came_is_kept():
    """A stream that breaks off leaves what came, and says that it is not whole."""
    for api, words in {
        "chat": '{"x":',
        "responses": '{"a"',
        "messages": '{"b":1 ,',
        "completions": "a",
    }.items():
        joiner = StreamJoiner(api)
        at = STREAMS[api].index(json.dumps(words).encode())
        joiner.feed(STREAMS[api][: STREAMS[api].index(b"\n\n", at) + 2])
        assert not joiner.complete
        assert words in json.dumps(joiner.response()).replace('\\"', '"')
    joiner = StreamJoiner("responses")
    joiner.feed(RESPONSES[: RESPONSES.index(b"event: response.completed")])
    assert joiner.response()["output"] == [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hello"}]},
        {"type": "function_call", "name": "f", "call_id": "c", "arguments": '{"a"'},
    ]


def test_errors_within_a_stream_are_told():
    """A server that fails half way leaves a stream that is not complete, and its words."""
    joiner = StreamJoiner("chat")
    joiner.feed(
        sse(chunk({"content": "a"}), {"error": {"message": "out of memory"}}, "[DONE]", "no json", "[1]")
    )
    assert (joiner.complete, joiner.error) == (False, "out of memory")
    assert StreamJoiner("chat").response() is None
