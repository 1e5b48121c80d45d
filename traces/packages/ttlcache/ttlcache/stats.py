"""Counters of a cache."""

from dataclasses import dataclass


@dataclass
class Stats:
    hits: int = 0
    misses: int = 0
    expired: int = 0
    evicted: int = 0

    @property
    def hit_rate(self):
        """Hits per read; 0.0 before the first read."""
        reads = self.hits + self.misses
        return self.hits / reads if reads else 0.0

    def reset(self):
        self.hits = self.misses = self.expired = self.evicted = 0
