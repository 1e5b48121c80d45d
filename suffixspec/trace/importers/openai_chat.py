"""OpenAI chat JSONL: conversations (``{"messages"}``) and logs of requests with their responses."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from suffixspec.errors import InputError
from suffixspec.trace.chat import content_text, parse_message, parse_messages, parse_token_ids, parse_tools
from suffixspec.trace.fields import an_object, expected, text_or_none
from suffixspec.trace.importers.base import Context, Importer, items, numbered
from suffixspec.trace.importers.joining import Joiner
from suffixspec.trace.native import parse_session
from suffixspec.trace.session import Message, TraceSession


class OpenAiChat(Importer):
    """One conversation a record, as fine-tuning files and exports have it."""

    name = "openai-chat"
    title = "OpenAI chat JSONL"

    @classmethod
    def matches(cls, record: Any) -> bool:
        """A record has ``messages``."""
        return isinstance(record, dict) and "messages" in record

    def feed(self, record: Any, line: int) -> Iterator[TraceSession]:
        """Take one conversation."""
        default_id = self.default_id(line)
        record = an_object(record, "the record")
        if isinstance(record.get("messages"), str):  # data sets keep the list as JSON text
            record = record | {"messages": _from_text(record["messages"], "messages")}
        name = text_or_none(record.get("id")) or text_or_none(record.get("instance_id")) or default_id
        session = parse_session(_without_labels(record), default_id=name, path=self.context.path, line=line)
        yield session if session.source is not None else replace(session, source=self.name)


class OpenAiLog(Importer):
    """One model call a record; calls are joined into sessions by their messages.

    Calls with different ids are never joined; for the rest see `joining.Joiner`. Only recorded responses count
    as model output: an assistant message that first appears in a request is context.
    """

    name = "openai-log"
    title = "OpenAI request/response log"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._joiners: dict[str | None, Joiner] = {}

    @classmethod
    def matches(cls, record: Any) -> bool:
        """A record has a request and a response, or messages and a response."""
        if not isinstance(record, dict) or "response" not in record:
            return False
        return "request" in record or isinstance(record.get("messages"), list)

    def feed(self, record: Any, line: int) -> Iterable[TraceSession]:
        """Take one call; sessions come out of `finish`."""
        record = an_object(record, "the record")
        request = _body(record["request"], "request") if "request" in record else record
        messages = request_messages(an_object(request, "request"))
        outputs, model = response_outputs(_response(record.get("response")))
        if not outputs:
            self.context.note("a call without a response", line)
            return ()
        given = text_or_none(record.get("session_id")) or text_or_none(record.get("conversation_id"))
        self._joiners.setdefault(given, Joiner()).add(
            messages,
            outputs,
            line=line,
            hint=given,
            model=text_or_none(request.get("model")) or model,
            tools=parse_tools(request.get("tools"), "request.tools"),
        )
        return ()

    def finish(self) -> Iterator[TraceSession]:
        """Return all sessions in the order of their first calls."""
        everything = [call for joiner in self._joiners.values() for call in joiner.sessions()]
        counts: dict[str, int] = {}
        for call in sorted(everything, key=lambda call: call.line):
            name = self.context.stem if call.hint is None else call.hint
            counts[name] = counts.get(name, 0) + 1
            session_id = numbered(name, counts[name])
            yield self.session(session_id, call.messages, call.line, model=call.model, tools=call.tools)


def _from_text(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"expected {where} to hold JSON text, got: {error}") from None


def _body(value: Any, where: str) -> Any:
    """Return a request or response that may be JSON text, and may be an HTTP record with a body."""
    if isinstance(value, str):
        value = _from_text(value, where)
    if isinstance(value, dict) and value.get("body") is not None:
        return _body(value["body"], f"{where}.body")
    return value


def _response(value: Any) -> Any:
    """Return a response as `_body` does, or None for the plain text of a failure."""
    try:
        return _body(value, "response")
    except InputError:
        return None


def _without_labels(record: dict[str, Any]) -> dict[str, Any]:
    """Drop what the native format has under the same names with another meaning (numeric ids, versions)."""
    record = {key: value for key, value in record.items() if key != "version"}
    for key in ("session_id", "model", "namespace", "task", "source"):
        if not isinstance(record.get(key), str):
            record.pop(key, None)
    if not isinstance(record.get("tools"), list):
        record.pop("tools", None)
    return record


def request_messages(request: dict[str, Any]) -> list[Message]:
    """The messages of a request, OpenAI's or Anthropic's, the system prompt first."""
    messages = parse_messages(request.get("messages"), "request.messages")
    if request.get("system") is not None:  # Anthropic's form
        messages.insert(0, Message("system", content_text(request["system"], "request.system")))
    return messages


def response_outputs(response: Any) -> tuple[list[Message], str | None]:
    """Return the messages of a response (OpenAI's chat, its chunks, Anthropic's), one a choice, and its model."""
    if isinstance(response, list):
        response = _joined_chunks(response)
    if not isinstance(response, dict):
        return [], None
    model = text_or_none(response.get("model"))
    if response.get("role") == "assistant" and isinstance(response.get("content"), list):
        return parse_message(response, "response"), model  # Anthropic's form
    outputs = []
    for index, choice in enumerate(items(response.get("choices"))):
        where = f"response.choices[{index}]"
        message = choice.get("message")
        if message is None:
            continue
        output = parse_message(
            {"role": "assistant"} | an_object(message, f"{where}.message"), f"{where}.message"
        )
        if len(output) != 1 or output[0].role != "assistant":
            raise expected("an assistant message", message, f"{where}.message")
        ids = parse_token_ids(choice.get("token_ids"), f"{where}.token_ids")
        outputs.append(output[0] if ids is None else replace(output[0], token_ids=ids))
    return outputs, model


def _joined_chunks(chunks: list[Any]) -> dict[str, Any]:
    """Join the chunks of a streamed response into one response."""
    model = None
    choices: dict[int, dict[str, Any]] = {}
    for chunk in items(chunks):
        model = model or chunk.get("model")
        for part in items(chunk.get("choices")):
            delta = part.get("delta")
            if not isinstance(delta, dict):
                continue
            message = choices.setdefault(part.get("index") or 0, {"role": "assistant", "calls": {}})
            for key in ("content", "reasoning_content", "reasoning", "refusal"):
                if isinstance(delta.get(key), str):
                    message[key] = message.get(key, "") + delta[key]
            for call in items(delta.get("tool_calls")):
                joined = message["calls"].setdefault(call.get("index") or 0, {"name": "", "arguments": ""})
                joined["id"] = joined.get("id") or call.get("id")
                function = call.get("function")
                for key in ("name", "arguments"):
                    if isinstance(function, dict) and isinstance(function.get(key), str):
                        joined[key] += function[key]
    for message in choices.values():
        message["tool_calls"] = [call for _, call in sorted(message.pop("calls").items())]
    return {"model": model, "choices": [{"message": message} for _, message in sorted(choices.items())]}
