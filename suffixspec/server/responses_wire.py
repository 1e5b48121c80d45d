"""``/v1/responses``: OpenAI's Responses API."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from suffixspec.server.call import Call, Piece, Prompt
from suffixspec.server.chat_wire import refuse
from suffixspec.server.conversation import read_messages
from suffixspec.server.errors import ApiError
from suffixspec.server.fields import Fields
from suffixspec.server.logprobs import chat_logprobs
from suffixspec.server.output import Block, Change, Output
from suffixspec.server.response_format import read_response_format
from suffixspec.server.response_items import (
    Tools,
    free_text,
    read_items,
    read_response_tool_choice,
    read_response_tools,
)
from suffixspec.server.sampling import SAMPLING_FIELDS, check_sampling, read_sampling
from suffixspec.server.sse import event
from suffixspec.server.system_prompt import DROPPED, without_billing_line
from suffixspec.server.tool_choice import ToolCalls, read_tool_calls
from suffixspec.server.usage import Usage, timings
from suffixspec.server.wire import SESSION_FIELDS, Request, Writer, new_id

if TYPE_CHECKING:
    from suffixspec.server.service import Service
    from suffixspec.verify.constraint import Constraint

WITHOUT_EFFECT = frozenset(
    {
        "access_programs",
        "background_options",
        "client_metadata",
        "image",
        "metadata",
        "moderation",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "user",
    }
)
NOT_FOLLOWED = frozenset({"context_management", "max_tool_calls", "reasoning"})
REFUSED = {
    "background": "a response is written while its client waits",
    "conversation": "send the conversation as input, or previous_response_id",
    "prompt": "send the prompt as input",
}
FIELDS = (
    frozenset(
        {
            "include",
            "input",
            "instructions",
            "max_output_tokens",
            "model",
            "parallel_tool_calls",
            "previous_response_id",
            "store",
            "stream",
            "stream_options",
            "text",
            "tool_choice",
            "tools",
            "top_logprobs",
            "truncation",
        }
    )
    | (SAMPLING_FIELDS - {"stop", "stop_token_ids"})
    | SESSION_FIELDS
    | WITHOUT_EFFECT
    | NOT_FOLLOWED
    | REFUSED.keys()
)
_LOGPROBS = "message.output_text.logprobs"
_MOST_LOGPROBS = 20


def read(request: Request) -> Writer:
    """Read a request; see ``wire.Reader``."""
    fields, service = request.body, request.service
    ignored = request.known(FIELDS)
    if fields.get("background") is not False:
        refuse(fields, REFUSED)
    fields.text("model")
    metadata = fields.object("metadata")
    if metadata is not None and not all(isinstance(value, str) for value in metadata.value.values()):
        raise fields.refuse("metadata", "an object of strings")  # it is part of the response
    conversation = _before(request) + read_items(fields.get("input"))
    instructions = fields.text("instructions")
    messages = conversation
    if instructions:
        told = without_billing_line(instructions)
        if told != instructions:
            ignored.append(DROPPED)
        messages = [{"role": "system", "content": told}, *conversation] if told else conversation
    messages = read_messages(messages, "input")
    tools = read_response_tools(fields.get("tools"))
    ignored += [name for name in sorted(NOT_FOLLOWED) if fields.get(name)]
    ignored += [*tools.ignored, *(["truncation"] if fields.get("truncation") == "auto" else [])]
    parallel = fields.flag("parallel_tool_calls") or "parallel_tool_calls" not in fields
    tool_choice = read_response_tool_choice(fields.get("tool_choice"))
    options = fields.object("stream_options")
    if options is not None:
        options.known({"include_obfuscation"})
    sampling = read_sampling(fields, service)
    sampling |= {"max_tokens": fields.whole("max_output_tokens", 1), "logprobs": _logprobs(fields)}
    prompt = service.fit(
        service.render(messages, tools.functions, namespace=request.namespace), shape="openai", param="input"
    )
    calls = read_tool_calls(service, prompt, tool_choice, parallel=parallel)
    ignored += calls.ignored
    constraint = _format(fields, service, prompt, ignored)
    call = Call(
        "responses",
        request.namespace,
        [prompt],
        sampling=check_sampling(sampling),
        hints=request.hints,
        ends=calls.ends,
        constraint=calls.constraint or constraint,  # a call that is required has no content to be bound
        ignored=ignored,
        stream=fields.flag("stream"),
    )
    return ResponseWriter(call, calls, fields, conversation, tools)


def _before(request: Request) -> list[dict[str, Any]]:
    """The conversation that the request goes on from."""
    previous = request.body.text("previous_response_id")
    if previous is None:
        return []
    found = request.service.stored.get(request.namespace, previous)
    if found is None:
        raise ApiError(
            f"Previous response with id {previous[:60]!r} not found: it was not stored, or was long ago; send the "
            "whole conversation as input",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    return found


def _format(fields: Fields, service: Service, prompt: Prompt, ignored: list[str]) -> Constraint | None:
    text = fields.object("text")
    if text is None:
        return None
    if "verbosity" in text:
        ignored.append("text.verbosity")
    given = text.object("format")
    if given is None:
        return None
    if given.get("type") != "json_schema":
        return read_response_format({"type": given.get("type")}, service, prompt)
    schema = {key: value for key, value in given.value.items() if key != "type"}
    return read_response_format({"type": "json_schema", "json_schema": schema}, service, prompt)


def _known_bytes(logprobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """This API has a list where the chat's has null, for a token that is part of a character."""
    for token in logprobs:
        for entry in (token, *token["top_logprobs"]):
            entry["bytes"] = entry["bytes"] or []
    return logprobs


def _logprobs(fields: Fields) -> int | None:
    include = fields.items("include") or []
    if not all(isinstance(name, str) for name in include):
        raise fields.refuse("include", "an array of strings")
    top = fields.whole("top_logprobs", 0, _MOST_LOGPROBS)
    return (top or 0) if _LOGPROBS in include else None


class ResponseWriter(Writer):
    """Writes responses."""

    def __init__(
        self, call: Call, calls: ToolCalls, fields: Fields, conversation: list[dict[str, Any]], tools: Tools
    ) -> None:
        super().__init__(call, calls.service, [calls.parser()])
        self._fields = fields
        self._conversation = conversation
        self._custom = tools.custom
        self._id = new_id("resp_")
        self._created = int(time.time())
        self._item_ids: list[str] = []  # of the output's blocks
        self._open: int | None = None  # the block that is being sent
        self._told = 0  # log-probabilities that were sent
        self._number = 0

    def begin(self) -> list[bytes]:
        """See ``Writer``."""
        response = self._response("in_progress", [])
        return [
            self._event("response.created", response=response),
            self._event("response.in_progress", response=response),
        ]

    def changed(self, output: Output, changes: Iterable[Change], piece: Piece | None) -> list[bytes]:  # noqa: ARG002
        """See ``Writer``."""
        sent = []
        for change in changes:
            if change.new:
                sent += self._close(output)
                sent += self._begin_block(output, change.index)
            if change.text and not self._is_custom(change.block):
                sent.append(self._delta(output, change))
        return sent

    def ended(self, output: Output) -> list[bytes]:
        """See ``Writer``."""
        sent = []
        if not output.blocks:  # an output is never without an item
            output.blocks.append(Block("text"))
            sent += self._begin_block(output, 0)
        sent += self._close(output)
        if self._fields.get("store") is not False:
            message = {name: value for name, value in output.message().items() if name != "refusal"}
            if message["content"] is None:
                message["content"] = ""
            characters = len(self.call.prompts[0].text) + sum(len(block.text) for block in output.blocks)
            messages = [*self._conversation, message]
            self.service.stored.put(self.call.namespace, self._id, messages, characters)
        return sent

    def finish(self) -> list[bytes]:
        """See ``Writer``."""
        body = self.body()
        return [self._event(f"response.{body['status']}", response=body)]

    def failed(self, error: ApiError) -> list[bytes]:
        """See ``Writer``."""
        code = "rate_limit_exceeded" if error.status == 429 else "server_error"
        response = self._response("failed", []) | {"error": {"code": code, "message": error.message}}
        return [self._event("response.failed", response=response)]

    def body(self) -> dict[str, Any]:
        """See ``Writer``."""
        (output,) = self.outputs
        cut = output.ended is None or output.ended.reason == "length"
        items = [self._item(output, index, "completed") for index in range(len(output.blocks))]
        if cut and items:
            items[-1] = self._item(output, len(items) - 1, "incomplete")
        response = self._response("incomplete" if cut else "completed", items)
        if cut:
            response["incomplete_details"] = {"reason": "max_output_tokens"}
        else:
            response["completed_at"] = int(time.time())
        response["usage"] = Usage.of(self.replies, 1).responses()
        return response | ({"timings": timings(self.replies)} if self.complete else {})

    # -- events -----------------------------------------------------------------------------------------------

    def _event(self, kind: str, **fields: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        return event({"type": kind, "sequence_number": number, **fields})

    def _begin_block(self, output: Output, index: int) -> list[bytes]:
        self._open = index
        item = self._item(output, index, "in_progress", empty=True)
        sent = [self._event("response.output_item.added", output_index=index, item=item)]
        if output.blocks[index].kind != "call":
            part = self._part(output, output.blocks[index], empty=True)
            sent.append(self._event("response.content_part.added", **self._place(output, index), part=part))
        return sent

    def _delta(self, output: Output, change: Change) -> bytes:
        place = self._place(output, change.index)
        if change.block.kind == "text":
            logprobs = self._logprobs(output)
            return self._event("response.output_text.delta", **place, delta=change.text, logprobs=logprobs)
        if change.block.kind == "reasoning":
            return self._event("response.reasoning_text.delta", **place, delta=change.text)
        return self._event("response.function_call_arguments.delta", **place, delta=change.text)

    def _close(self, output: Output) -> list[bytes]:
        if self._open is None:
            return []
        index, self._open = self._open, None
        block, place = output.blocks[index], self._place(output, index)
        sent = []
        if block.kind == "text":
            sent.append(
                self._event(
                    "response.output_text.done", **place, text=block.text, logprobs=self._logprobs(output)
                )
            )
        elif block.kind == "reasoning":
            sent.append(self._event("response.reasoning_text.done", **place, text=block.text))
        elif self._is_custom(block):
            text = free_text(block.text)
            sent.append(self._event("response.custom_tool_call_input.delta", **place, delta=text))
            sent.append(self._event("response.custom_tool_call_input.done", **place, input=text))
        else:
            sent.append(
                self._event(
                    "response.function_call_arguments.done", **place, name=block.name, arguments=block.text
                )
            )
        if block.kind != "call":
            part = self._part(output, block)
            sent.append(self._event("response.content_part.done", **place, part=part))
        cut = output.ended is not None and output.ended.reason == "length"
        last = index == len(output.blocks) - 1
        item = self._item(output, index, "incomplete" if cut and last else "completed")
        return [*sent, self._event("response.output_item.done", output_index=index, item=item)]

    # -- objects ----------------------------------------------------------------------------------------------

    def _place(self, output: Output, index: int) -> dict[str, Any]:
        place: dict[str, Any] = {"item_id": self._item_id(output, index), "output_index": index}
        return place if output.blocks[index].kind == "call" else place | {"content_index": 0}

    def _item_id(self, output: Output, index: int) -> str:
        prefixes = {"text": "msg_", "reasoning": "rs_", "call": "fc_"}
        while len(self._item_ids) <= index:
            self._item_ids.append(new_id(prefixes[output.blocks[len(self._item_ids)].kind]))
        return self._item_ids[index]

    def _is_custom(self, block: Block) -> bool:
        return block.kind == "call" and block.name in self._custom

    def _item(self, output: Output, index: int, status: str, *, empty: bool = False) -> dict[str, Any]:
        block = output.blocks[index]
        text = "" if empty else block.text
        item: dict[str, Any] = {"id": self._item_id(output, index), "status": status}
        if self._is_custom(block):
            call = {"type": "custom_tool_call", "call_id": block.id, "name": block.name}
            return item | call | {"input": free_text(text) if text else ""}
        if block.kind == "call":
            call = {"type": "function_call", "call_id": block.id, "name": block.name}
            return item | call | {"arguments": text}
        parts = [] if empty else [self._part(output, block)]
        if block.kind == "reasoning":
            return item | {"type": "reasoning", "summary": [], "content": parts}
        return item | {"type": "message", "role": "assistant", "content": parts}

    def _part(self, output: Output, block: Block, *, empty: bool = False) -> dict[str, Any]:
        text = "" if empty else block.text
        if block.kind == "reasoning":
            return {"type": "reasoning_text", "text": text}
        # Log-probabilities are the whole output's: with the last text, so that they come once.
        last = block is next((other for other in reversed(output.blocks) if other.kind == "text"), None)
        logprobs = []
        if not empty and last and self.call.sampling.get("logprobs") is not None:
            logprobs = _known_bytes(chat_logprobs(self.service.tokenizer, output.logprobs))
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}

    def _logprobs(self, output: Output) -> list[dict[str, Any]]:
        if self.call.sampling.get("logprobs") is None:
            return []
        new = output.logprobs[self._told :]
        self._told = len(output.logprobs)
        return _known_bytes(chat_logprobs(self.service.tokenizer, new))

    def _response(self, status: str, items: list[Any]) -> dict[str, Any]:
        given, sampling = self._fields, self.call.sampling
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": given.get("instructions"),
            "max_output_tokens": given.get("max_output_tokens"),
            "metadata": given.get("metadata") or {},
            "model": self.service.model_name,
            "output": items,
            "parallel_tool_calls": given.get("parallel_tool_calls") is not False,
            "previous_response_id": given.get("previous_response_id"),
            "reasoning": {"effort": None, "summary": None},
            "store": given.get("store") is not False,
            "temperature": sampling.get("temperature"),
            "text": given.get("text") or {"format": {"type": "text"}},
            "tool_choice": given.get("tool_choice") or "auto",
            "tools": given.get("tools") or [],
            "top_p": sampling.get("top_p", 1.0),
            "truncation": "disabled",
            "usage": None,
        }
