"""Unit conversion."""

from .convert import convert, parse_quantity
from .errors import UnitError
from .parser import parse_unit
from .units import Unit

__all__ = ["Unit", "UnitError", "convert", "parse_quantity", "parse_unit"]
