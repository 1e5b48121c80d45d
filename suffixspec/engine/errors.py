"""What an engine raises on purpose."""

from suffixspec.errors import SuffixspecError


class ContextLengthError(SuffixspecError):
    """A prompt leaves no room for an output in the model's context. Nothing was truncated or shifted."""


class OutOfMemoryError(SuffixspecError):
    """The memory does not hold what was asked for, even without the other branches; says what to lower."""
