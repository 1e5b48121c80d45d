"""Several processes with one history: each drafts what the others wrote, and none what was forgotten."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .inputs import opened
from .test_forget import PROMPT, SECRET, wait_until

ROOT = Path(__file__).resolve().parents[2]


class Remote:
    """A worker in another process."""

    def __init__(self, place: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.store.worker", str(place)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        assert self._answer() == "ready"

    def __call__(self, *command: object):
        """Tell it a command; what it answers."""
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self):
        assert select.select([self._process.stdout], [], [], 300)[0], "the worker hangs"
        return json.loads(self._process.stdout.readline())

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def signal(self, number: int) -> None:
        """Stop it, or let it go on."""
        os.kill(self.pid, number)

    def end(self) -> None:
        """However it is."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


@pytest.fixture
def workers(tmp_path, request):
    started = [Remote(tmp_path) for _ in range(getattr(request, "param", 2))]
    yield started
    for worker in started:
        worker.end()


def said_by(writer: int, number: int) -> tuple[list[int], list[int]]:
    """A prompt and an output that nobody else says."""
    start = 10_000 * (writer + 1) + 100 * number
    return list(range(start, start + 5)), list(range(start + 50, start + 70))


def test_each_worker_drafts_what_the_others_wrote(workers, tmp_path):
    """Two processes write to one namespace in turns and at once: all is kept once, all is drafted by both."""
    for number in range(6):
        for writer, worker in enumerate(workers):
            worker("begin", f"{writer}-{number}")
            worker("speak", f"{writer}-{number}", *said_by(writer, number))
        for writer, worker in enumerate(workers):
            worker("end", f"{writer}-{number}")
    for worker in workers:
        worker("begin", "look")
    for writer in range(2):
        for number in range(6):
            prompt, output = said_by(writer, number)
            for worker in workers:  # the other's come by and by
                wait_until(lambda w=worker, p=prompt, o=output: w("draft", "look", p)[:3] == o[:3])
    for worker in workers:
        worker("close")
    with opened(tmp_path) as store:
        found = [one.tokens.tolist() for one in store.records("n")]
        expected = [said_by(writer, number)[1] for writer in range(2) for number in range(6)]
        assert sorted(found) == sorted(expected)
        assert store.verify() == []


@pytest.mark.parametrize("workers", [3], indirect=True)
def test_a_killed_writer_s_open_segment_is_taken_over(workers, tmp_path):
    """What one had written and not sealed when it was killed is drafted by the others, which run on; each writes on."""
    killed, *others = workers
    for writer, worker in enumerate(
        workers
    ):  # each has a segment of its own open, and has looked for dead ones'
        worker("begin", "one")
        worker("speak", "one", *said_by(writer, 0))
        worker("leave", "one")
    assert len(list(tmp_path.glob("namespaces/*/*.open"))) == 3
    assert not list(tmp_path.glob("namespaces/*/*.seg"))
    killed.signal(signal.SIGKILL)
    prompt, output = said_by(0, 0)
    for writer, worker in enumerate(others, start=1):
        worker("begin", "look")
        wait_until(lambda w=worker: w("draft", "look", prompt)[:3] == output[:3])
        worker("begin", "two")
        worker("speak", "two", *said_by(writer, 1))
        worker("leave", "two")
    assert len(list(tmp_path.glob("namespaces/*/*.open"))) == 2, "a living one's was taken"
    for worker in others:
        worker("close")
    with opened(tmp_path) as store:
        expected = [said_by(0, 0)[1]] + [said_by(writer, number)[1] for writer in (1, 2) for number in (0, 1)]
        assert sorted(one.tokens.tolist() for one in store.records("n")) == sorted(expected)
        assert store.verify() == []


@pytest.mark.parametrize("workers", [3], indirect=True)
def test_nobody_waits_for_the_lock_of_one_that_hangs(workers, tmp_path):
    """One stops while it holds the log: the others draft and end sessions; after its death all of it is written."""
    holder, *others = workers
    for worker in workers:
        worker("begin", "n")
    holder("hold")
    holder.signal(signal.SIGSTOP)
    for writer, worker in enumerate(others, start=1):
        prompt, output = said_by(writer, 0)
        worker("speak", "n", prompt, output)
        worker("queue", "n")
        worker("begin", "own")
        assert worker("draft", "own", prompt)[:3] == output[:3], "its own is in memory at once"
    assert not list(tmp_path.glob("namespaces/*/*")), "nothing is written by who has not the lock"
    holder.signal(signal.SIGKILL)
    for worker in others:
        worker("share")
    for worker, writer in zip(others, (2, 1), strict=True):
        prompt, output = said_by(writer, 0)
        wait_until(lambda w=worker, p=prompt, o=output: w("draft", "own", p)[:3] == o[:3])
        worker("close")
    with opened(tmp_path) as store:
        assert sorted(one.tokens.tolist() for one in store.records("n")) == [said_by(w, 0)[1] for w in (1, 2)]
        assert store.verify() == []


def test_no_process_drafts_what_was_forgotten(workers, tmp_path):
    """After ``forget`` returns: sessions that drafted it a moment before, in other processes, and new ones."""
    first = workers[0]
    first("begin", "secret")
    first("speak", "secret", PROMPT, SECRET)
    first("end", "secret")
    for worker in workers:
        worker("begin", "open")
        wait_until(lambda w=worker: w("draft", "open", PROMPT)[:3] == SECRET[:3])
    with opened(tmp_path) as store:
        report = store.forget(session="secret", timeout=60)
        assert (report.records, report.unacknowledged) == (1, [])
    for worker in workers:
        assert worker("again", "open") == []
        worker("begin", "new")
        assert worker("draft", "new", PROMPT) == []
        assert worker("draft", "open", PROMPT) == []


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs SIGSTOP")
def test_a_process_that_slept_through_a_forgetting_drafts_nothing_of_it(workers, tmp_path):
    """A stopped process is named as one that did not answer; when it goes on, its first draft has dropped it."""
    first, second = workers
    first("begin", "secret")
    first("speak", "secret", PROMPT, SECRET)
    first("end", "secret")
    second("begin", "open")
    wait_until(lambda: second("draft", "open", PROMPT)[:3] == SECRET[:3])
    second.signal(signal.SIGSTOP)
    with opened(tmp_path) as store:
        assert store.forget(session="secret", timeout=0.2).unacknowledged == [second.pid]
    second.signal(signal.SIGCONT)
    assert second("again", "open") == []


def test_a_worker_s_queue_is_forgotten_with_the_rest(workers, tmp_path):
    """What a session of another process has said and not ended yet is not written when it ends."""
    first = workers[0]
    first("begin", "secret")
    first("speak", "secret", PROMPT, SECRET)
    with opened(tmp_path) as store:
        assert store.forget(namespace="n", timeout=60).unacknowledged == []
    first("end", "secret")
    for worker in workers:
        worker("begin", "look")
        assert worker("draft", "look", PROMPT) == []
        worker("close")
    with opened(tmp_path) as store:
        assert list(store.records("n")) == []
