"""``/v1/chat/completions``: OpenAI's chat completions."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from suffixspec.server.call import Call, Piece
from suffixspec.server.conversation import read_messages, read_tools
from suffixspec.server.errors import ApiError
from suffixspec.server.fields import Fields
from suffixspec.server.logprobs import chat_logprobs
from suffixspec.server.output import Change, Output
from suffixspec.server.prediction import read_prediction
from suffixspec.server.response_format import read_response_format
from suffixspec.server.sampling import MOST_OUTPUTS, SAMPLING_FIELDS, check_sampling, read_sampling
from suffixspec.server.sse import DONE, data
from suffixspec.server.tool_choice import ToolCalls, read_tool_calls
from suffixspec.server.usage import Usage, timings
from suffixspec.server.wire import SESSION_FIELDS, Request, Writer, dropped, new_id

WITHOUT_EFFECT = frozenset(
    {
        "cache_prompt",  # llama.cpp's: always on
        "metadata",
        "moderation",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    }
)
"""Fields that are about accounts, storage and routing: none of them says anything about the output."""

NOT_FOLLOWED = frozenset({"reasoning_effort", "verbosity"})
"""Fields that ask for another output and are not followed; the response's header names them."""

REFUSED = {
    "audio": "the model writes text only",
    "function_call": "send tool_choice instead",
    "functions": "send tools instead",
    "web_search_options": "this server does not search the web",
}

FIELDS = (
    frozenset(
        {
            "logprobs",
            "max_completion_tokens",
            "max_tokens",
            "messages",
            "modalities",
            "model",
            "n",
            "parallel_tool_calls",
            "prediction",
            "response_format",
            "stream",
            "stream_options",
            "tool_choice",
            "tools",
            "top_logprobs",
        }
    )
    | SAMPLING_FIELDS
    | SESSION_FIELDS
    | WITHOUT_EFFECT
    | NOT_FOLLOWED
    | REFUSED.keys()
)
_MOST_LOGPROBS = 20


def read(request: Request) -> Writer:
    """Read a request; see ``wire.Reader``."""
    fields, service = request.body, request.service
    unknown = request.known(FIELDS)
    refuse(fields, REFUSED)
    fields.text("model")
    if fields.get("modalities") not in (None, [], ["text"]):
        raise fields.refuse("modalities", '["text"]')
    messages = read_messages(fields.get("messages"))
    tools = read_tools(fields.get("tools"))
    sampling = read_sampling(fields, service) | _max_tokens(fields) | _logprobs(fields)
    stream = fields.flag("stream")
    include_usage = read_stream_options(fields, stream=stream)
    prompt = service.fit(
        service.render(messages, tools, namespace=request.namespace), shape="openai", param="messages"
    )
    ignored = [name for name in sorted(NOT_FOLLOWED) if name in fields]
    parallel = fields.flag("parallel_tool_calls") or "parallel_tool_calls" not in fields
    calls = read_tool_calls(service, prompt, fields.get("tool_choice") or "auto", parallel=parallel)
    constraint = read_response_format(fields.get("response_format"), service, prompt)
    call = Call(
        "chat",
        request.namespace,
        [prompt],
        n=fields.whole("n", 1, MOST_OUTPUTS) or 1,
        sampling=check_sampling(sampling),
        hints=request.hints,
        ends=calls.ends,
        prediction=read_prediction(fields),
        constraint=calls.constraint or constraint,  # a call that is required has no content to be bound
        ignored=[*unknown, *ignored, *calls.ignored, *dropped(fields.get("messages"), messages)],
        stream=stream,
    )
    return ChatWriter(call, calls, include_usage=include_usage)


def refuse(fields: Fields, reasons: dict[str, str]) -> None:
    """Refuse fields that OpenAI knows and this server does not.

    Raises:
        ApiError: one of them is there.
    """
    for name, reason in reasons.items():
        if name in fields:
            path = fields.path(name)
            raise ApiError(f"expected no {path}, got one; {reason}", param=path, code="unsupported_parameter")


def read_stream_options(fields: Fields, *, stream: bool) -> bool:
    """Whether the stream ends with the usage.

    Raises:
        ApiError: options of no stream.
    """
    options = fields.object("stream_options")
    if options is None:
        return False
    if not stream:
        raise ApiError(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
        )
    options.known({"include_usage", "include_obfuscation"})
    options.flag("include_obfuscation")
    return options.flag("include_usage")


def _max_tokens(fields: Fields) -> dict[str, Any]:
    new, old = fields.whole("max_completion_tokens", 1), fields.whole("max_tokens", 1)
    if new is not None and old is not None and new != old:
        raise ApiError(
            "expected one of max_tokens and max_completion_tokens, got both with different values; "
            "leave max_tokens out",
            param="max_tokens",
        )
    return {"max_tokens": old if new is None else new}


def _logprobs(fields: Fields) -> dict[str, Any]:
    wanted, top = fields.flag("logprobs"), fields.whole("top_logprobs", 0, _MOST_LOGPROBS)
    if top is not None and not wanted:
        raise fields.refuse("top_logprobs", "left out, or logprobs to be true")
    return {"logprobs": (top or 0) if wanted else None}


class ChatWriter(Writer):
    """Writes chat completions."""

    def __init__(self, call: Call, calls: ToolCalls, *, include_usage: bool) -> None:
        super().__init__(call, calls.service, [calls.parser() for _ in range(call.outputs)])
        self._include_usage = include_usage
        self._wants_logprobs = call.sampling.get("logprobs") is not None
        self._told = [0] * call.outputs  # log-probabilities that were sent, of each output
        self._opened: set[int] = set()  # outputs whose first chunk was sent
        self._head = {
            "id": new_id("chatcmpl-"),
            "created": int(time.time()),
            "model": self.service.model_name,
            "system_fingerprint": self.service.fingerprint,
        }

    def begin(self) -> list[bytes]:
        """See ``Writer``."""
        return self._open(self.outputs[0])

    def changed(self, output: Output, changes: Iterable[Change], piece: Piece | None) -> list[bytes]:  # noqa: ARG002
        """See ``Writer``."""
        sent = self._open(output)
        for change in changes:
            delta = self._delta(output, change)
            if delta is not None:
                sent.append(self._chunk(output, delta))
        return sent

    def ended(self, output: Output) -> list[bytes]:
        """See ``Writer``."""
        more = {} if self._include_usage else self._timings()
        return [*self._open(output), self._chunk(output, {}, _finish_reason(output), **more)]

    def finish(self) -> list[bytes]:
        """See ``Writer``."""
        if not self._include_usage:
            return [DONE]
        usage = Usage.of(self.replies, self.call.n).openai()
        chunk = self._envelope("chat.completion.chunk", [])
        return [data({**chunk, "usage": usage, **self._timings()}), DONE]

    def body(self) -> dict[str, Any]:
        """See ``Writer``."""
        choices = [
            {
                "index": output.index,
                "message": output.message(),
                "logprobs": self._logprobs(output, 0),
                "finish_reason": _finish_reason(output),
            }
            for output in self.outputs
        ]
        usage = Usage.of(self.replies, self.call.n).openai()
        return {**self._envelope("chat.completion", choices), "usage": usage, **self._timings()}

    def _open(self, output: Output) -> list[bytes]:
        if output.index in self._opened:
            return []
        self._opened.add(output.index)
        return [self._chunk(output, {"role": "assistant", "content": ""})]

    def _delta(self, output: Output, change: Change) -> dict[str, Any] | None:
        block = change.block
        if block.kind == "text":
            return {"content": change.text}
        if block.kind == "reasoning":
            return {"reasoning_content": change.text}
        index = sum(other.kind == "call" for other in output.blocks[: change.index])
        if change.new:
            function = {"name": block.name, "arguments": change.text}
            return {
                "tool_calls": [{"index": index, "id": block.id, "type": "function", "function": function}]
            }
        return {"tool_calls": [{"index": index, "function": {"arguments": change.text}}]}

    def _chunk(
        self, output: Output, delta: dict[str, Any], finish_reason: str | None = None, **more: Any
    ) -> bytes:
        told = self._told[output.index]
        # The first chunk has no text yet; and log-probabilities of markup come with what follows it.
        logprobs = None if "role" in delta else self._logprobs(output, told)
        if logprobs is not None:
            self._told[output.index] = len(output.logprobs)
        choice = {
            "index": output.index,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        chunk = self._envelope("chat.completion.chunk", [choice])
        if self._include_usage:
            chunk["usage"] = None
        return data(chunk | more)

    def _logprobs(self, output: Output, start: int) -> dict[str, Any] | None:
        if not self._wants_logprobs:
            return None
        content = chat_logprobs(self.service.tokenizer, output.logprobs[start:])
        return {"content": content, "refusal": None}

    def _timings(self) -> dict[str, Any]:
        return {"timings": timings(self.replies)} if self.complete else {}

    def _envelope(self, kind: str, choices: list[Any]) -> dict[str, Any]:
        return {**self._head, "object": kind, "choices": choices}


def _finish_reason(output: Output) -> str:
    if output.ended is None:
        return "length"  # of a recorded call that was cut off
    if output.calls and output.ended.reason == "stop":
        return "tool_calls"
    return output.ended.reason
