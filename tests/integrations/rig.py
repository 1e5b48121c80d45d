"""A scripted tiny model behind the real server, for agents that go through their own framework."""

from __future__ import annotations

import contextlib
import io
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

from suffixspec.cli import main
from suffixspec.engine import Engine
from suffixspec.engine.turn import Turn
from suffixspec.integrations.local import LocalServer
from suffixspec.trace import read_sessions


def call(name: str, **arguments: Any) -> str:
    """A tool call as the model writes it."""
    return f"<tool_call>{bare(name, **arguments)}</tool_call>"


def bare(name: str, **arguments: Any) -> str:
    """A call that is required: JSON, and nothing else."""
    return json.dumps({"name": name, "arguments": arguments})


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
    streamed: bool
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

    def asked(self, calls: int = 0) -> list[Asked]:
        """The calls so far, once there are as many as that."""
        until_lines(self.path, calls)  # a line is written when the client has its answer
        found = []
        for line in self.path.read_text().splitlines():
            record = json.loads(line)
            assert record["status"] == 200, record
            times = record["response"]["timings"]  # the same in every API
            found.append(
                Asked(
                    record["request"],
                    record["streamed"],
                    times["cache_n"] + times["prompt_n"],
                    times["cache_n"],
                    times["predicted_n"],
                    times.get("draft_n", 0),
                    times.get("draft_n_accepted", 0),
                )
            )
        return found

    def check_loop(
        self, calls: int, *, sessions: int = 1, rewritten: bool = False, streamed: bool | None = None
    ) -> list[Asked]:
        """Each turn after the first reused the turn before: its prompt, and unless ``rewritten`` its output."""
        asked = self.asked(calls)
        assert streamed is None or {each.streamed for each in asked} == {streamed}
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


def check_replay(path: Path, *, turns: int) -> None:
    """``suffixspec replay`` takes the recording as it is, and replays the loop of so many turns."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["replay", str(path), "-o", "json"]) == 0
    replayed = json.loads(out.getvalue())
    assert (replayed["trace"]["sessions"], replayed["trace"]["turns"]) == (1, turns)
    assert replayed["drafters"][0]["tokens"] == replayed["trace"]["output_tokens"] > 0


def until_lines(path: Path, count: int) -> None:
    """Wait until other threads have written so many lines."""
    waiting = threading.Event()
    for _ in range(2400):
        if len(path.read_bytes().splitlines()) >= count:
            return
        waiting.wait(0.025)
