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
        stops = _ends(request) | set(getattr(given, "stop_token_ids", None) or ())
        custom = getattr(given, "custom_params", None)
        self.sampling_params = SimpleNamespace(
            temperature=_temperature(given),
            max_tokens=getattr(given, "max_new_tokens", None),
            min_tokens=int(getattr(given, "min_new_tokens", 0) or 0),
            stop_token_ids=set() if getattr(given, "ignore_eos", False) else stops,
            eos_token_id=None,
            all_stop_token_ids=stops,
            extra_args=custom if isinstance(custom, dict) else None,
        )
        self.adapter: str | None = getattr(request, "lora_id", None)

    def tokens(self, lately: Sequence[int] = ()) -> NDArray[np.int32]:
        """int32 [n]: prompt, output, and what was accepted lately and is not in the output yet. Cost: O(n)."""
        # What a stop string cut off stays in the output; behind it, SGLang counts nothing.
        ids = getattr(self.request, "output_ids_through_stop", None)
        output = np.asarray(self.request.output_ids if ids is None else ids, np.int32)
        return np.concatenate((self._prompt, output, np.asarray(lately, np.int32)))


def prompt_of(request: Any) -> Sequence[int]:
    """Its tokens; those that stand for images are no tokens, but identities, in the padded ones."""
    unpadded = getattr(request, "origin_input_ids_unpadded", None)
    found: Sequence[int] = request.origin_input_ids if unpadded is None else unpadded
    return found


def last_of(request: Any) -> int:
    """The last token of its text, as far as the scheduler knows it."""
    return int((list(request.output_ids[-1:]) or list(prompt_of(request)[-1:]) or [0])[-1])


def accepted_lately(request: Any, total: int, accepted: Sequence[int]) -> list[int]:
    """The end of a request's text that the scheduler has not put into its output yet.

    With overlap, results are taken in one iteration later, but not always: another batch in between gives them time.
    How many tokens there are says which it was.

    Args:
        request: SGLang's.
        total: tokens that there are: those with KV, and the pending one.
        accepted: what the last verification accepted, the bonus token included.
    """
    # KV is counted with what stands for images, which the unpadded prompt has not.
    missing = total - len(request.origin_input_ids) - len(request.output_ids)
    return list(accepted[-missing:]) if 0 < missing <= len(accepted) else []


def _temperature(given: Any) -> float:
    """That of the request. SGLang says greedy as a ``top_k`` of 1, and makes a temperature of 0 into that."""
    if getattr(given, "top_k", None) == 1:
        return 0.0
    return float(getattr(given, "temperature", 0.0) or 0.0)


def _ends(request: Any) -> set[int]:
    """The tokens that end a message: the model's, and its tokenizer's."""
    ends = set(getattr(request, "eos_token_ids", None) or ())
    tokenizer = getattr(request, "tokenizer", None)
    ends |= set(getattr(tokenizer, "additional_stop_token_ids", None) or ())
    one = getattr(tokenizer, "eos_token_id", None)
    return ends | ({one} if isinstance(one, int) else set())
