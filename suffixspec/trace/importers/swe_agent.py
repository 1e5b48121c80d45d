"""SWE-agent trajectories (``.traj``): 0.x, and 1.x with text actions or function calls."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from suffixspec.errors import InputError
from suffixspec.trace.chat import parse_message
from suffixspec.trace.fields import a_list, an_object, text_or_none
from suffixspec.trace.importers.base import Importer, items, numbered
from suffixspec.trace.session import Message, TraceSession


class SweAgent(Importer):
    """One document is one run; a run of the retry agent holds several attempts, each a session of its own."""

    name = "swe-agent"
    title = "SWE-agent .traj"

    @classmethod
    def matches(cls, record: Any) -> bool:
        """A history of messages with roles, or the attempts of a retry agent."""
        if not isinstance(record, dict):
            return False
        attempts = record.get("attempts")
        if isinstance(attempts, list) and "trajectory" in record:
            return True
        history = record.get("history")
        if isinstance(history, str):
            return "trajectory" in record or history.lstrip().startswith("[")
        first = next(items(history), None)
        if first is None:
            return isinstance(history, list) and "trajectory" in record
        return "role" in first and "conversations" not in record

    def feed(self, record: Any, line: int) -> Iterator[TraceSession]:
        """Take one document."""
        name = text_or_none(record.get("instance_id")) or self.context.stem
        attempts = [attempt for attempt in items(record.get("attempts")) if "history" in attempt] or [record]
        for number, attempt in enumerate(attempts, start=1):
            yield self.session(
                numbered(name, number), _messages(attempt), line, model=_model(attempt) or _model(record)
            )


def _messages(record: dict[str, Any]) -> Iterable[Message]:
    history = record["history"]
    if isinstance(history, str):
        try:
            history = json.loads(history)
        except ValueError as error:
            raise InputError(f"expected history to hold an array as JSON text, got: {error}") from None
    messages = []
    for index, value in enumerate(a_list(history, "history")):
        where = f"history[{index}]"
        entry = an_object(value, where)
        called = entry.get("tool_call_ids")
        if entry.get("tool_call_id") is None and isinstance(called, list) and called:
            entry = entry | {"tool_call_id": called[0]}
        # Demonstrations may be one user message, or messages with the roles of a real session.
        is_demo = bool(entry.get("is_demo"))
        messages += [message.as_context() if is_demo else message for message in parse_message(entry, where)]
    return messages


def _model(record: dict[str, Any]) -> str | None:
    config = record.get("replay_config")
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except ValueError:
            return None
    for key in ("agent", "model"):
        config = config.get(key) if isinstance(config, dict) else None
    name = config.get("name") if isinstance(config, dict) else None
    return text_or_none(name) or text_or_none(record.get("model_name"))
