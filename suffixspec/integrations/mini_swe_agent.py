"""mini-swe-agent with a model of this process: ``mini --model-class suffixspec.integrations.mini_swe_agent.Model``.

``-m`` names a folder or hub id (``local``: SmolLM2, or what ``SUFFIXSPEC_MODEL`` says). `Model` uses tool calls,
`TextModel` commands in fenced blocks, for models that were not trained to call tools; give it a configuration
of that kind (``mini -c mini_textbased.yaml``). Settings below ``model`` in the configuration: those of
mini-swe-agent's own models, and ``engine`` (options of ``suffixspec.Engine.from_pretrained``) and ``record``.
"""

from __future__ import annotations

from typing import Any

import litellm
from minisweagent.models.litellm_model import BASH_TOOL, LitellmModel, LitellmModelConfig
from minisweagent.models.litellm_textbased_model import LitellmTextbasedModel, LitellmTextbasedModelConfig
from pydantic import Field

from suffixspec.integrations.local import LocalServer, local_server


class ModelConfig(LitellmModelConfig):
    """Settings of `Model`."""

    model_name: str = "local"
    cost_tracking: str = "ignore_errors"
    """Nothing is paid for."""
    engine: dict[str, Any] = Field(default_factory=dict)
    record: str | None = None
    """A file that all calls are recorded to."""


class TextModelConfig(ModelConfig, LitellmTextbasedModelConfig):
    """Settings of `TextModel`."""


class _Local:
    """Asks the server of this process."""

    config: Any
    _server: LocalServer | None = None

    @property
    def server(self) -> LocalServer:
        """The server, begun at the first question."""
        if self._server is None:
            options = dict(self.config.engine)
            if self.config.record is not None:
                options["record"] = self.config.record
            self._server = local_server(self.config.model_name, **options)
        return self._server

    def _ask(self, messages: list[dict[str, Any]], options: dict[str, Any]) -> Any:
        server = self.server
        return litellm.completion(
            model=f"openai/{server.model_name}",
            messages=messages,
            api_base=server.base_url,
            api_key=server.api_key,
            **options,
        )


class Model(_Local, LitellmModel):
    """Calls ``bash`` as a tool."""

    def __init__(self, **settings: Any) -> None:
        LitellmModel.__init__(self, config_class=ModelConfig, **settings)

    def _query(self, messages: list[dict[str, Any]], **more: Any) -> Any:
        return self._ask(messages, {"tools": [BASH_TOOL], **self.config.model_kwargs, **more})


class TextModel(_Local, LitellmTextbasedModel):
    """Writes commands in fenced blocks."""

    def __init__(self, **settings: Any) -> None:
        LitellmModel.__init__(self, config_class=TextModelConfig, **settings)

    def _query(self, messages: list[dict[str, Any]], **more: Any) -> Any:
        return self._ask(messages, self.config.model_kwargs | more)
