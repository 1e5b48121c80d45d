"""Where a generation ends: end tokens, stop strings, the token limit; and the text that may be shown so far."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from suffixspec.verify.acceptance import FinishReason
from suffixspec.verify.detokenizer import Decode, Detokenizer


class StopStrings:
    """Finds the first stop string in a text that arrives in pieces, and holds back what might begin one.

    The first is the one that is complete first, were the text to arrive character by character; of several
    that end there the longest. So the result depends on the text alone, not on the borders of its pieces.

    Invariant: shown + held is the text so far, and held is the longest suffix of it that a stop string
    begins with (and is longer than). Then no stop string can begin before held, and none is ever half shown.

    Args:
        stop: texts of at least one character.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = tuple(stop)
        self._held = ""
        self.matched: str | None = None
        """The stop string that was found."""

    def push(self, text: str) -> str:
        """What may be shown now that ``text`` has come; nothing comes after a match.

        Cost: O(characters × stop strings), and O(length²) of each stop string.
        """
        if self.matched is not None:
            return ""
        text = self._held + text
        # (end, begin) of the match that ends first; no match before held, so the search may begin there.
        found: tuple[int, int] | None = None
        for stop in self._stop:
            begin = text.find(stop)
            if begin >= 0 and (found is None or (begin + len(stop), begin) < found):
                found, self.matched = (begin + len(stop), begin), stop
        if found is not None:
            self._held = ""
            return text[: found[1]]
        held = max((_overlap(text, stop) for stop in self._stop), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def flush(self) -> str:
        """The text is complete: what was held back began no stop string."""
        held, self._held = self._held, ""
        return held


class Stopping:
    """Decides after each emitted token whether the generation ends with it, drafted or not.

    A ``Finish`` for the acceptance rules. Where several reasons meet in one token, "stop" goes before
    "length".

    Args:
        end_ids: the model's end tokens and the request's stop tokens; their text is not part of the output.
        max_tokens: end after so many tokens; None never does.
        stop: stop strings; the output's text ends before the first.
        decode: token ids to text; None where no text is wanted.

    Raises:
        ValueError: stop strings without ``decode``.
    """

    def __init__(
        self,
        *,
        end_ids: Collection[int] = (),
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        decode: Decode | None = None,
    ) -> None:
        if stop and decode is None:
            raise ValueError("expected decode (token ids to text) for stop strings, got None")
        self._end_ids = frozenset(end_ids)
        self._max_tokens = max_tokens
        self._strings = StopStrings(stop)
        self._detokenizer = None if decode is None else Detokenizer(decode)
        self._pieces: list[str] = []
        self._taken = 0
        self.tokens = 0
        """How many tokens were emitted."""
        self.reason: FinishReason | None = None
        """Why the generation ended, or None while it goes on."""
        self.stop: int | str | None = None
        """The end token or the stop string that ended it, if one did."""

    def __call__(self, token_id: int) -> FinishReason | None:
        """Take in an emitted token; why the generation ends with it, or None.

        Raises:
            RuntimeError: the generation has ended before.
        """
        if self.reason is not None:
            raise RuntimeError(f"expected no token after the end ({self.reason}), got {token_id}")
        self.tokens += 1
        if token_id in self._end_ids:
            self.reason, self.stop = "stop", token_id
        elif self._detokenizer is not None:
            self._show(self._detokenizer.push(token_id))
        if self.reason is None and self.tokens == self._max_tokens:
            self.reason = "length"
        if self.reason is not None:
            self._complete()
        return self.reason

    @property
    def text(self) -> str:
        """The output's text as far as it is certain: never part of a stop string, never half a character."""
        return "".join(self._pieces)

    def take(self) -> str:
        """The certain text that no earlier call returned: the next piece of a stream."""
        new = "".join(self._pieces[self._taken :])
        self._taken = len(self._pieces)
        return new

    def end(self) -> None:
        """The generation ends here for a reason from outside (cancelled): release the text that was held back."""
        if self.reason is None:
            self._complete()

    def _show(self, text: str) -> None:
        shown = self._strings.push(text)
        if shown:
            self._pieces.append(shown)
        if self._strings.matched is not None:
            self.reason, self.stop = "stop", self._strings.matched

    def _complete(self) -> None:
        """Release what waits for more text; bytes that stay incomplete may still complete a stop string."""
        if self._detokenizer is None or self._strings.matched is not None:
            return
        text = self._detokenizer.flush()
        shown = self._strings.push(text)
        if self._strings.matched is None:
            shown += self._strings.flush()
        elif self.reason != "stop":
            self.reason, self.stop = "stop", self._strings.matched
        if shown:
            self._pieces.append(shown)


def _overlap(text: str, stop: str) -> int:
    """The length of the longest suffix of ``text`` that ``stop`` begins with and is longer than."""
    longest = min(len(stop) - 1, len(text))
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
