"""What every endpoint works with: the engine, its scheduler, and who may use them."""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from suffixspec.engine.prompt import render_prompt
from suffixspec.errors import InputError, MissingExtraError, SuffixspecError
from suffixspec.parsing import reasonings
from suffixspec.server.arguments import Arguments
from suffixspec.server.auth import Gate
from suffixspec.server.call import Call, Prompt
from suffixspec.server.errors import ApiError, ContextTooLongError, Shape
from suffixspec.server.metrics import Metrics
from suffixspec.server.scheduler import Scheduler
from suffixspec.server.sessions import Sessions
from suffixspec.server.settings import Settings
from suffixspec.server.stored import StoredResponses
from suffixspec.verify.sampling import SamplingParams

if TYPE_CHECKING:
    from suffixspec.engine.engine import Engine
    from suffixspec.engine.reply import Reply
    from suffixspec.engine.session import Session
    from suffixspec.engine.stream import Stream
    from suffixspec.recorder.writer import Recorder
    from suffixspec.verify.constraint import Constraint

_LOG = logging.getLogger("suffixspec.server")


class Service:
    """One engine, offered to clients.

    Args:
        engine: what it runs.
        settings: limits, defaults and names.
        recorder: gets every model call.
    """

    def __init__(
        self, engine: Engine, settings: Settings | None = None, *, recorder: Recorder | None = None
    ) -> None:
        self.engine = engine
        self.settings = settings or Settings()
        self.recorder = recorder
        self.tokenizer = engine.tokenizer
        self.model_name = self.settings.model_name or engine.tokenizer.name
        self.created = int(time.time())
        self.fingerprint = f"fp_{engine.target.fingerprint[:12]}"
        self.gate = Gate(self.settings.api_keys)
        # Loops of one namespace begin with the same system prompt: its KV is computed once for all of them.
        engine.branches.kin = lambda owner: owner[0] if isinstance(owner, tuple) else owner
        self._kv_bytes = 0
        self.arguments = Arguments()
        self.stored = StoredResponses(self.settings.stored_responses)
        sessions = Sessions(
            engine,
            most=self.settings.sessions,
            idle_seconds=self.settings.idle_seconds,
            drafting=self.settings.drafting,
        )
        self.metrics = Metrics(
            running=lambda: self.scheduler.running,
            waiting=lambda: self.scheduler.waiting,
            sessions=lambda: len(sessions),
            kv_bytes=lambda: self._kv_bytes,
        )
        self.scheduler = Scheduler(
            sessions,
            most_active=self.settings.most_active,
            most_waiting=self.settings.most_waiting,
            open_stream=self._open_stream,
            on_reply=self._count,
            on_busy=self.metrics.busy,
        )
        _ = engine.tokenizer.traits, engine.eos_ids  # found out once, before there are several threads

    @property
    def vocab_size(self) -> int:
        """V: token ids of requests are below."""
        return int(self.engine.target.vocab_size)

    @property
    def context(self) -> int | None:
        """Tokens that the model can see, None where nothing bounds them."""
        most: int | None = self.engine.target.max_positions
        return most

    def render(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, *, namespace: str
    ) -> Prompt:
        """A conversation as the model is shown it, encoded on behalf of a namespace.

        Raises:
            ApiError: the chat template refuses it.
        """
        try:
            text = render_prompt(self.tokenizer, messages, tools)
        except InputError as error:
            raise ApiError(str(error), param="messages") from error
        return Prompt(
            messages, tools, text, np.array(self.engine.encodings.encode(namespace, text), np.int32)
        )

    def fit(self, prompt: Prompt, *, shape: Shape, param: str) -> Prompt:
        """The same prompt, if it leaves room for an output.

        Raises:
            ApiError: it is empty, or too long for the model or for this server's memory.
        """
        length = 0 if prompt.token_ids is None else len(prompt.token_ids)
        if not length:
            raise ApiError(f"expected {param} of at least one token, got none", param=param)
        if self.context is not None and length >= self.context:
            raise ContextTooLongError(length, self.context, shape=shape, param=param)
        room = self.engine.branches.budget_bytes // self.engine.target.slot_bytes - self.engine.capacity(0)
        if length >= room:  # alone, beside nobody else's
            raise ContextTooLongError(length, room, shape=shape, param=param)
        return prompt

    def constraint(self, response_format: dict[str, Any], prompt: Prompt) -> Constraint | None:
        """What binds the output of a prompt to a ``response_format``: its answer, not the reasoning before.

        Raises:
            InputError: it cannot be followed, or takes too long to compile.
            MissingExtraError: the extra ``grammar`` is not installed.
            ApiError: 503 while others are compiled.
        """
        seconds = self.settings.compile_seconds
        more: dict[str, Any] = {}
        for reasoning in reasonings(prompt.text, self.tokenizer.special_tokens):
            markers = [reasoning.closes, *([reasoning.opens] if reasoning.opens else [])]
            tokens = all(len(self.tokenizer.encode(marker, continues=True)) == 1 for marker in markers)
            if tokens or reasoning.opens is None:
                more = {"after": reasoning.closes, "opening": reasoning.opens, "header": reasoning.header}
                break
        try:
            return self.engine.constraint(response_format, seconds=seconds, **more)
        except (InputError, MissingExtraError):
            raise
        except SuffixspecError as error:  # nothing is wrong with the request
            raise ApiError(str(error), status=503, retry_after=math.ceil(seconds)) from error

    def _count(self, reply: Reply) -> None:
        """Count an output. In the scheduler's thread: nobody else may look at the branches."""
        self._kv_bytes = self.engine.branches.nbytes
        self.metrics.output_ended(reply)

    def _open_stream(self, session: Session, call: Call, prompt: Prompt, index: int) -> Stream:
        """Begin an output."""
        options = dict(call.sampling)
        options["seed"] = SamplingParams(n=call.n, seed=options.get("seed")).output(index).seed
        if prompt.messages is None:
            stream: Stream = session.generate(prompt.token_ids, stream=True, **options)  # type: ignore[arg-type]
            return stream
        if call.prediction is not None:
            options["prediction"] = call.prediction
        if call.constraint is not None:
            options["constraint"] = call.constraint
        return session.chat(prompt.messages, prompt.tools, stream=True, **options)

    def record(self, **call: Any) -> None:
        """Write a model call down, where that was asked for."""
        if self.recorder is None:
            return
        from suffixspec.recorder.call import new_call

        try:
            self.recorder.write(new_call(**call))
        except (OSError, ValueError, InputError):  # a full disk must not end the service
            _LOG.exception("a call could not be recorded")
