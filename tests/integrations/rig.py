"""A scripted tiny model behind the real server, for agents that go through their own framework."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from engine.tiny import TOKENIZER, target, tokenizer
from server.scripts import HERMES

from suffixspec.engine import Engine
from suffixspec.engine.turn import Turn
from suffixspec.integrations.local import LocalServer
from suffixspec.trace import read_sessions


def call(name: str, **arguments: Any) -> str:
    """A tool call as the model writes it."""
    return f'<tool_call>{{"name": "{name}", "arguments": {json.dumps(arguments)}}}</tool_call>'


@contextlib.contextmanager
def saying(*outputs: str) -> Iterator[None]:
    """The model says these, one call after the other; the tiny model's KV and forwards are real."""
    forward = Turn.forward
    left = list(outputs)
    scripts: dict[int, tuple[Turn, list[int]]] = {}

    def scripted(turn: Turn, token_ids: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
        logits = forward(turn, token_ids, parents)
        if id(turn) not in scripts:
            assert left, "expected no further call of the model"
            scripts[id(turn)] = turn, TOKENIZER.encode(left.pop(0) + "<|im_end|>")
        wanted = scripts[id(turn)][1]
        paths: list[list[int]] = []
        for i, parent in enumerate(parents.tolist()):
            before = [] if i == 0 else [*paths[parent], int(token_ids[i])]
            paths.append(before)
            written = [*turn.generation.token_ids, *before]
            if written == wanted[: len(written)] and len(written) < len(wanted):
                logits[i] = -50.0
                logits[i, wanted[len(written)]] = 50.0
        return logits

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Turn, "forward", scripted)
        yield
    assert not left, f"expected {len(left)} further calls of the model"


@dataclass
class Asked:
    """One call as it was recorded."""

    request: dict[str, Any]
    prompt: int
    cached: int
    output: int
    drafted: int
    accepted: int


class Rig:
    """A server over the tiny model, and its recording."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "calls.jsonl"
        engine = Engine(target(context=16_384), tokenizer(HERMES), kv_bytes=1 << 30)
        self.server = LocalServer(engine, record=self.path)

    def asked(self) -> list[Asked]:
        """The calls so far."""
        found = []
        for line in self.path.read_text().splitlines():
            record = json.loads(line)
            assert record["status"] == 200, record
            usage, times = record["response"]["usage"], record["response"]["timings"]
            found.append(
                Asked(
                    record["request"],
                    usage["prompt_tokens"],
                    usage["prompt_tokens_details"]["cached_tokens"],
                    usage["completion_tokens"],
                    times.get("draft_n", 0),
                    times.get("draft_n_accepted", 0),
                )
            )
        return found

    def check_loop(self, calls: int, *, sessions: int = 1, rewritten: bool = False) -> list[Asked]:
        """Each turn after the first reused the turn before: its prompt, and unless ``rewritten`` its output."""
        until_lines(self.path, calls)  # a line is written when the client has its answer
        asked = self.asked()
        found = list(read_sessions(self.path))
        assert (len(asked), len(found)) == (calls, sessions)
        assert sum(session.turns for session in found) == calls
        for before, after in itertools.pairwise(asked):
            output = 0 if rewritten else before.output
            assert after.cached >= before.prompt + output - 2, (before, after)
        for each in asked:
            print(
                f"prompt {each.prompt}, cached {each.cached} ({each.cached / each.prompt:.0%}), output {each.output}, "
                f"accepted {each.accepted} of {each.drafted} ({each.accepted / max(each.output, 1):.0%} of the output)"
            )
        return asked


def until_lines(path: Path, count: int) -> None:
    """Wait until other threads have written so many lines."""
    waiting = threading.Event()
    for _ in range(2400):
        if len(path.read_bytes().splitlines()) >= count:
            return
        waiting.wait(0.025)
