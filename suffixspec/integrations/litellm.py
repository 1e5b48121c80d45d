"""LiteLLM: models of this process as a provider, and a callback that records the calls of any provider.

``register()`` once, then ``litellm.completion(model="suffixspec/local", messages=…)``; after ``suffixspec/``
comes a folder or hub id. ``litellm.callbacks = [RecorderCallback("calls.jsonl")]`` records every call that
LiteLLM makes, whoever asks and whoever answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from os import PathLike
from typing import Any

import litellm
import openai
from litellm.integrations.custom_logger import CustomLogger
from litellm.llms.custom_llm import CustomLLM, CustomLLMError
from litellm.types.utils import GenericStreamingChunk, ModelResponse

from suffixspec.errors import SuffixspecError
from suffixspec.integrations.local import LocalServer, local_server
from suffixspec.recorder.call import new_call
from suffixspec.recorder.writer import Recorder


class SuffixspecLLM(CustomLLM):
    """Answers with a model of this process.

    Args:
        server: the server to ask; None: one for the model that a call names.
        engine: options of ``suffixspec.Engine.from_pretrained``.
    """

    def __init__(self, server: LocalServer | None = None, **engine: Any) -> None:
        super().__init__()
        self._server = server
        self._engine = engine

    def completion(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """A whole answer."""
        server, body = self._asked(args, kwargs)
        with _as_litellm_error():
            answer = _client(openai.OpenAI, server).chat.completions.create(**body)
        return ModelResponse(**answer.model_dump())

    def streaming(self, *args: Any, **kwargs: Any) -> Iterator[GenericStreamingChunk]:
        """An answer in pieces."""
        server, body = self._asked(args, kwargs)
        with _as_litellm_error():
            chunks = _client(openai.OpenAI, server).chat.completions.create(
                **body, stream=True, stream_options={"include_usage": True}
            )
            for chunk in chunks:
                yield from _pieces(chunk)

    async def acompletion(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """A whole answer."""
        server, body = self._asked(args, kwargs)
        with _as_litellm_error():
            answer = await _client(openai.AsyncOpenAI, server).chat.completions.create(**body)
        return ModelResponse(**answer.model_dump())

    async def astreaming(self, *args: Any, **kwargs: Any) -> AsyncIterator[GenericStreamingChunk]:
        """An answer in pieces."""
        server, body = self._asked(args, kwargs)
        with _as_litellm_error():
            chunks = await _client(openai.AsyncOpenAI, server).chat.completions.create(
                **body, stream=True, stream_options={"include_usage": True}
            )
            async for chunk in chunks:
                for piece in _pieces(chunk):
                    yield piece

    def _asked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[LocalServer, dict[str, Any]]:
        named = dict(zip(("model", "messages"), args, strict=False)) | kwargs
        with _as_litellm_error():
            server = self._server or local_server(named["model"], **self._engine)
        options = {
            name: value
            for name, value in (named.get("optional_params") or {}).items()
            if value is not None and name not in ("stream", "stream_options")
        }
        return server, {"model": server.model_name, "messages": named["messages"], **options}


def register(name: str = "suffixspec", handler: SuffixspecLLM | None = None) -> SuffixspecLLM:
    """Make ``model="suffixspec/…"`` known to LiteLLM.

    Args:
        name: the provider's.
        handler: what answers; None: a `SuffixspecLLM` with defaults.
    """
    handler = handler or SuffixspecLLM()
    others = [entry for entry in litellm.custom_provider_map if entry["provider"] != name]
    litellm.custom_provider_map = [*others, {"provider": name, "custom_handler": handler}]
    litellm.utils.custom_llm_setup()
    return handler


class RecorderCallback(CustomLogger):
    """Records every call that LiteLLM makes; ``suffixspec replay`` and ``convert`` read the file.

    Args:
        path: the file; appended to.
        redact: regular expressions of what becomes ``[redacted]``.
    """

    def __init__(self, path: str | PathLike[str], *, redact: tuple[str, ...] = ()) -> None:
        super().__init__()
        self._recorder = Recorder(path, redact=redact)

    def log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """An answer has come, whole."""
        self._write(kwargs, response_obj, start_time, end_time, 200)

    def log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """A call has failed."""
        self._write(kwargs, response_obj, start_time, end_time, 500)

    async def async_log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """An answer has come, whole."""
        self._write(kwargs, response_obj, start_time, end_time, 200)

    async def async_log_failure_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """A call has failed."""
        self._write(kwargs, response_obj, start_time, end_time, 500)

    def close(self) -> None:
        """Close the file."""
        self._recorder.close()

    def _write(self, kwargs: Any, answer: Any, started: Any, ended: Any, status: int) -> None:
        if not isinstance(kwargs.get("messages"), list):
            return  # embeddings and the like
        answer = kwargs.get("complete_streaming_response") or answer
        options = kwargs.get("optional_params") or {}
        request = {"model": kwargs.get("model"), "messages": kwargs["messages"]}
        request |= {name: options[name] for name in ("tools", "temperature", "max_tokens") if name in options}
        response = answer.model_dump(mode="json") if hasattr(answer, "model_dump") else None
        self._recorder.write(
            new_call(
                "chat",
                _plain(request),
                response,
                started=started.timestamp(),
                ended=ended.timestamp(),
                status=status,
                streamed=bool(kwargs.get("stream")),
                session=(kwargs.get("litellm_params") or {}).get("litellm_session_id"),
            )
        )


class _as_litellm_error:  # noqa: N801  (used like a function)
    """Turns errors into LiteLLM's, with their status."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, openai.APIStatusError):
            raise CustomLLMError(status_code=error.status_code, message=error.message) from error
        if isinstance(error, (openai.APIError, SuffixspecError)):
            raise CustomLLMError(status_code=500, message=str(error)) from error


def _client(kind: Any, server: LocalServer) -> Any:
    return kind(base_url=server.base_url, api_key=server.api_key, max_retries=0, timeout=None)


def _pieces(chunk: Any) -> Iterator[GenericStreamingChunk]:
    """A chunk of OpenAI's stream in LiteLLM's form: text, a piece of a call, and the end."""
    usage = None if chunk.usage is None else chunk.usage.model_dump()
    if not chunk.choices:
        if usage is not None:
            yield _piece(usage=usage)
        return
    choice = chunk.choices[0]
    if choice.delta.content:
        yield _piece(text=choice.delta.content)
    for call in choice.delta.tool_calls or []:
        yield _piece(tool_use=call.model_dump())
    if choice.finish_reason is not None:
        yield _piece(is_finished=True, finish_reason=choice.finish_reason)


def _piece(**fields: Any) -> GenericStreamingChunk:
    piece: Any = {
        "text": "",
        "is_finished": False,
        "finish_reason": "",
        "usage": None,
        "index": 0,
        "tool_use": None,
    }
    return piece | fields


def _plain(value: Any) -> Any:
    """Messages as JSON has them: frameworks hand over objects too."""
    if hasattr(value, "model_dump"):
        return _plain(value.model_dump(mode="json"))
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
