"""Hugging Face transformers: ``model.generate`` with drafts, and with the output that it has without.

One call::

    import suffixspec.hf
    model.generate(**inputs, max_new_tokens=200, custom_generate=suffixspec.hf.generate)

Every call, also those of a pipeline or an agent framework that holds the model, streaming included::

    with suffixspec.hf.accelerate(model):
        model.generate(**inputs, streamer=TextIteratorStreamer(tokenizer))

The KV of earlier calls and the index of what was read and written are kept with the model, so that the next
turn of an agent loop prefills only what is new. Arguments mean what they mean to ``generate``: its logits
processors and stopping criteria are called once per token with that token's context, and sampling takes
torch's own random numbers, one draw per token, so that a seed gives the same tokens.

What is not decoded here goes to the model's own decoding, with a warning that says why: several rows at once,
beams, encoder-decoder and recurrent models, attention implementations that take no mask, embeddings or images
as input, hidden states or attentions as output, a cache of the caller's own, a model in training mode. Assisted
generation and prompt lookup are replaced: their output is the same, and drafts come from here.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import threading
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MethodType, TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from suffixspec.draft import DraftSession, DraftTree
from suffixspec.engine.engine import Engine
from suffixspec.engine.turn import Turn
from suffixspec.errors import InputError, SuffixspecWarning
from suffixspec.target.model import Target
from suffixspec.target.support import UnsupportedModelError
from suffixspec.verify.acceptance import Acceptance, FinishReason
from suffixspec.verify.greedy import accept_choices, accept_greedy, greedy_choices
from suffixspec.verify.sampled import accept_sampled
from suffixspec.verify.sampling import SamplingParams

if TYPE_CHECKING:
    from transformers import GenerationConfig, LogitsProcessorList, PreTrainedModel, StoppingCriteriaList

_STATE = "_suffixspec_state"
_OWNER = ("hf", "generate")
_MOST_INDEXED = 1 << 20
"""Tokens that one index grows to; then a new one begins, and what was written is history."""
_KNOWN_INPUTS = {
    "attention_mask",
    "cache",
    "cache_position",
    "logits_to_keep",
    "past_key_values",
    "position_ids",
    "use_cache",
}


@dataclass(frozen=True)
class Call:
    """How one call of ``generate`` went."""

    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens whose KV an earlier call had left."""
    new_tokens: int
    steps: int
    """Forwards of the target after the prefill."""
    drafted: int
    accepted: int

    @property
    def accepted_share(self) -> float:
        """Share of the output that came from drafts."""
        return self.accepted / self.new_tokens if self.new_tokens else 0.0


def generate(
    model: PreTrainedModel,
    input_ids: torch.LongTensor,
    logits_processor: LogitsProcessorList,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    **model_kwargs: Any,
) -> Any:
    """Decode with drafts: to be passed as ``model.generate(…, custom_generate=suffixspec.hf.generate)``.

    transformers hands no ``streamer`` to such a function: streaming needs `accelerate`.

    Args:
        model: the model.
        input_ids: int64 [1, n]; more rows go to the model's own decoding.
        logits_processor: called with int64 [1, n] and float32 [1, V], once per token.
        stopping_criteria: called with int64 [1, n + 1], once per token.
        generation_config: as ``generate`` has prepared it.
        model_kwargs: the rest of ``generate``'s inputs.

    Returns:
        What ``generate`` returns: int64 [1, n + m], or its output object without a cache in it.
    """
    return _generate(model, input_ids, logits_processor, stopping_criteria, generation_config, **model_kwargs)


class accelerate:  # noqa: N801  (used like a function: ``with accelerate(model):``)
    """Make every ``model.generate`` decode with drafts, until ``undo`` or the end of the ``with`` block.

    Args:
        model: a causal language model of transformers.
        max_nodes: the widest draft.
        measure: measure what a forward costs (some forwards, cached per model and device), so that drafts are
            as wide as pays; else everything found is drafted.
        options: of ``suffixspec.Engine``: ``kv_bytes``, ``history``, ``drafter``, ``branches_per_session`` ….

    Raises:
        InputError: no such model, or one that is accelerated already.
        UnsupportedModelError: drafts cannot be verified on it.
    """

    def __init__(
        self, model: PreTrainedModel, *, max_nodes: int = 32, measure: bool = True, **options: Any
    ) -> None:
        if not hasattr(model, "_sample") or not hasattr(model, "generation_config"):
            raise InputError(
                f"expected a model of transformers with generate, got {type(model).__name__}; "
                "of a wrapper pass the model inside"
            )
        if isinstance(model.__dict__.get("generate"), _Accelerated):
            raise InputError("expected a model that is not accelerated yet; undo the first one")
        self.model = model
        self._state = _State(model, max_nodes=max_nodes, measure=measure, **options)
        self._earlier = model.__dict__.get(_STATE)
        self._undone = False
        setattr(model, _STATE, self._state)
        # On the instance: the class, and other models of it, stay as they are.
        original: Any = model.generate
        model.__dict__["generate"] = _Accelerated(model, original)

    @property
    def calls(self) -> list[Call]:
        """The last thousand calls."""
        return list(self._state.calls)

    def reset(self) -> None:
        """Forget the KV of earlier calls. Needed only where weights were changed behind torch's back."""
        self._state.forget()

    def undo(self) -> None:
        """Give the model its own ``generate`` back and free the KV. May be called again."""
        if self._undone:
            return
        self._undone = True
        self.model.__dict__.pop("generate", None)
        self.model.__dict__.pop(_STATE, None)
        if self._earlier is not None:
            setattr(self.model, _STATE, self._earlier)
        self._state.forget()

    def __enter__(self) -> accelerate:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


def last_call(model: PreTrainedModel) -> Call | None:
    """How the model's last call with drafts went; None before the first."""
    state = model.__dict__.get(_STATE)
    return state.calls[-1] if state is not None and state.calls else None


class _Accelerated:
    """Stands in for a model's ``generate``."""

    def __init__(self, model: PreTrainedModel, original: Callable[..., Any]) -> None:
        self._model = model
        self._original = original
        functools.update_wrapper(self, original)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        arguments = dict(inspect.signature(self._original).bind_partial(*args, **kwargs).arguments)
        arguments |= arguments.pop("kwargs", {})
        if arguments.get("custom_generate") is not None:
            return self._original(*args, **kwargs)
        if arguments.pop("assistant_model", None) is not None:
            arguments.pop("assistant_tokenizer", None)
            _warn("assistant_model is not used: drafts come from suffixspec, the output is the same")
        _prepare_stop_strings(self._model, arguments)
        streamer = arguments.get("streamer")

        decode = functools.partial(_generate, streamer=streamer)
        return self._original(custom_generate=decode, **arguments)

    def __reduce__(self) -> Any:
        """A copied or pickled model is not accelerated: it gets its class's own ``generate``."""
        return _own_generate, (self._model,)


def _own_generate(model: PreTrainedModel) -> Callable[..., Any]:
    kind: Any = type(model)
    return MethodType(kind.generate, model)


def _prepare_stop_strings(model: PreTrainedModel, arguments: dict[str, Any]) -> None:
    """Make criteria of stop strings: their tokenizer does not reach a custom ``generate``."""
    tokenizer = arguments.pop("tokenizer", None)
    config = arguments.get("generation_config") or model.generation_config
    strings = arguments.get("stop_strings") or getattr(config, "stop_strings", None)
    if not strings or tokenizer is None:
        return
    from transformers import StoppingCriteriaList, StopStringCriteria

    if arguments.pop("stop_strings", None) is None:
        arguments["generation_config"] = copy.deepcopy(config)
        arguments["generation_config"].stop_strings = None
    criterion = StopStringCriteria(stop_strings=strings, tokenizer=tokenizer)
    arguments["stopping_criteria"] = StoppingCriteriaList(
        [criterion, *(arguments.get("stopping_criteria") or [])]
    )


def _generate(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: LogitsProcessorList,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    *,
    streamer: Any = None,
    **model_kwargs: Any,
) -> Any:
    why = _not_here(model, input_ids, generation_config, model_kwargs)
    if why is None:
        try:
            state = _state_of(model)
        except UnsupportedModelError as error:
            why = str(error)
    if why is None:
        with state.lock:
            padding = _left_padding(model_kwargs.get("attention_mask"))
            room = state.engine.target.max_positions - (input_ids.shape[1] - padding)
            if state.is_busy:
                why = "it was called within generate"
            elif room < 1:
                why = f"the prompt fills the model's context of {state.engine.target.max_positions:,} tokens"
            else:
                verifier = _Verifier(
                    input_ids,
                    logits_processor,
                    stopping_criteria,
                    generation_config,
                    room=room,
                    device=state.engine.target.device,
                )
                state.run(input_ids[0, padding:], verifier, streamer)
    if why is not None:
        _warn(f"generate runs without drafts: {why}")
        beams = generation_config.num_beams is not None and generation_config.num_beams > 1
        own = type(model)._beam_search if beams else type(model)._sample
        streaming = {} if streamer is None else {"streamer": streamer}
        return own(
            model,
            input_ids,
            logits_processor=logits_processor,
            stopping_criteria=stopping_criteria,
            generation_config=generation_config,
            **streaming,
            **model_kwargs,
        )
    if streamer is not None:
        streamer.end()
    return verifier.result()


def _state_of(model: Any) -> _State:
    """What is kept with the model, begun where it is new."""
    state: _State | None = model.__dict__.get(_STATE)
    if state is None:
        state = _State(model)
        setattr(model, _STATE, state)
    return state


def _not_here(
    model: PreTrainedModel, input_ids: torch.Tensor, config: GenerationConfig, model_kwargs: Mapping[str, Any]
) -> str | None:
    """Why the model's own decoding has to do it, or None."""
    cache = model_kwargs.get("cache", model_kwargs.get("past_key_values"))
    mask = model_kwargs.get("attention_mask")
    positions = model_kwargs.get("position_ids")
    unknown = sorted(
        name for name, value in model_kwargs.items() if value is not None and name not in _KNOWN_INPUTS
    )
    if config.num_beams is not None and config.num_beams > 1:
        return f"expected greedy decoding or sampling, got num_beams={config.num_beams}"
    if input_ids.ndim != 2 or input_ids.shape[0] != 1:
        return f"expected one row, got {input_ids.shape[0]}; call it for one prompt at a time"
    if input_ids.shape[1] == 0:
        return "expected at least one token of a prompt, got none"
    if config.return_dict_in_generate and (config.output_attentions or config.output_hidden_states):
        return "attentions and hidden states are only known to the model's own decoding"
    if model.training:
        return "the model is in training mode; call model.eval()"
    if getattr(cache, "_is_user_defined", False) and cache is not None and cache.get_seq_length() > 0:
        return "a cache was passed in; leave it out, suffixspec keeps its own between calls"
    if unknown:
        return f"the inputs {', '.join(unknown)} are not understood"
    if mask is not None and _left_padding(mask) is None:
        return "the attention mask is not one of padding on the left"
    if positions is not None:
        padding = _left_padding(mask) or 0
        expected = torch.arange(input_ids.shape[1] - padding, device=positions.device)
        if positions.shape != input_ids.shape or not torch.equal(positions[0, padding:], expected):
            return "the position_ids are not those of a text"
    return None


def _left_padding(mask: torch.Tensor | None) -> Any:
    """How many tokens of the only row are padding on its left; None where the mask is another."""
    if mask is None:
        return 0
    if mask.ndim != 2:
        return None
    row = mask[0] != 0
    seen = int(row.sum())
    padding = row.shape[0] - seen
    return padding if seen and bool(row[padding:].all()) else None


class _State:
    """What is kept with a model from call to call."""

    def __init__(
        self, model: PreTrainedModel, *, max_nodes: int = 32, measure: bool = True, **options: Any
    ) -> None:
        from suffixspec.native.warm_up import warm_up

        training = model.training
        target = Target(model)
        model.train(training)
        if measure and "cost" not in options:
            warm_up()
            options["cost"] = target.measure_cost()
        options.setdefault("branches_per_session", 8)
        # No tokenizer: texts are the caller's.
        self.engine = Engine(target, _NoTokenizer(), max_nodes=max_nodes, **options)  # type: ignore[arg-type]
        self.lock = threading.RLock()
        self.is_busy = False
        self.calls: deque[Call] = deque(maxlen=1000)
        self._drafting: DraftSession = self.engine.drafter.session()
        self._weights: Any = None

    def __reduce__(self) -> Any:
        """A copied or pickled model begins without."""
        return type(None), ()

    def forget(self) -> None:
        """Drop all KV."""
        with self.lock, self.engine.lock:
            for branch in self.engine.branches.of(_OWNER):
                self.engine.branches.drop(branch)

    def run(self, prompt_ids: torch.Tensor, verifier: _Verifier, streamer: Any) -> None:
        """Decode one output into ``verifier``."""
        self.is_busy = True
        try:
            self._run(prompt_ids, verifier, streamer)
        finally:
            self.is_busy = False

    def _run(self, prompt_ids: torch.Tensor, verifier: _Verifier, streamer: Any) -> None:
        weights = _weights_of(self.engine.target.model)
        if weights != self._weights:
            self.forget()
            self._weights = weights
        prompt: NDArray[np.int32] = prompt_ids.cpu().numpy().astype(np.int32)
        turn = Turn(self.engine, _OWNER, prompt, verifier, self._drafting)
        try:
            with contextlib.closing(turn.run(None)) as steps:
                for accepted in steps:
                    if streamer is not None and accepted is not None:
                        for token in accepted.token_ids:
                            streamer.put(torch.tensor([token]))
        except BaseException:
            self._renew_drafting()  # it may have come in the middle of a write
            raise
        counts = turn.counts
        self.calls.append(
            Call(
                prompt_tokens=len(prompt),
                cached_tokens=turn.cached_tokens,
                new_tokens=len(verifier.token_ids),
                steps=counts.steps,
                drafted=counts.drafted,
                accepted=counts.accepted,
            )
        )
        if self._drafting.indexed_tokens > _MOST_INDEXED:
            self._renew_drafting()

    def _renew_drafting(self) -> None:
        with contextlib.suppress(Exception):
            self._drafting.close()
        self._drafting = self.engine.drafter.session()


class _NoTokenizer:
    """In place of a tokenizer."""

    eos_ids: tuple[int, ...] = ()


class _Verifier:
    """The acceptance rule of ``generate``: its processors, its criteria, torch's own random numbers."""

    def __init__(
        self,
        input_ids: torch.Tensor,
        processors: Any,
        criteria: StoppingCriteriaList,
        config: GenerationConfig,
        *,
        room: int,
        device: torch.device,
    ) -> None:
        from transformers import EosTokenCriteria, MaxLengthCriteria

        self._config = config
        self._processors = processors
        self._criteria = []
        self._eos: set[int] = set()
        limit = room
        for criterion in criteria:
            # These two are asked for every token: not on the device.
            if type(criterion) is MaxLengthCriteria:
                limit = min(limit, criterion.max_length - input_ids.shape[1])
            elif type(criterion) is EosTokenCriteria:
                self._eos |= set(criterion.eos_token_id.reshape(-1).tolist())
            else:
                self._criteria.append(criterion)
        self._is_cut = limit == room
        limit = max(limit, 1)
        temperature = float(config.temperature or 1.0) if config.do_sample else 0.0
        self.params = SamplingParams(
            max_tokens=limit, temperature=max(temperature, 1e-6) if temperature else 0.0
        )
        self.token_ids: list[int] = []
        self.finish_reason: FinishReason | None = None
        self._device = device
        self._length = input_ids.shape[1]
        self._ids = torch.nn.functional.pad(input_ids, (0, 64)).to(device)  # int64 [1, capacity]
        self._prompt_device = input_ids.device
        wanted = bool(config.return_dict_in_generate)
        self.scores: list[torch.Tensor] | None = [] if wanted and config.output_scores else None
        self.logits: list[torch.Tensor] | None = [] if wanted and config.output_logits else None

    @property
    def ids(self) -> torch.Tensor:
        """Int64 [1, n]: the context so far, padding included."""
        return self._ids[:, : self._length]

    def accept(self, draft: DraftTree, logits: torch.Tensor) -> Acceptance:
        """One step: what the target emits, given its logits [k + 1, V] of a draft of k nodes."""
        plain = not self._processors and self.scores is None and self.logits is None

        def scores_at(node: int, _emitted: tuple[int, ...]) -> torch.Tensor:
            raw = logits[node + 1][None].to(copy=True, dtype=torch.float32)  # [1, V]
            scores = self._processors(self.ids, raw)
            if self.logits is not None:
                self.logits.append(raw)
            if self.scores is not None:
                self.scores.append(scores)
            return scores[0]

        if self._config.do_sample:
            return accept_sampled(draft, scores_at, _TorchChance(), self._finish)
        if plain and logits.device.type != "cpu":
            return accept_choices(draft, greedy_choices(logits.float()), self._finish)
        return accept_greedy(draft, scores_at, self._finish)

    def result(self) -> Any:
        """What ``generate`` returns."""
        sequences = self.ids.to(self._prompt_device).clone()
        if not self._config.return_dict_in_generate:
            return sequences
        from transformers.generation.utils import GenerateDecoderOnlyOutput

        output: Any = GenerateDecoderOnlyOutput
        return output(
            sequences=sequences,
            scores=None if self.scores is None else tuple(self.scores),
            logits=None if self.logits is None else tuple(self.logits),
        )

    def _finish(self, token: int) -> FinishReason | None:
        """Note an emitted token; say whether the output ends with it."""
        if self._length == self._ids.shape[1]:
            # By an eighth; what a processor has kept of the old one stays as it was.
            self._ids = torch.nn.functional.pad(self._ids, (0, self._length // 8 + 64))
        self._ids[0, self._length] = token
        self._length += 1
        self.token_ids.append(token)
        # All are asked, as generate asks them all: they may count their calls.
        scores = None if self.scores is None else tuple(self.scores)
        asked = [bool(torch.as_tensor(criterion(self.ids, scores)).all()) for criterion in self._criteria]
        if token in self._eos or any(asked):
            self.finish_reason = "stop"
        elif len(self.token_ids) >= (self.params.max_tokens or 0):
            self.finish_reason = "length"
            if self._is_cut:
                _warn("the output ends where the model's context does")
        return self.finish_reason


class _TorchChance:
    """Torch's own random numbers, as ``generate`` takes them."""

    def draw(self, probs: torch.Tensor) -> int:
        """An index drawn from ``probs`` (float [V])."""
        return int(torch.multinomial(probs[None], num_samples=1)[0, 0].item())

    def accepts(self, probability: float) -> bool:
        """Not asked by the rules used here."""
        raise NotImplementedError


def _weights_of(model: PreTrainedModel) -> Any:
    """Changes when weights or adapters do: KV of the old ones is no use then. Cost: O(parameters), no reads."""
    state: list[Any] = [(p.data_ptr(), 0 if p.is_inference() else p._version) for p in model.parameters()]
    if getattr(model, "_hf_peft_config_loaded", False) or hasattr(model, "peft_config"):
        state += [
            (repr(getattr(m, "_active_adapter", None)), getattr(m, "_disable_adapters", None))
            for m in model.modules()
            if hasattr(m, "_active_adapter")
        ]
    return state


def _warn(sentence: str) -> None:
    warnings.warn(f"suffixspec: {sentence}", SuffixspecWarning, stacklevel=4)
