"""Messages, as a client sends them, to the text that the model is shown."""

from __future__ import annotations

from typing import Any

from suffixspec.errors import InputError
from suffixspec.text.template import RenderError
from suffixspec.text.tokenizer import Tokenizer
from suffixspec.text.traits import TemplateTraits
from suffixspec.text.transcript import Transcript
from suffixspec.trace.chat import parse_messages

Messages = list[dict[str, Any]]
Tools = list[dict[str, Any]] | None


def render_prompt(tokenizer: Tokenizer, messages: Messages, tools: Tools, *, reply_next: bool = True) -> str:
    """The text of a conversation.

    The chat template gets the messages as they are. Where it would drop or refuse some of them without a word
    (tool calls, tool results, parts of content), they are first put into the form that it can show: tool
    calls as ``<tool_call>`` blocks in the content, tool results as user messages.

    Args:
        tokenizer: whose template.
        messages: OpenAI's form.
        tools: schemas, given to a template that shows them.
        reply_next: end with the header of the model's next message.

    Raises:
        InputError: a malformed message, or a conversation that the template refuses in either form.
    """
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise InputError(f"expected messages to be a list of objects, got {type(messages).__name__}")
    traits = tokenizer.traits
    header = traits.header if reply_next else ""
    error: Exception | None = None
    if not _needs_help(messages, traits):
        try:
            return tokenizer.render(messages, tools, reply_next) + header
        except RenderError as refusal:
            error = refusal
    transcript = Transcript(traits)
    for message in parse_messages(messages):
        transcript.add(message)
    if reply_next:
        transcript.open_turn()
    try:
        return tokenizer.render(transcript.messages, tools if traits.tools else None, reply_next) + header
    except RenderError as refusal:
        raise InputError(
            f"expected messages that the chat template of {tokenizer.name} can render, got: {error or refusal}"
        ) from refusal


def _needs_help(messages: Messages, traits: TemplateTraits) -> bool:
    for message in messages:
        content, role = message.get("content"), message.get("role")
        if isinstance(content, list) != traits.content_parts and content is not None:
            return True
        if message.get("tool_calls") and traits.tool_calls in {"dropped", "refused"}:
            return True
        if role == "tool" and not traits.tool_role:
            return True
        if role == "system" and not traits.system:
            return True
        if role == "developer" and not traits.developer:
            return True
        if content is None and not message.get("tool_calls"):
            return True
    return False
