"""Tokens per second of none, ngram, suffix and suffixspec over loops cut from a trace, measured alternately."""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from bench import sessions
from bench.vllm.modes import MODES, TOKENS, environment

BARS = {"suffix": 1.1, "ngram": 1.5}
"""Of one loop at a time."""


def smollm2(folder: Path) -> Path:
    """SmolLM2-135M-Instruct as vLLM reads it; converted once, from the extra ``local``."""
    import torch

    from suffixspec.target.load import _load_model
    from suffixspec.text.gguf_tokenizer import cached_conversion, find_smollm2

    if not (folder / "model.safetensors").exists():
        folder.mkdir(parents=True, exist_ok=True)
        _load_model(None, torch.float32, None).save_pretrained(folder)
        tokenizer, _ = cached_conversion(find_smollm2(), "SmolLM2-135M-Instruct")
        for path in tokenizer.iterdir():
            if path.is_file() and path.name not in {"config.json", "generation_config.json", "complete.json"}:
                (folder / path.name).write_bytes(path.read_bytes())
    return folder


def loops(trace: str, *, most: int, turns: int, max_model_len: int, max_tokens: int) -> list[dict[str, Any]]:
    """Loops whose prompts only grow: the first prompt, and what comes after each reply (all as token ids)."""
    chosen = []
    for session in sessions.load([trace], limit=max(20, 10 * most)):
        first = session.turns[0].prompt_ids.tolist()
        answers = []
        for before, after in zip(session.turns, session.turns[1:turns], strict=False):
            spoken = [*before.prompt_ids.tolist(), *before.output_ids.tolist()]
            prompt = after.prompt_ids.tolist()
            if prompt[: len(spoken)] != spoken:
                break
            answers.append(prompt[len(spoken) :])
        length = len(first) + sum(map(len, answers)) + turns * (max_tokens + 1)
        if len(answers) == turns - 1 and length <= max_model_len:
            chosen.append({"session": session.session_id, "first": first, "answers": answers})
        if len(chosen) == most:
            break
    return chosen


class Worker:
    """A vLLM process; see ``worker``."""

    def __init__(self, mode: str, options: Sequence[str], log: IO[bytes]) -> None:
        self.mode = mode
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.vllm.worker", "--mode", mode, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment(),
        )
        self.prior_tokens = int(self._read()["prior_tokens"])

    def turns(self, asked: list[dict[str, Any]]) -> dict[str, Any]:
        """Requests at the same time; see ``worker.decode``."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("RESULT "):
                found: dict[str, Any] = json.loads(line[7:])
                return found
        raise RuntimeError(f"expected an answer of {self.mode}, got the end of the process; see its log")


@contextlib.contextmanager
def workers(modes: Sequence[str], options: Sequence[str], log: Path) -> Iterator[list[Worker]]:
    """One per mode, all alive at the same time."""
    begun: list[Worker] = []
    with log.open("ab") as sink:
        try:
            for mode in modes:
                begun.append(Worker(mode, options, sink))  # noqa: PERF401  # those begun are closed below
            yield begun
        finally:
            for worker in begun:
                worker.close()


def run(
    trace: str,
    model: Path,
    *,
    modes: Sequence[str] = MODES,
    most: int = 3,
    beside: int = 1,
    turns: int = 8,
    max_model_len: int = 6144,
    max_tokens: int = 64,
    tokens: int | None = None,
    settings: dict[str, Any] | None = None,
    minutes: float = 18.0,
    log: Path,
) -> dict[str, Any]:
    """Every loop in every mode, turn by turn, the modes in changing order; outputs have to be equal.

    ``beside`` loops are decoded at a time, and called one here. A further one is begun only if it is likely to end
    within ``minutes``, going by those before it.
    """
    begun = time.monotonic()
    found = loops(trace, most=most * beside, turns=turns, max_model_len=max_model_len, max_tokens=max_tokens)
    chosen = [found[at : at + beside] for at in range(0, len(found) - beside + 1, beside)]
    if not chosen:
        raise SystemExit(
            f"expected {beside} loops of {turns} turns within {max_model_len} tokens, got {len(found)} in {trace}"
        )
    end = 2  # <|im_end|> of SmolLM2
    options = ["--model", str(model), "--max-model-len", str(max_model_len)]
    options += ["--sequences", str(max(4, beside))]
    options += ["--tokens", str(tokens)] if tokens else []
    options += ["--settings", json.dumps(settings or {})]
    measured: list[dict[str, Any]] = []
    unequal = 0
    with workers(modes, options, log) as alive:
        prior_tokens = max(worker.prior_tokens for worker in alive)
        ready = time.monotonic()
        for number, group in enumerate(chosen):
            now = time.monotonic()
            if number and now - begun + (now - ready) / number > 60 * minutes:
                print(
                    f"{number} of {len(chosen)} loops: the next one would not end within {minutes:g} minutes"
                )
                break
            prompts = [list(loop["first"]) for loop in group]
            for turn in range(turns):
                order = [(turn + number + i) % len(alive) for i in range(len(alive))]
                asked = [
                    {"prompt": prompt, "session": loop["session"], "max_tokens": max_tokens}
                    for prompt, loop in zip(prompts, group, strict=True)
                ]
                by_mode = {alive[i].mode: alive[i].turns(asked) for i in order}
                outputs = list(zip(*(one["token_ids"] for one in by_mode.values()), strict=True))
                unequal += sum(any(one != alike[0] for one in alike) for alike in outputs)
                lengths = sum(map(len, prompts))
                measured.append({"loop": number, "turn": turn, "prompt": lengths, "modes": by_mode})
                for at, output in enumerate(by_mode[modes[0]]["token_ids"]):
                    if turn < turns - 1:
                        ended = [] if output[-1:] == [end] else [end]
                        prompts[at] += [*output, *ended, *group[at]["answers"][turn]]
            print(f"loop {number + 1} of {len(chosen)}: " + summary(measured, modes, number), flush=True)
    for one in measured:
        for mode in one["modes"].values():
            mode["tokens"] = sum(map(len, mode.pop("token_ids")))
    return {
        "loops": 1 + max(one["loop"] for one in measured),
        "beside": beside,
        "turns": turns,
        "max_tokens": max_tokens,
        "draft_tokens": tokens or TOKENS,
        "prior_tokens": prior_tokens,
        "unequal_turns": unequal,
        "table": table(measured, modes),
        "ratios": ratios(measured, modes, bars=BARS if beside == 1 else {}),
        "measured": measured,
    }


def rates(measured: list[dict[str, Any]], mode: str, loop: int | None = None) -> tuple[float, float, float]:
    """(tokens per second of decoding, of everything, tokens per forward) in one loop or all.

    Of decoding: from when each sequence had its first token, which comes with the prefill.
    """
    chosen = [one["modes"][mode] for one in measured if loop in (None, one["loop"])]
    counts = [one["tokens"] if "tokens" in one else sum(map(len, one["token_ids"])) for one in chosen]
    decoded = sum(one["decoded"] for one in chosen)
    seconds = sum(one["decode_seconds"] for one in chosen)
    return (
        decoded / max(seconds, 1e-9),
        sum(counts) / sum(one["seconds"] for one in chosen),
        decoded / max(sum(one["forwards"] for one in chosen), 1),
    )


def summary(measured: list[dict[str, Any]], modes: Sequence[str], loop: int) -> str:
    """One loop in one line."""
    return ", ".join(f"{mode} {rates(measured, mode, loop)[0]:.1f}" for mode in modes) + " tokens/s"


def table(measured: list[dict[str, Any]], modes: Sequence[str]) -> list[dict[str, Any]]:
    """A row per mode."""
    rows = []
    for mode in modes:
        decoding, whole, per_forward = rates(measured, mode)
        chosen = [one["modes"][mode] for one in measured]
        drafted = sum(one["draft_tokens"] for one in chosen)
        rows.append(
            {
                "mode": mode,
                "decode_tokens_per_second": round(decoding, 2),
                "tokens_per_second": round(whole, 2),
                "tokens_per_forward": round(per_forward, 3),
                "accepted_share": round(sum(one["accepted"] for one in chosen) / max(drafted, 1.0), 3),
                "propose_seconds": round(sum(one["propose_seconds"] for one in chosen), 3),
            }
        )
    return rows


def ratios(measured: list[dict[str, Any]], modes: Sequence[str], *, bars: dict[str, float]) -> dict[str, Any]:
    """This project's proposer against each other mode: loop by loop, their median, and over all."""
    found: dict[str, Any] = {}
    for mode in modes:
        if mode == "suffixspec" or "suffixspec" not in modes:
            continue
        by_loop = [
            rates(measured, "suffixspec", loop)[0] / rates(measured, mode, loop)[0]
            for loop in sorted({one["loop"] for one in measured})
        ]
        whole = rates(measured, "suffixspec")[0] / rates(measured, mode)[0]
        found[mode] = {
            "median": round(statistics.median(by_loop), 3),
            "least": round(min(by_loop), 3),
            "most": round(max(by_loop), 3),
            "overall": round(whole, 3),
            "bar": bars.get(mode),
            "met": None if mode not in bars else whole >= bars[mode],
        }
    return found
