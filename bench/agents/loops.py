"""One tool loop with each Python client: ``python loops.py CLIENT URL FOLDER TASK``.

Runs in the Python that has the client; needs nothing of suffixspec. ``URL`` is the server's, without ``/v1``.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

URL, FOLDER = "", Path()
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
MOST_TURNS = 12


def bash(command: str) -> str:
    """Run a command in a shell.

    Args:
        command: the command.
    """
    done = subprocess.run(
        ["bash", "-c", command], cwd=FOLDER, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


def openai_sdk(task: str, *, streamed: bool = False) -> None:
    """By hand over OpenAI's client."""
    import openai

    client = openai.OpenAI(base_url=f"{URL}/v1", api_key="none")
    tools: Any = [{"type": "function", "function": {"name": "bash", "parameters": PARAMETERS}}]
    messages: list[Any] = [{"role": "user", "content": task}]
    for _ in range(MOST_TURNS):
        ask: Any = {"model": "local", "messages": messages, "tools": tools}
        if streamed:
            with client.chat.completions.stream(**ask) as stream:
                message: Any = stream.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(**ask).choices[0].message
        if not message.tool_calls:
            return
        calls = [
            {
                "id": c.id,
                "type": "function",
                "function": {"name": c.function.name, "arguments": c.function.arguments},
            }
            for c in message.tool_calls
        ]
        messages.append({"role": "assistant", "content": message.content, "tool_calls": calls})
        for call in message.tool_calls:
            result = bash(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def openai_sdk_streamed(task: str) -> None:
    """Likewise, streamed."""
    openai_sdk(task, streamed=True)


def anthropic_sdk(task: str) -> None:
    """By hand over Anthropic's client, streamed."""
    import anthropic

    client = anthropic.Anthropic(base_url=URL, api_key="none")
    tools: Any = [{"name": "bash", "input_schema": PARAMETERS}]
    messages: list[Any] = [{"role": "user", "content": task}]
    for _ in range(MOST_TURNS):
        with client.messages.stream(model="local", messages=messages, tools=tools, max_tokens=2000) as stream:
            message = stream.get_final_message()
        messages.append({"role": "assistant", "content": [block.model_dump() for block in message.content]})
        used: list[Any] = [block for block in message.content if block.type == "tool_use"]
        if not used:
            return
        results = [{"type": "tool_result", "tool_use_id": u.id, "content": bash(**u.input)} for u in used]
        messages.append({"role": "user", "content": results})


def litellm_sdk(task: str) -> None:
    """By hand over LiteLLM, streamed."""
    import litellm

    tools = [{"type": "function", "function": {"name": "bash", "parameters": PARAMETERS}}]
    messages: list[Any] = [{"role": "user", "content": task}]
    for _ in range(MOST_TURNS):
        chunks = litellm.completion(
            model="openai/local", api_base=f"{URL}/v1", api_key="none", messages=messages, tools=tools, stream=True
        )  # fmt: skip
        built: Any = litellm.stream_chunk_builder(list(chunks))
        message = built.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return
        for call in message.tool_calls:
            result = bash(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def mini_swe_agent(task: str) -> None:
    """mini-swe-agent's agent over its LiteLLM model."""
    import yaml
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.config import builtin_config_dir
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.models import get_model

    config = yaml.safe_load((builtin_config_dir / "mini.yaml").read_text())["agent"]
    templates = {name: config[name] for name in ("system_template", "instance_template")}
    options = {"api_base": f"{URL}/v1", "api_key": "none"}
    model = get_model("openai/local", {"model_kwargs": options, "cost_tracking": "ignore_errors"})
    agent = DefaultAgent(
        model, LocalEnvironment(cwd=str(FOLDER)), **templates, step_limit=MOST_TURNS, cost_limit=0
    )
    agent.run(task)


def smolagents_code(task: str) -> None:
    """A CodeAgent of smolagents over its OpenAI model."""
    _smolagents("CodeAgent", task)


def smolagents_tools(task: str) -> None:
    """A ToolCallingAgent of smolagents, likewise."""
    _smolagents("ToolCallingAgent", task)


def _smolagents(kind: str, task: str) -> None:
    import smolagents

    model = smolagents.OpenAIModel(model_id="local", api_base=f"{URL}/v1", api_key="none")
    make: Any = getattr(smolagents, kind)
    make(tools=[smolagents.tool(bash)], model=model, max_steps=MOST_TURNS, verbosity_level=0).run(task)


def langchain(task: str) -> None:
    """LangChain's agent."""
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    model: Any = ChatOpenAI(model="local")
    create_agent(model, tools=[bash]).invoke({"messages": [{"role": "user", "content": task}]})


def openai_agents(task: str) -> None:
    """The OpenAI Agents SDK with its default, the Responses API."""
    import agents

    agents.set_tracing_disabled(True)
    agent = agents.Agent(name="a", model="local", tools=[agents.function_tool(bash)])
    agents.Runner.run_sync(agent, task, max_turns=MOST_TURNS)


def pydantic_ai(task: str) -> None:
    """pydantic-ai's agent."""
    import pydantic_ai as framework

    framework.Agent("openai-chat:local", tools=[bash]).run_sync(task)


def llm(task: str) -> None:
    """``llm``'s chain of tools over its OpenAI models."""
    import llm as framework
    from llm.default_plugins.openai_models import Chat

    model: Any = Chat("local", model_name="local", api_base=f"{URL}/v1", supports_tools=True)
    model.needs_key = None
    model.key = "none"
    model.chain(task, tools=[framework.Tool.function(bash)], stream=True).text()


CLIENTS: dict[str, Callable[[str], None]] = {
    "openai": openai_sdk,
    "openai, streamed": openai_sdk_streamed,
    "anthropic": anthropic_sdk,
    "litellm": litellm_sdk,
    "mini-swe-agent": mini_swe_agent,
    "smolagents CodeAgent": smolagents_code,
    "smolagents ToolCallingAgent": smolagents_tools,
    "langchain": langchain,
    "openai-agents": openai_agents,
    "pydantic-ai": pydantic_ai,
    "llm": llm,
}


if __name__ == "__main__":
    name, URL, folder, task_ = sys.argv[1:]
    FOLDER = Path(folder)
    os.environ |= {
        "OPENAI_BASE_URL": f"{URL}/v1", "OPENAI_API_KEY": "none", "MSWEA_SILENT_STARTUP": "1",
    }  # fmt: skip
    try:
        CLIENTS[name](task_)
    except ImportError as error:
        sys.stderr.write(f"needs the package {error.name}\n")
        sys.exit(3)
