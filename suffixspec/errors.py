"""The errors that suffixspec raises on purpose.

Every message says what was expected, what came, and where it helps, what to do about it.
"""


class SuffixspecError(Exception):
    """Base of all errors raised on purpose; the command line prints it without a traceback and exits with 2."""


class SuffixspecWarning(UserWarning):
    """Base of all warnings issued on purpose."""


class InputError(SuffixspecError):
    """A file that was given to suffixspec is missing, unreadable or malformed.

    Args:
        message: "expected X, got Y", and what to do where that is not obvious.
        path: the file as the user named it.
        line: 1-based line number, or None where the whole file is meant.
    """

    def __init__(self, message: str, *, path: str | None = None, line: int | None = None) -> None:
        self.message = message
        self.path = path
        self.line = line
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(where + message)


class MissingExtraError(SuffixspecError):
    """An optional dependency is needed and not installed."""
