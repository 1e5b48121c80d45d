"""Reads log records."""

import re
from dataclasses import dataclass, field
from datetime import datetime

LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]

_LINE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))"
    r" (?P<level>[A-Z]+) (?P<logger>\S+) (?P<text>.*)"
)
_REQUEST = re.compile(
    r"(?P<method>GET|POST|PUT|DELETE) (?P<path>\S+) (?P<status>\d{3}) (?P<duration>\d+(?:\.\d+)?)(?P<unit>ms|s)"
)


@dataclass
class Record:
    """One log record; ``extra`` holds the lines that follow it without a time of their own."""

    time: datetime
    level: str
    logger: str
    text: str
    extra: list = field(default_factory=list)

    @property
    def rank(self):
        """The place of the level in LEVELS."""
        return LEVELS.index(self.level)


@dataclass(frozen=True)
class Request:
    """The request in a record's text; the duration is in milliseconds."""

    method: str
    path: str
    status: int
    duration: float


def parse_time(text):
    """A point in time of ISO 8601 text."""
    if text.endswith("Z"):
        text = text[:-1]
    return datetime.fromisoformat(text[:19])


def parse_request(text):
    """The request in a text, or None."""
    match = _REQUEST.search(text)
    if match is None:
        return None
    return Request(
        match.group("method"), match.group("path"), int(match.group("status")), float(match.group("duration"))
    )


def read_records(lines):
    """Yield the records of an iterable of lines."""
    for line in lines:
        line = line.rstrip("\n")
        match = _LINE.match(line)
        if match is None:
            continue
        yield Record(
            parse_time(match.group("time")), match.group("level"), match.group("logger"), match.group("text")
        )
