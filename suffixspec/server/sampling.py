"""How a request asks for its tokens to be chosen: the fields that OpenAI's two completion APIs share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from suffixspec.server.errors import ApiError
from suffixspec.server.fields import Fields, shown
from suffixspec.verify.sampling import SamplingParams

if TYPE_CHECKING:
    from suffixspec.server.service import Service

SAMPLING_FIELDS = frozenset(
    {
        "frequency_penalty",
        "logit_bias",
        "min_p",
        "presence_penalty",
        "repeat_penalty",  # llama.cpp's name
        "repetition_penalty",
        "seed",
        "stop",
        "stop_token_ids",
        "temperature",
        "top_k",
        "top_p",
    }
)
_MOST_STOPS = 64
MOST_OUTPUTS = 128


def read_sampling(fields: Fields, service: Service) -> dict[str, Any]:
    """Fields of ``SamplingParams``, the server's defaults where the request says nothing.

    Raises:
        ApiError: one is out of its range.
    """
    given = {
        "temperature": fields.number("temperature", 0, 2),
        "top_p": fields.number("top_p", 0, 1),
        "top_k": fields.whole("top_k", -1),
        "min_p": fields.number("min_p", 0, 1),
        "presence_penalty": fields.number("presence_penalty", -2, 2),
        "frequency_penalty": fields.number("frequency_penalty", -2, 2),
        "repetition_penalty": fields.number("repetition_penalty") or fields.number("repeat_penalty"),
        "seed": fields.whole("seed", -(2**63), 2**63 - 1),
        "stop": fields.texts("stop", _MOST_STOPS) or None,
        "stop_token_ids": _token_ids(fields, service.vocab_size),
        "logit_bias": _logit_bias(fields, service.vocab_size),
    }
    if given["top_k"] == -1:  # vLLM's way to say: all
        given["top_k"] = 0
    return service.settings.sampling | {name: value for name, value in given.items() if value is not None}


def check_sampling(sampling: dict[str, Any]) -> dict[str, Any]:
    """The same, if the engine takes it.

    Raises:
        ApiError: it does not.
    """
    if 0 < sampling.get("temperature", 0.0) < 1e-6:
        sampling["temperature"] = 0.0
    try:
        SamplingParams(**sampling)
    except ValueError as error:
        raise ApiError(str(error)) from error
    return sampling


def _token_ids(fields: Fields, vocab_size: int) -> list[int] | None:
    values = fields.items("stop_token_ids")
    for value in values or ():
        if not _is_token(value, vocab_size):
            raise fields.refuse("stop_token_ids", f"an array of token ids below {vocab_size:,}")
    return values


def _logit_bias(fields: Fields, vocab_size: int) -> dict[int, float] | None:
    given = fields.object("logit_bias")
    if given is None:
        return None
    bias: dict[int, float] = {}
    for name, value in given.value.items():
        token = int(name) if name.isascii() and name.isdigit() and len(name) < 12 else -1
        if not _is_token(token, vocab_size):
            raise ApiError(
                f"expected keys of logit_bias to be token ids below {vocab_size:,}, got {shown(name)}",
                param="logit_bias",
            )
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or abs(value) > 100:
            raise given.refuse(name, "a number from -100 to 100")
        bias[token] = float(value)
    return bias


def _is_token(value: Any, vocab_size: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < vocab_size
