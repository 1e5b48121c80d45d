"""One request as the scheduler sees it, whatever API it came by, and what happens to it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from suffixspec.server.errors import ApiError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from suffixspec.engine.reply import Reply
    from suffixspec.parsing import SingleCallParser
    from suffixspec.verify.constraint import Constraint
    from suffixspec.verify.logprobs import TokenLogprobs

Api = Literal["chat", "completions", "responses", "messages"]
Reason = Literal["stop", "length"]


@dataclass
class Prompt:
    """What an output follows: a conversation, or a text or token ids that go on."""

    messages: list[dict[str, Any]] | None = None
    """In OpenAI's form; None: ``text`` or ``token_ids`` go on as they stand."""
    tools: list[dict[str, Any]] | None = None
    """For the chat template."""
    text: str = ""
    """The text that the model is shown."""
    token_ids: NDArray[np.int32] | None = None
    """int32 [n]: the text as its tokenizer encodes it. What a session makes of it may differ, where it puts
    its own earlier outputs back."""


@dataclass
class Begun:
    """The call is being worked on: its prompts were in order, and how much of the first one was cached."""

    prompt_tokens: int
    cached_tokens: int


@dataclass
class Piece:
    """What one step added to an output."""

    output: int
    text: str
    token_ids: list[int] = field(default_factory=list)
    """Without an end token."""
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    """One for each of ``token_ids``, where they were asked for."""


@dataclass
class Ended:
    """An output is complete."""

    output: int
    reason: Reason
    stop: str | None
    """The stop string that ended it."""
    reply: Reply


@dataclass
class Failed:
    """The call has come to nothing, or to no more."""

    error: ApiError


@dataclass
class Gone:
    """The client went away."""


class Silent:
    """Nothing of the above for a while: the client is due a sign of life. Not from the scheduler."""


Event: TypeAlias = Begun | Piece | Ended | Failed | Gone | Silent


class Call:
    """A request on its way: what is asked for, and its events, from the scheduler's thread to the server's.

    Args:
        api: whose form.
        namespace: whose history and sessions.
        prompts: one; several in a completion of several prompts.
        n: outputs of each prompt; output i of prompt p has the number p·n + i.
        sampling: fields of ``SamplingParams``.
        hints: the client's names for the loop that it belongs to, the most trusted first.
        ends: makes what is fed with an output's text, and says where it has a call too many.
        prediction: text that the output is likely to repeat.
        constraint: what outputs are allowed.
        ignored: fields of the request that had no effect.
        stream: whether the client reads the output as it comes.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        prompts: list[Prompt],
        *,
        n: int = 1,
        sampling: dict[str, Any] | None = None,
        hints: Sequence[str] = (),
        ends: Callable[[], SingleCallParser | None] = lambda: None,
        prediction: str | None = None,
        constraint: Constraint | None = None,
        ignored: Sequence[str] = (),
        stream: bool = False,
    ) -> None:
        self.api: Api = api
        self.namespace = namespace
        self.prompts = prompts
        self.n = n
        self.sampling = dict(sampling or {})
        self.hints = tuple(hints)
        self.ends = ends
        self.prediction = prediction
        self.constraint = constraint
        self.ignored = list(ignored)
        self.stream = stream
        self.arrived = time.monotonic()
        self.deadline: float | None = None
        """On the clock of ``time.monotonic``."""
        self.session: str | None = None
        """The name of the engine's session that served it, once one did."""
        self.begun = False
        """Whether ``Begun`` was posted."""
        self.cancelled = False
        self._deliver: Callable[[Event], None] | None = None
        self._early: list[Event] = []
        self._sent = threading.Event()  # once some of an output was
        self._lock = threading.Lock()  # so that events come in their order, those before ``connect`` too

    @property
    def outputs(self) -> int:
        """How many outputs there will be."""
        return len(self.prompts) * self.n

    def connect(self) -> asyncio.Queue[Event]:
        """A queue of the running event loop that gets every event, those so far included."""
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Event] = asyncio.Queue()

        def deliver(event: Event) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody listens any more
                loop.call_soon_threadsafe(events.put_nowait, event)

        with self._lock:
            self._deliver = deliver
            for event in self._early:
                deliver(event)
            self._early.clear()
        return events

    def sent(self) -> None:
        """What a step wrote is on its way to the client, or held back for more. From the server's thread."""
        self._sent.set()

    def wait_until_sent(self, seconds: float) -> bool:
        """Let the server's thread send the first of an output, for so long at most; whether it has."""
        return self._sent.wait(seconds)

    def post(self, event: Event) -> None:
        """Tell whoever listens. From the scheduler's thread."""
        with self._lock:
            (self._early.append if self._deliver is None else self._deliver)(event)
