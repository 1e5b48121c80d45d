"""The SDKs, LangChain, the OpenAI Agents SDK and pydantic-ai through the server, recorded on the way."""

import asyncio
import json
from pathlib import Path

import pytest

from suffixspec.trace import read_sessions

from .frameworks import needs
from .rig import call, check_replay, saying

TURNS = (
    "Let me look." + call("ls", path="a/b"),
    "Deeper." + call("ls", path="a/b/c"),
    "It is c.py in a/b/c.",
)
QUESTION = "what is in a/b?"
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
both_ways = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


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


def check(rig, path: Path, *, streamed: bool, rewritten: bool = False) -> None:
    """The loop ran with reuse, and the proxy's recording holds the same loop as the server's, and replays."""
    rig.check_loop(3, rewritten=rewritten, streamed=streamed)
    (mine,), (theirs,) = read_sessions(path), read_sessions(rig.path)
    assert mine.messages == theirs.messages
    assert rig.server.api_key not in path.read_text() + rig.path.read_text()
    outputs = [m for m in mine.messages if m.is_output]
    assert outputs[-1].content == "It is c.py in a/b/c."
    assert [c.arguments for m in outputs for c in m.tool_calls] == ['{"path": "a/b"}', '{"path": "a/b/c"}']
    check_replay(path, turns=3)


@both_ways
def test_the_openai_sdk(rig, through, streamed):
    """A tool loop by hand over OpenAI's client goes on from turn to turn."""
    openai = needs("openai", "openai")
    url, path = through
    tools = [{"type": "function", "function": {"name": "ls", "parameters": PARAMETERS}}]
    messages = [{"role": "user", "content": QUESTION}]
    with openai.OpenAI(base_url=url, api_key=rig.server.api_key, max_retries=0) as client, saying(*TURNS):
        while True:
            ask = {"model": "any", "messages": messages, "tools": tools}
            if streamed:
                with client.chat.completions.stream(**ask) as stream:
                    message = stream.get_final_completion().choices[0].message
            else:
                message = client.chat.completions.create(**ask).choices[0].message
            if not message.tool_calls:
                break
            (made,) = message.tool_calls
            result = ls(**json.loads(made.function.arguments))
            messages += [
                message.model_dump(include={"role", "content", "tool_calls"}),
                {"role": "tool", "tool_call_id": made.id, "content": result},
            ]
            for each in messages[-2]["tool_calls"]:
                each["function"].pop("parsed_arguments", None)
    assert message.content == "It is c.py in a/b/c."
    check(rig, path, streamed=streamed)


@both_ways
def test_the_anthropic_sdk(rig, through, streamed):
    """A tool loop by hand over Anthropic's client goes on from turn to turn."""
    anthropic = needs("anthropic", "anthropic")
    url, path = through
    tools = [{"name": "ls", "input_schema": PARAMETERS}]
    messages = [{"role": "user", "content": QUESTION}]
    key = {"base_url": url.removesuffix("/v1"), "api_key": rig.server.api_key}
    with anthropic.Anthropic(**key, max_retries=0) as client, saying(*TURNS):
        while True:
            ask = {"model": "any", "messages": messages, "tools": tools, "max_tokens": 300}
            if streamed:
                with client.messages.stream(**ask) as stream:
                    message = stream.get_final_message()
            else:
                message = client.messages.create(**ask)
            if message.stop_reason != "tool_use":
                break
            used = message.content[-1]
            result = {"type": "tool_result", "tool_use_id": used.id, "content": ls(**used.input)}
            messages += [
                {"role": "assistant", "content": [block.model_dump() for block in message.content]},
                {"role": "user", "content": [result]},
            ]
    assert message.content[0].text == "It is c.py in a/b/c."
    check(rig, path, streamed=streamed)


@both_ways
def test_langchain(rig, through, streamed):
    """``create_agent`` with ``ChatOpenAI`` runs its tool loop."""
    needs("langchain", "langchain")
    openai = needs("langchain_openai", "langchain-openai")
    from langchain.agents import create_agent

    url, path = through
    model = openai.ChatOpenAI(
        model=rig.server.model_name, base_url=url, api_key=rig.server.api_key, streaming=streamed
    )
    agent = create_agent(model, tools=[ls])
    asked = {"messages": [{"role": "user", "content": QUESTION}]}
    with saying(*TURNS):
        if streamed:
            pieces = [piece for piece, _ in agent.stream(asked, stream_mode="messages")]
            said = "".join(piece.content for piece in pieces if piece.type == "AIMessageChunk")
            assert said == "Let me look.Deeper.It is c.py in a/b/c."
        else:
            assert agent.invoke(asked)["messages"][-1].content == "It is c.py in a/b/c."
    check(rig, path, streamed=streamed)


@both_ways
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_openai_agents(rig, through, api, streamed):
    """The OpenAI Agents SDK runs its loop over chat completions, and over responses."""
    agents = needs("agents", "openai-agents")
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

    async def run():
        if not streamed:
            return await agents.Runner.run(agent, QUESTION)
        result = agents.Runner.run_streamed(agent, QUESTION)
        async for _ in result.stream_events():
            pass
        return result

    with saying(*TURNS):
        assert asyncio.run(run()).final_output == "It is c.py in a/b/c."
    check(rig, path, streamed=streamed)


@both_ways
def test_pydantic_ai(rig, through, streamed):
    """pydantic-ai's agent runs its loop; it writes a call's arguments anew, which ends what can be reused there."""
    pydantic_ai = needs("pydantic_ai", "pydantic-ai-slim[openai]")
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    url, path = through
    provider = OpenAIProvider(base_url=url, api_key=rig.server.api_key)
    agent = pydantic_ai.Agent(OpenAIChatModel(rig.server.model_name, provider=provider), tools=[ls])

    async def run() -> str:
        if not streamed:
            return (await agent.run(QUESTION)).output
        texts = []
        async with agent.iter(QUESTION) as steps:
            async for node in steps:
                if pydantic_ai.Agent.is_model_request_node(node):
                    async with node.stream(steps.ctx) as stream:
                        texts = [text async for text in stream.stream_text(delta=True)]
        return "".join(texts)

    with saying(*TURNS):
        assert asyncio.run(run()) == "It is c.py in a/b/c."
    check(rig, path, streamed=streamed, rewritten=True)
