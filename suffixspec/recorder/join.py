"""Streamed responses put together again: server-sent events to the body that an unstreamed call would have."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from suffixspec.recorder.call import Api

_TOP = (
    "id",
    "object",
    "created",
    "model",
    "system_fingerprint",
    "service_tier",
    "usage",
    "timings",
)
"""Fields of OpenAI's chunks that stand once in the whole; the last that came counts."""


class StreamJoiner:
    """Takes the bytes of one stream as they come, wherever they are cut.

    What the model wrote is kept verbatim; arguments of Anthropic's tool calls additionally as the text that
    they were (``input_json``). Unknown events are passed over.

    Args:
        api: whose events.
    """

    def __init__(self, api: Api) -> None:
        self._lines = _Lines()
        self._body: _Chunks | _Items | _Blocks
        if api == "responses":
            self._body = _Items()
        elif api == "messages":
            self._body = _Blocks()
        else:
            self._body = _Chunks(text=api == "completions")
        self._done = False
        self.error: str | None = None
        """What the server said went wrong in the middle of the stream."""

    def feed(self, data: bytes) -> None:
        """Take in some bytes. Cost: O(bytes)."""
        for event in self._lines.events(data):
            if event == "[DONE]":
                self._done = True
                continue
            try:
                value = json.loads(event)
            except ValueError:
                continue
            if not isinstance(value, dict):
                continue
            error = value.get("error")
            if isinstance(error, dict) or value.get("type") == "error":
                fields = error if isinstance(error, dict) else value
                self.error = str(fields.get("message") or "error")
            self._body.take(value)

    @property
    def complete(self) -> bool:
        """Whether all of the model's answer is there."""
        return self.error is None and (self._done or self._body.complete)

    @property
    def ended(self) -> bool:
        """Whether the last event has come: OpenAI's chunks have one that says no more than that."""
        return self._done or (self._body.complete and not isinstance(self._body, _Chunks))

    def response(self) -> dict[str, Any] | None:
        """The body so far, or None before its first event."""
        return self._body.whole()


class _Lines:
    """Splits a stream into the data of its events."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []

    def events(self, data: bytes) -> Iterator[str]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for raw in lines:
            line = raw.removesuffix(b"\r").decode("utf-8", "replace")
            if not line:
                if self._data:
                    yield "\n".join(self._data)
                    self._data = []
            elif line.startswith("data:"):
                self._data.append(line[5:].removeprefix(" "))


class _Chunks:
    """Chunks of ``chat/completions``, or of ``completions``."""

    def __init__(self, *, text: bool) -> None:
        self._text = text
        self._top: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}
        self.complete = False

    def take(self, chunk: dict[str, Any]) -> None:
        self._top |= {key: chunk[key] for key in _TOP if chunk.get(key) is not None}
        for part in _objects(chunk.get("choices")):
            index = part.get("index") or 0
            choice = self._choices.setdefault(index, {"index": index, "finish_reason": None})
            for key in ("finish_reason", "stop_reason"):
                if part.get(key) is not None:
                    choice[key] = part[key]
            if isinstance(part.get("token_ids"), list):
                choice.setdefault("token_ids", []).extend(part["token_ids"])
            if self._text:
                _add_text(choice, "text", part.get("text"))
            elif isinstance(part.get("delta"), dict):
                _add_delta(
                    choice.setdefault("message", {"role": "assistant", "content": None}), part["delta"]
                )
        choices = self._choices.values()
        self.complete = bool(choices) and all(choice["finish_reason"] for choice in choices)

    def whole(self) -> dict[str, Any] | None:
        if not self._top and not self._choices:
            return None
        kind = "text_completion" if self._text else "chat.completion"
        choices = [_with_calls(choice) for _, choice in sorted(self._choices.items())]
        return self._top | {"object": kind, "choices": choices}


def _with_calls(choice: dict[str, Any]) -> dict[str, Any]:
    """The choice with its tool calls as a list, in their order."""
    message = dict(choice.get("message") or {})
    if "calls" not in message:
        return choice
    calls = message.pop("calls")
    return choice | {"message": message | {"tool_calls": [call for _, call in sorted(calls.items())]}}


def _add_delta(message: dict[str, Any], delta: dict[str, Any]) -> None:
    for key in ("content", "reasoning_content", "reasoning", "refusal"):
        _add_text(message, key, delta.get(key))
    legacy = delta.get("function_call")
    if isinstance(legacy, dict):
        _add_function(message.setdefault("function_call", {"name": "", "arguments": ""}), legacy)
    for call in _objects(delta.get("tool_calls")):
        calls = message.setdefault("calls", {})
        joined = calls.setdefault(
            call.get("index") or 0,
            {"id": None, "type": "function", "function": {"name": "", "arguments": ""}},
        )
        joined["id"] = joined["id"] or call.get("id")
        if isinstance(call.get("function"), dict):
            _add_function(joined["function"], call["function"])


def _add_function(function: dict[str, Any], delta: dict[str, Any]) -> None:
    for key in ("name", "arguments"):
        _add_text(function, key, delta.get(key))


class _Items:
    """Events of ``responses``; the last one holds the whole response."""

    def __init__(self) -> None:
        self._response: dict[str, Any] | None = None
        self._output: dict[int, dict[str, Any]] = {}
        self.complete = False

    def take(self, event: dict[str, Any]) -> None:
        kind = str(event.get("type"))
        if isinstance(event.get("response"), dict):
            self._response = event["response"]
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            self.complete = kind != "response.failed"
            return
        index = event.get("output_index")
        if not isinstance(index, int):
            return
        if kind in ("response.output_item.added", "response.output_item.done"):
            if isinstance(event.get("item"), dict):
                self._output[index] = dict(event["item"])
            return
        item = self._output.setdefault(index, {"type": "message", "role": "assistant", "content": []})
        if kind == "response.output_text.delta":
            _add_part(item, event, "output_text")
        elif kind == "response.reasoning_text.delta":
            _add_part(item, event, "reasoning_text")
        elif kind == "response.function_call_arguments.delta":
            _add_text(item, "arguments", event.get("delta"))
        elif kind == "response.custom_tool_call_input.delta":
            _add_text(item, "input", event.get("delta"))

    def whole(self) -> dict[str, Any] | None:
        if self._response is None and not self._output:
            return None
        response = self._response or {"object": "response"}
        if not response.get("output"):
            response = response | {"output": [item for _, item in sorted(self._output.items())]}
        return response


def _add_part(item: dict[str, Any], event: dict[str, Any], kind: str) -> None:
    content = item.get("content")
    content = list(content) if isinstance(content, list) else []
    number = event.get("content_index") or 0
    while len(content) <= number:
        content.append({"type": kind, "text": ""})
    part = dict(content[number])
    _add_text(part, "text", event.get("delta"))
    content[number] = part
    item["content"] = content


class _Blocks:
    """Events of Anthropic's ``messages``."""

    def __init__(self) -> None:
        self._message: dict[str, Any] | None = None
        self._blocks: dict[int, dict[str, Any]] = {}
        self.complete = False
        self._on: dict[str, Callable[[dict[str, Any]], None]] = {
            "message_start": self._start,
            "content_block_start": self._begin,
            "content_block_delta": self._add,
            "message_delta": self._end,
        }

    def take(self, event: dict[str, Any]) -> None:
        kind = str(event.get("type"))
        if kind == "message_stop":
            self.complete = True
        elif kind in self._on:
            self._on[kind](event)

    def whole(self) -> dict[str, Any] | None:
        if self._message is None:
            return None
        return self._message | {"content": [_with_input(block) for _, block in sorted(self._blocks.items())]}

    def _start(self, event: dict[str, Any]) -> None:
        if isinstance(event.get("message"), dict):
            self._message = dict(event["message"])

    def _begin(self, event: dict[str, Any]) -> None:
        if isinstance(event.get("content_block"), dict):
            self._blocks[event.get("index") or 0] = dict(event["content_block"])

    def _add(self, event: dict[str, Any]) -> None:
        block = self._blocks.get(event.get("index") or 0)
        delta = event.get("delta")
        if block is None or not isinstance(delta, dict):
            return
        for key in ("text", "thinking", "signature"):
            _add_text(block, key, delta.get(key))
        _add_text(block, "input_json", delta.get("partial_json"))

    def _end(self, event: dict[str, Any]) -> None:
        if self._message is None:
            return
        if isinstance(event.get("delta"), dict):
            self._message |= event["delta"]
        if isinstance(event.get("usage"), dict):
            self._message["usage"] = (self._message.get("usage") or {}) | event["usage"]


def _with_input(block: dict[str, Any]) -> dict[str, Any]:
    """The block with its input as JSON, beside the text that the model wrote."""
    text = block.get("input_json")
    if text:
        return block | {"input": _parsed(text)}
    return {key: value for key, value in block.items() if key != "input_json"}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _add_text(fields: dict[str, Any], key: str, text: Any) -> None:
    if isinstance(text, str):
        fields[key] = (fields.get(key) or "") + text


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))
