"""The end-to-end checks: each runs without drafts and with them, and says whether it holds and what was seen."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import environment
from bench.vllm import ranks, serve, shared
from bench.vllm.modes import environment as variables

DECODED = {
    "greedy": ("greedy",),
    "seeded": ("seeded",),
    "aborts": ("aborts",),
    "schema": ("schema",),
    "n": ("n",),
    "edge": ("edge",),
    "rows": ("rows",),
    "chunked": ("chunked",),
    "loop": ("loop",),
    "preemption": ("preemption",),
    "prefix": ("prefix_on", "prefix_off"),
    "lora": ("lora", "lora_shared"),
}
"""Checks in one process, and which parts of ``decode`` each looks at."""
ALL = ("contract", *DECODED, "tp", "serve", "shared", "dp")

_CAME_ABOUT = {
    "edge": ("at_length", "refused", "stopped", "held"),
    "rows": ("moved",),
    "chunked": ("chunks_beside",),
    "preemption": ("preemptions", "returned"),
    "prefix_on": ("prefix_hits",),
    "lora": ("unlike",),
    "lora_shared": ("unlike",),
}
"""By part, what has to have been seen at least once, with drafts and without: else nothing was checked."""

Found = dict[str, Any]
"""Of one part: its outputs, what was seen, and what the proposer is left with."""


def run(wanted: list[str], folder: Path, scratch: Path) -> dict[str, Any]:
    """Each check: whether it holds, its time, and what was seen.

    Args:
        wanted: names among ``ALL``; others are left to whom they belong.
        folder: for the models.
        scratch: a new folder.
    """
    found: dict[str, Any] = {}
    model = folder / "tiny"
    if "contract" in wanted:
        found["contract"] = _contract()
    parts = [part for name, parts in DECODED.items() if name in wanted for part in parts]
    if parts:
        begun = time.monotonic()
        plain = _decode("none", parts, model)
        drafted = _decode("suffixspec", parts, model)
        for name, of in DECODED.items():
            if name in wanted:
                wrong = _wrong(name, [plain[part] for part in of], [drafted[part] for part in of], of)
                about = "; ".join(
                    [*(wrong or ["as without drafts"]), *(_about(drafted[part]) for part in of)]
                )
                found[name] = check(name, not wrong, begun, about)
    if "tp" in wanted:
        found["tp"] = _tensor_parallel(model)
    if "serve" in wanted:
        found["serve"] = _serve(model, scratch / "history")
    if "shared" in wanted:
        found["shared"] = _shared(model, scratch / "shared")
    if "dp" in wanted:
        found["dp"] = _data_parallel(model)
    return found


def check(name: str, ok: bool, begun: float, about: str) -> dict[str, Any]:
    """Print a line of the table, and keep it."""
    seconds = round(time.monotonic() - begun, 1)
    print(f"{'ok  ' if ok else 'FAIL'} {name:10} {seconds:6.1f} s  {about}", flush=True)
    return {"ok": bool(ok), "seconds": seconds, "about": about}


def result(command: list[str], *, in_process: bool = True) -> dict[str, Any]:
    """What a module of this folder prints."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=environment.ROOT,
        env=variables(in_process=in_process),
        capture_output=True,
        text=True,
        check=False,
    )
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            found: dict[str, Any] = json.loads(line[7:])
            return found
    raise SystemExit(f"expected a result of {command[0]}, got:\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}")


def _decode(mode: str, parts: list[str], model: Path, *options: str) -> dict[str, Any]:
    """What one process decodes, or with ``options`` several; see ``decode``."""
    command = ["bench.vllm.decode", "--mode", mode, "--model", str(model), *options, "--parts", *parts]
    return result(command, in_process=not options)


def _contract() -> dict[str, Any]:
    begun = time.monotonic()
    tests = environment.ROOT / "tests" / "integrations"
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *(str(tests / name) for name in ("hosted", "vllm"))],
        cwd=environment.ROOT,
        env=variables(),
        capture_output=True,
        text=True,
        check=False,
    )
    last = (done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]])[-1]
    return check("contract", done.returncode == 0 and "skipped" not in last, begun, last.strip("= "))


def _wrong(name: str, plain: list[Found], drafted: list[Found], parts: tuple[str, ...]) -> list[str]:
    """What does not hold, in words; nothing where all does.

    Args:
        name: of the check.
        plain: its parts without drafts.
        drafted: with drafts.
        parts: their names.
    """
    wrong = []
    for part, without, with_drafts in zip(parts, plain, drafted, strict=True):
        if with_drafts["outputs"] != without["outputs"]:
            wrong.append(f"{part}: other outputs than without drafts: {_differ(without, with_drafts)}")
        for what in _CAME_ABOUT.get(part, ()):
            for found in (without, with_drafts):
                if not found["seen"].get(what):
                    wrong.append(f"{part}: no {what}")  # noqa: PERF401
        seen, left = with_drafts["seen"], with_drafts["left"]
        if not (seen["proposed"] and seen["drafted"] and seen["accepted"]):
            wrong.append(f"{part}: no drafts accepted: {seen}")
        # The last request itself has told of the ends of all others, and nothing has told of its own.
        if not left["live"] == left["busy"] == 1 or left["failures"] or left["said"]:
            wrong.append(f"{part}: left behind: {left}")
    more = _MORE.get(name)
    return [*wrong, *(more(plain, drafted) if more is not None else ())]


def _wrong_of_n(_: list[Found], drafted: list[Found]) -> list[str]:
    outputs = drafted[0]["outputs"]
    greedy = [one for one in outputs["greedy"] for _ in range(3)]
    return [] if outputs["most_probable"] == greedy else ["the most probable outputs are not the greedy ones"]


def _wrong_of_rows(_: list[Found], drafted: list[Found]) -> list[str]:
    return [] if drafted[0]["seen"]["widest"] == 8 else ["no batch of eight"]


def _wrong_of_preemption(_: list[Found], drafted: list[Found]) -> list[str]:
    return [] if drafted[0]["seen"].get("accepted_after_return") else ["no drafts after a return"]


def _wrong_of_loop(_: list[Found], drafted: list[Found]) -> list[str]:
    wrong = []
    for found in drafted:
        seen = found["seen"]
        if seen.get("sessions") != 1 or seen["indexed"] != seen["context"]:
            wrong.append(f"not one session that indexed each token once: {seen}")
    return wrong


def _wrong_of_prefix(plain: list[Found], drafted: list[Found]) -> list[str]:
    wrong = _wrong_of_loop(plain, drafted)
    if plain[0]["outputs"] != plain[1]["outputs"]:
        wrong.append("vLLM itself has other outputs with prefix caching")
    if drafted[1]["seen"]["prefix_hits"]:
        wrong.append("prefix caching was not off")
    return wrong


def _wrong_of_lora(_: list[Found], drafted: list[Found]) -> list[str]:
    apart, together = (found["seen"] for found in drafted)
    wrong = []
    if apart["again_steps"] > 0.6 * apart["first_steps"]:
        wrong.append(f"an adapter does not draft from what it wrote: {apart}")
    if apart["twin_steps"] < 0.85 * apart["first_steps"] or apart["namespaces"] != 4:
        wrong.append(f"an adapter drafts from what another one wrote: {apart}")
    if together["twin_steps"] > 0.6 * together["first_steps"] or together["namespaces"] != 1:
        wrong.append(f"adapters that share do not draft from one another: {together}")
    return wrong


_MORE: dict[str, Callable[[list[Found], list[Found]], list[str]]] = {
    "n": _wrong_of_n,
    "rows": _wrong_of_rows,
    "loop": _wrong_of_loop,
    "preemption": _wrong_of_preemption,
    "prefix": _wrong_of_prefix,
    "lora": _wrong_of_lora,
}


def _differ(plain: Found, drafted: Found) -> str:
    """Which outputs."""
    outputs, others = plain["outputs"], drafted["outputs"]
    names = outputs if isinstance(outputs, dict) else range(len(outputs))
    return ", ".join(str(name) for name in names if outputs[name] != others[name])


def _about(found: Found) -> str:
    seen = {name: value for name, value in found["seen"].items() if value}
    return f"{len(found['outputs'])} outputs, {seen}"


def _tensor_parallel(model: Path) -> dict[str, Any]:
    begun = time.monotonic()
    parts = ["greedy", "seeded"]
    plain, drafted = (
        _decode(mode, parts, model, "--tensor-parallel", "2") for mode in ("none", "suffixspec")
    )
    seen = {part: drafted[part]["seen"] for part in parts}
    equal = all(drafted[part]["outputs"] == plain[part]["outputs"] for part in parts)
    accepted = all(one["accepted"] > 0 for one in seen.values())
    about = f"two ranks, outputs {'as without drafts' if equal else 'NOT as without drafts'}; {seen}"
    return check("tp", equal and accepted, begun, about)


def _serve(model: Path, history: Path) -> dict[str, Any]:
    begun = time.monotonic()
    plain = serve.run(model, "none")
    server = serve.run(model, "suffixspec", history=history)
    said = server["metrics"]
    kept = sum(path.stat().st_size for path in history.glob("namespaces/*/*"))
    ok = server["texts"] == plain["texts"] and len(server["texts"]) == serve.TURNS
    ok = ok and said.get("spec_decode_num_accepted_tokens_total", 0) > 0 and kept > 0
    about = f"{serve.TURNS} turns, {said}; ready in {server['ready_seconds']} s; history of {kept} bytes"
    return check("serve", ok, begun, about)


def _shared(model: Path, folder: Path) -> dict[str, Any]:
    begun = time.monotonic()
    found = shared.run(model, folder)
    equal = found["texts"] == found["again"] == found["alone"]
    # Of each server, also of the one that was killed, the most is drafted from what it wrote.
    least = 0.6 * shared.TOKENS * len(shared.PROMPTS["first"])
    kept = all(one["again"] > max(least, 1.3 * one["alone"]) for one in found["accepted"].values())
    about = f"texts {'equal' if equal else 'NOT equal'}; tokens accepted of what each had written: {found['accepted']}"
    return check("shared", equal and kept and found["beside"] and found["after_kill"], begun, about)


def _data_parallel(model: Path) -> dict[str, Any]:
    begun = time.monotonic()
    plain, drafted = (ranks.data_parallel(model, mode) for mode in ("none", "suffixspec"))
    accepted = drafted["accepted"]
    ok = drafted["texts"] == plain["texts"] and len(accepted) == 2 and min(accepted) > 0
    return check("dp", ok, begun, f"two engines, accepted {accepted}; ready in {drafted['ready_seconds']} s")
