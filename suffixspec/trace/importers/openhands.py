"""OpenHands: ``output.jsonl``, event lists (trajectory exports) of versions 0 and 1, and DevAI step lists."""

import json
from collections.abc import Iterator
from typing import Any

from suffixspec.trace.chat import arguments_text, content_text, parse_message, parse_tools
from suffixspec.trace.fields import a_list, a_string, an_object, text_or_none
from suffixspec.trace.importers.base import Importer, items, numbered
from suffixspec.trace.importers.transcript import Transcript
from suffixspec.trace.session import Message, ToolCall, TraceSession

# How the agent wrote actions before it had function calls: key of the action's text, and the tag around it.
_TAGGED = {
    "run": ("command", "execute_bash"),
    "run_ipython": ("code", "execute_ipython"),
    "browse_interactive": ("browser_actions", "execute_browse"),
}
_DEVAI_TAGS = {
    "Running command: ": "execute_bash",
    "Running Python code interactively: ": "execute_ipython",
}
_SILENT_ACTIONS = ("null", "recall", "change_agent_state", "pause", "resume", "stop", "condensation_request")
_SILENT_OBSERVATIONS = ("null", "recall", "agent_state_changed", "condense")
# What an action's record holds besides the action's own arguments.
_BOOKKEEPING = (
    "action", "action_risk", "agent", "cause", "id", "image_urls", "images_urls", "impl_source",
    "is_confirmed", "confirmation_state", "keep_prompt", "kernel_init_code", "llm_metrics",
    "message", "security_risk", "source", "thought", "timeout", "timestamp", "tool_call_metadata",
    "translated_ipython_code", "wait_for_response",
)  # fmt: skip


class OpenHands(Importer):
    """One record is one run.

    Where the log has the model's own response, that is taken verbatim. Older logs have only the parsed
    action: the thought and the action's text are put together in the tags which that agent's prompt asked
    for; actions without a tag become tool calls. A condensed history begins a new part ``ID#2``.
    """

    name = "openhands"
    title = "OpenHands output or events"

    @classmethod
    def matches(cls, record: Any) -> bool:
        """Events with actions, observations or kinds; or a run with such a history; or DevAI steps."""
        if isinstance(record, dict):
            events = record.get("history")
            if isinstance(events, list):
                return _are_events(events) or (
                    not events and ("git_patch" in record or "test_result" in record)
                )
            return _are_events(record.get("trajectory")) and "source" in next(items(record["trajectory"]), {})
        return _are_steps(record) or (_are_events(record) and _has_source(record))

    def feed(self, record: Any, line: int) -> Iterator[TraceSession]:
        """Take one run."""
        name, instruction, model = self.context.stem, None, None
        if isinstance(record, dict):
            name = _name(record) or self.default_id(line)
            instruction = text_or_none(record.get("instruction"))
            metadata = record.get("metadata")
            config = metadata.get("llm_config") if isinstance(metadata, dict) else None
            model = text_or_none(config.get("model")) if isinstance(config, dict) else None
            where = "history" if "history" in record else "trajectory"
            events = a_list(record.get(where), where)
        else:
            where, events = "event", a_list(record, "the document")
        run = _Run(instruction)
        if _are_steps(events):
            for index, step in enumerate(events):
                run.add_step(an_object(step, f"step[{index}]"), f"step[{index}]")
        else:
            for index, event in enumerate(events):
                pair = event if isinstance(event, list) else [event]  # [action, observation]
                for part in pair:
                    run.add(an_object(part, f"{where}[{index}]"), f"{where}[{index}]")
        for number, messages in enumerate(run.transcript.parts(), start=1):
            yield self.session(
                numbered(name, number), messages, line, model=run.model or model, tools=run.tools
            )


def _are_events(value: Any) -> bool:
    if isinstance(value, list) and value and isinstance(value[0], list):
        value = value[0]
    first = next(items(value), None)
    return (
        first is not None and "role" not in first and bool({"action", "observation", "kind"} & first.keys())
    )


def _has_source(value: Any) -> bool:
    return any("source" in event for event in items(value))


def _are_steps(value: Any) -> bool:
    first = next(items(value), {})
    return isinstance(first.get("agent"), dict) and "step" in first and "environment" in first


def _name(record: dict[str, Any]) -> str | None:
    name = text_or_none(record.get("instance_id"))
    issue = record.get("issue")
    if name is None and isinstance(issue, dict) and issue.get("number") is not None:
        name = f"{issue.get('owner')}/{issue.get('repo')}/issue{issue['number']}"
    return name


class _Run:
    """The events of one run, as they become messages."""

    def __init__(self, instruction: str | None) -> None:
        self.transcript = Transcript()
        self.model: str | None = None
        self.tools: tuple[dict[str, Any], ...] | None = None
        self._instruction = instruction
        self._responses: set[str] = set()
        self._response_index: dict[str, int] = {}
        self._event_ids: list[int | str | None] = []
        """By message: the id of the event that it comes from."""
        self._agent_spoke_last = False

    def add(self, event: dict[str, Any], where: str) -> None:
        """Add an event of version 0 (``action`` or ``observation``) or 1 (``kind``)."""
        before = len(self.transcript)
        if isinstance(event.get("action"), str):
            self._action(event, where)
        elif "observation" in event and not isinstance(event["observation"], dict):
            self._observation(event, where)
        elif "kind" in event:
            self._kind(event, where)
        self._event_ids += [_id(event.get("id"))] * (len(self.transcript) - before)

    def add_step(self, step: dict[str, Any], where: str) -> None:
        """Add a DevAI step: user message, thought and action, environment."""
        if step.get("user_message"):
            text = a_string(step["user_message"], f"{where}.user_message")
            self.transcript.append(Message("user", text))
        agent = an_object(step.get("agent"), f"{where}.agent")
        thought = content_text(agent.get("thought"), f"{where}.agent.thought")
        action = content_text(agent.get("action"), f"{where}.agent.action")
        for prefix, tag in _DEVAI_TAGS.items():
            if action.startswith(prefix):
                action = _in_tag(action.removeprefix(prefix), tag)
                break
        text = thought if action and action in thought else "\n".join(filter(None, (thought, action)))
        if text:
            self.transcript.append(Message("assistant", text))
        if step.get("environment"):
            text = a_string(step["environment"], f"{where}.environment")
            self.transcript.append(Message("user", text))
        usage = step.get("step_usage")
        if self.model is None and isinstance(usage, dict):
            self.model = text_or_none(usage.get("model"))

    def _action(self, event: dict[str, Any], where: str) -> None:
        action = event["action"]
        arguments = event.get("args")
        arguments = arguments if isinstance(arguments, dict) else event
        if action in _SILENT_ACTIONS:
            return
        if action == "system":
            self.transcript.append(
                Message("system", content_text(arguments.get("content"), f"{where}.content"))
            )
            if isinstance(arguments.get("tools"), list):
                self.tools = parse_tools(arguments["tools"], f"{where}.tools")
        elif action == "condensation":
            self._condense(arguments)
        elif self._is_users(event, arguments):
            if action == "message":
                self.transcript.append(
                    Message("user", content_text(arguments.get("content"), f"{where}.content"))
                )
            elif action == "run":
                self.transcript.append(
                    Message("user", f"User executed the command:\n{arguments.get('command')}")
                )
        elif not self._response(event, where):
            self.transcript.append(_from_action(action, arguments, where))
            self._agent_spoke_last = action == "message"

    def _is_users(self, event: dict[str, Any], arguments: dict[str, Any]) -> bool:
        source = event.get("source")
        if source is not None or event["action"] != "message":
            return source in ("user", "environment")
        # The oldest logs have no source: the instruction comes first, and a message after the agent's own
        # message, with no observation between the two, answers it.
        first = not any(message.role == "user" for message in self.transcript.messages)
        answers = self._agent_spoke_last
        self._agent_spoke_last = False
        return first or answers or arguments.get("content") == self._instruction

    def _response(self, event: dict[str, Any], where: str) -> bool:
        """Add the model's own response unless an earlier event did; return whether the event has it."""
        metadata = event.get("tool_call_metadata")
        response = metadata.get("model_response") if isinstance(metadata, dict) else None
        choice = next(items(response.get("choices")), {}) if isinstance(response, dict) else {}
        message = choice.get("message")
        if not isinstance(response, dict) or not isinstance(message, dict):
            return False
        self.model = self.model or text_or_none(response.get("model"))
        name = text_or_none(response.get("id"))
        if name is None or name not in self._responses:
            if name is not None:
                self._responses.add(name)
            where = f"{where}.tool_call_metadata.model_response.choices[0].message"
            for part in parse_message({"role": "assistant"} | message, where):
                self.transcript.append(part)
        return True

    def _observation(self, event: dict[str, Any], where: str) -> None:
        kind = event.get("observation")
        if kind in _SILENT_OBSERVATIONS:
            return
        extras = event.get("extras")
        shown = extras.get("formatted_output_and_error") if isinstance(extras, dict) else None
        # For an edit, the content is a diff for the user; the model was shown the editor's own words.
        text = text_or_none(shown) or content_text(event.get("content"), f"{where}.content")
        metadata = event.get("tool_call_metadata")
        self._agent_spoke_last = False
        if isinstance(metadata, dict) and text_or_none(metadata.get("tool_call_id")):
            name = text_or_none(metadata.get("function_name"))
            self.transcript.append(Message("tool", text, tool_call_id=metadata["tool_call_id"], name=name))
        elif text:
            self.transcript.append(Message("user", text))

    def _condense(self, arguments: dict[str, Any]) -> None:
        forgotten = arguments.get("forgotten_event_ids")
        gone = set(map(_id, forgotten)) - {None} if isinstance(forgotten, list) else set()
        start, end = arguments.get("forgotten_events_start_id"), arguments.get("forgotten_events_end_id")
        if isinstance(start, int) and isinstance(end, int):
            gone |= set(range(start, min(end, start + 1_000_000) + 1))
        pairs = list(zip(self._event_ids, self.transcript.messages, strict=True))
        pairs = [(event, message) for event, message in pairs if event not in gone]
        summary = text_or_none(arguments.get("summary"))
        if summary is not None:
            offset = arguments.get("summary_offset")
            offset = offset if isinstance(offset, int) else len(pairs)
            pairs.insert(offset, (None, Message("user", summary)))
        self.transcript.restart(message for _, message in pairs)
        self._event_ids = [event for event, _ in pairs]
        self._response_index.clear()

    def _kind(self, event: dict[str, Any], where: str) -> None:
        """Add an event of version 1."""
        kind = event["kind"]
        call_id, name = text_or_none(event.get("tool_call_id")), text_or_none(event.get("tool_name"))
        if kind == "SystemPromptEvent":
            prompt = event.get("system_prompt")
            parts = [prompt] if isinstance(prompt, dict) else prompt
            self.transcript.append(Message("system", content_text(parts, f"{where}.system_prompt")))
            if isinstance(event.get("tools"), list):
                self.tools = tuple(items(event["tools"]))
        elif kind == "MessageEvent":
            message = an_object(event.get("llm_message"), f"{where}.llm_message")
            for part in parse_message(message, f"{where}.llm_message"):
                self.transcript.append(part)
        elif kind == "ActionEvent":
            self._action_event(event, where)
        elif kind in ("ObservationEvent", "UserRejectObservation", "AgentErrorEvent"):
            observation = event.get("observation")
            if isinstance(observation, dict):
                observation = observation.get("content") or observation.get("output")
            for key in ("rejection_reason", "error"):
                observation = observation or event.get(key)
            text = content_text(observation, f"{where}.observation")
            self.transcript.append(Message("tool", text, tool_call_id=call_id, name=name))
        elif kind == "Condensation":
            self._condense(event)

    def _action_event(self, event: dict[str, Any], where: str) -> None:
        call = an_object(event.get("tool_call"), f"{where}.tool_call")
        inner = call.get("function")
        inner = inner if isinstance(inner, dict) else call
        arguments = arguments_text(inner.get("arguments"), f"{where}.tool_call.arguments")
        name = a_string(inner.get("name"), f"{where}.tool_call.name")
        made = ToolCall(name, arguments, text_or_none(call.get("id")))
        response = text_or_none(event.get("llm_response_id"))
        messages = self.transcript.messages
        index = self._response_index.get(response) if response is not None else None
        if index is not None:  # one response with several calls is one event a call
            part = messages[index]
            messages[index] = Message(
                "assistant", part.content, reasoning=part.reasoning, tool_calls=(*part.tool_calls, made)
            )
            return
        text = content_text(event.get("thought"), f"{where}.thought")
        reasoning = text_or_none(event.get("reasoning_content"))
        index = self.transcript.append(Message("assistant", text, reasoning=reasoning, tool_calls=(made,)))
        if response is not None:
            self._response_index[response] = index


def _id(value: Any) -> int | str | None:
    return value if isinstance(value, (int, str)) else None


def _in_tag(text: str, tag: str) -> str:
    return f"<{tag}>\n{text}\n</{tag}>"


def _from_action(action: str, arguments: dict[str, Any], where: str) -> Message:
    thought = content_text(arguments.get("thought"), f"{where}.thought")
    if action == "message":
        return Message("assistant", content_text(arguments.get("content"), f"{where}.content"))
    if action in ("finish", "reject"):
        return Message(
            "assistant", thought or content_text(arguments.get("final_thought"), f"{where}.final_thought")
        )
    if action in _TAGGED:
        key, tag = _TAGGED[action]
        text = _in_tag(content_text(arguments.get(key), f"{where}.{key}"), tag)
        return Message("assistant", f"{thought}\n{text}" if thought else text)
    own = {key: value for key, value in arguments.items() if key not in _BOOKKEEPING}
    return Message("assistant", thought, tool_calls=(ToolCall(action, json.dumps(own, ensure_ascii=False)),))
