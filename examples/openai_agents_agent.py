"""An agent of the OpenAI Agents SDK through ``suffixspec serve``.

suffixspec serve &
OPENAI_BASE_URL=http://127.0.0.1:8000/v1 python examples/openai_agents_agent.py
"""

import os
import sys
from pathlib import Path

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI


@function_tool
def ls(path: str) -> str:
    """List a folder."""
    return "\n".join(sorted(entry.name for entry in Path(path).iterdir()))


def main() -> None:
    """Ask what is here."""
    set_tracing_disabled(True)  # else it is sent to OpenAI
    url = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")
    model = OpenAIChatCompletionsModel(model="local", openai_client=AsyncOpenAI(base_url=url, api_key="none"))
    agent = Agent(name="lister", model=model, tools=[ls], model_settings=ModelSettings(max_tokens=100))
    sys.stdout.write(f"{Runner.run_sync(agent, 'What is in the folder .?').final_output}\n")


if __name__ == "__main__":
    main()
