"""Summaries of service logs."""

from .records import Record, Request, read_records
from .stats import count_by, durations, per_minute, percentile

__all__ = ["Record", "Request", "count_by", "durations", "per_minute", "percentile", "read_records"]
