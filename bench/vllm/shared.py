"""Several ``vllm serve`` on one folder of outputs: both write, one is killed, a third one drafts from all of it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.vllm.serve import Server

PROMPTS = {
    "first": ("What is broken?", "Mend the tree", "Run all tests", "Read README.md", "Say why", "Go on"),
    "second": ("On the sea", "Two harbours", "The wind of May", "No land", "Seven birds", "At night"),
}
"""What each server is asked."""
TOKENS = 24
"""Of each answer: too few to repeat itself much."""
_WRITTEN_SECONDS = 60
_READ_SECONDS = 5.0


def run(model: Path, folder: Path) -> dict[str, Any]:
    """Two servers at once, each with a client of its own; the first is killed with no warning, the second is stopped.

    Then the same is asked of a server that opens the folder, and of one that has none.

    Args:
        model: of the tiny Llama.
        folder: of the outputs, new.

    Returns:
        texts, again, alone: answers by who was asked first: that server's, the third's and the fourth's.
        accepted: likewise and then ``"again"`` or ``"alone"``, the draft tokens that server accepted.
        beside: whether both servers answered when all clients had ended.
        after_kill: whether the second one then gave its answers once more.
    """
    found: dict[str, Any] = {"again": {}, "alone": {}, "accepted": {}}
    first, second = (Server(model, "suffixspec", history=folder) for _ in PROMPTS)
    with first, second:
        servers = dict(zip(PROMPTS, (first.wait(), second.wait()), strict=True))
        with ThreadPoolExecutor(len(servers)) as clients:
            asked = {
                name: clients.submit(server.complete, PROMPTS[name], tokens=TOKENS)
                for name, server in servers.items()
            }
        found["texts"] = {name: answers.result() for name, answers in asked.items()}
        found["beside"] = all(server.metrics() for server in (first, second))
        _wait_for_outputs(folder, files=2)
        first.kill()
        found["after_kill"] = second.complete(PROMPTS["second"], tokens=TOKENS) == found["texts"]["second"]
    third = Server(model, "suffixspec", history=folder)
    fourth = Server(model, "suffixspec")
    with third, fourth:
        servers = {"again": third.wait(), "alone": fourth.wait()}
        for server in servers.values():
            server.complete(["A"], tokens=1)
        time.sleep(_READ_SECONDS)  # the folder is read in the background, from the first request on
        for name, prompts in PROMPTS.items():
            found["accepted"][name] = {}
            for where, server in servers.items():
                before = _accepted(server)
                found[where][name] = server.complete(prompts, tokens=TOKENS)
                found["accepted"][name][where] = _accepted(server) - before
    return found


def _accepted(server: Server) -> int:
    return int(server.metrics().get("spec_decode_num_accepted_tokens_total", 0))


def _wait_for_outputs(folder: Path, *, files: int) -> None:
    """Until so many segments are there, each of another process, and the last outputs in them."""
    until = time.monotonic() + _WRITTEN_SECONDS
    while time.monotonic() < until:
        segments = [path for path in folder.glob("namespaces/*/*") if path.suffix in {".seg", ".open"}]
        if len(segments) >= files:
            break
        time.sleep(0.5)
    time.sleep(2.0)
