"""Typed INI files."""

from .config import Config, load, loads
from .errors import InikitError, InterpolationError, ParseError
from .writer import dumps

__all__ = ["Config", "InikitError", "InterpolationError", "ParseError", "dumps", "load", "loads"]
