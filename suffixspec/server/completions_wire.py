"""``/v1/completions``: OpenAI's completions of texts, without a chat template."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from suffixspec.server.call import Call, Piece, Prompt
from suffixspec.server.chat_wire import read_stream_options, refuse
from suffixspec.server.errors import ApiError
from suffixspec.server.fields import Fields
from suffixspec.server.logprobs import completion_logprobs
from suffixspec.server.output import Change, Output
from suffixspec.server.sampling import MOST_OUTPUTS, SAMPLING_FIELDS, check_sampling, read_sampling
from suffixspec.server.sse import DONE, data
from suffixspec.server.usage import Usage, timings
from suffixspec.server.wire import SESSION_FIELDS, Request, Writer, new_id

if TYPE_CHECKING:
    from suffixspec.server.service import Service

REFUSED = {"suffix": "the model cannot fill in a middle"}
FIELDS = (
    frozenset(
        {
            "best_of",
            "cache_prompt",
            "echo",
            "logprobs",
            "max_tokens",
            "metadata",
            "model",
            "n",
            "prompt",
            "stream",
            "stream_options",
            "user",
        }
    )
    | SAMPLING_FIELDS
    | SESSION_FIELDS
    | REFUSED.keys()
)
_USUAL_TOKENS = 16  # OpenAI's default here
_MOST_LOGPROBS = 5


def read(request: Request) -> Writer:
    """Read a request; see ``wire.Reader``."""
    fields, service = request.body, request.service
    unknown = request.known(FIELDS)
    if fields.get("suffix") != "":
        refuse(fields, REFUSED)
    fields.text("model")
    n = fields.whole("n", 1, MOST_OUTPUTS) or 1
    best_of = fields.whole("best_of", 1, MOST_OUTPUTS)
    if best_of is not None and best_of != n:
        raise fields.refuse("best_of", f"left out or equal to n ({n}): all outputs are returned")
    logprobs = fields.whole("logprobs", 0, _MOST_LOGPROBS)
    echo = fields.flag("echo")
    if echo and logprobs is not None:
        raise fields.refuse("echo", "false where logprobs are asked for: a prompt has none here")
    sampling = read_sampling(fields, service)
    sampling |= {"max_tokens": fields.whole("max_tokens", 1) or _USUAL_TOKENS, "logprobs": logprobs}
    stream = fields.flag("stream")
    include_usage = read_stream_options(fields, stream=stream)
    call = Call(
        "completions",
        request.namespace,
        [service.fit(prompt, shape="openai", param="prompt") for prompt in _prompts(fields, service, n)],
        n=n,
        sampling=check_sampling(sampling),
        hints=request.hints,
        ignored=unknown,
        stream=stream,
    )
    return CompletionWriter(call, service, include_usage=include_usage, echo=echo)


def _prompts(fields: Fields, service: Service, n: int) -> list[Prompt]:
    """The prompts: a text, token ids, or several of either."""
    given = fields.get("prompt")
    several = isinstance(given, list) and given and not _is_token(given[0])
    prompts = given if several else [given]
    if len(prompts) * n > MOST_OUTPUTS:
        raise ApiError(
            f"expected at most {MOST_OUTPUTS} outputs in all, got {len(prompts)} prompts with {n} each; "
            "send several requests",
            param="prompt",
        )
    return [_prompt(prompt, fields, service) for prompt in prompts]


def _prompt(given: Any, fields: Fields, service: Service) -> Prompt:
    if isinstance(given, str):
        ids = service.tokenizer.encode(given)
        return Prompt(text=given, token_ids=np.array(ids, np.int32))
    tokens = isinstance(given, list) and all(_is_token(token) for token in given)
    if not tokens:
        raise fields.refuse("prompt", "a string, an array of token ids, or an array of either")
    if any(token >= service.vocab_size for token in given):
        raise fields.refuse("prompt", f"token ids below {service.vocab_size:,}")
    return Prompt(text=service.tokenizer.decode(given), token_ids=np.array(given, np.int32))


def _is_token(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class CompletionWriter(Writer):
    """Writes completions."""

    def __init__(self, call: Call, service: Service, *, include_usage: bool, echo: bool) -> None:
        super().__init__(call, service)
        self._include_usage = include_usage
        self._echo = echo
        self._wants_logprobs = call.sampling.get("logprobs") is not None
        self._told = [0] * call.outputs  # log-probabilities that were sent, of each output
        self._length = [0] * call.outputs  # characters of their tokens
        self._head = {
            "id": new_id("cmpl-"),
            "object": "text_completion",
            "created": int(time.time()),
            "model": service.model_name,
            "system_fingerprint": service.fingerprint,
        }

    def begin(self) -> list[bytes]:
        """See ``Writer``."""
        if not self._echo:
            return []
        return [self._chunk(output, self._prompt(output)) for output in self.outputs]

    def changed(self, output: Output, changes: Iterable[Change], piece: Piece | None) -> list[bytes]:  # noqa: ARG002
        """See ``Writer``."""
        return [self._chunk(output, change.text) for change in changes if change.text]

    def ended(self, output: Output) -> list[bytes]:
        """See ``Writer``."""
        more = {} if self._include_usage or not self.complete else {"timings": timings(self.replies)}
        return [self._chunk(output, "", _reason(output), **more)]

    def finish(self) -> list[bytes]:
        """See ``Writer``."""
        if not self._include_usage:
            return [DONE]
        usage = Usage.of(self.replies, self.call.n).openai()
        return [data({**self._head, "choices": [], "usage": usage, "timings": timings(self.replies)}), DONE]

    def body(self) -> dict[str, Any]:
        """See ``Writer``."""
        choices = []
        for output in self.outputs:
            logprobs = None
            if self._wants_logprobs:
                logprobs = completion_logprobs(self.service.tokenizer, output.logprobs, 0)
            choices.append(
                {
                    "index": output.index,
                    "text": (self._prompt(output) if self._echo else "") + output.text(),
                    "logprobs": logprobs,
                    "finish_reason": _reason(output),
                }
            )
        body = {**self._head, "choices": choices, "usage": Usage.of(self.replies, self.call.n).openai()}
        return body | ({"timings": timings(self.replies)} if self.complete else {})

    def _prompt(self, output: Output) -> str:
        return self.call.prompts[output.index // self.call.n].text

    def _chunk(self, output: Output, text: str, finish_reason: str | None = None, **more: Any) -> bytes:
        logprobs = None
        if self._wants_logprobs:
            new = output.logprobs[self._told[output.index] :]
            logprobs = completion_logprobs(self.service.tokenizer, new, self._length[output.index])
            self._told[output.index] += len(new)
            self._length[output.index] += sum(len(token) for token in logprobs["tokens"])
        choice = {
            "index": output.index,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        chunk = {**self._head, "choices": [choice]}
        if self._include_usage:
            chunk["usage"] = None
        return data(chunk | more)


def _reason(output: Output) -> str:
    return "length" if output.ended is None else output.ended.reason
