"""A request of SGLang's as the sessions of ``suffixspec.integrations.hosted`` see one."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray


class RequestView:
    """What is read of a request: its parameters under the names that ``LiveRequest`` asks for, and its tokens.

    Args:
        request: SGLang's ``Req``.
    """

    def __init__(self, request: Any) -> None:
        self.request = request
        self._prompt = np.asarray(prompt_of(request), np.int32)
        self.num_prompt_tokens = len(self._prompt)
        given = request.sampling_params
        ends = set(getattr(request, "eos_token_ids", None) or ())
        stops = set(getattr(given, "stop_token_ids", None) or ())
        ignored = bool(getattr(given, "ignore_eos", False))
        custom = getattr(given, "custom_params", None)
        self.sampling_params = SimpleNamespace(
            temperature=float(getattr(given, "temperature", 0.0) or 0.0),
            max_tokens=getattr(given, "max_new_tokens", None),
            min_tokens=int(getattr(given, "min_new_tokens", 0) or 0),
            stop_token_ids=stops if ignored else stops | ends,
            eos_token_id=None,
            all_stop_token_ids=stops | ends,
            extra_args=custom if isinstance(custom, dict) else None,
        )
        self.adapter: str | None = getattr(request, "lora_id", None)

    def tokens(self, lately: Sequence[int] = ()) -> NDArray[np.int32]:
        """int32 [n]: prompt, output, and what was accepted lately and is not in the output yet. Cost: O(n)."""
        output = np.asarray(self.request.output_ids, np.int32)
        return np.concatenate((self._prompt, output, np.asarray(lately, np.int32)))


def prompt_of(request: Any) -> Sequence[int]:
    """Its tokens; those that stand for images are no tokens, but identities, in the padded ones."""
    unpadded = getattr(request, "origin_input_ids_unpadded", None)
    found: Sequence[int] = request.origin_input_ids if unpadded is None else unpadded
    return found


def accepted_lately(known: int, total: int, accepted: Sequence[int]) -> list[int]:
    """The end of a request's text that the scheduler has not put into its output yet.

    With overlap, results are taken in one iteration later, but not always: another batch in between gives them time.
    How many tokens there are says which it was.

    Args:
        known: tokens of prompt and output.
        total: tokens that there are: those with KV, and the pending one.
        accepted: what the last verification accepted, the bonus token included.
    """
    missing = total - known
    return list(accepted[-missing:]) if 0 < missing <= len(accepted) else []
