"""One agent loop."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suffixspec.draft import DraftSession, NoDrafter
from suffixspec.draft.alignment import Alignment
from suffixspec.draft.predicted import PredictedDraftSession
from suffixspec.engine.errors import ContextLengthError
from suffixspec.engine.miss import Miss, find_miss
from suffixspec.engine.prompt import Messages, Tools, render_prompt
from suffixspec.engine.reply import Reply
from suffixspec.engine.splice import Splicer
from suffixspec.engine.stream import AsyncStream, Stream
from suffixspec.engine.turn import OnPrefill, Turn
from suffixspec.errors import InputError, SuffixspecError
from suffixspec.index.suffix_tree import as_tokens
from suffixspec.text.template import RenderError
from suffixspec.verify.constraint import Constraint
from suffixspec.verify.generation import Generation
from suffixspec.verify.sampling import SamplingParams

if TYPE_CHECKING:
    from suffixspec.engine.engine import Engine

_NO_TOKENS = np.zeros(0, np.int32)


class Session:
    """One agent loop: its branches, its index, its outputs. Made by ``Engine.session``.

    A session runs one model call at a time; a new one cancels a stream that was left open. Different sessions
    of an engine may be used from different threads: their steps take turns.

    Args:
        engine: whose target.
        name: the loop's name.
        namespace: whose history it shares.
        drafting: False decodes plainly, through the same code.
    """

    def __init__(self, engine: Engine, name: str, namespace: str, *, drafting: bool = True) -> None:
        self.engine = engine
        self.name = name
        self.namespace = namespace
        self.prompt_ids: NDArray[np.int32] = _NO_TOKENS
        """int32 [n]: what the model was shown in the last call. Plain decoding on it gives the same output."""
        self._drafting_on = drafting
        self._drafting = self._new_drafting()
        self._splicer = Splicer(
            engine.tokenizer,
            encode=partial(engine.encodings.encode, namespace),
            json_equal=engine.json_splice,
        )
        self._before: NDArray[np.int32] = _NO_TOKENS  # what the best branch held before the last call
        self._last: tuple[Messages, Tools] | None = None
        self._open: Stream | None = None
        self._closed = False

    # -- model calls ------------------------------------------------------------------------------------------

    @overload
    def chat(
        self, messages: Messages, tools: Tools = None, *, stream: Literal[False] = False, **options: Any
    ) -> Reply: ...
    @overload
    def chat(
        self, messages: Messages, tools: Tools = None, *, stream: Literal[True], **options: Any
    ) -> Stream: ...
    def chat(
        self,
        messages: Messages,
        tools: Tools = None,
        *,
        max_tokens: int | None = None,
        stream: bool = False,
        on_prefill: OnPrefill | None = None,
        prediction: str | Sequence[str] | None = None,
        constraint: Constraint | None = None,
        **sampling: Any,
    ) -> Reply | Stream:
        """The model's next message.

        Args:
            messages: the whole conversation so far, in OpenAI's form.
            tools: schemas of the tools, for templates that show them.
            max_tokens: at most so many tokens; None: as many as the context has room for. Where the context
                ends first, so does the reply, with the reason "length".
            stream: return a ``Stream`` of text pieces instead of the whole ``Reply``.
            on_prefill: called as ``on_prefill(done, total)`` after each chunk of a new prompt.
            prediction: what the message will probably be, in large part: a text, or parts of one. It is
                drafted from the first token on, found again after each difference, and forgotten with the
                call; the reply counts how much of it came true. It never changes the output.
            constraint: which outputs are allowed, see ``Engine.constraint``. What it forces is drafted.
                Reported log-probabilities are those among the allowed tokens.
            sampling: fields of ``SamplingParams``: temperature, top_p, seed, stop, logprobs, …

        Raises:
            InputError: messages that cannot be rendered.
            ContextLengthError: a prompt that leaves no room for an output.
            OutOfMemoryError: says what to lower.
            ValueError: a sampling parameter out of its range.
            SuffixspecError: the session is closed, or busy in another thread.
        """
        params = SamplingParams(max_tokens=max_tokens, **sampling)
        if params.n != 1:
            raise ValueError(f"expected n = 1 in a chat, got {params.n}; use generate_n for several outputs")
        started = time.perf_counter()
        text = render_prompt(self.engine.tokenizer, messages, tools)
        prompt_ids, spliced = self._splicer.encode(text, lambda: self._prefixes(messages, tools))
        rendering = time.perf_counter() - started
        predicted = None if prediction is None else self._predicted(prediction)
        begun = self._begin(
            self._checked(prompt_ids),
            params,
            last=(list(messages), tools),
            prediction=predicted,
            constraint=constraint,
        )
        begun[0].timings.render = rendering
        result: list[Reply] = []
        pieces = self._pieces(begun, on_prefill, result, text, spliced)
        return self._stream(pieces, result, begun[0]) if stream else _drain(pieces, result)

    def generate(
        self,
        prompt_ids: ArrayLike,
        *,
        max_tokens: int | None = None,
        stream: bool = False,
        on_prefill: OnPrefill | None = None,
        prediction_ids: ArrayLike | None = None,
        constraint: Constraint | None = None,
        **sampling: Any,
    ) -> Any:
        """Continue token ids (int [n], n >= 1); arguments, result and errors as for ``chat``.

        ``prediction_ids`` (int [m]) are the tokens of a prediction.
        """
        params = SamplingParams(max_tokens=max_tokens, **sampling)
        if params.n != 1:
            raise ValueError(f"expected n = 1, got {params.n}; use generate_n for several outputs")
        result: list[Reply] = []
        predicted = None if prediction_ids is None else self._checked(prediction_ids, "prediction", least=0)
        begun = self._begin(self._checked(prompt_ids), params, prediction=predicted, constraint=constraint)
        pieces = self._pieces(begun, on_prefill, result)
        return self._stream(pieces, result, begun[0]) if stream else _drain(pieces, result)

    def decode(self, prompt_ids: ArrayLike, params: SamplingParams) -> Reply:
        """``generate`` with its parameters as one value."""
        result: list[Reply] = []
        return _drain(self._pieces(self._begin(self._checked(prompt_ids), params), None, result), result)

    def generate_n(
        self,
        prompt_ids: ArrayLike,
        n: int,
        *,
        max_tokens: int | None = None,
        on_prefill: OnPrefill | None = None,
        constraint: Constraint | None = None,
        **sampling: Any,
    ) -> list[Reply]:
        """``n`` outputs of one prompt, one after the other: the prompt is prefilled once, output i has seed + i.

        Later outputs draft from the earlier ones. Arguments and errors as for ``generate``.
        """
        params = SamplingParams(max_tokens=max_tokens, n=n, **sampling)
        prompt = self._checked(prompt_ids)
        replies: list[Reply] = []
        for index in range(n):
            result: list[Reply] = []
            begun = self._begin(prompt, params.output(index), constraint=constraint)
            replies.append(_drain(self._pieces(begun, on_prefill, result), result))
        return replies

    async def achat(
        self, messages: Messages, tools: Tools = None, *, stream: bool = False, **options: Any
    ) -> Any:
        """``chat`` for asynchronous code: the work is done in a thread, a step at a time.

        Returns:
            A ``Reply``, or with ``stream`` an ``AsyncStream``. Cancelling the task cancels the reply after the
            step under way.
        """
        answer = AsyncStream(self.chat(messages, tools, stream=True, **options))
        return answer if stream else await answer.finish()

    # -- for those who choose a session -----------------------------------------------------------------------

    def reusable_tokens(self, text: str) -> int:
        """How many leading tokens of a rendered prompt have their KV here. Changes nothing.

        Cost: as for encoding the prompt.
        """
        prompt_ids, _ = self._splicer.encode(text)
        with self.engine.lock:
            return self.engine.branches.best(self._owner, prompt_ids)[1]

    # -- looking back -----------------------------------------------------------------------------------------

    def explain_miss(self) -> Miss | None:
        """Where the last call's prompt departed from what the session had seen, and what differed there.

        Compares it with the branch that had most in common with it. None where it only went on, so that all
        of the branch's KV was used. Cost: renders the conversation once per message.
        """
        if not len(self._before):
            return None
        return find_miss(self._before, self.prompt_ids, self.engine.tokenizer, self._message_at)

    # -- the end ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the session: its branches leave. What it wrote is history for the namespace's others already."""
        if self._closed:
            return
        self._cancel_open()
        self._closed = True
        with self.engine.lock:
            for branch in self.engine.branches.of(self._owner):
                self.engine.branches.drop(branch)
            self._drafting.close()
            self.engine.forget(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- within -----------------------------------------------------------------------------------------------

    @property
    def _owner(self) -> tuple[str, str]:
        return self.namespace, self.name

    def _new_drafting(self) -> DraftSession:
        drafter = self.engine.drafter if self._drafting_on else NoDrafter()
        if self._drafting_on and self.engine.saved is not None:
            return self.engine.saved.session(self.namespace, self.name)
        return drafter.session(self.namespace)

    def _predicted(self, prediction: str | Sequence[str]) -> NDArray[np.int32]:
        """The tokens that the model would write for a text."""
        parts = [prediction] if isinstance(prediction, str) else prediction
        if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
            raise InputError(f"expected prediction to be a text or a list of texts, got {prediction!r:.80}")
        text = "".join(parts)
        lead = self.engine.tokenizer.traits.lead
        if text and not text.startswith(lead):
            text = lead + text
        return self._checked(self.engine.tokenizer.encode(text, continues=True), "prediction", least=0)

    def _checked(self, prompt_ids: ArrayLike, what: str = "prompt", *, least: int = 1) -> NDArray[np.int32]:
        try:
            prompt = as_tokens(prompt_ids)
        except (TypeError, ValueError) as error:
            raise InputError(f"expected a {what} of token ids: {error}") from error
        if prompt.size < least:
            raise InputError(f"expected a {what} of at least one token, got none")
        largest = int(prompt.max(initial=0))
        if largest >= self.engine.target.vocab_size:
            raise InputError(
                f"expected token ids below {self.engine.target.vocab_size}, got {largest}; "
                "is this the model's own tokenizer?"
            )
        return prompt

    def _begin(
        self,
        prompt_ids: NDArray[np.int32],
        params: SamplingParams,
        *,
        last: tuple[Messages, Tools] | None = None,
        prediction: NDArray[np.int32] | None = None,
        constraint: Constraint | None = None,
    ) -> tuple[Turn, Generation]:
        """A turn that can be run: everything that can be found wrong beforehand has been looked at."""
        engine = self.engine
        params = _within_context(params, len(prompt_ids), engine.target.max_positions)
        if self._closed:
            raise SuffixspecError(f"expected an open session, got {self.name!r}, which was closed")
        self._cancel_open()
        self._last = last
        self.prompt_ids = prompt_ids
        with engine.lock:
            branch, _ = engine.branches.best(self._owner, prompt_ids)
            self._before = _NO_TOKENS if branch is None else branch.token_ids.copy()
        generation = Generation(
            params,
            prompt_ids,
            vocab_size=engine.target.vocab_size,
            eos_ids=engine.eos_ids,
            decode=engine.decode,
            device=engine.target.device,
        )
        drafting: DraftSession = self._drafting
        alignment = None
        bounds: dict[str, Any] = {
            "max_nodes": engine.max_nodes,
            "costs": lambda: getattr(engine.drafter, "costs", None),
            "drafts": self._drafting_on,
        }
        if prediction is not None:
            alignment = Alignment(prediction)
            drafting = PredictedDraftSession(drafting, alignment, engine.prediction_trust, **bounds)
        turn = Turn(
            engine,
            self._owner,
            prompt_ids,
            generation,
            drafting,
            prediction=alignment,
            constraint=None if constraint is None else constraint.begin(**bounds),
        )
        return turn, generation

    def _stream(self, pieces: Iterator[str], result: list[Reply], turn: Turn) -> Stream:
        self._open = Stream(pieces, result, turn)
        return self._open

    def _cancel_open(self) -> None:
        if self._open is not None:
            try:
                self._open.close()
            except ValueError as error:
                raise SuffixspecError(
                    f"expected one call of session {self.name!r} at a time, got another while a step runs"
                ) from error
            self._open = None

    def _pieces(
        self,
        begun: tuple[Turn, Generation],
        on_prefill: OnPrefill | None,
        result: list[Reply],
        text: str | None = None,
        spliced: Sequence[str] = (),
    ) -> Iterator[str]:
        """Decode one output: yields the new text, if any, of each chunk and each step.

        Leaves the reply in ``result``, however it ends.
        """
        turn, generation = begun
        steps = turn.run(on_prefill)
        try:
            with contextlib.closing(steps):
                for _ in steps:
                    yield generation.stopping.take()
        except GeneratorExit:
            raise
        except BaseException:
            self._renew_drafting()
            raise
        finally:
            result.append(_reply(turn, generation, spliced))
            if text is not None:
                self._note(text, generation)

    def _note(self, text: str, generation: Generation) -> None:
        """Keep the output's tokens, for later prompts."""
        token_ids = generation.token_ids
        if isinstance(generation.stopping.stop, int):
            token_ids = token_ids[:-1]
        self._splicer.note(text, token_ids)

    def _renew_drafting(self) -> None:
        """Begin a new index after an exception: it may have come in the middle of a write.

        The next prompt is indexed as a whole, some µs per token. What is drafted never decides the output.
        """
        with contextlib.suppress(Exception):
            self._drafting.close()
        self._drafting = self._new_drafting()

    def _prefixes(self, messages: Messages, tools: Tools) -> list[str]:
        """The rendered prompt before each assistant message."""
        prefixes = []
        for number, message in enumerate(messages):
            if message.get("role") == "assistant":
                with contextlib.suppress(InputError, RenderError):
                    prefixes.append(render_prompt(self.engine.tokenizer, messages[:number], tools))
        return prefixes

    def _message_at(self, prefix: str) -> tuple[int, str] | None:
        """(number, role) of the message of the last call in which the text goes on after ``prefix``."""
        if self._last is None:
            return None
        messages, tools = self._last
        for number, message in enumerate(messages):
            try:
                text = render_prompt(self.engine.tokenizer, messages[: number + 1], tools, reply_next=False)
            except (InputError, RenderError):  # a template may refuse a part of a conversation
                continue
            if len(text) > len(prefix):
                return number, str(message.get("role"))
        return None


def _drain(pieces: Iterator[str], result: list[Reply]) -> Reply:
    for _ in pieces:
        pass
    return result[-1]


def _reply(turn: Turn, generation: Generation, spliced: Sequence[str]) -> Reply:
    """What there is of the output."""
    reason = generation.finish_reason
    if reason is None:
        generation.stopping.end()
    return Reply(
        text=generation.stopping.text,
        token_ids=list(generation.token_ids),
        finish_reason=reason or "cancelled",
        prompt_tokens=len(turn.prompt_ids),
        cached_tokens=turn.cached_tokens,
        counts=turn.counts,
        timings=turn.timings,
        logprobs=list(generation.logprobs),
        spliced=list(spliced),
        accepted_flags=turn.accepted_flags,
        prediction_accepted=0 if turn.prediction is None else turn.prediction.accepted,
        prediction_rejected=0 if turn.prediction is None else turn.prediction.rejected,
    )


def _within_context(params: SamplingParams, prompt_tokens: int, max_positions: int | None) -> SamplingParams:
    if max_positions is None:
        return params
    room = max_positions - prompt_tokens
    if room < 1:
        raise ContextLengthError(
            f"expected a prompt of at most {max_positions - 1:,} tokens (the model's context is "
            f"{max_positions:,}), got {prompt_tokens:,}; shorten the conversation, nothing is cut off silently"
        )
    if params.max_tokens is not None and params.max_tokens <= room:
        return params
    return replace(params, max_tokens=room)
