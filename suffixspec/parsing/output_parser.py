"""What a parser of model outputs is."""

from __future__ import annotations

from typing import Protocol

from suffixspec.parsing.delta import Delta


class OutputParser(Protocol):
    """Takes a model's text as it comes, and says what it means: content, reasoning, calls of tools.

    The deltas, merged, depend on the text alone and not on where it was cut into pieces. No delta holds part
    of a marker. Text that only resembles a marker, and a call that is none, come out as content. What is
    left out is the markup: the markers themselves, the names and braces around a call's arguments, and white
    space that separates calls and reasoning from the rest.

    The text must show the model's special tokens (``[TOOL_CALLS]``, ``<|python_tag|>``): decode with
    ``Tokenizer.decode``, which keeps them, as the engine's replies and streams do; and never with
    ``skip_special_tokens``. The end token is not part of the text.
    """

    def feed(self, text: str) -> list[Delta]:
        """What has become certain with this piece. Cost: O(characters), about 3 µs each.

        Raises:
            RuntimeError: after ``finish``.
        """
        ...

    def finish(self) -> list[Delta]:
        """The output is complete: what was held back. A second call gives nothing."""
        ...
