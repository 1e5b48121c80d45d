"""tau2-bench results: simulations of an agent and a user, who both may call tools."""

from collections.abc import Iterator
from typing import Any

from suffixspec.trace.chat import arguments_text, content_text, parse_tools
from suffixspec.trace.fields import a_list, a_string, an_object, expected, optional_string, text_or_none
from suffixspec.trace.importers.base import Importer, items
from suffixspec.trace.session import Message, ToolCall, TraceSession


class Tau2Bench(Importer):
    """A results file, or one simulation. What only the simulated user sees is left out."""

    name = "tau2-bench"
    title = "tau2-bench results"

    @classmethod
    def matches(cls, record: Any) -> bool:
        """Results hold ``simulations``; a simulation has messages and the reason why it ended."""
        if not isinstance(record, dict):
            return False
        return isinstance(record.get("simulations"), list) or (
            "messages" in record and "task_id" in record and "termination_reason" in record
        )

    def feed(self, record: Any, line: int) -> Iterator[TraceSession]:
        """Take a results file or one simulation."""
        info = record.get("info") if "simulations" in record else None
        info = info if isinstance(info, dict) else {}
        agent = info.get("agent_info")
        environment = info.get("environment_info")
        agent = agent if isinstance(agent, dict) else {}
        environment = environment if isinstance(environment, dict) else {}
        policy = text_or_none(environment.get("policy"))
        definitions = environment.get("tool_defs")
        for index, value in enumerate(record.get("simulations", [record])):
            where = f"simulations[{index}]." if "simulations" in record else ""
            simulation = an_object(value, where.rstrip(".") or "the simulation")
            messages = _messages(simulation.get("messages"), f"{where}messages")
            if policy is not None and not any(message.role == "system" for message in messages):
                messages.insert(0, Message("system", policy))
            name = f"{self.context.stem}/task{simulation.get('task_id')}"
            if simulation.get("trial") is not None:
                name += f"/trial{simulation['trial']}"
            yield self.session(
                name,
                messages,
                line,
                model=text_or_none(agent.get("llm")),
                tools=parse_tools(definitions) if isinstance(definitions, list) else None,
            )


def _messages(value: Any, where: str) -> list[Message]:
    messages: list[Message] = []
    for index, item in enumerate(a_list(value, where)):
        here = f"{where}[{index}]"
        entry = an_object(item, here)
        role = entry.get("role")
        if role == "assistant":
            messages.append(_assistant(entry, here, first=index == 0))
        elif role == "tool":
            if entry.get("requestor") != "user":
                text = content_text(entry.get("content"), f"{here}.content")
                messages.append(Message("tool", text, tool_call_id=optional_string(entry, "id", f"{here}.")))
        elif role == "user":
            if not entry.get("tool_calls"):  # the simulated user's own tool calls go to its environment
                messages.append(Message("user", content_text(entry.get("content"), f"{here}.content")))
        elif role == "system":
            messages.append(Message("system", content_text(entry.get("content"), f"{here}.content")))
        else:
            raise expected("one of system, user, assistant, tool", role, f"{here}.role")
    return messages


def _assistant(entry: dict[str, Any], where: str, *, first: bool) -> Message:
    raw = _raw_arguments(entry)
    calls = []
    for index, item in enumerate(a_list(entry.get("tool_calls") or [], f"{where}.tool_calls")):
        here = f"{where}.tool_calls[{index}]"
        call = an_object(item, here)
        name = a_string(call.get("name"), f"{here}.name")
        call_id = optional_string(call, "id", f"{here}.")
        text = raw.get((index, name))
        arguments = arguments_text(call.get("arguments"), f"{here}.arguments") if text is None else text
        calls.append(ToolCall(name, arguments, call_id))
    # The simulation opens with a fixed greeting; a reply that a model wrote has its usage or its raw form.
    greeting = first and not calls and not entry.get("raw_data") and not entry.get("usage")
    text = content_text(entry.get("content"), f"{where}.content")
    return Message("assistant", text, tool_calls=tuple(calls), model_output=not greeting)


def _raw_arguments(entry: dict[str, Any]) -> dict[tuple[int, str], str]:
    """Return the argument strings that the model wrote, by (position, name), where the reply is kept."""
    raw = entry.get("raw_data")
    message = raw.get("message") if isinstance(raw, dict) else None
    if message is None and isinstance(raw, dict):
        message = next(items(raw.get("choices")), {}).get("message")
    found = {}
    for index, call in enumerate(items(message.get("tool_calls")) if isinstance(message, dict) else ()):
        function = call.get("function")
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            found[index, text_or_none(function.get("name")) or ""] = function["arguments"]
    return found
