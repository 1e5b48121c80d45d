"""``vllm serve`` with an ``openai`` client over a loop of six turns, and what ``/metrics`` says."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.vllm import tiny
from bench.vllm.engine import TOKENS
from bench.vllm.modes import environment, speculation
from bench.vllm.tiny import TEXTS

TURNS = 6
_READY_SECONDS = 600
_METRIC = re.compile(r"^vllm:(spec_decode_num_\w+|generation_tokens_total)(\{[^}]*\})? ([\d.e+]+)$")


class Server:
    """A ``vllm serve`` of the tiny Llama, in processes of its own.

    Args:
        model: the Llama's folder.
        mode: one of ``MODES``.
        history: folder of the proposer's outputs; None: it keeps none.
        options: further ones of the command line.
    """

    def __init__(
        self, model: Path, mode: str, *, history: Path | None = None, options: tuple[str, ...] = ()
    ) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        settings: dict[str, Any] = {"cost": "gpu", "prior": False}  # of a toy tokenizer
        if history is not None:
            settings["history"] = str(history)
        given = []
        for name, value in speculation(mode, tokens=TOKENS, settings=settings).items():
            given += [f"--{name.replace('_', '-')}", json.dumps(value)]
        command = [
            *("vllm", "serve", str(tiny.make(model)), "--port", str(self.port), "--host", "127.0.0.1"),
            *("--dtype", "float32", "--enforce-eager", "--max-model-len", "2048", "--max-num-seqs", "8"),
            *("--served-model-name", "tiny", *given, *options),
        ]
        self._started = time.monotonic()
        self.ready_seconds = 0.0
        self._said: list[str] = []
        self._process = subprocess.Popen(
            command,
            env=environment(in_process=False),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,  # killed as a whole
        )
        # A server that says much would wait for its reader.
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def said(self) -> str:
        """The last of what it wrote."""
        return "".join(self._said[-60:])

    def wait(self) -> Server:
        """Until it answers.

        Raises:
            RuntimeError: it ended, or does not answer in time.
        """
        until = time.monotonic() + _READY_SECONDS
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise RuntimeError(
                    f"expected a server, got an end with code {self._process.returncode}: {self.said[-4000:]}"
                )
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2):
                    self.ready_seconds = round(time.monotonic() - self._started, 1)
                    return self
            except OSError:
                time.sleep(1.0)
        raise RuntimeError(
            f"expected a server within {_READY_SECONDS} seconds, got none: {self.said[-4000:]}"
        )

    def stop(self) -> None:
        """End it as a user does, and with force where that takes a minute. May be called again."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End all its processes at once, with nothing put in order: ``kill -9``."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def metrics(self, of: str = "") -> dict[str, float]:
        """The counters of speculative decoding, and of generated tokens, all engines together.

        Args:
            of: what a line has to have among its labels.
        """
        found: dict[str, float] = {}
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as answer:
            for line in answer.read().decode().splitlines():
                match = _METRIC.match(line)
                if match and not match[1].endswith("_created") and "per_pos" not in match[1] and of in line:
                    found[match[1]] = found.get(match[1], 0.0) + float(match[3])
        return found

    def talk(self, *, session: str = "six-turns", system: str = "You are an agent. ") -> list[str]:
        """A loop of six turns, as an agent sends them; its texts."""
        import openai

        client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key="none", timeout=300)
        messages: list[Any] = [
            {"role": "system", "content": system * 10},
            {"role": "user", "content": TEXTS[1]},
        ]
        texts = []
        for turn in range(TURNS):
            answer = client.chat.completions.create(
                model="tiny",
                messages=messages,
                temperature=0,
                max_tokens=48,
                extra_body={"ignore_eos": True, "vllm_xargs": {"suffixspec_session": session}},
            )
            text = answer.choices[0].message.content or ""
            texts.append(text)
            messages += [
                {"role": "assistant", "content": text},
                {"role": "user", "content": f"Observation {turn}: {TEXTS[turn % 4]}"},
            ]
        return texts

    def complete(self, prompts: Sequence[str], *, tokens: int) -> list[str]:
        """Texts of ``tokens`` tokens that go on from prompts, one after the other."""
        import openai

        client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key="none", timeout=300)
        return [
            client.completions.create(
                model="tiny",
                prompt=prompt,
                temperature=0,
                max_tokens=tokens,
                extra_body={"ignore_eos": True},
            )
            .choices[0]
            .text
            for prompt in prompts
        ]

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.append(line)
            del self._said[:-200]


def run(model: Path, mode: str, *, history: Path | None = None) -> dict[str, Any]:
    """One server's answers and figures; the server is stopped again."""
    with Server(model, mode, history=history) as server:
        server.wait()
        return {
            "texts": server.talk(),
            "metrics": server.metrics(),
            "ready_seconds": server.ready_seconds,
        }
