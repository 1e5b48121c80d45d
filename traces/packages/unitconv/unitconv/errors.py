"""Exceptions of unitconv."""


class UnitError(ValueError):
    """A unit is unknown, malformed or of the wrong dimension."""
