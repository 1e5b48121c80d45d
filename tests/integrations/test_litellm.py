"""LiteLLM with the provider, and with the recording callback."""

import asyncio
import json

import pytest

from .frameworks import needs

litellm = needs("litellm", "litellm")

from suffixspec.trace import read_sessions  # noqa: E402

from .rig import call, check_replay, saying, until_lines  # noqa: E402

LS = {
    "type": "function",
    "function": {"name": "ls", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}},
}
MESSAGES = [{"role": "user", "content": "list a/b"}]


@pytest.fixture
def provider(rig, monkeypatch):
    from suffixspec.integrations.litellm import SuffixspecLLM, register

    monkeypatch.setattr(litellm, "custom_provider_map", [])
    return register(handler=SuffixspecLLM(rig.server))


def test_a_tool_loop_goes_on(rig, provider):
    """Whole answers, with calls as LiteLLM has them; the second turn reuses the first."""
    messages = list(MESSAGES)
    with saying("ok" + call("ls", path="a/b"), "There is a c.py."):
        first = litellm.completion(model="suffixspec/local", messages=messages, tools=[LS], temperature=0)
        (made,) = first.choices[0].message.tool_calls
        assert (made.function.name, made.function.arguments) == ("ls", '{"path": "a/b"}')
        assert (first.choices[0].finish_reason, first.usage.prompt_tokens > 0) == ("tool_calls", True)
        messages += [
            first.choices[0].message.model_dump(),
            {"role": "tool", "tool_call_id": made.id, "content": "c.py"},
        ]
        second = litellm.completion(model="suffixspec/local", messages=messages, tools=[LS])
        assert second.choices[0].message.content == "There is a c.py."
    rig.check_loop(2)


def test_streams_and_asyncio(rig, provider):
    """Streamed, asynchronous, and both: the same text and the same calls."""

    async def ask() -> list[str]:
        whole = await litellm.acompletion(model="suffixspec/x", messages=MESSAGES)
        streamed = await litellm.acompletion(model="suffixspec/x", messages=MESSAGES, stream=True)
        return [
            whole.choices[0].message.content,
            "".join([c.choices[0].delta.content or "" async for c in streamed]),
        ]

    with saying("hello there", "hello here", "hello you", "x" + call("ls", path="a")):
        chunks = litellm.completion(model="suffixspec/x", messages=MESSAGES, stream=True)
        assert "".join(c.choices[0].delta.content or "" for c in chunks) == "hello there"
        assert asyncio.run(ask()) == ["hello here", "hello you"]
        chunks = list(litellm.completion(model="suffixspec/x", messages=MESSAGES, stream=True, tools=[LS]))
        built = litellm.stream_chunk_builder(chunks)
        assert built.choices[0].message.tool_calls[0].function.arguments == '{"path": "a"}'


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_litellm_goes_through_the_server(rig, api, streamed):
    """LiteLLM's own providers, given the server's URL, run a tool loop by either API."""
    base = {"openai": rig.server.base_url, "anthropic": rig.server.url}[api]
    messages = [{"role": "system", "content": "Use the tools."}, *MESSAGES]
    ask = {
        "model": f"{api}/x",
        "api_base": base,
        "api_key": rig.server.api_key,
        "tools": [LS],
        "stream": streamed,
    }
    with saying("ok" + call("ls", path="a/b"), "There is a c.py."):
        for turn in range(2):
            answer = litellm.completion(messages=messages, max_tokens=300, **ask)
            message = (litellm.stream_chunk_builder(list(answer)) if streamed else answer).choices[0].message
            if not turn:
                (made,) = message.tool_calls
                assert (made.function.name, json.loads(made.function.arguments)) == ("ls", {"path": "a/b"})
                messages += [
                    message.model_dump(exclude_none=True),
                    {"role": "tool", "tool_call_id": made.id, "content": "c.py"},
                ]
    assert message.content == "There is a c.py."
    rig.check_loop(2, streamed=streamed)


def test_errors_keep_their_words(rig, provider):
    """What the server refuses comes back as LiteLLM's error with the server's sentence."""
    with pytest.raises(litellm.exceptions.BadRequestError, match="maximum context length"):
        litellm.completion(model="suffixspec/x", messages=[{"role": "user", "content": "a" * 40_000}])


def test_the_callback_records_any_loop(rig, provider, tmp_path, monkeypatch):
    """Every call that LiteLLM makes is a line, streamed ones too, and the lines are the loop."""
    from suffixspec.integrations.litellm import RecorderCallback

    path = tmp_path / "callback.jsonl"
    recorder = RecorderCallback(path)
    monkeypatch.setattr(litellm, "callbacks", [recorder])
    messages = list(MESSAGES)
    ask = {"model": "suffixspec/x", "messages": messages, "tools": [LS]}
    with saying("one" + call("ls", path="a"), "two"):
        message = litellm.completion(**ask).choices[0].message
        until_lines(path, 1)
        answer = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "c"}
        ask["messages"] = [*messages, message, answer]
        list(litellm.completion(**ask, stream=True))
        until_lines(path, 2)
    recorder.close()
    (session,) = read_sessions(path)
    assert [m.content for m in session.messages] == ["list a/b", "one", "c", "two"]
    assert session.messages[1].tool_calls[0].arguments == '{"path": "a"}'
    assert session.turns == 2
    check_replay(path, turns=2)
