"""tau-bench results: a list of runs, each with its chat messages under ``traj``."""

from collections.abc import Iterator
from typing import Any

from suffixspec.trace.chat import parse_messages
from suffixspec.trace.fields import an_object
from suffixspec.trace.importers.base import Importer
from suffixspec.trace.session import TraceSession


class TauBench(Importer):
    """One run a record."""

    name = "tau-bench"
    title = "tau-bench results"

    @classmethod
    def matches(cls, record: Any) -> bool:
        """A run has a task id and a ``traj``."""
        return isinstance(record, dict) and "traj" in record and "task_id" in record

    def feed(self, record: Any, line: int) -> Iterator[TraceSession]:
        """Take one run; a run that failed before its first message has an empty ``traj``."""
        run = an_object(record, "the run")
        messages = parse_messages(run.get("traj"), "traj")
        name = f"{self.context.stem}/task{run.get('task_id')}"
        if run.get("trial") is not None:
            name += f"/trial{run['trial']}"
        yield self.session(name, messages, line)
