"""suffixspec's own format; see the docstring of `suffixspec.trace`."""

from collections.abc import Iterable
from typing import Any

from suffixspec.trace.importers.base import Importer
from suffixspec.trace.native import parse_session
from suffixspec.trace.session import TraceSession


class Native(Importer):
    """One session a record: nothing to convert, everything is checked."""

    name = "native"
    title = "suffixspec JSONL"

    @classmethod
    def matches(cls, record: Any) -> bool:
        """Messages with a session id or a version of this format."""
        return (
            isinstance(record, dict)
            and "messages" in record
            and ("session_id" in record or type(record.get("version")) is int)
        )

    def feed(self, record: Any, line: int) -> Iterable[TraceSession]:
        """Take one session."""
        default_id = self.default_id(line)
        return (parse_session(record, default_id=default_id, path=self.context.path, line=line),)
