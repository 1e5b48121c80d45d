"""Several server processes with one history: each drafts what the others wrote, also what a killed one left."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from engine.tiny import EOS

from suffixspec.store import HistoryStore
from suffixspec.store.segment import read_open

# As test_command; how long a segment is open before it is sealed comes first.
PROGRAM = """
import sys
import torch
from engine.tiny import TOKENIZER, target
from suffixspec import cli
from suffixspec.engine import Engine
from suffixspec.store import Budget
import suffixspec.server.command as command
torch.set_num_threads(1)
command.load_engine = lambda args, **more: Engine(
    target(), TOKENIZER, kv_bytes=1 << 26, max_nodes=args.max_nodes, history_store=args.history,
    history_budget=Budget(seal_seconds=float(sys.argv[1])), **more
)
sys.exit(cli.main(sys.argv[2:]))
"""
LENGTH = 40


class Worker:
    """A server in a process of its own."""

    def __init__(self, history: Path, seal_seconds: float) -> None:
        tests = Path(__file__).resolve().parents[1]
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                PROGRAM,
                str(seal_seconds),
                "serve",
                "--port",
                "0",
                "--history",
                str(history),
            ],
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(tests)},
            text=True,
        )
        self.said = ""
        self.url = ""

    def wait(self) -> None:
        """Until it is ready."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if line.startswith("ready:"):
                break
        self.url = re.search(r"OPENAI_BASE_URL=(\S+)/v1", self.said)[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        self.said += self.process.stderr.read()

    def complete(self, prompt: str) -> tuple[str, int]:
        """What a greedy completion says, and the forwards that it took."""
        before = self._steps()
        body = {"prompt": prompt, "max_tokens": LENGTH, "temperature": 0, "logit_bias": {str(EOS): -100}}
        data = json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}/v1/completions", data, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as response:
            text = json.load(response)["choices"][0]["text"]
        return text, self._steps() - before

    def _steps(self) -> int:
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=120) as response:
            lines = response.read().decode().splitlines()
        return int(
            float(next(line.split()[1] for line in lines if line.startswith("suffixspec_steps_total")))
        )

    def end(self, number: int) -> int:
        """Send it a signal; its exit status."""
        self.process.send_signal(number)
        return self.process.wait(120)


@pytest.fixture
def workers(tmp_path):
    """One that seals after a second, and one that seals when it ends."""
    started = [Worker(tmp_path / "h", seconds) for seconds in (1.0, 1e9)]
    for worker in started:
        worker.wait()
    yield started
    for worker in started:
        worker.process.kill()
        worker.process.wait()


def prompt(number: int) -> str:
    """Prompts that the tiny model answers differently, and each with few repeats."""
    return f"task {number}: the file {number * 37} of tests"


def learned(worker: Worker, answers: dict[int, tuple[str, int]]) -> bool:
    """Whether one of these answers takes a worker less than half the forwards; each is asked for once."""
    for number, (text, forwards) in answers.items():
        again, fewer = worker.complete(prompt(number))
        assert again == text, f"prompt {number}"
        if fewer < forwards / 2:
            return True
        time.sleep(1.0)  # it looks at the disk every two seconds
    return False


def unsealed(history: Path) -> list[str]:
    """Texts that a server has written and not sealed."""
    paths = history.glob("namespaces/*/*.open")
    return [str(record.text) for path in paths for record in read_open(path)[1]]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_servers_share_a_history_and_outlive_one_another(workers, tmp_path):
    """What one answered takes the other fewer forwards, while both run; so does what one left when it was killed."""
    lasting, killed = workers
    history = tmp_path / "h"
    for worker in workers:  # from here on neither reads the folder because a namespace begins
        worker.complete("begin")
    answers = {number: lasting.complete(prompt(number)) for number in range(8)}
    assert learned(killed, answers), "from one that runs"

    left = {number: killed.complete(prompt(number)) for number in range(10, 14)}
    wait_until(lambda: {text for text, _ in left.values()} <= set(unsealed(history)))
    assert killed.end(signal.SIGKILL) == -signal.SIGKILL
    assert learned(lasting, left), "from one that was killed"

    assert lasting.end(signal.SIGINT) == 0, lasting.said
    assert "Traceback" not in lasting.said
    with HistoryStore(history) as store:
        assert {text for text, _ in [*answers.values(), *left.values()]} <= {
            record.text for record in store.records("default")
        }
        assert store.verify() == []


def wait_until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)
