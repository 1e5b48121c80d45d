"""smolagents with drafts: ``TransformersModel`` as smolagents has it, whose ``generate`` is accelerated."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any

import smolagents

import suffixspec.hf
from suffixspec.recorder.call import new_call
from suffixspec.recorder.writer import Recorder


class TransformersModel(smolagents.TransformersModel):
    """In place of ``smolagents.TransformersModel``, with the same arguments and the same output.

    Args:
        model_id: as smolagents has it.
        record: a file that all calls are recorded to.
        acceleration: options of `suffixspec.hf.accelerate`.
        options: those of smolagents.
    """

    def __init__(
        self,
        model_id: str | None = None,
        *,
        record: str | PathLike[str] | None = None,
        acceleration: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model_id, **options)
        self.acceleration = suffixspec.hf.accelerate(self.model, **(acceleration or {}))
        """How the calls went: ``acceleration.calls``."""
        self._recorder = None if record is None else Recorder(record)

    def generate(self, messages: list[Any], *args: Any, **kwargs: Any) -> Any:
        """The model's next message."""
        answer = super().generate(messages, *args, **kwargs)
        self._record(messages, answer.content)
        return answer

    def generate_stream(self, messages: list[Any], *args: Any, **kwargs: Any) -> Iterator[Any]:
        """The model's next message, in pieces."""
        pieces = []
        for delta in super().generate_stream(messages, *args, **kwargs):
            pieces.append(delta.content or "")
            yield delta
        self._record(messages, "".join(pieces))

    def _record(self, messages: list[Any], text: Any) -> None:
        if self._recorder is None:
            return
        shown = smolagents.models.get_clean_message_list(
            messages, role_conversions=smolagents.models.tool_role_conversions, flatten_messages_as_text=True
        )
        request = {
            "model": self.model_id,
            "messages": [
                {"role": str(getattr(m["role"], "value", m["role"])), "content": m["content"]} for m in shown
            ],
        }
        message = {"role": "assistant", "content": text if isinstance(text, str) else ""}
        self._recorder.write(new_call("chat", request, {"choices": [{"index": 0, "message": message}]}))
