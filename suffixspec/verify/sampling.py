"""How a token is chosen from the logits: the parameters, and the scores that they make of the logits."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, TypeAlias

import torch

LogitsProcessor: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""``processor(input_ids, scores) -> scores``: int64 [1, n] (the whole context, prompt included) and
float32 [1, V]; a ``transformers.LogitsProcessor`` is one. It may change ``scores`` in place."""


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """What the user asks for. A frozen value; the default is greedy decoding without any processing.

    Raises:
        ValueError: a parameter out of its range: "expected …, got …".
    """

    temperature: float = 0.0
    """Logits are divided by it; 0 takes the most probable token (as does ``do_sample=False``)."""
    top_k: int = 0
    """Keep the k most probable tokens (and ties with the k-th); 0 keeps all. Without effect at temperature 0,
    like ``top_p`` and ``min_p``."""
    top_p: float = 1.0
    """Keep the smallest set of most probable tokens whose probabilities sum to at least this; 1 keeps all."""
    min_p: float = 0.0
    """Keep tokens with at least this share of the largest probability; 0 keeps all."""
    repetition_penalty: float = 1.0
    """Logits of tokens that stand anywhere in the context, the prompt included, are divided by it where
    positive and multiplied where negative."""
    presence_penalty: float = 0.0
    """Subtracted from the logit of a token that was generated at least once (OpenAI's; not the prompt's)."""
    frequency_penalty: float = 0.0
    """Subtracted from the logit of a token as often as it was generated (OpenAI's; not the prompt's)."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """Token id → what is added to its logit; -inf forbids the token."""
    seed: int | None = None
    """The same seed gives the same tokens, drafted or not; None takes one from the operating system."""
    lenience: float = 1.0
    """β in (0, 1]: 1 is exact; below, drafted tokens may be up to 1/β times as probable as they should be."""
    logits_processors: Sequence[LogitsProcessor] = ()
    """Called one after the other, once per emitted token, with the context of just that token. Unlike in
    ``generate``, one of the kind of a parameter above acts besides it, not in its place."""
    max_tokens: int | None = None
    """Generate at most so many tokens; None: as many as the model's context has room for."""
    stop: Sequence[str] = ()
    """Texts (or one text) that end the generation; the output ends before them."""
    stop_token_ids: Sequence[int] = ()
    """Tokens that end the generation besides the model's own end tokens; part of the output's tokens, not of
    its text."""
    logprobs: int | None = None
    """Report each emitted token's log-probability and those of so many most probable tokens; None: none."""
    n: int = 1
    """How many outputs to generate for the prompt; see ``output``."""

    def __post_init__(self) -> None:
        # Lists become tuples, and the mapping a copy, so that the value stays what was checked.
        stop = (self.stop,) if isinstance(self.stop, str) else self.stop
        for name, given in (
            ("stop", stop),
            ("stop_token_ids", self.stop_token_ids),
            ("logits_processors", self.logits_processors),
        ):
            listed = isinstance(given, Sequence) and not isinstance(given, (str, bytes))
            _require(listed, name, "a list or tuple", given)
            object.__setattr__(self, name, tuple(given))
        mapped = isinstance(self.logit_bias, Mapping)
        _require(mapped, "logit_bias", "a mapping from token ids to numbers", self.logit_bias)
        self._check()

    def _check(self) -> None:
        checked: dict[str, Any] = {
            # Below 1e-6 the division would overflow float32 for ordinary logits.
            "temperature": _number(
                "temperature", self.temperature, "0 or a number from 1e-6 up", lambda t: t == 0 or t >= 1e-6
            ),
            "top_k": _whole("top_k", self.top_k, "a whole number >= 0 (0 keeps all)", 0),
            "top_p": _number("top_p", self.top_p, "a number from 0 to 1", lambda p: 0 <= p <= 1),
            "min_p": _number("min_p", self.min_p, "a number from 0 to 1", lambda p: 0 <= p <= 1),
            "repetition_penalty": _number(
                "repetition_penalty", self.repetition_penalty, "a number > 0", lambda r: r > 0
            ),
            "presence_penalty": _number("presence_penalty", self.presence_penalty, "a finite number"),
            "frequency_penalty": _number("frequency_penalty", self.frequency_penalty, "a finite number"),
            "logit_bias": {
                _whole("each token id in logit_bias", token, "a whole number >= 0", 0): -math.inf
                if isinstance(bias, Real) and bias == -math.inf
                else _number(f"logit_bias of token {token}", bias, "a finite number or -inf")
                for token, bias in self.logit_bias.items()
            },
            "lenience": _number(
                "lenience", self.lenience, "a number > 0 and <= 1 (1 is exact)", lambda b: 0 < b <= 1
            ),
            "stop_token_ids": tuple(
                _whole("each of stop_token_ids", token, "a whole number >= 0", 0)
                for token in self.stop_token_ids
            ),
            "n": _whole("n", self.n, "a whole number >= 1", 1),
        }
        if self.seed is not None:
            in_range = "None or a whole number from -2**63 to 2**63 - 1"
            checked["seed"] = _whole("seed", self.seed, in_range, -(2**63), 2**63 - 1)
        if self.max_tokens is not None:
            checked["max_tokens"] = _whole("max_tokens", self.max_tokens, "None or a whole number >= 1", 1)
        if self.logprobs is not None:
            checked["logprobs"] = _whole("logprobs", self.logprobs, "None or a whole number >= 0", 0)
        for processor in self.logits_processors:
            _require(callable(processor), "each of logits_processors", "callable", processor)
        for text in self.stop:
            written = isinstance(text, str) and text != ""
            _require(written, "each of stop", "a text of at least one character", text)
        for name, value in checked.items():  # plain int and float, whatever numbers came
            object.__setattr__(self, name, value)

    @property
    def needs_counts(self) -> bool:
        """Whether ``process_logits`` needs to know how often each token was generated."""
        return self.presence_penalty != 0.0 or self.frequency_penalty != 0.0

    @property
    def needs_ids(self) -> bool:
        """Whether ``process_logits`` looks at the context."""
        return self.repetition_penalty != 1.0 or bool(self.logits_processors)

    @property
    def keeps_argmax(self) -> bool:
        """Whether the choice is the argmax of the raw logits, which no path changes."""
        return (
            self.temperature == 0.0
            and self.lenience == 1.0
            and not (self.needs_counts or self.needs_ids or self.logit_bias)
        )

    def output(self, index: int) -> SamplingParams:
        """The parameters of one of the ``n`` outputs: n = 1, and a seed of its own (seed + index).

        Each gets a copy of the processors in the state in which they were given, so that one with state
        does not carry it from one output into the next.

        Raises:
            ValueError: no such output, or a processor that cannot be copied.
        """
        if not 0 <= index < self.n:
            raise ValueError(f"expected an output from 0 to {self.n - 1}, got {index}")
        if self.n == 1:
            return self
        seed = None if self.seed is None else (self.seed + index + 2**63) % 2**64 - 2**63
        try:
            processors = copy.deepcopy(self.logits_processors)
        except Exception as error:  # whatever a processor's own __deepcopy__ raises
            raise ValueError(
                f"expected logits_processors that copy.deepcopy can copy for n = {self.n}, got {error!r}; "
                "ask for one output at a time, each with processors of its own"
            ) from error
        return replace(self, n=1, seed=seed, logits_processors=processors)


def process_logits(
    logits: torch.Tensor, ids: torch.Tensor, params: SamplingParams, counts: torch.Tensor | None = None
) -> torch.Tensor:
    """The scores that a token is chosen from: their argmax at temperature 0, else a draw from their softmax.

    In the order of transformers' ``generate``, with its arithmetic, so that a seed gives the same tokens
    there and here:

        float32 → logit_bias (its ``sequence_bias`` of single tokens) → repetition_penalty
        → frequency_penalty, presence_penalty → logits_processors
        → and at temperature > 0: temperature → top_k → top_p → min_p

    The two penalties that ``generate`` does not have stand where they stand in vLLM: behind the repetition
    penalty. A filtered token has -inf.

    Args:
        logits: float [V], the model's; not changed.
        ids: int64 [n], the whole context of the token to be chosen: the prompt and what was generated.
        params: what to do.
        counts: int64 [V], how often each token was generated; needed where ``params.needs_counts``.

    Returns:
        float32 [V]; shares memory with ``logits`` where nothing had to be done.

    Raises:
        ValueError: ``logit_bias`` of a token >= V, missing ``counts``, or a processor's result of another shape.

    Cost: O(V) for each step that is on, O(n) for the repetition penalty, a sort for top_p.
    """
    scores = logits.to(torch.float32)[None]  # [1, V]
    if params.logit_bias:
        scores = _add_bias(scores, params.logit_bias)
    if params.repetition_penalty != 1.0:
        scores = _penalise_repetition(scores, ids[None], params.repetition_penalty)
    if params.needs_counts:
        if counts is None:
            raise ValueError("expected counts (int64 [V]) for a presence or frequency penalty, got None")
        scores = scores - params.frequency_penalty * counts - params.presence_penalty * (counts > 0)
    if params.logits_processors:
        if scores.data_ptr() == logits.data_ptr():
            scores = scores.clone()  # a processor may write into its argument
        for processor in params.logits_processors:
            shape = scores.shape
            scores = processor(ids[None], scores)
            _check_processed(processor, scores, shape)
    if params.temperature > 0.0:
        if params.temperature != 1.0:
            scores = scores / params.temperature
        if params.top_k > 0:
            scores = _keep_top_k(scores, params.top_k)
        if params.top_p < 1.0:
            scores = _keep_top_p(scores, params.top_p)
        if params.min_p > 0.0:
            scores = _keep_min_p(scores, params.min_p)
    return scores[0]


def _add_bias(scores: torch.Tensor, bias: Mapping[int, float]) -> torch.Tensor:
    """``scores`` (float [1, V]) plus the bias of some tokens."""
    V = scores.shape[-1]
    if max(bias) >= V:
        raise ValueError(f"expected token ids below {V} (the vocabulary) in logit_bias, got {max(bias)}")
    added = scores.new_zeros(V)
    added[list(bias)] = scores.new_tensor(list(bias.values()))
    return scores + added


def _penalise_repetition(scores: torch.Tensor, ids: torch.Tensor, penalty: float) -> torch.Tensor:
    """``scores`` (float [1, V]) with those of ``ids`` (int64 [1, n]) made smaller, for a penalty > 1."""
    V = scores.shape[-1]
    # Ids that the output layer does not have all go to one column more, which is cut off again.
    ids = ids.clamp(max=V)
    padded = torch.nn.functional.pad(scores, (0, 1))  # [1, V + 1]
    seen = padded.gather(1, ids)  # [1, n]
    seen = torch.where(seen < 0, seen * penalty, seen / penalty)
    return padded.scatter(1, ids, seen)[:, :V]


def _check_processed(processor: LogitsProcessor, scores: Any, shape: torch.Size) -> None:
    got = tuple(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
    if got != tuple(shape):
        name = getattr(processor, "__qualname__", type(processor).__qualname__)
        raise ValueError(
            f"expected logits processor {name} to return scores of shape {tuple(shape)}, got {got}"
        )


def _keep_top_k(scores: torch.Tensor, k: int) -> torch.Tensor:
    """``scores`` (float [1, V]) with -inf below the k-th largest."""
    kth = torch.topk(scores, min(k, scores.shape[-1])).values[:, -1:]  # [1, 1]
    return scores.masked_fill(scores < kth, -torch.inf)


def _keep_top_p(scores: torch.Tensor, p: float) -> torch.Tensor:
    """``scores`` (float [1, V]) with -inf for the least probable tokens, whose sum is at most 1 − p."""
    ascending, order = torch.sort(scores, descending=False)  # [1, V] each
    removed = ascending.softmax(dim=-1).cumsum(dim=-1) <= 1.0 - p
    removed[:, -1] = False  # the most probable token stays, whatever rounding says
    return scores.masked_fill(removed.scatter(1, order, removed), -torch.inf)


def _keep_min_p(scores: torch.Tensor, p: float) -> torch.Tensor:
    """``scores`` (float [1, V]) with -inf for tokens less probable than p times the most probable one."""
    probs = scores.softmax(dim=-1)  # [1, V]
    return scores.masked_fill(probs < p * probs.amax(dim=-1, keepdim=True), -torch.inf)


def _require(ok: bool, name: str, expected: str, value: Any) -> None:
    if not ok:
        raise ValueError(f"expected {name} to be {expected}, got {value!r}")


def _number(name: str, value: Any, expected: str, fits: Callable[[float], bool] = lambda _: True) -> float:
    """``value`` as a float; raises unless it is a finite real number that fits."""
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:  # an int beyond float64
        number = math.nan
    _require(math.isfinite(number) and fits(number), name, expected, value)
    return number


def _whole(name: str, value: Any, expected: str, least: int, most: int | None = None) -> int:
    """``value`` as an int; raises unless it is a whole number in the range."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    _require(whole and least <= value and (most is None or value <= most), name, expected, value)
    return int(value)
