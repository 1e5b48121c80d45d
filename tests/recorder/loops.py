"""Random agent loops, and the calls that they would make, one API each."""

import json
import random
from dataclasses import dataclass, field, replace
from typing import Any

from suffixspec.recorder import new_call
from suffixspec.trace import Message, ToolCall

APIS = ("chat", "completions", "responses", "messages")
WORDS = ("ls", "cat a.py", "fix\nit", "ünï ⟂", "", " two  spaces ", '{"a": 1}', "</tool>")


@dataclass
class Loop:
    """One loop: its messages, and the calls that recorded it, in order."""

    api: str
    messages: list[Message] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)


def loop(rng: random.Random, api: str) -> Loop:
    """A loop of some turns: answered, failed, cut off and asked again, or cut off and gone on with."""
    made = Loop(api)
    hint = rng.choice([None, None, "one", "two"])
    made.messages.append(Message("system", f"task {rng.randrange(2)}"))
    made.messages.append(Message("user", rng.choice(WORDS[:3])))
    if api == "completions":
        made.messages = [Message("user", f"<task {rng.randrange(3)}>\n")]
    last = rng.randint(0, 4)
    for turn in range(last + 1):
        output = _output(rng, api, turn)
        for _ in range(rng.choice([0, 0, 0, 1, 2])):  # attempts that came to nothing
            if rng.random() < 0.5:
                made.calls.append(_call(made, None, hint, status=rng.choice([429, 500, 502])))
            else:
                cut = Message("assistant", output.content[: rng.randint(0, len(output.content))])
                made.calls.append(_call(made, cut, hint, complete=False))
        # A cut at a loop's end is told from an equal loop's failed attempt by nothing.
        complete = turn == last or rng.random() < 0.9
        if not complete:  # and gone on with, as no other loop does
            output = replace(output, content=f"{output.content} {rng.random()}")
        made.calls.append(_call(made, output, hint, complete=complete))
        made.messages.append(output)
        if output.tool_calls:
            made.messages += [
                Message("tool", rng.choice(WORDS), tool_call_id=call.id) for call in output.tool_calls
            ]
        else:
            made.messages.append(Message("user", rng.choice(WORDS[:4])))
    while not made.messages[-1].is_output:  # the last call ends the loop
        made.messages.pop()
    return made


def interleaved(rng: random.Random, loops: list[Loop]) -> list[dict[str, Any]]:
    """All calls, those of one loop in their order."""
    waiting = [list(loop.calls) for loop in loops]
    calls = []
    while any(waiting):
        calls.append(rng.choice([queue for queue in waiting if queue]).pop(0))
    return calls


def facts(messages: Any) -> tuple[Any, ...]:
    """What has to come back of a session."""
    return tuple(
        (m.role, m.content, tuple((c.name, c.arguments) for c in m.tool_calls), m.is_output) for m in messages
    )


def _output(rng: random.Random, api: str, turn: int) -> Message:
    if api == "completions":
        return Message("assistant", f"answer {rng.choice(WORDS[:4])}\n")
    calls = tuple(
        ToolCall("bash", rng.choice(['{"command":"ls"}', '{ "b": 2,\n "a": "é" }', "{}"]), f"c{turn}{i}")
        for i in range(rng.choice([0, 1, 1, 2]))
    )
    return Message("assistant", rng.choice(WORDS[:3]), tool_calls=calls)


def _call(made: Loop, output: Message | None, hint: str | None, **more: Any) -> dict[str, Any]:
    request, response = _BODIES[made.api](made.messages, output)
    headers = {"X-Session-ID": hint} if hint else {}
    return new_call(made.api, {"model": "m"} | request, response, headers=headers, **more)


def _chat(messages: list[Message], output: Message | None) -> tuple[dict, dict | None]:
    def record(m: Message) -> dict:
        fields: dict[str, Any] = {"role": m.role, "content": m.content or None if m.tool_calls else m.content}
        if m.tool_calls:
            fields["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in m.tool_calls
            ]
        return fields | ({"tool_call_id": m.tool_call_id} if m.tool_call_id else {})

    response = None if output is None else {"choices": [{"index": 0, "message": record(output)}]}
    return {"messages": [record(m) for m in messages]}, response


def _completions(messages: list[Message], output: Message | None) -> tuple[dict, dict | None]:
    response = None if output is None else {"choices": [{"index": 0, "text": output.content}]}
    return {"prompt": "".join(m.content for m in messages)}, response


def _responses(messages: list[Message], output: Message | None) -> tuple[dict, dict | None]:
    def items(m: Message) -> list[dict]:
        if m.role == "tool":
            return [{"type": "function_call_output", "call_id": m.tool_call_id, "output": m.content}]
        kind = "output_text" if m.role == "assistant" else "input_text"
        found: list[dict] = []
        if m.content or not m.tool_calls:
            found.append({"type": "message", "role": m.role, "content": [{"type": kind, "text": m.content}]})
        return found + [
            {"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.arguments}
            for c in m.tool_calls
        ]

    request = {"instructions": messages[0].content, "input": [i for m in messages[1:] for i in items(m)]}
    return request, None if output is None else {"id": None, "output": items(output)}


def _messages(messages: list[Message], output: Message | None) -> tuple[dict, dict | None]:
    def blocks(m: Message) -> list[dict]:
        if m.role == "tool":
            return [{"type": "tool_result", "tool_use_id": m.tool_call_id, "content": m.content}]
        found: list[dict] = [{"type": "text", "text": m.content}] if m.content or not m.tool_calls else []
        for c in m.tool_calls:
            block = {"type": "tool_use", "id": c.id, "name": c.name, "input": json.loads(c.arguments)}
            found.append(block | ({"input_json": c.arguments} if m is output else {}))
        return found

    turns = [{"role": "user" if m.role == "tool" else m.role, "content": blocks(m)} for m in messages[1:]]
    system = f"x-anthropic-billing-header: {random.random()}\n{messages[0].content}"
    response = None if output is None else {"role": "assistant", "content": blocks(output)}
    return {"system": system, "messages": turns}, response


_BODIES = {"chat": _chat, "completions": _completions, "responses": _responses, "messages": _messages}
