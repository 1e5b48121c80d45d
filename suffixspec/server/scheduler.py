"""Several calls at once on one target: which of them runs the next step."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from suffixspec.engine.errors import ContextLengthError, OutOfMemoryError
from suffixspec.errors import SuffixspecError
from suffixspec.server.call import Begun, Call, Ended, Failed, Gone, Piece, Prompt, Reason
from suffixspec.server.errors import ApiError

if TYPE_CHECKING:
    from suffixspec.engine.reply import Reply
    from suffixspec.engine.session import Session
    from suffixspec.engine.stream import Stream
    from suffixspec.server.sessions import Sessions

_LOG = logging.getLogger("suffixspec.server")
_USUAL_SECONDS = 10.0
_RATE = 0.2
_FIRST_TEXT_SECONDS = 0.005
"""Longest wait for a stream's first text to be sent. It takes a millisecond by itself, and up to ten beside the
next forward, which asks for the interpreter after each of its operations. Only where no other call waits for its
step."""

OpenStream = Callable[["Session", Call, Prompt, int], "Stream"]
"""``open_stream(session, call, prompt, index)`` begins output ``index`` of a prompt."""


class Scheduler:
    """Runs calls in one thread, a step of each in turn.

    A step is one forward of the target: one chunk of a prompt, or one step of decoding. So nobody waits longer
    for his next token than one step of every other call, however long their prompts and outputs are. Calls
    beyond ``most_active`` wait, first come first served; calls beyond ``most_waiting`` are refused.

    A call that is cancelled ends before its next step. One whose deadline has passed ends with what there is
    and the reason "length", or is refused when nothing came out yet. A call for whose KV there is no room
    beside the others waits until one of them has ended.

    Args:
        sessions: where the calls' sessions come from; used by the scheduler's thread alone.
        most_active: calls that take turns.
        most_waiting: calls that wait.
        open_stream: how an output begins.
        on_reply: told about every output, complete or not.
        on_busy: told again and again how many seconds it has worked since it was last told.
    """

    def __init__(
        self,
        sessions: Sessions,
        *,
        most_active: int = 8,
        most_waiting: int = 64,
        open_stream: OpenStream,
        on_reply: Callable[[Reply], None] = lambda _: None,
        on_busy: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._sessions = sessions
        self._most_active = most_active
        self._most_waiting = most_waiting
        self._open_stream = open_stream
        self._on_reply = on_reply
        self._on_busy = on_busy
        self._told_at = 0.0  # when ``on_busy`` was last told, or the last pause ended
        self._changed = threading.Condition()
        # Under the condition's lock:
        self._waiting: deque[Call] = deque()
        self._reserved = 0
        self._active: list[_Running] = []
        self._crowded: int | None = None  # no more than so many at a time, until one of them has ended
        self._closes: float | None = None  # when calls are cancelled, from the begin of the shutdown on
        self._usual_seconds = _USUAL_SECONDS
        self._thread = threading.Thread(target=self._serve, name="suffixspec scheduler", daemon=True)

    # -- from the server's thread -------------------------------------------------------------------------------

    @property
    def running(self) -> int:
        """Calls being worked on."""
        return len(self._active)

    @property
    def waiting(self) -> int:
        """Calls that wait, those that are being read included."""
        return len(self._waiting) + self._reserved

    @property
    def closing(self) -> bool:
        """Whether the shutdown has begun."""
        return self._closes is not None

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def reserve(self) -> None:
        """Keep a place for a call that is being read; ``submit`` or ``release`` gives it back.

        Raises:
            ApiError: 429 when as many calls wait as may, 503 during a shutdown.
        """
        with self._changed:
            if self._closes is not None:
                raise _shutting_down()
            inside = len(self._active) + self.waiting
            if inside >= self._most_active + self._most_waiting:
                seconds = self._usual_seconds * (self.waiting + 1) / self._most_active
                retry_after = min(max(math.ceil(seconds), 1), 60)
                raise ApiError(
                    f"expected at most {self._most_waiting} waiting requests, got one more; try again in "
                    f"{retry_after} s",
                    status=429,
                    retry_after=retry_after,
                )
            self._reserved += 1

    def release(self) -> None:
        """The call that a place was kept for will not come."""
        with self._changed:
            self._reserved -= 1

    def submit(self, call: Call) -> None:
        """Let a call take the place that was kept for it."""
        with self._changed:
            self._reserved -= 1
            if self._closes is not None:
                call.post(Failed(_shutting_down()))
                return
            self._waiting.append(call)
            self._changed.notify()

    def cancel(self, call: Call) -> None:
        """End a call after the step under way; nothing happens when it has ended."""
        call.cancelled = True
        with self._changed:
            if call in self._waiting:
                self._waiting.remove(call)
                call.post(Gone())

    def shut_down(self, seconds: float) -> None:
        """Take no more calls; those that wait are refused, those that run may go on for so long."""
        with self._changed:
            closes = time.monotonic() + seconds
            self._closes = closes if self._closes is None else min(closes, self._closes)
            self._changed.notify()

    def join(self, seconds: float | None = None) -> bool:
        """Wait until the shutdown is complete; whether it is."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    # -- the scheduler's thread -----------------------------------------------------------------------------------

    def _serve(self) -> None:
        self._told_at = time.perf_counter()
        while self._take_in():
            for running in list(self._active):
                if not self._advance(running):
                    self._take_out(running)
            self._tell_busy()
        self._sessions.close()

    def _tell_busy(self) -> None:
        now = time.perf_counter()
        self._on_busy(now - self._told_at)
        self._told_at = now

    def _take_in(self) -> bool:
        """Let calls in that there is room for, and wait while there is nothing to do; False: the end."""
        with self._changed:
            while True:
                if self._closes is not None:
                    while self._waiting:
                        self._waiting.popleft().post(Failed(_shutting_down()))
                    if not self._active:
                        return False
                self._refuse_late()
                most = self._most_active if self._crowded is None else self._crowded
                while self._waiting and len(self._active) < most:
                    self._active.append(_Running(self._waiting.popleft(), self._work))
                if self._active:
                    return True
                self._tell_busy()
                self._changed.wait()
                self._told_at = time.perf_counter()

    def _refuse_late(self) -> None:
        """Refuse waiting calls whose deadline has passed."""
        now = time.monotonic()
        late = [call for call in self._waiting if call.deadline is not None and now >= call.deadline]
        for call in late:
            self._waiting.remove(call)
            call.post(Failed(_too_late()))

    def _advance(self, running: _Running) -> bool:
        """One step of a call; whether it goes on."""
        call = running.call
        try:
            if call.cancelled:
                running.close()
                call.post(Gone())
                return False
            if self._closes is not None and time.monotonic() >= self._closes:
                running.close()
                call.post(Failed(_shutting_down()))
                return False
            if running.step():
                return True
            self._usual_seconds += _RATE * (time.monotonic() - running.begun - self._usual_seconds)
        except OutOfMemoryError as error:
            running.close()
            if running.wrote or len(self._active) == 1:
                code = 503 if running.wrote else 400
                call.post(Failed(ApiError(str(error), status=code, code="out_of_memory")))
            else:
                running.again = True
        except Exception as error:  # noqa: BLE001 - one call's failure, whatever it is, is not the others'
            running.close()
            call.post(Failed(_told(error)))
        return False

    def _take_out(self, running: _Running) -> None:
        """A call has ended, or waits until one of the others has: there was no room for its KV beside theirs."""
        with self._changed:
            self._active.remove(running)
            self._crowded = None
            if running.again:
                self._waiting.appendleft(running.call)
                self._crowded = len(self._active)

    def _work(self, running: _Running) -> Iterator[None]:
        """All outputs of a call; yields after each step."""
        call = running.call
        number = 0
        for prompt in call.prompts:
            with self._sessions.lend(call.namespace, prompt, call.hints) as session:
                call.session = session.name
                for index in range(call.n):
                    with self._open_stream(session, call, prompt, index) as stream:
                        try:
                            yield from self._decode(running, stream, number)
                        finally:
                            stream.close()
                            if running.begun_outputs > number and running.counted <= number:
                                self._on_reply(stream.reply)
                    number += 1

    def _decode(self, running: _Running, stream: Stream, number: int) -> Iterator[None]:
        call, turn = running.call, stream.turn
        generation: Any = turn.generation
        shown = told = 0
        reason: Reason | None = None
        ends = call.ends()
        while True:
            if call.deadline is not None and time.monotonic() >= call.deadline:
                if not running.wrote:
                    raise _too_late()
                reason = "length"
                break
            text = stream.step()
            if running.begun_outputs <= number:
                running.begun_outputs = number + 1
                if not call.begun:
                    call.begun = True
                    call.post(Begun(len(turn.prompt_ids), turn.cached_tokens))
            if text is None:
                break
            end = len(generation.token_ids) - isinstance(generation.stopping.stop, int)
            if text or end > told:
                running.wrote = True
                call.post(Piece(number, text, generation.token_ids[told:end], generation.logprobs[told:end]))
                if call.stream and text and not (shown or number) and len(self._active) == 1:
                    call.wait_until_sent(_FIRST_TEXT_SECONDS)
                shown += len(text)
                told = end
                if ends is not None:
                    ends.feed(text)
                    if ends.full and generation.finish_reason is None:
                        reason = "stop"
                        break
            if generation.finish_reason is None:
                yield
        stream.close()
        reply = stream.reply
        if len(reply.text) > shown:
            call.post(Piece(number, reply.text[shown:]))
        stop = generation.stopping.stop
        if reason is None:
            reason = "length" if reply.finish_reason == "length" else "stop"
        self._on_reply(reply)  # before it is told: who hears of the end finds it counted
        running.counted = number + 1
        call.post(Ended(number, reason, stop if isinstance(stop, str) else None, reply))


class _Running:
    """A call that is being worked on."""

    def __init__(self, call: Call, work: Callable[[_Running], Iterator[None]]) -> None:
        self.call = call
        self.begun = time.monotonic()
        self.begun_outputs = 0
        self.counted = 0
        """Outputs that were counted."""
        self.wrote = False
        """Whether any of its output was told."""
        self.again = False
        """Whether it is to be begun anew later."""
        self._steps: Any = work(self)

    def step(self) -> bool:
        """One step; whether there are more."""
        return next(self._steps, self) is not self

    def close(self) -> None:
        """No more steps."""
        self._steps.close()


def _shutting_down() -> ApiError:
    return ApiError("the server is shutting down; try again later", status=503, retry_after=10)


def _too_late() -> ApiError:
    return ApiError(
        "expected the request to be served within the server's time limit, got no output by then; try again "
        "later, or send a shorter prompt",
        status=503,
        code="request_timeout",
        retry_after=10,
    )


def _told(error: Exception) -> ApiError:
    """What the client is told about an exception."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ContextLengthError):
        return ApiError(str(error), code="context_length_exceeded")
    if isinstance(error, SuffixspecError):
        return ApiError(str(error))
    _LOG.error("a call failed", exc_info=error)
    return ApiError("the server failed on this request; its log says why", status=500)
