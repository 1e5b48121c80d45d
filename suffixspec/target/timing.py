"""t(n, L): how long a forward over n new tokens takes on this target and machine, measured once and kept."""

import contextlib
import hashlib
import json
import logging
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from suffixspec.atomic_file import replacing
from suffixspec.context_cost import ContextCost
from suffixspec.cost import CostCurve
from suffixspec.errors import InputError
from suffixspec.target.memory import free_bytes
from suffixspec.text.cache import cache_root

if TYPE_CHECKING:
    from suffixspec.target.model import Target

_LOG = logging.getLogger("suffixspec")

WIDTHS = (1, 2, 4, 8, 16, 32, 64)
CONTEXTS = (512, 2048, 8192)
"""Past the last one t(n, L) goes on in a straight line, as attention does."""
_LEAST_ROUNDS = 2
_BUSY = 0.7
"""A stored t(1) is not believed when a plain step now takes less than this share of it."""


def measure_cost(
    target: "Target", *, contexts: Sequence[int] = CONTEXTS, seconds: float = 40.0, **options: Any
) -> ContextCost:
    """t(n, L) of ``target``: a curve per context length, see ``measure_curve``.

    Args:
        target: what to measure.
        contexts: tokens in front; those past the model's limit come down to it, and those whose KV would take
            more than a quarter of the free memory are left out, but for the shortest.
        seconds: about how long it may take in all.
        options: further arguments of ``measure_curve``.
    """
    most = max(0, target.max_positions - max(options.get("widths", WIDTHS)))
    room = free_bytes(target.device) // 4 // max(1, target.slot_bytes)
    shortest, *longer = sorted({min(length, most) for length in contexts})
    lengths = [shortest, *(length for length in longer if length <= room)]
    each = seconds / len(lengths)
    return ContextCost.of(
        (length, measure_curve(target, context_length=length, seconds=each, **options)) for length in lengths
    )


def measure_curve(
    target: "Target",
    *,
    context_length: int = 512,
    widths: Sequence[int] = WIDTHS,
    rounds: int = 5,
    seconds: float = 20.0,
    fresh: bool = False,
) -> CostCurve:
    """The cost curve of ``target`` behind a context of ``context_length`` tokens.

    Every round times a forward of each width once; the least time of a width counts, since other work on the
    machine can only add to it. The result is kept in the user's cache under the target's fingerprint, the
    machine, and the arguments. Later calls read it, after a few plain steps: where these are much faster than
    what is stored, the machine was busy then, and all is measured again.

    Args:
        target: what to measure.
        context_length: tokens in front; cut to what the model's limit allows. What they say makes no
            difference to the time, so the slots stay blank and are not prefilled.
        widths: the numbers of tokens n; 1 and one more at least.
        rounds: how often each is timed, after one forward to warm up.
        seconds: no further round begins after this time, but two are made at least.
        fresh: measure again, whatever is in the cache.

    Returns:
        A curve that is charged by the target's padding.
    """
    context_length = max(0, min(context_length, target.max_positions - max(widths)))
    widths = sorted({n for n in widths if n <= target.max_positions})
    about = _conditions(target, context_length, widths)
    key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:24]
    path = cache_root() / "costs" / f"{key}.json"
    timer = _Timer(target, context_length, max(widths))
    if not fresh:
        with contextlib.suppress(InputError):  # not there, or damaged
            curve = CostCurve.load(path)
            if timer.least(1, repeats=3, seconds=0.5) > _BUSY * curve.t1_ms:
                return curve
    _LOG.warning(
        "measuring what a forward of %s takes behind %d tokens, up to some %.0f s; it is kept for this machine",
        target.name,
        context_length,
        seconds,
    )
    for n in widths:
        timer.ms(n)
    started = time.perf_counter()
    times: list[tuple[int, float]] = []
    for done in range(rounds):
        if done >= _LEAST_ROUNDS and time.perf_counter() - started > seconds:
            break
        times += [(n, timer.ms(n)) for n in widths]
    curve = CostCurve.fit(times, buckets=target.buckets)
    _store(path, {**curve.to_json(), "about": about})
    return curve


class _Timer:
    """Times forwards over trees behind a blank context."""

    def __init__(self, target: "Target", context_length: int, widest: int) -> None:
        self._target = target
        self._cache = target.new_cache(context_length + target.padded(widest))
        self._cache.fill(context_length)

    def ms(self, n: int) -> float:
        """Milliseconds of one forward over ``n`` tokens."""
        token_ids = torch.arange(n) % self._target.vocab_size
        parents = [(i - 1) // 2 for i in range(n)]
        parents[0] = -1
        started = time.perf_counter()
        logits = self._target.forward_tree(self._cache, token_ids, parents)
        float(logits[-1, 0])  # waits for an accelerator
        return (time.perf_counter() - started) * 1e3

    def least(self, n: int, *, repeats: int, seconds: float) -> float:
        """The least of up to ``repeats`` forwards in about that time, after one to warm up."""
        self.ms(n)
        started, times = time.perf_counter(), [self.ms(n)]
        while len(times) < repeats and time.perf_counter() - started < seconds:
            times.append(self.ms(n))
        return min(times)


def _conditions(target: "Target", context_length: int, widths: Sequence[int]) -> dict[str, object]:
    """Everything that the time depends on, as far as it can be told."""
    return {
        "target": target.fingerprint,
        "name": target.name,
        "packed": target.is_packed,
        "buckets": list(target.buckets),
        "context_length": context_length,
        "widths": list(widths),
        "device": target.device_name,
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def _processor() -> str:
    """Model of the CPU, and how many there are."""
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} cores"


def _store(path: Path, data: dict[str, object]) -> None:
    """Write a file whole or not at all. A cache that cannot be written costs another measurement, no more."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(json.dumps(data, indent=1).encode())
    except OSError:
        return
