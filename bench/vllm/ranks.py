"""``vllm serve`` with two data-parallel engines, each of which drafts for its own requests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.vllm.serve import Server

CLIENTS = 4


def data_parallel(model: Path, mode: str) -> dict[str, Any]:
    """Loops of several clients at once: their texts, and the draft tokens that each engine accepted."""
    with Server(model, mode, options=("--data-parallel-size", "2")) as server:
        server.wait()
        with ThreadPoolExecutor(CLIENTS) as clients:
            loops = [
                clients.submit(server.talk, session=f"loop-{number}", system=f"You are agent {number}. ")
                for number in range(CLIENTS)
            ]
            texts = [loop.result() for loop in loops]
        accepted = [
            int(server.metrics(f'engine="{engine}"').get("spec_decode_num_accepted_tokens_total", 0))
            for engine in range(2)
        ]
        return {"texts": texts, "accepted": accepted, "ready_seconds": server.ready_seconds}
