"""A LangChain agent through ``suffixspec serve``.

suffixspec serve &
OPENAI_BASE_URL=http://127.0.0.1:8000/v1 python examples/langchain_agent.py
"""

import os
import sys
from pathlib import Path

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI


def ls(path: str) -> str:
    """List a folder."""
    return "\n".join(sorted(entry.name for entry in Path(path).iterdir()))


def main() -> None:
    """Ask what is here."""
    url = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")
    agent = create_agent(ChatOpenAI(model="local", base_url=url, api_key="none", max_tokens=100), tools=[ls])
    for message in agent.invoke({"messages": [{"role": "user", "content": "What is in the folder .?"}]})[
        "messages"
    ]:
        sys.stdout.write(f"{message.type}: {message.content}\n")


if __name__ == "__main__":
    main()
