"""One worker of several that share a history; run by test_processes, told what to do by lines of JSON.

    python -m tests.store.worker FOLDER

Each line is a list: a command and its arguments; each answer is a line of JSON.
"""

import json
import sys
from typing import Any

import numpy as np

from suffixspec.draft import IndexDrafter
from suffixspec.store import SavedHistory

from .inputs import opened


class Worker:
    """A process that drafts from a history and writes to it, as a server does."""

    def __init__(self, place: str) -> None:
        self.store = opened(place)
        self.saved = SavedHistory(self.store, IndexDrafter())
        self.sessions: dict[str, Any] = {}

    def begin(self, name: str, namespace: str = "n") -> None:
        """Begin an agent loop."""
        self.sessions[name] = self.saved.session(namespace, name)

    def speak(self, name: str, prompt: list[int], output: list[int]) -> None:
        """A turn of it."""
        session = self.sessions[name]
        session.sync(np.array(prompt))
        session.draft()
        session.accept(np.array(output, np.int32))
        session.end_turn()

    def end(self, name: str) -> None:
        """Its outputs become history, and are sealed."""
        self.sessions.pop(name).close()
        self.saved.share()

    def leave(self, name: str) -> None:
        """Its outputs become history, and are written; the segment stays open."""
        self.sessions.pop(name).close()
        self.saved.flush()

    def queue(self, name: str) -> None:
        """Its outputs become history of this process; they are written when the thread comes to it."""
        self.sessions.pop(name).close()

    def hold(self) -> None:
        """Take the lock of the log for good, as a process that is rewriting it."""
        self.store.log("n").lock.__enter__()

    def share(self) -> None:
        """Write and seal what is left; returns when others can see it."""
        self.saved.share()

    def draft(self, name: str, prompt: list[int]) -> list[int]:
        """What the session proposes after a prompt."""
        session = self.sessions[name]
        session.sync(np.array(prompt))
        return session.draft().token_ids.tolist()

    def again(self, name: str) -> list[int]:
        """What it proposes now, with no new prompt."""
        return self.sessions[name].draft().token_ids.tolist()

    def close(self) -> None:
        """Save and end."""
        self.saved.close()
        self.store.close()


def main() -> None:
    worker = Worker(sys.argv[1])
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        print(json.dumps(getattr(worker, command)(*arguments)), flush=True)
        if command == "close":
            return


if __name__ == "__main__":
    main()
