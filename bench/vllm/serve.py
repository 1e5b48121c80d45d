"""``vllm serve`` with an ``openai`` client over a loop of six turns, and what ``/metrics`` says."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

from bench.vllm import tiny
from bench.vllm.decode import TEXTS
from bench.vllm.modes import environment, speculation

TURNS = 6
_READY_SECONDS = 400
_METRIC = re.compile(r"^vllm:(spec_decode_num_\w+|generation_tokens_total)(\{[^}]*\})? ([\d.e+]+)$")


def run(model: Path, mode: str, *, history: Path | None = None) -> dict[str, Any]:
    """One server's answers and figures; the server is stopped again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings: dict[str, Any] = {"cost": "gpu", "prior": False}  # of a toy tokenizer
    if history is not None:
        settings["history"] = str(history)
    options = []
    for name, value in speculation(mode, tokens=8, settings=settings).items():
        options += [f"--{name.replace('_', '-')}", json.dumps(value)]
    command = [
        *("vllm", "serve", str(tiny.make(model)), "--port", str(port), "--host", "127.0.0.1"),
        *("--dtype", "float32", "--enforce-eager", "--max-model-len", "2048", "--max-num-seqs", "8"),
        *("--served-model-name", "tiny", *options),
    ]
    started = time.monotonic()
    with subprocess.Popen(
        command,
        env=environment(in_process=False),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as server:
        try:
            _wait(server, port)
            ready = time.monotonic() - started
            texts = talk(port)
            return {"texts": texts, "metrics": metrics(port), "ready_seconds": round(ready, 1)}
        finally:
            server.send_signal(signal.SIGINT)
            try:
                server.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                server.kill()


def talk(port: int) -> list[str]:
    """A loop of six turns, as an agent sends them."""
    import openai

    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
    messages: list[Any] = [
        {"role": "system", "content": "You are an agent. " * 10},
        {"role": "user", "content": TEXTS[1]},
    ]
    texts = []
    for turn in range(TURNS):
        answer = client.chat.completions.create(
            model="tiny",
            messages=messages,
            temperature=0,
            max_tokens=48,
            extra_body={"ignore_eos": True, "vllm_xargs": {"suffixspec_session": "six-turns"}},
        )
        text = answer.choices[0].message.content or ""
        texts.append(text)
        messages += [
            {"role": "assistant", "content": text},
            {"role": "user", "content": f"Observation {turn}: {TEXTS[turn % 4]}"},
        ]
    return texts


def metrics(port: int) -> dict[str, float]:
    """The counters of speculative decoding, and of generated tokens."""
    found: dict[str, float] = {}
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        for line in answer.read().decode().splitlines():
            match = _METRIC.match(line)
            if match and not match[1].endswith("_created") and "per_pos" not in match[1]:
                found[match[1]] = found.get(match[1], 0.0) + float(match[3])
    return found


def _wait(server: subprocess.Popen[str], port: int) -> None:
    until = time.monotonic() + _READY_SECONDS
    while time.monotonic() < until:
        if server.poll() is not None:
            out = server.stdout.read() if server.stdout else ""
            raise RuntimeError(f"expected a server, got an end with code {server.returncode}: {out[-2000:]}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                return
        except OSError:
            time.sleep(1.0)
    raise RuntimeError(f"expected a server within {_READY_SECONDS} seconds, got none")
