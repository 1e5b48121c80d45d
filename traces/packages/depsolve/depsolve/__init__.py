"""Picks versions so that all requirements hold."""

from .index import Index
from .resolver import ResolutionError, resolve
from .versions import Requirement, Version

__all__ = ["Index", "Requirement", "ResolutionError", "Version", "resolve"]
