"""Exceptions of inikit."""


class InikitError(Exception):
    """Base of all errors raised by this package."""


class ParseError(InikitError):
    """The text is not a valid INI file."""

    def __init__(self, message, line):
        super().__init__(f"line {line}: {message}")
        self.line = line


class InterpolationError(InikitError):
    """A ``${…}`` reference cannot be resolved."""
