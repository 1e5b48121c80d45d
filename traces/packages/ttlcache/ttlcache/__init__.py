"""A bounded cache whose entries expire."""

from .cache import TTLCache
from .decorator import cached
from .stats import Stats

__all__ = ["Stats", "TTLCache", "cached"]
