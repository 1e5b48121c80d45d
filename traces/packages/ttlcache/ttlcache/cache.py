"""The cache itself."""

import time
from collections import OrderedDict

from .entry import Entry
from .stats import Stats


class TTLCache:
    """Least-recently-used cache with a time to live.

    Args:
        maxsize: the largest number of entries kept, at least 1.
        ttl: seconds an entry lives unless ``set`` says otherwise.
        clock: a function that gives the present time in seconds.
    """

    def __init__(self, maxsize=128, ttl=60.0, *, clock=time.monotonic):
        if maxsize < 1:
            raise ValueError(f"expected maxsize >= 1, got {maxsize}")
        if ttl <= 0:
            raise ValueError(f"expected ttl > 0, got {ttl}")
        self.maxsize = maxsize
        self.ttl = ttl
        self.stats = Stats()
        self._clock = clock
        self._entries = OrderedDict()

    def get(self, key, default=None):
        """The live value of a key, or the default."""
        entry = self._entries.get(key)
        if entry is None:
            self.stats.misses += 1
            return default
        if not entry.alive(self._clock()):
            self.stats.expired += 1
            return default
        self.stats.hits += 1
        self._entries.move_to_end(key)
        return entry.value

    def set(self, key, value, ttl=None):
        """Store a value under a key, as the most recently used entry."""
        now = self._clock()
        deadline = now + (ttl or self.ttl)
        if key not in self._entries and len(self._entries) >= self.maxsize:
            self._make_room()
        self._entries[key] = Entry(value, deadline)

    def delete(self, key):
        """Remove a key; True when a live entry was there."""
        entry = self._entries.pop(key, None)
        return entry is not None

    def purge(self):
        """Remove all expired entries and return how many there were."""
        now = self._clock()
        dead = [key for key, entry in self._entries.items() if not entry.alive(now)]
        for key in dead:
            del self._entries[key]
        return len(dead)

    def clear(self):
        self._entries.clear()

    def _make_room(self):
        key, _ = self._entries.popitem(last=False)
        self.stats.evicted += 1
        return key

    def __contains__(self, key):
        return self.get(key) is not None

    def __len__(self):
        return len(self._entries)

    def __iter__(self):
        return iter(list(self._entries))

    def items(self):
        """Pairs of key and value, least recently used first."""
        return [(key, entry.value) for key, entry in self._entries.items()]
