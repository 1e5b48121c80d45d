"""A caching decorator."""

import functools
import time

from .cache import TTLCache


def make_key(args, kwargs):
    """A hashable key of one call."""
    return args + tuple(kwargs.items())


def cached(maxsize=128, ttl=60.0, *, clock=time.monotonic):
    """Cache the results of a function; the wrapper has ``cache`` and ``uncached``."""

    def decorate(function):
        cache = TTLCache(maxsize, ttl, clock=clock)

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            key = make_key(args, kwargs)
            value = cache.get(key)
            if value is None:
                value = function(*args, **kwargs)
                cache.set(key, value)
            return value

        wrapper.cache = cache
        wrapper.uncached = function
        return wrapper

    return decorate
