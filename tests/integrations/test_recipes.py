"""LangChain, the OpenAI Agents SDK and pydantic-ai through the server, recorded on the way."""

import asyncio
from pathlib import Path

import pytest

from suffixspec.trace import read_sessions

from .rig import call, saying

TURNS = (
    "Let me look." + call("ls", path="a/b"),
    "Deeper." + call("ls", path="a/b/c"),
    "It is c.py in a/b/c.",
)
QUESTION = "what is in a/b?"


def ls(path: str) -> str:
    """List a folder.

    Args:
        path: the folder.
    """
    return f"c.py in {path}"


@pytest.fixture
def through(rig, tmp_path):
    """The base URL of a recording proxy in front of the server, and its file."""
    from suffixspec.integrations.recording import recording

    path = tmp_path / "proxy.jsonl"
    with recording(path, rig.server.base_url) as url:
        yield url, path


def check(rig, path: Path, *, rewritten: bool = False) -> None:
    """The loop ran with reuse, and the proxy's recording holds the same loop as the server's."""
    rig.check_loop(3, rewritten=rewritten)
    (mine,), (theirs,) = read_sessions(path), read_sessions(rig.path)
    assert mine.messages == theirs.messages
    assert rig.server.api_key not in path.read_text() + rig.path.read_text()
    outputs = [m for m in mine.messages if m.is_output]
    assert outputs[-1].content == "It is c.py in a/b/c."
    assert [c.arguments for m in outputs for c in m.tool_calls] == ['{"path": "a/b"}', '{"path": "a/b/c"}']


def test_langchain(rig, through):
    """``create_agent`` with ``ChatOpenAI`` runs its tool loop."""
    pytest.importorskip("langchain", reason="needs langchain: pip install langchain langchain-openai")
    openai = pytest.importorskip("langchain_openai", reason="needs langchain-openai")
    from langchain.agents import create_agent

    url, path = through
    model = openai.ChatOpenAI(model=rig.server.model_name, base_url=url, api_key=rig.server.api_key)
    agent = create_agent(model, tools=[ls])
    with saying(*TURNS):
        result = agent.invoke({"messages": [{"role": "user", "content": QUESTION}]})
    assert result["messages"][-1].content == "It is c.py in a/b/c."
    check(rig, path)


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_openai_agents(rig, through, api):
    """The OpenAI Agents SDK runs its loop over chat completions, and over responses."""
    agents = pytest.importorskip("agents", reason="needs the OpenAI Agents SDK: pip install openai-agents")
    from openai import AsyncOpenAI

    url, path = through
    agents.set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=url, api_key=rig.server.api_key)
    kind = agents.OpenAIChatCompletionsModel if api == "chat" else agents.OpenAIResponsesModel
    agent = agents.Agent(
        name="a",
        instructions="Use the tools.",
        model=kind(model=rig.server.model_name, openai_client=client),
        tools=[agents.function_tool(ls)],
    )
    with saying(*TURNS):
        result = asyncio.run(agents.Runner.run(agent, QUESTION))
    assert result.final_output == "It is c.py in a/b/c."
    if api == "chat":
        check(rig, path)
    else:
        (session,) = read_sessions(path)
        assert session.turns == 3


def test_pydantic_ai(rig, through):
    """pydantic-ai's agent runs its loop; it writes a call's arguments anew, which ends what can be reused there."""
    pydantic_ai = pytest.importorskip(
        "pydantic_ai", reason="needs pydantic-ai: pip install pydantic-ai-slim[openai]"
    )
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    url, path = through
    provider = OpenAIProvider(base_url=url, api_key=rig.server.api_key)
    agent = pydantic_ai.Agent(OpenAIChatModel(rig.server.model_name, provider=provider), tools=[ls])
    with saying(*TURNS):
        assert agent.run_sync(QUESTION).output == "It is c.py in a/b/c."
    check(rig, path, rewritten=True)
