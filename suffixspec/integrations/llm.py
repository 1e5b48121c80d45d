"""Simon Willison's ``llm``: ``llm -m suffixspec "…"``, found by itself where both are installed.

The model is SmolLM2, or what the environment's ``SUFFIXSPEC_MODEL`` names. Tools, schemas, streaming and
conversations work as with ``llm``'s OpenAI models, on a server within the process. ``SUFFIXSPEC_RECORD`` names
a file to record to.
"""

from __future__ import annotations

from typing import Any

import llm
from llm.default_plugins.openai_models import AsyncChat, Chat

MODEL_ID = "suffixspec"


class _Local:
    """Asks the server of this process."""

    model_name: Any
    api_base: Any

    def get_client(self, key: Any, *, async_: bool = False) -> Any:  # noqa: ARG002
        """A client of OpenAI's API for the server, which is begun with the first."""
        import openai

        from suffixspec.integrations.local import local_server

        server = local_server()
        self.model_name = server.model_name
        client: Any = openai.AsyncOpenAI if async_ else openai.OpenAI
        return client(base_url=server.base_url, api_key=server.api_key, max_retries=0, timeout=None)

    def __str__(self) -> str:
        return f"suffixspec: {MODEL_ID}"


class LocalChat(_Local, Chat):
    """The model."""


class AsyncLocalChat(_Local, AsyncChat):
    """The model, for asynchronous code."""


@llm.hookimpl
def register_models(register: Any) -> None:
    """Called by ``llm`` when it starts."""
    options: dict[str, Any] = {"model_name": MODEL_ID, "supports_tools": True, "supports_schema": True}
    models: list[Any] = [LocalChat(MODEL_ID, **options), AsyncLocalChat(MODEL_ID, **options)]
    for model in models:
        model.needs_key = None
    register(*models)
