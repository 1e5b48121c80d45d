"""Many settings of one peer over the same text, with one index.

Where a text is known beforehand, what a peer has indexed at a place of it does not depend on how the decoding
came there. So the index is filled once, and at each place all settings draft whose next step begins there. For
a peer that indexes 50,000 tokens of prompt before each turn, this is most of the work.
"""

from collections import Counter
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from suffixspec.replay.result import DrafterResult, TurnResult
from suffixspec.replay.simulate import RenderedSession
from suffixspec.text.render import RenderedTurn
from suffixspec.verify.recorded import accept_recorded


def explore(
    recorded: Sequence[RenderedSession], drafter: Any, settings: dict[str, Any]
) -> list[DrafterResult]:
    """Decode the sessions with each of the settings.

    Args:
        recorded: the sessions, in the order in which they become history.
        drafter: a peer whose sessions have an attribute ``settings`` that only their drafts depend on.
        settings: by the name of the result.

    Returns:
        One result per setting, with turns, times and nodes of drafts, and the size of the index. Indexing is
        measured once and is the same in all of them.
    """
    results = [DrafterResult(name) for name in settings]
    times: list[list[float]] = [[] for _ in results]
    nodes: list[list[int]] = [[] for _ in results]
    attempts: Counter[str] = Counter()
    index_bytes = index_tokens = 0
    for session in recorded:
        attempts[session.task_key] += 1
        drafting = drafter.session(session.namespace)
        for turn in session.turns:
            decoded = [
                TurnResult(
                    session.session_id,
                    turn.index,
                    session.task_key,
                    attempts[session.task_key],
                    len(turn.prompt_ids),
                )
                for _ in results
            ]
            _decode(drafting, turn, list(settings.values()), decoded, times, nodes)
            for result, one in zip(results, decoded, strict=True):
                result.turns.append(one)
        total = drafter.nbytes + drafting.nbytes
        if total > index_bytes:
            index_bytes, index_tokens = total, drafter.indexed_tokens + drafting.indexed_tokens
        drafting.close()
    for result, us, ks in zip(results, times, nodes, strict=True):
        result.draft_us, result.draft_nodes = np.array(us, np.float32), np.array(ks, np.int32)
        result.index_bytes, result.index_tokens = index_bytes, index_tokens
    return results


def _decode(
    drafting: Any,
    turn: RenderedTurn,
    settings: list[Any],
    decoded: list[TurnResult],
    times: list[list[float]],
    nodes: list[list[int]],
) -> None:
    """One turn with all settings; ``decoded``, ``times`` and ``nodes`` are filled, one entry per setting."""
    clock = perf_counter
    begun = clock()
    known = drafting.sync(turn.prompt_ids)
    prompt_us = append_us = (clock() - begun) * 1e6
    output = turn.output_ids
    steps_at = [0] * len(settings)  # where the next step of each setting begins
    at = 0
    while at < len(output):
        for i, setting in enumerate(settings):
            if steps_at[i] != at:
                continue
            drafting.settings = setting
            begun = clock()
            draft = drafting.draft()
            took = (clock() - begun) * 1e6
            accepted = len(accept_recorded(draft, output[at:])) if len(draft) else 0
            emitted = min(accepted + 1, len(output) - at)
            one = decoded[i]
            one.tokens += emitted
            one.steps += 1
            one.drafted += len(draft)
            one.accepted += accepted
            one.draft_us += took
            times[i].append(took)
            nodes[i].append(len(draft))
            steps_at[i] = at + emitted
        reached = min(steps_at)
        begun = clock()
        drafting.accept(output[at:reached])
        append_us += (clock() - begun) * 1e6
        at = reached
    drafting.end_turn()
    for one in decoded:
        one.append_us, one.prompt_append_us = append_us, prompt_us
        one.appended_tokens = len(turn.prompt_ids) - known + len(output)
