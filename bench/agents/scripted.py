"""The server of ``suffixspec serve`` over a tiny model whose words are given: what agents are run against.

The server, the chat template, the KV, the drafts and their verification are real, on a random model of two layers
with SmolLM2's tokenizer. Only the logits are replaced, so that the model does its task, as one would that is too
large for a test. Times say nothing here; counts of tokens do.
"""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from suffixspec.engine import Engine
from suffixspec.engine.stream import Stream
from suffixspec.engine.turn import Turn
from suffixspec.integrations.local import run_in_thread
from suffixspec.recorder.writer import Recorder
from suffixspec.server.http_server import HttpServer
from suffixspec.server.service import Service
from suffixspec.server.settings import Settings
from suffixspec.target.model import Target
from suffixspec.text import Tokenizer, load_tokenizer

CONTEXT = 131_072
END = "<|im_end|>"
TEMPLATE = r"""
{%- if tools -%}<|im_start|>system
You may call functions. Their schemas:
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}Call one by <tool_call>{"name": …, "arguments": …}</tool_call>.<|im_end|>
{% endif -%}
{%- for message in messages -%}
<|im_start|>{{ message['role'] }}
{{ message['content'] }}
{%- for call in message['tool_calls'] %}
{{- '\n<tool_call>\n{"name": "' + call['function']['name'] + '", "arguments": ' }}
{{- call['function']['arguments'] + '}\n</tool_call>' }}
{%- endfor -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""

Script = Callable[[list[dict[str, Any]], list[dict[str, Any]] | None], tuple[int | None, str]]
"""The number of the loop's turn (None: beside the loop) and the words, given messages and tools."""


@dataclass
class Asked:
    """One model call."""

    api: str
    streamed: bool
    hints: list[str]
    turn: int | None
    _turn: Turn

    def facts(self) -> dict[str, Any]:
        """What came of it."""
        turn = self._turn
        return {
            "api": self.api,
            "streamed": self.streamed,
            "turn": self.turn,
            "prompt_tokens": len(turn.prompt_ids),
            "cached_tokens": turn.cached_tokens,
            "output_tokens": len(turn.generation.token_ids),
            "drafted": turn.counts.drafted,
            "accepted": turn.counts.accepted,
        }


@dataclass
class Seen:
    """What a client has sent."""

    requests: list[dict[str, Any]] = field(default_factory=list)
    """Method, path, status and the client's name of all requests, in the order of their answers."""
    calls: list[Asked] = field(default_factory=list)
    headers: dict[str, set[str]] = field(default_factory=dict)
    """All headers of model calls: name to values."""
    fields: set[str] = field(default_factory=set)
    """Names of hints at the session in bodies."""
    ignored: set[str] = field(default_factory=set)
    """What the server said that it does not follow."""
    errors: list[str] = field(default_factory=list)
    """What it refused, in its words."""


class ScriptedService(Service):
    """A service whose model says what a script gives."""

    script: Script
    seen: Seen

    def _open_stream(self, session: Any, call: Any, prompt: Any, index: int) -> Stream:
        stream = super()._open_stream(session, call, prompt, index)
        turn, text = self.script(prompt.messages or [], prompt.tools)
        self.seen.calls.append(Asked(call.api, call.stream, list(call.hints), turn, stream.turn))
        wanted = self.tokenizer.encode(text + END)
        stream.turn.forward = _saying(stream.turn, wanted)  # type: ignore[method-assign,assignment]
        return stream


def _saying(turn: Turn, wanted: list[int]) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """The turn's forward, with logits that say ``wanted`` wherever a path of the draft is a part of it."""
    forward = turn.forward

    def scripted(token_ids: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
        logits = forward(token_ids, parents)
        done = len(turn.generation.token_ids)
        right = [0] * len(parents)  # so many tokens of a node's path are right; -1: one is wrong
        for i, parent in enumerate(parents.tolist()):
            if i:
                at = right[parent]
                follows = at >= 0 and done + at < len(wanted) and int(token_ids[i]) == wanted[done + at]
                right[i] = at + 1 if follows else -1
            if 0 <= right[i] < len(wanted) - done:
                logits[i] = -50.0
                logits[i, wanted[done + right[i]]] = 50.0
        return logits

    return scripted


class _Noting:
    """Notes what passes to an application."""

    def __init__(self, app: Any, service: ScriptedService) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        seen = self._service.seen
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        note = {"method": scope["method"], "path": scope["path"], "client": headers.get("user-agent", "")}
        body, answer = b"", b""

        async def take() -> Any:
            nonlocal body
            message = await receive()
            body += message.get("body", b"")
            return message

        async def give(message: Any) -> None:
            nonlocal answer
            if message["type"] == "http.response.start":
                note["status"] = message["status"]
                given = {name.decode().lower(): value.decode("latin-1") for name, value in message["headers"]}
                seen.ignored.update(filter(None, given.get("x-suffixspec-ignored", "").split(", ")))
            elif note.get("status", 200) >= 400:
                answer += message.get("body", b"")
            await send(message)

        await self._app(scope, take, give)
        seen.requests.append(note)
        if note.get("status", 200) >= 400:
            seen.errors.append(f"{note['method']} {note['path']}: {note['status']} {answer.decode()[:300]}")
        if scope["method"] == "POST":
            for name, value in headers.items():
                seen.headers.setdefault(name, set()).add(value)
            with contextlib.suppress(ValueError):
                value = json.loads(body)
                names = [name for name in ("session_id", "prompt_cache_key", "user") if value.get(name)]
                inner = value.get("metadata")
                names += [f"metadata.{name}" for name in inner] if isinstance(inner, dict) else []
                seen.fields.update(names)


class ScriptedServer:
    """A server on a free port of loopback, for one client after the other."""

    def __init__(self) -> None:
        base = load_tokenizer()
        special = {"eos_token": END}
        tokenizer = Tokenizer(base._backend, name="scripted", template=TEMPLATE, special=special)
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=tokenizer.vocab_size, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=CONTEXT, bos_token_id=None,
            eos_token_id=tokenizer.special_tokens[END], tie_word_embeddings=True,
        )  # fmt: skip
        self._target = Target(LlamaForCausalLM(config).eval(), name="scripted")
        self._tokenizer = tokenizer

    @contextlib.contextmanager
    def serving(self, script: Script, record: Path) -> Iterator[tuple[str, Seen]]:
        """Serve one client with fresh sessions and no history; yields the URL, and what is seen."""
        engine = Engine(self._target, self._tokenizer, kv_bytes=1 << 30)
        with Recorder(record) as recorder, socket.create_server(("127.0.0.1", 0)) as listener:
            service = ScriptedService(
                engine, Settings(sampling={"temperature": 0.0}, shutdown_seconds=1.0), recorder=recorder
            )
            service.script, service.seen = script, Seen()
            server = HttpServer(service)
            server.config.app = _Noting(server.config.app, service)
            thread: threading.Thread = run_in_thread(server, listener)
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}", service.seen
            finally:
                server.should_exit = True
                thread.join(60)
