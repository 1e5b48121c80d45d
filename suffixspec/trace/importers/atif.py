"""ATIF, the agent trajectory interchange format: ``ATIF-v1.0`` to ``ATIF-v1.8``."""

from collections.abc import Iterator
from typing import Any

from suffixspec.trace.chat import arguments_text, content_text, parse_token_ids, parse_tools
from suffixspec.trace.fields import a_list, a_string, an_object, expected, optional_string, text_or_none
from suffixspec.trace.importers.base import Importer
from suffixspec.trace.session import Message, ToolCall, TraceSession

_PREFIX = "ATIF-v1."


class Atif(Importer):
    """One trajectory a record; embedded subagents are sessions of their own.

    Steps which were copied from an earlier trajectory and agent steps without a model call are context: the
    model was shown them and did not write them here. The ids of a completion are kept, as long as a step is
    one model call.
    """

    name = "atif"
    title = "ATIF"

    @classmethod
    def matches(cls, record: Any) -> bool:
        """The schema version says so."""
        version = record.get("schema_version") if isinstance(record, dict) else None
        return isinstance(version, str) and version.startswith("ATIF")

    def feed(self, record: Any, line: int) -> Iterator[TraceSession]:
        """Take one trajectory."""
        trajectory = an_object(record, "the trajectory")
        version = trajectory.get("schema_version")
        if not isinstance(version, str) or not version.startswith(_PREFIX):
            raise expected(f"{_PREFIX}0 or a later version 1", version, "schema_version")
        name = text_or_none(trajectory.get("session_id")) or text_or_none(trajectory.get("trajectory_id"))
        yield from self._sessions(trajectory, name or self.context.stem, line, "")

    def _sessions(
        self, trajectory: dict[str, Any], name: str, line: int, where: str
    ) -> Iterator[TraceSession]:
        agent = trajectory.get("agent")
        agent = agent if isinstance(agent, dict) else {}
        model = text_or_none(agent.get("model_name"))
        messages: list[Message] = []
        for index, value in enumerate(a_list(trajectory.get("steps"), f"{where}steps")):
            step = an_object(value, f"{where}steps[{index}]")
            messages += _step(step, f"{where}steps[{index}]")
            model = model or text_or_none(step.get("model_name"))
        tools = parse_tools(agent.get("tool_definitions"), f"{where}agent.tool_definitions")
        yield self.session(name, messages, line, model=model, tools=tools)
        subagents = trajectory.get("subagent_trajectories")
        for index, value in enumerate(a_list(subagents or [], f"{where}subagent_trajectories")):
            here = f"{where}subagent_trajectories[{index}]"
            subagent = an_object(value, here)
            own = text_or_none(subagent.get("trajectory_id")) or f"subagent{index + 1}"
            yield from self._sessions(subagent, f"{name}/{own}", line, f"{here}.")


def _step(step: dict[str, Any], where: str) -> Iterator[Message]:
    source = step.get("source")
    text = content_text(step.get("message"), f"{where}.message")
    if source in ("user", "system"):
        yield Message(source, text)
        yield from _results(step, {}, where)
        return
    if source != "agent":
        raise expected("one of system, user, agent", source, f"{where}.source")
    calls = []
    for index, value in enumerate(a_list(step.get("tool_calls") or [], f"{where}.tool_calls")):
        here = f"{where}.tool_calls[{index}]"
        call = an_object(value, here)
        calls.append(
            ToolCall(
                a_string(call.get("function_name"), f"{here}.function_name"),
                arguments_text(call.get("arguments"), f"{here}.arguments"),
                optional_string(call, "tool_call_id", f"{here}."),
            )
        )
    metrics = step.get("metrics")
    metrics = metrics if isinstance(metrics, dict) else {}
    count = step.get("llm_call_count")
    one_call = not isinstance(count, int) or count == 1
    ids = parse_token_ids(metrics.get("completion_token_ids"), f"{where}.metrics.completion_token_ids")
    message = Message(
        "assistant",
        text,
        reasoning=optional_string(step, "reasoning_content", f"{where}."),
        tool_calls=tuple(calls),
        # Ids of several calls cannot be told apart.
        token_ids=ids if one_call else None,
        model_output=not step.get("is_copied_context") and count != 0,
    )
    if message.content or message.reasoning or calls:
        yield message
    yield from _results(step, {call.id: call.name for call in calls}, where)


def _results(step: dict[str, Any], names: dict[str | None, str], where: str) -> Iterator[Message]:
    observation = step.get("observation")
    if observation is None:
        return
    where = f"{where}.observation"
    results = a_list(an_object(observation, where).get("results"), f"{where}.results")
    for index, value in enumerate(results):
        here = f"{where}.results[{index}]"
        result = an_object(value, here)
        text = content_text(result.get("content"), f"{here}.content")
        call_id = optional_string(result, "source_call_id", f"{here}.")
        if call_id is not None:
            yield Message("tool", text, tool_call_id=call_id, name=names.get(call_id))
        elif text:  # of no tool call: agents whose actions are text are shown it as a user's message
            yield Message("user", text)
