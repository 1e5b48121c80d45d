"""Figures about records."""

from collections import Counter

from .records import parse_request


def count_by(records, attribute):
    """How often each value of an attribute occurs, most frequent first, then by name."""
    counts = Counter(getattr(record, attribute) for record in records)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def durations(records):
    """The durations of all requests, in milliseconds."""
    requests = (parse_request(record.text) for record in records)
    return [request.duration for request in requests if request]


def percentile(values, p):
    """The p-th percentile by nearest rank; ValueError without values."""
    if not values:
        raise ValueError("expected at least one value, got none")
    ordered = sorted(values)
    rank = int(p / 100 * len(ordered))
    return ordered[min(rank, len(ordered) - 1)]


def per_minute(records):
    """Pairs of minute and number of records, in order of time."""
    counts = Counter(record.time.replace(second=0, microsecond=0) for record in records)
    return sorted(counts.items())
