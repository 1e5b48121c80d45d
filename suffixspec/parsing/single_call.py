"""One call at most: what a request without parallel calls asks for."""

from __future__ import annotations

from suffixspec.parsing.delta import Delta, ToolCallStart
from suffixspec.parsing.output_parser import OutputParser


class SingleCallParser:
    """An ``OutputParser`` for whom an output ends where its second call would begin.

    Args:
        parser: reads the output.
    """

    def __init__(self, parser: OutputParser) -> None:
        self._parser = parser
        self.full = False
        """Whether a second call has begun; nothing is passed on from there."""

    def feed(self, text: str) -> list[Delta]:
        """See ``OutputParser.feed``."""
        return self._until_full([] if self.full else self._parser.feed(text))

    def finish(self) -> list[Delta]:
        """See ``OutputParser.finish``."""
        return self._until_full([] if self.full else self._parser.finish())

    def _until_full(self, deltas: list[Delta]) -> list[Delta]:
        passed: list[Delta] = []
        for delta in deltas:
            if isinstance(delta, ToolCallStart) and delta.index > 0:
                self.full = True
                break
            passed.append(delta)
        return passed
