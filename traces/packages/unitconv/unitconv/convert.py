"""Converts quantities."""

import re

from .errors import UnitError
from .parser import parse_unit
from .units import ONE

_QUANTITY = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*(.*)\Z")


def parse_quantity(text):
    """The number and the Unit of a text such as 90 km/h."""
    match = _QUANTITY.match(text)
    if match is None:
        raise UnitError(f"expected a number and a unit, got {text!r}")
    unit = match.group(2).strip()
    return float(match.group(1)), parse_unit(unit) if unit else ONE


def convert(value, source, target):
    """The value in the target unit; both units are Unit objects."""
    if source.exponents != target.exponents:
        raise UnitError(f"cannot convert {source.dimension()} to {target.dimension()}")
    return (value + source.offset) * source.factor / target.factor - target.offset


def format_number(value):
    """Up to six significant digits, without an exponent where it is short enough."""
    return f"{value:.6g}"
