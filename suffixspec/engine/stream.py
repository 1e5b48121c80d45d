"""A reply that is read while it is being written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from suffixspec.engine.reply import Reply

if TYPE_CHECKING:
    from suffixspec.engine.turn import Turn


class Stream:
    """Iterates over the text of a reply, piece by piece; ``reply`` is the whole when it has ended.

    The pieces, put together, are ``reply.text``: no half character, and nothing of a stop string. Leaving
    early (``close``, leaving the ``with`` block, an exception in the loop's body, the session's next call)
    cancels: the session stays usable, and ``reply`` is what there was.

    Args:
        pieces: yields the text, or "", of each step and each chunk of the prompt.
        result: gets the reply when ``pieces`` ends or is closed.
        turn: the call in the making.
    """

    def __init__(self, pieces: Iterator[str], result: list[Reply], turn: Turn) -> None:
        self._pieces: Any = pieces
        self._result = result
        self.turn = turn
        """The call in the making: its tokens, counts and times so far."""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        for piece in self._pieces:
            if piece:
                return str(piece)
        raise StopIteration

    def step(self) -> str | None:
        """One step, or one chunk of the prompt: the text that it completed, or "". None: the reply has ended.

        For a caller that lets several streams take turns.
        """
        piece: str | None = next(self._pieces, None)
        return piece

    def close(self) -> None:
        """Cancel; nothing happens where the reply has ended.

        Raises:
            ValueError: another thread is in the middle of a step.
        """
        self._pieces.close()

    @property
    def reply(self) -> Reply:
        """The reply.

        Raises:
            RuntimeError: it has not ended, or failed before its first token.
        """
        if not self._result:
            raise RuntimeError("expected the stream to have ended, got one under way; read or close it first")
        return self._result[-1]

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncStream:
    """``Stream`` for ``async for``: each piece is computed in a thread.

    Cancelling the task that reads it cancels the reply after the step under way.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        piece = await self._in_thread()
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def _in_thread(self) -> str | None:
        step = asyncio.ensure_future(asyncio.to_thread(next, self._stream, None))
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            # The thread cannot be stopped half way; the stream may be closed when it is done.
            await asyncio.wait([step])
            if not step.cancelled():
                step.exception()  # looked at, or asyncio complains that nobody did
            self._stream.close()
            raise

    async def aclose(self) -> None:
        """Cancel; nothing happens where the reply has ended."""
        await asyncio.to_thread(self._stream.close)

    @property
    def reply(self) -> Reply:
        """The reply; see ``Stream.reply``."""
        return self._stream.reply

    async def finish(self) -> Reply:
        """Read to the end; return the reply."""
        async for _ in self:
            pass
        return self.reply
