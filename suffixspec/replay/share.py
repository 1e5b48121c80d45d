"""What one process of a replay has measured, and what several have measured together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from suffixspec.replay.result import DrafterResult, TurnResult


@dataclass(slots=True)
class Share:
    """The sessions that one process decoded, with every drafter."""

    results: list[DrafterResult] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """Of the sessions begun, in the order in which they were decoded: their places in the input, from 0."""
    starts: list[list[int]] = field(default_factory=list)
    """Per drafter, per session: the first of its turns in ``results``."""
    done: int = 0
    """Sessions decoded to their end."""
    skipped: int = 0
    """Malformed sessions passed over."""
    interrupted: bool = False


def merged(shares: Sequence[Share]) -> Share:
    """All shares as if one process had decoded the sessions in the order of the input.

    Tries of a task are counted over all processes; memory is that of all processes together; the sample is
    the one in which most was copied.
    """
    if len(shares) == 1:
        return shares[0]
    whole = Share(
        done=sum(share.done for share in shares), interrupted=any(one.interrupted for one in shares)
    )
    whole.skipped = sum(share.skipped for share in shares)
    whole.numbers = sorted(number for share in shares for number in share.numbers)
    for drafter in range(max((len(share.results) for share in shares), default=0)):
        parts = [share for share in shares if len(share.results) > drafter]
        result, starts = _merged_drafter(parts, drafter)
        whole.results.append(result)
        whole.starts.append(starts)
    return whole


def _merged_drafter(shares: Sequence[Share], drafter: int) -> tuple[DrafterResult, list[int]]:
    results = [share.results[drafter] for share in shares]
    merged = DrafterResult(results[0].name)
    pieces = sorted(
        (piece for share in shares for piece in _sessions(share, drafter)), key=lambda one: one[0]
    )
    tries: Counter[str] = Counter()
    starts = []
    for _, turns, _, _ in pieces:
        starts.append(len(merged.turns))
        if turns:
            tries[turns[0].task_key] += 1
            merged.turns += [replace(turn, attempt=tries[turn.task_key]) for turn in turns]
    merged.draft_us = np.concatenate([us for _, _, us, _ in pieces] or [merged.draft_us])
    merged.draft_nodes = np.concatenate([nodes for _, _, _, nodes in pieces] or [merged.draft_nodes])
    longest = max(len(one.accepted_length_histogram) for one in results)
    merged.accepted_length_histogram = np.zeros(longest, np.int64)
    for one in results:
        merged.accepted_length_histogram[: len(one.accepted_length_histogram)] += (
            one.accepted_length_histogram
        )
        merged.accepted_by_source = merged.accepted_by_source + one.accepted_by_source
        merged.drafted_by_source = merged.drafted_by_source + one.drafted_by_source
        merged.chain_tested += one.chain_tested
        merged.chain_accepted += one.chain_accepted
        merged.index_bytes += one.index_bytes
        merged.index_tokens += one.index_tokens
    shown = max(results, key=_copied)
    merged.sample, merged.sample_title = shown.sample, shown.sample_title
    return merged, starts


def _sessions(share: Share, drafter: int) -> Iterator[tuple[int, list[TurnResult], np.ndarray, np.ndarray]]:
    """(number, turns, draft times, draft nodes) of each session."""
    result, starts = share.results[drafter], share.starts[drafter]
    step = 0
    for at, number in enumerate(share.numbers):
        end = starts[at + 1] if at + 1 < len(starts) else len(result.turns)
        turns = result.turns[starts[at] : end]
        steps = step + sum(turn.steps for turn in turns)
        yield number, turns, result.draft_us[step:steps], result.draft_nodes[step:steps]
        step = steps


def _copied(result: DrafterResult) -> int:
    return sum(len(span.text) for span in result.sample if span.kind != "bonus")
