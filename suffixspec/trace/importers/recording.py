"""Recordings of ``suffixspec record``, ``serve --record`` and the callbacks: one model call a line."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from suffixspec.errors import InputError
from suffixspec.trace.chat import content_text, parse_tools
from suffixspec.trace.fields import an_object, expected, shown, text_or_none
from suffixspec.trace.importers.base import Context, Importer, items, numbered
from suffixspec.trace.importers.joining import Joiner
from suffixspec.trace.importers.openai_chat import request_messages, response_outputs
from suffixspec.trace.importers.response_items import ResponseItems
from suffixspec.trace.importers.transcript import Transcript
from suffixspec.trace.session import Message, TraceSession

VERSION = 1
"""The version of the recording format."""
VERSION_KEY = "suffixspec_call"
"""A line's first key, which holds the version."""


class Recording(Importer):
    """Calls of OpenAI's chat, completions and responses and of Anthropic's messages, joined into sessions.

    See `joining.Joiner`: what the messages say decides, the client's names for its loops are hints. Failed
    calls and calls without an answer are left out, so that a retry continues the session. A call of the
    completions API continues a session whose prompt and outputs its prompt begins with; what it adds becomes
    a user's message. ``previous_response_id`` is resolved within the recording.
    """

    name = "recording"
    title = "suffixspec recording"
    ends_torn = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._joiner = Joiner()
        self._texts: dict[bytes, list[Message]] = {}
        self._lengths: set[int] = set()
        self._responses: dict[str, list[Message]] = {}

    @classmethod
    def matches(cls, record: Any) -> bool:
        """A call's version stands first in every line."""
        return isinstance(record, dict) and VERSION_KEY in record

    def feed(self, record: Any, line: int) -> Iterable[TraceSession]:
        """Take one call; sessions come out of `finish`."""
        if not isinstance(record, dict) or VERSION_KEY not in record:
            raise InputError("expected a recorded call, got a line of another kind")
        version = record[VERSION_KEY]
        if type(version) is not int or version != VERSION:
            raise InputError(f"expected version {VERSION} of a recording, got {shown(version)}")
        status, response = record.get("status", 200), record.get("response")
        if (type(status) is int and status >= 400) or not isinstance(response, dict):
            self.context.note(f"a call that failed (status {status})", line)
            return ()
        request = an_object(record.get("request"), "request")
        api = record.get("api")
        if api == "completions":
            found = self._completion(request, response)
        elif api == "responses":
            found = self._response(request, response)
        elif api in ("chat", "messages"):
            found = request_messages(request), response_outputs(_with_verbatim_inputs(response))[0]
        else:
            raise expected("chat, completions, responses or messages", api, "api")
        messages, outputs = found
        complete = record.get("complete") is not False
        if not complete:
            outputs = [output for output in outputs if output.content or output.tool_calls]
        if not outputs:
            self.context.note("a call without an answer", line)
            return ()
        self._joiner.add(
            messages,
            outputs,
            line=line,
            hint=text_or_none(record.get("session")),
            model=text_or_none(request.get("model")) or text_or_none(response.get("model")),
            tools=parse_tools(request.get("tools"), "request.tools"),
            complete=complete,
            stops=_stops(request),
        )
        return ()

    def finish(self) -> Iterator[TraceSession]:
        """Return all sessions in the order of their first calls."""
        sessions = self._joiner.sessions()
        if self._joiner.taken_back:
            self.context.note(f"{self._joiner.taken_back} outputs that were cut off and asked for again")
        counts: dict[str, int] = {}
        for joined in sessions:
            name = joined.hint or self.context.stem
            counts[name] = counts.get(name, 0) + 1
            session_id = numbered(name, counts[name])
            yield self.session(
                session_id, joined.messages, joined.line, model=joined.model, tools=joined.tools
            )

    # -- the completions API ----------------------------------------------------------------------------------

    def _completion(
        self, request: dict[str, Any], response: dict[str, Any]
    ) -> tuple[list[Message], list[Message]]:
        prompt = request.get("prompt")
        if isinstance(prompt, list) and len(prompt) == 1:
            prompt = prompt[0]
        if not isinstance(prompt, str):  # token ids, or several prompts at once
            return [], []
        messages, length = self._text_before(prompt)
        if prompt[length:]:
            messages = [*messages, Message("user", prompt[length:])]
        outputs = [
            Message("assistant", content_text(choice.get("text"), f"response.choices[{index}].text"))
            for index, choice in enumerate(items(response.get("choices")))
        ]
        for output in filter(lambda output: output.content, outputs):
            text = prompt + output.content
            self._lengths.add(len(text))
            self._texts[_digest(text)] = [*messages, output]
        return messages, outputs

    def _text_before(self, prompt: str) -> tuple[list[Message], int]:
        """The longest conversation whose text the prompt begins with, and that text's length."""
        hasher, at = hashlib.blake2b(digest_size=16), 0
        found: tuple[list[Message], int] = [], 0
        for length in sorted(self._lengths):
            if length > len(prompt):
                break
            hasher.update(prompt[at:length].encode("utf-8", "surrogatepass"))
            at = length
            messages = self._texts.get(hasher.digest())
            if messages is not None:
                found = messages, length
        return found

    # -- the responses API ------------------------------------------------------------------------------------

    def _response(
        self, request: dict[str, Any], response: dict[str, Any]
    ) -> tuple[list[Message], list[Message]]:
        previous = request.get("previous_response_id")
        transcript = Transcript()
        if request.get("instructions") is not None:
            transcript.append(
                Message("system", content_text(request["instructions"], "request.instructions"))
            )
        earlier = self._responses.get(previous, []) if isinstance(previous, str) else []
        for message in earlier:
            transcript.append(message)
        given = request.get("input")
        if isinstance(given, str):
            transcript.append(Message("user", given))
        else:
            adder = ResponseItems(transcript)
            for index, item in enumerate(items(given)):
                adder.add(item, f"request.input[{index}]")
        messages = list(transcript.messages)
        written = Transcript()
        adder = ResponseItems(written)
        for index, item in enumerate(items(response.get("output"))):
            adder.add(item, f"response.output[{index}]")
        outputs = [message for message in written.messages if message.role == "assistant"][:1]
        name = response.get("id")
        if isinstance(name, str):
            start = 1 if request.get("instructions") is not None else 0
            self._responses[name] = [*messages[start:], *outputs]
        return messages, outputs


def _stops(request: dict[str, Any]) -> list[str]:
    stops = request.get("stop") or request.get("stop_sequences")
    listed = stops if isinstance(stops, list) else [stops]
    return [stop for stop in listed if isinstance(stop, str) and stop]


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _with_verbatim_inputs(response: dict[str, Any]) -> dict[str, Any]:
    """Anthropic's tool calls with the arguments as the model wrote them, where the recorder kept that text."""
    content = response.get("content")
    if not isinstance(content, list):
        return response
    blocks = [
        block | {"input": block["input_json"]}
        if isinstance(block, dict) and isinstance(block.get("input_json"), str)
        else block
        for block in content
    ]
    return response | {"content": blocks}
