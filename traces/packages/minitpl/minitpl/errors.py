"""Exceptions of minitpl."""


class TemplateError(Exception):
    """The template is wrong."""

    def __init__(self, message, line):
        super().__init__(f"line {line}: {message}")
        self.line = line
