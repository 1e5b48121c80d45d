"""``/v1/messages``: Anthropic's messages, and ``/v1/messages/count_tokens``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from suffixspec.server.call import Call, Piece, Prompt
from suffixspec.server.errors import ApiError
from suffixspec.server.fields import Fields, text_parts
from suffixspec.server.output import Block, Change, Output
from suffixspec.server.response_format import read_response_format
from suffixspec.server.sampling import check_sampling
from suffixspec.server.sse import event
from suffixspec.server.system_prompt import DROPPED, without_billing_line
from suffixspec.server.tool_choice import ToolCalls, read_tool_calls
from suffixspec.server.usage import Usage, timings
from suffixspec.server.wire import Request, Writer, new_id

if TYPE_CHECKING:
    from suffixspec.verify.constraint import Constraint

PROMPT_FIELDS = frozenset({"messages", "model", "output_config", "system", "tool_choice", "tools"})
WITHOUT_EFFECT = frozenset(
    {
        "access_programs",
        "betas",
        "billing_policy",
        "cache_control",
        "container",
        "diagnostics",
        "fallback_credit_token",
        "fallbacks",
        "inference_geo",
        "metadata",
        "prompt_cache_key",
        "service_tier",
        "session_id",
        "speed",
        "user_profile_id",
        "workspace_id",
    }
)
"""Fields that are about accounts, caches and routing: none of them says anything about the output."""

NOT_FOLLOWED = frozenset({"compaction", "context_management", "thinking"})
"""Fields that ask for another prompt or output and are not followed; the response's header names them."""

REFUSED = frozenset({"mcp_servers", "thread"})
FIELDS = (
    PROMPT_FIELDS
    | WITHOUT_EFFECT
    | NOT_FOLLOWED
    | REFUSED
    | {"max_tokens", "stop_sequences", "stream", "temperature", "top_k", "top_p"}
)
_MOST_STOPS = 64


def read(request: Request) -> Writer:
    """Read a request; see ``wire.Reader``."""
    fields, service = request.body, request.service
    conversation = _Conversation(request, FIELDS)
    max_tokens = fields.whole("max_tokens", 1)
    if max_tokens is None:
        raise fields.refuse("max_tokens", "a whole number from 1")
    given = {
        "temperature": fields.number("temperature", 0, 1),
        "top_p": fields.number("top_p", 0, 1),
        "top_k": fields.whole("top_k", 0),
        "stop": fields.texts("stop_sequences", _MOST_STOPS) or None,
        "max_tokens": max_tokens,
    }
    sampling = service.settings.sampling | {name: v for name, v in given.items() if v is not None}
    prompt = service.fit(
        service.render(conversation.messages, conversation.tools, namespace=request.namespace),
        shape="anthropic",
        param="messages",
    )
    calls = read_tool_calls(service, prompt, conversation.tool_choice, parallel=conversation.parallel)
    constraint = conversation.form(prompt)
    call = Call(
        "messages",
        request.namespace,
        [prompt],
        sampling=check_sampling(sampling),
        hints=request.hints,
        ends=calls.ends,
        constraint=calls.constraint or constraint,  # a call that is required has no content to be bound
        ignored=[*conversation.ignored, *calls.ignored],
        stream=fields.flag("stream"),
    )
    return MessageWriter(call, calls)


def count(request: Request) -> dict[str, Any]:
    """Answer a request for the number of a prompt's tokens.

    Raises:
        ApiError: the request is not in order.
    """
    conversation = _Conversation(request, FIELDS)
    prompt = request.service.render(conversation.messages, conversation.tools, namespace=request.namespace)
    return {"input_tokens": 0 if prompt.token_ids is None else len(prompt.token_ids)}


class _Conversation:
    """What a request says about its prompt, in OpenAI's form."""

    def __init__(self, request: Request, known: Iterable[str]) -> None:
        self._request = request
        fields = request.body
        self.ignored = request.known(known)
        for name in sorted(REFUSED):
            if fields.get(name):
                raise ApiError(f"expected no {name}, got some; this server runs no tools", param=name)
        fields.text("model")
        self.ignored += [name for name in sorted(NOT_FOLLOWED) if _asks(fields.get(name))]
        self.messages: list[dict[str, Any]] = []
        self._system()
        self._turns()
        self.tools = self._tools()
        self.parallel = True
        self.tool_choice = self._tool_choice()

    def _system(self) -> None:
        fields = self._request.body
        given = fields.get("system")
        texts = [given] if isinstance(given, str) else self._texts(given or [], "system")
        if texts:
            first = without_billing_line(texts[0])
            if first != texts[0]:
                self.ignored.append(DROPPED)
                texts = [first, *texts[1:]] if first else texts[1:]
        if texts:
            self.messages.append({"role": "system", "content": "\n".join(texts)})

    def _turns(self) -> None:
        fields = self._request.body
        given = fields.items("messages")
        if not given:
            raise fields.refuse("messages", "an array of at least one message")
        for number, value in enumerate(given):
            message = Fields(value, f"messages[{number}].")
            role = message.one_of("role", ("user", "assistant", "system"))
            if role is None:
                raise message.refuse("role", "user or assistant")
            content = message.get("content")
            if isinstance(content, str):
                self.messages.append({"role": role, "content": content})
                continue
            blocks = message.items("content")
            if blocks is None:
                raise message.refuse("content", "a string or an array of blocks")
            where = message.path("content")
            if role == "assistant":
                self._assistant(blocks, where)
            elif role == "system":
                self.messages.append({"role": role, "content": "\n".join(self._texts(blocks, where))})
            else:
                self._user(blocks, where)
        if self.messages[-1]["role"] == "assistant":
            raise ApiError(
                "expected the last message to be the user's, got the assistant's: a reply cannot be "
                "prefilled; leave it out",
                param="messages",
            )

    def _user(self, blocks: list[Any], where: str) -> None:
        texts: list[str] = []
        for number, value in enumerate(blocks):
            block = Fields(value, f"{where}[{number}].")
            if block.get("type") != "tool_result":
                texts += self._texts([value], where, number)
                continue
            self._say(texts)
            content = block.get("content")
            inner = (
                [content] if isinstance(content, str) else self._texts(content or [], block.path("content"))
            )
            self.messages.append(
                {
                    "role": "tool",
                    "tool_call_id": block.text("tool_use_id") or "",
                    "content": "\n".join(inner),
                }
            )
        self._say(texts)
        if not blocks:
            self.messages.append({"role": "user", "content": ""})

    def _say(self, texts: list[str]) -> None:
        if texts:
            self.messages.append({"role": "user", "content": "\n".join(texts)})
            texts.clear()

    def _assistant(self, blocks: list[Any], where: str) -> None:
        texts: list[str] = []
        thoughts: list[str] = []
        calls: list[dict[str, Any]] = []
        for number, value in enumerate(blocks):
            block = Fields(value, f"{where}[{number}].")
            kind = block.get("type")
            if kind == "thinking":
                thoughts.append(block.text("thinking") or "")
            elif kind == "tool_use":
                calls.append(self._call(block))
            elif kind != "redacted_thinking":
                texts += self._texts([value], where, number)
        message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
        if thoughts:
            message["reasoning_content"] = "".join(thoughts)
        if calls:
            message["tool_calls"] = calls
        self.messages.append(message)

    def _call(self, block: Fields) -> dict[str, Any]:
        name, call_id = block.text("name"), block.text("id") or ""
        if not name:
            raise block.refuse("name", "a tool's name")
        value = {} if block.get("input") is None else Fields(block.get("input"), block.path("input.")).value
        text = self._request.service.arguments.text(self._request.namespace, call_id, value)
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}

    def _texts(self, blocks: Any, where: str, first: int = 0) -> list[str]:
        if not isinstance(blocks, list):
            raise ApiError(f"expected {where} to be a string or an array of blocks", param=where)
        expected = '"text", since the model reads text only'
        return text_parts(blocks, where, first=first, expected=expected)

    def _tools(self) -> list[dict[str, Any]] | None:
        tools = []
        for number, value in enumerate(self._request.body.items("tools") or ()):
            tool = Fields(value, f"tools[{number}].")
            name = tool.text("name")
            if tool.text("type") not in {None, "custom"}:
                # One that Anthropic runs, or whose schema only its models know: the model is not told of it.
                self.ignored.append(f"tools[{number}] ({tool.text('type')})")
                continue
            schema = tool.object("input_schema")
            if not name or schema is None:
                raise tool.refuse("name" if not name else "input_schema", "there")
            function = {"name": name, "parameters": schema.value}
            if tool.text("description"):
                function["description"] = tool.get("description")
            tools.append({"type": "function", "function": function})
        return tools or None

    def _tool_choice(self) -> Any:
        choice = self._request.body.object("tool_choice")
        if choice is None:
            return "auto"
        kind = choice.one_of("type", ("auto", "any", "tool", "none"))
        if choice.flag("disable_parallel_tool_use"):
            self.parallel = False
        if kind == "tool":
            return {"type": "function", "function": {"name": choice.text("name")}}
        return {"any": "required", "none": "none"}.get(str(kind), "auto")

    def form(self, prompt: Prompt) -> Constraint | None:
        """What binds the output of the prompt.

        Raises:
            ApiError: a malformed format, or one that cannot be followed.
        """
        config = self._request.body.object("output_config")
        if config is None:
            return None
        if "effort" in config:
            self.ignored.append("output_config.effort")
        given = config.object("format")
        if given is None:
            return None
        if given.get("type") != "json_schema" or given.object("schema") is None:
            raise config.refuse("format", 'an object of the type "json_schema" with a schema')
        schema = {"name": "output", "schema": given.get("schema")}
        whole = {"type": "json_schema", "json_schema": schema}
        return read_response_format(whole, self._request.service, prompt)


def _asks(value: Any) -> bool:
    """Whether a field that is not followed asks for anything."""
    return bool(value) and value != {"type": "disabled"}


class MessageWriter(Writer):
    """Writes messages."""

    def __init__(self, call: Call, calls: ToolCalls) -> None:
        super().__init__(call, calls.service, [calls.parser()])
        self._id = new_id("msg_")
        self._open: int | None = None  # the block that is being sent

    def begin(self) -> list[bytes]:
        """See ``Writer``."""
        usage = Usage(self.begun.prompt_tokens, self.begun.cached_tokens, 0, 0, 0).anthropic()
        message = {**self._message([]), "stop_reason": None, "stop_sequence": None, "usage": usage}
        return [event({"type": "message_start", "message": message})]

    def changed(self, output: Output, changes: Iterable[Change], piece: Piece | None) -> list[bytes]:  # noqa: ARG002
        """See ``Writer``."""
        sent = []
        for change in changes:
            if change.new:
                sent += self._close(output)
                sent.append(
                    event(
                        {
                            "type": "content_block_start",
                            "index": change.index,
                            "content_block": _content(
                                Block(change.block.kind, "", change.block.id, change.block.name)
                            ),
                        }
                    )
                )
                self._open = change.index
            if change.text:
                sent.append(
                    event({"type": "content_block_delta", "index": change.index, "delta": _delta(change)})
                )
        return sent

    def ended(self, output: Output) -> list[bytes]:
        """See ``Writer``."""
        usage = Usage.of(self.replies, 1).anthropic()
        for block in output.calls:
            self.service.arguments.note(self.call.namespace, block.id, block.text)
        end = {"type": "message_delta", "delta": _stop(output), "usage": usage}
        return [*self._close(output), event({**end, "timings": timings(self.replies)})]

    def finish(self) -> list[bytes]:
        """See ``Writer``."""
        return [event({"type": "message_stop"})]

    def failed(self, error: ApiError) -> list[bytes]:
        """See ``Writer``."""
        return [event({**error.body("anthropic"), "type": "error"})]

    def ping(self) -> bytes:
        """See ``Writer``."""
        return event({"type": "ping"})

    def body(self) -> dict[str, Any]:
        """See ``Writer``."""
        (output,) = self.outputs
        message = self._message([_content(block) for block in output.blocks]) | _stop(output)
        message["usage"] = Usage.of(self.replies, 1).anthropic()
        return message | ({"timings": timings(self.replies)} if self.complete else {})

    def _message(self, content: list[Any]) -> dict[str, Any]:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self.service.model_name,
            "content": content,
        }

    def _close(self, output: Output) -> list[bytes]:
        if self._open is None:
            return []
        index, self._open = self._open, None
        sent = []
        if output.blocks[index].kind == "reasoning":
            delta = {"type": "signature_delta", "signature": ""}
            sent.append(event({"type": "content_block_delta", "index": index, "delta": delta}))
        return [*sent, event({"type": "content_block_stop", "index": index})]


def _content(block: Block) -> dict[str, Any]:
    if block.kind == "text":
        return {"type": "text", "text": block.text}
    if block.kind == "reasoning":
        return {"type": "thinking", "thinking": block.text, "signature": ""}
    return {"type": "tool_use", "id": block.id, "name": block.name, "input": _input(block.text)}


def _input(text: str) -> dict[str, Any]:
    """A call's arguments as the object that the API has for them; what is none is given as it is."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"arguments": text}


def _delta(change: Change) -> dict[str, Any]:
    if change.block.kind == "text":
        return {"type": "text_delta", "text": change.text}
    if change.block.kind == "reasoning":
        return {"type": "thinking_delta", "thinking": change.text}
    return {"type": "input_json_delta", "partial_json": change.text}


def _stop(output: Output) -> dict[str, Any]:
    ended = output.ended
    if ended is None or ended.reason == "length":
        return {"stop_reason": "max_tokens", "stop_sequence": None}
    if output.calls:
        return {"stop_reason": "tool_use", "stop_sequence": None}
    if ended.stop is not None:
        return {"stop_reason": "stop_sequence", "stop_sequence": ended.stop}
    return {"stop_reason": "end_turn", "stop_sequence": None}
