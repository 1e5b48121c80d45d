"""The algorithm: one step of decoding."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from suffixspec.engine.turn import Turn
    from suffixspec.verify.acceptance import Acceptance


def step(turn: Turn) -> Acceptance:
    """Draft, verify, accept, commit: one forward of the target, at least one token.

    The *pending* token x is the last one emitted (at first the last of the prompt). Its KV is not there yet:
    it is node 0 of the forward, and the draft hangs on it. Invariants, before and after:

        branch.token_ids + [x] == prompt + output
        every emitted token is the one that plain decoding emits: the draft decides only how many a step yields

    Whatever is raised on the way, the branch holds what it held before the step, or after it.

    Returns:
        The accepted path of the draft, and what was emitted.
    """
    clock = time.perf_counter
    begun = clock()
    # match + draft: the longest repeats of the context, as many nodes as pay. k nodes; none in plain decoding.
    draft = turn.draft()
    drafted = clock()

    # verify: one masked forward. Row 0 says what follows x, row i + 1 what follows node i.
    token_ids = torch.from_numpy(
        np.concatenate(([turn.pending], draft.token_ids)).astype(np.int64)
    )  # [k + 1]
    parents = torch.from_numpy(np.concatenate(([-1], draft.parents + 1)).astype(np.int64))  # [k + 1]
    logits = turn.forward(token_ids, parents)  # [k + 1, V]

    # accept: walk down the tree by the target's own choices, then one token more, the bonus.
    accepted = turn.accept(draft, logits)
    verified = clock()

    # commit: x and the accepted nodes keep their KV, the rest leaves no trace; the emitted tokens are indexed.
    path = [0, *(node + 1 for node in accepted.path)]
    emitted = accepted.token_ids
    turn.branch.keep(path, [turn.pending, *emitted[: len(accepted.path)]])
    turn.pending = emitted[-1]
    turn.drafting.accept(np.array(emitted, np.int32))
    turn.note(len(draft), accepted, drafted - begun, verified - drafted, clock() - verified)
    return accepted
