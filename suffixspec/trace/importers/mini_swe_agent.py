"""mini-swe-agent trajectories (``.traj.json``): version 1, version 2, and the bare list of messages."""

from collections.abc import Iterable, Iterator
from typing import Any

from suffixspec.trace.chat import parse_message
from suffixspec.trace.fields import a_list, an_object, text_or_none
from suffixspec.trace.importers.base import Importer, items
from suffixspec.trace.importers.response_items import ResponseItems
from suffixspec.trace.importers.transcript import Transcript
from suffixspec.trace.session import Message, TraceSession

_ITEM_TYPES = ("function_call_output", "function_call", "reasoning", "message")


class MiniSweAgent(Importer):
    """One document is one run."""

    name = "mini-swe-agent"
    title = "mini-swe-agent .traj.json"

    @classmethod
    def matches(cls, record: Any) -> bool:
        """The trajectory's format tag, its info, or a list whose first message has a role."""
        if isinstance(record, dict):
            tag = record.get("trajectory_format")
            if isinstance(tag, str) and tag.startswith("mini-swe-agent"):
                return True
            info = record.get("info")
            return (
                "messages" in record
                and isinstance(info, dict)
                and ("mini_version" in info or "config" in info)
            )
        first = next(items(record), None)
        return first is not None and isinstance(first.get("role"), str) and "messages" not in first

    def feed(self, record: Any, line: int) -> Iterator[TraceSession]:
        """Take one document."""
        if isinstance(record, list):
            yield self.session(self.context.stem, _messages(record, "message"), line)
            return
        info = record.get("info")
        config = info.get("config") if isinstance(info, dict) else None
        model = config.get("model") if isinstance(config, dict) else None
        yield self.session(
            text_or_none(record.get("instance_id")) or self.context.stem,
            _messages(record.get("messages"), "messages"),
            line,
            model=text_or_none(model.get("model_name")) if isinstance(model, dict) else None,
        )


def _messages(value: Any, where: str) -> Iterable[Message]:
    transcript = Transcript()
    responses = ResponseItems(transcript)
    for index, item in enumerate(a_list(value, where)):
        here = f"{where}[{index}]"
        entry = an_object(item, here)
        if entry.get("role") == "exit":  # how the run ended; the model never saw it
            continue
        if entry.get("object") == "response":  # the Responses API: a whole response, its outputs as items
            for number, output in enumerate(a_list(entry.get("output"), f"{here}.output")):
                responses.add(an_object(output, f"{here}.output[{number}]"), f"{here}.output[{number}]")
            responses.close()
            continue
        if entry.get("type") in _ITEM_TYPES:
            responses.add(entry, here)
            responses.close()
            continue
        for message in parse_message(_with_reasoning(entry), here):
            transcript.append(message)
    return transcript.messages


def _with_reasoning(entry: dict[str, Any]) -> dict[str, Any]:
    """Add the reasoning that version 1 keeps only in the recorded response."""
    if entry.get("role") != "assistant" or entry.get("reasoning_content") is not None:
        return entry
    extra = entry.get("extra")
    response = extra.get("response") if isinstance(extra, dict) else None
    choice = next(items(response.get("choices")), {}) if isinstance(response, dict) else {}
    recorded = choice.get("message")
    if isinstance(recorded, dict):
        for key in ("reasoning_content", "reasoning"):
            if text_or_none(recorded.get(key)):
                return entry | {"reasoning_content": recorded[key]}
    return entry
