"""A pydantic-ai agent through ``suffixspec serve``.

suffixspec serve &
OPENAI_BASE_URL=http://127.0.0.1:8000/v1 python examples/pydantic_ai_agent.py
"""

import os
import sys
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


def ls(path: str) -> str:
    """List a folder."""
    return "\n".join(sorted(entry.name for entry in Path(path).iterdir()))


def main() -> None:
    """Ask what is here."""
    url = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")
    model = OpenAIChatModel("local", provider=OpenAIProvider(base_url=url, api_key="none"))
    agent = Agent(model, tools=[ls], model_settings={"max_tokens": 100})
    sys.stdout.write(f"{agent.run_sync('What is in the folder .?').output}\n")


if __name__ == "__main__":
    main()
