"""The sessions of a trace as token ids, rendered once for all measurements of a run."""

import sys
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from suffixspec.replay.simulate import RenderedSession
from suffixspec.text.render import render_session
from suffixspec.text.tokenizer import load_tokenizer
from suffixspec.trace.reader import read_sessions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffixspec.text.tokenizer import Tokenizer
    from suffixspec.trace.session import TraceSession

DEFAULT_TRACE = "traces/swebench.jsonl"


def load(
    traces: "Sequence[str]", *, limit: int | None, tokenizer: str | None = None
) -> list[RenderedSession]:
    """Read and render the first ``limit`` sessions of the files. Cost: O(text), a second per 2 MB."""
    loaded = load_tokenizer(tokenizer)
    sessions = [render(session, loaded) for session in read_sessions(traces, limit=limit)]
    print(f"rendered {len(sessions)} sessions", file=sys.stderr)
    return sessions


def render(session: "TraceSession", tokenizer: "Tokenizer") -> RenderedSession:
    """One session as token ids."""
    turns = list(render_session(session, tokenizer))
    return RenderedSession(session.session_id, session.task_key, session.namespace or "default", turns)


def stream(session: RenderedSession) -> NDArray[np.int32]:
    """int32 [n]: all that a session's index appends: what is new of each prompt, and each output."""
    context = np.zeros(0, np.int32)
    pieces = []
    for turn in session.turns:
        shared = min(len(context), len(turn.prompt_ids))
        differs = np.flatnonzero(context[:shared] != turn.prompt_ids[:shared])
        common = int(differs[0]) if differs.size else shared
        pieces += [turn.prompt_ids[common:], turn.output_ids]
        context = np.concatenate([turn.prompt_ids, turn.output_ids])
    return np.ascontiguousarray(np.concatenate(pieces), np.int32)
