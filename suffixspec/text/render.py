"""A recorded session as the token ids of each model call: what the model was shown, and what it wrote."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from suffixspec.errors import InputError
from suffixspec.text.template import RenderError
from suffixspec.text.traits import THINK_OPEN, first_special
from suffixspec.text.transcript import Transcript, inline_text, recorded_pieces

if TYPE_CHECKING:
    from suffixspec.text.tokenizer import Tokenizer
    from suffixspec.trace.session import Message, TraceSession


@dataclass(frozen=True, slots=True, eq=False)
class RenderedTurn:
    """One model call of a session.

    Attributes:
        index: 0-based number of the model call in its session.
        message_index: place of its message in ``session.messages``.
        prompt_ids: int32 [P], read-only: what the model was shown.
        output_ids: int32 [O], read-only: what it wrote, the end-of-turn token included unless the recorded
            ids end without one. Empty only for an empty reply under a tokenizer without an end token.
        output_text: the text of ``output_ids``.
        reused_tokens: how many leading ids of ``prompt_ids`` are those of the previous turn's prompt and
            output; all of them unless the template rewrote earlier text. 0 for the first turn.
    """

    index: int
    message_index: int
    prompt_ids: np.ndarray
    output_ids: np.ndarray
    output_text: str
    reused_tokens: int


@dataclass(frozen=True, slots=True)
class _Output:
    """What one assistant message decodes to."""

    body: str
    closing: str
    form: dict[str, Any]
    """The message as the template gets it in later prompts."""
    ids: tuple[int, ...] | None = None
    """Its recorded ids, where they decode to ``body`` or ``body + closing``."""

    @property
    def text(self) -> str:
        return self.body + self.closing


@dataclass(frozen=True, slots=True)
class _Plan:
    """One turn as an edit of the text so far: keep its first ``keep`` characters, go on with ``more``."""

    message_index: int
    keep: int
    more: str
    output: _Output


def render_session(session: "TraceSession", tokenizer: "Tokenizer") -> Iterator[RenderedTurn]:
    r"""The model calls of a session, in order.

    The tokenizer's chat template renders what the model was shown before each assistant message with
    ``model_output``, and that message is the call's output. Where the template does not write all that was
    recorded, character by character, the output is completed (``tokenizer.traits.notes()`` says so):

    - Tool calls are the template's own only if it leaves the argument text verbatim; else each becomes a
      block ``<tool_call>\n{"name": "…", "arguments": …}\n</tool_call>`` behind the content.
    - Reasoning that the template does not show goes in front of the content as
      ``<think>\n…\n</think>\n\n`` and stays in later prompts, as it does for a client that sends back
      what the model wrote. Under a template that shows reasoning only in the newest message, later prompts
      lose it, as they do in a server.
    - White space that the template trims is part of the output, and missing from later prompts.
    - A template's own additions around these (an empty ``<think>`` block, the tags of its tool calls, the
      end-of-turn token) belong to the output: the model wrote them.

    Text is encoded once, piece by piece: a prompt starts with the ids of the previous prompt and output,
    and only what is new is encoded. Where the template rewrites earlier text, ids are kept up to the last
    piece before the first difference. A message's ``token_ids`` are taken as they are when they decode to
    its text, with or without the end-of-turn token.

    Cost: linear in the new text for encoding (2 MB/s); two renderings of the conversation per turn (1 ms for 200
    messages of 2,000 characters).

    Args:
        session: the recorded loop. Tool schemas are given to a template that shows them.
        tokenizer: whose template and vocabulary to use.

    Raises:
        InputError: the template refuses the conversation even as plain user and assistant messages in turn.
    """
    track = _Track(tokenizer)
    for index, plan in enumerate(_plan_session(session, tokenizer)):
        reused = track.rewrite(plan.keep, plan.more)
        prompt = track.ids()
        track.extend_output(plan.output)
        total = track.ids()
        yield RenderedTurn(
            index=index,
            message_index=plan.message_index,
            prompt_ids=prompt,
            output_ids=total[len(prompt) :],
            output_text=plan.output.text,
            reused_tokens=reused,
        )


def _plan_session(session: "TraceSession", tokenizer: "Tokenizer") -> list[_Plan]:
    """Render every turn before the first is used: a refusal half way changes the form of all."""
    try:
        try:
            return _plan_turns(session, tokenizer, strict=False)
        except RenderError:
            return _plan_turns(session, tokenizer, strict=True)
    except RenderError as error:
        raise InputError(
            f"expected a session that the chat template of {tokenizer.name} can render, got "
            f"{session.session_id!r}, which it refuses even as plain user and assistant messages: {error}; "
            "choose another --tokenizer",
            path=session.path or None,
            line=session.line or None,
        ) from error


def _plan_turns(session: "TraceSession", tokenizer: "Tokenizer", *, strict: bool) -> list[_Plan]:
    traits = tokenizer.traits
    tools = list(session.tools) if session.tools and traits.tools and not strict else None
    transcript = Transcript(traits, strict=strict)
    plans: list[_Plan] = []
    text = ""
    for place, message in enumerate(session.messages):
        if message.role != "assistant" or not message.model_output:
            transcript.add(message)
            continue
        transcript.open_turn()
        prompt = tokenizer.render(transcript.messages, tools, True) + traits.header
        keep = _common_prefix(text, prompt)
        output = _find_output(message, prompt, transcript, tokenizer, tools)
        transcript.add_assistant(output.form)
        plans.append(_Plan(place, keep, prompt[keep:], output))
        text = prompt + output.text
    return plans


def _find_output(
    message: "Message",
    prompt: str,
    transcript: Transcript,
    tokenizer: "Tokenizer",
    tools: list[dict[str, Any]] | None,
) -> _Output:
    """The template's own text of the message if all that was recorded is in it, else one made here."""
    pieces = recorded_pieces(message)
    outputs = []
    forms = transcript.assistant_forms(message)
    for form in forms:
        try:
            full = tokenizer.render([*transcript.messages, form], tools, False)
        except RenderError:
            if form is forms[-1]:
                raise
            continue
        if full.startswith(prompt):
            output = _cut_output(full[len(prompt) :], pieces, form, tokenizer)
            if output is not None:
                outputs.append(output)
                if message.token_ids is None:
                    return output
    outputs.append(_compose_output(message, prompt, forms[-1], tokenizer))
    if message.token_ids is not None:
        for output in outputs:
            matched = _match_ids(message.token_ids, output, tokenizer)
            if matched is not None:
                return matched
    return outputs[0]


def _cut_output(text: str, pieces: list[str], form: dict[str, Any], tokenizer: "Tokenizer") -> _Output | None:
    """Cut the end-of-turn token and what follows it off; None where a recorded piece is missing."""
    end = 0
    for piece in pieces:
        at = text.find(piece, end)
        if at < 0:
            return None
        end = at + len(piece)
    ends = dict.fromkeys(tokenizer.eos_texts, 0)
    found = first_special(text[end:], ends)
    if found is None:  # the template closes a message only when more follows
        return _Output(text[:end] + text[end:].rstrip(), tokenizer.traits.closing_token, form)
    at, token = found
    return _Output(text[: end + at], token, form)


def _compose_output(message: "Message", prompt: str, form: dict[str, Any], tokenizer: "Tokenizer") -> _Output:
    """The recorded texts in the fallback form, for a template that loses some of them."""
    traits = tokenizer.traits
    body = inline_text(message, reasoning=True, calls=True)
    if prompt.rstrip().endswith(THINK_OPEN):  # the prompt has opened the reasoning already
        opened = f"{THINK_OPEN}\n"
        body = body.removeprefix(opened) if message.reasoning else f"</think>\n\n{body}"
    closing = traits.closing_token
    padding = traits.closing_text.removesuffix(closing) if closing else ""
    return _Output(traits.lead + body + padding, closing, form)


def _match_ids(ids: tuple[int, ...], output: _Output, tokenizer: "Tokenizer") -> _Output | None:
    if not ids or min(ids) < 0 or max(ids) >= tokenizer.vocab_size:
        return None
    text = tokenizer.decode(ids, continues=True)
    if text == output.text:
        return _Output(output.body, output.closing, output.form, tuple(ids))
    if text == output.body:  # recorded without the end-of-turn token, or cut off by a length limit
        return _Output(output.body, "", output.form, tuple(ids))
    return None


def _common_prefix(a: str, b: str) -> int:
    """Length of the longest common prefix; linear, at the speed of memcmp."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while low + 1 < high:  # a[:low] == b[:low] and a[:high] != b[:high]
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low


class _Track:
    """The text so far and its ids, in pieces that were encoded one by one."""

    def __init__(self, tokenizer: "Tokenizer") -> None:
        self._tokenizer = tokenizer
        self._text = ""
        self._buffer = np.empty(1024, np.int32)
        self._size = 0
        self._cuts: list[tuple[int, int]] = [(0, 0)]
        """Ends of pieces: (characters, ids)."""
        self._memo: dict[str, list[int]] = {}
        """Ids of stretches between special tokens, for templates that rewrite earlier text often."""

    def ids(self) -> np.ndarray:
        """int32 [n], read-only view of what is there now; later edits leave it as it is."""
        view = self._buffer[: self._size]
        view.flags.writeable = False
        return view

    def rewrite(self, keep: int, more: str) -> int:
        """Keep the first ``keep`` characters, go on with ``more``; returns how many leading ids stay."""
        if keep == len(self._text):
            reused = self._size
            self._append(more, self._encode(more))
            return reused
        old = self.ids()
        while self._cuts[-1][0] > keep:
            self._cuts.pop()
        at, kept = self._cuts[-1]
        more = self._text[at:keep] + more
        self._text = self._text[:at]
        # The old buffer is still seen through the views that were handed out.
        self._buffer = np.concatenate([old[:kept], np.empty(len(old) - kept + 1024, np.int32)])
        self._size = kept
        self._append(more, self._encode_again(more))
        new = self.ids()
        shared = min(len(old), len(new))
        differs = np.flatnonzero(old[kept:shared] != new[kept:shared])
        return kept + int(differs[0]) if len(differs) else shared

    def extend_output(self, output: _Output) -> None:
        """Append a turn's output, its end-of-turn token as a piece of its own: templates change it."""
        if output.ids is not None:
            closing = self._encode(output.closing)
            apart = len(output.ids) - len(closing)
            if list(output.ids[apart:]) == closing:
                self._append(output.body, list(output.ids[:apart]))
                self._append(output.closing, closing)
            else:  # the end token was recorded as ordinary text
                self._append(output.text, list(output.ids))
            return
        self._append(output.body, self._encode(output.body))
        self._append(output.closing, self._encode(output.closing))

    def _append(self, text: str, ids: list[int]) -> None:
        if not text and not ids:
            return
        end = self._size + len(ids)
        if end > len(self._buffer):
            grown = np.empty(max(end, len(self._buffer) * 2), np.int32)
            grown[: self._size] = self._buffer[: self._size]
            self._buffer = grown
        self._buffer[self._size : end] = ids
        self._text += text
        self._size = end
        self._cuts.append((len(self._text), end))

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, continues=bool(self._text)) if text else []

    def _encode_again(self, text: str) -> list[int]:
        """Encode text most of which was encoded before: stretch by stretch, so that only new ones cost."""
        tokenizer = self._tokenizer
        if not tokenizer.splits_at_special:
            return self._encode(text)
        ids: list[int] = []
        for stretch in tokenizer.special_pattern.split(text):
            known = tokenizer.special_tokens.get(stretch)
            if known is not None:
                ids.append(known)
            elif stretch:
                if stretch not in self._memo:
                    self._memo[stretch] = tokenizer.encode(stretch)
                ids += self._memo[stretch]
        return ids
