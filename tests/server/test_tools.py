"""Calls of tools and reasoning over the three chat APIs, and loops of turns with them."""

import json

import pytest

from .harness import GREEDY, Running, user
from .scripts import HERMES_TOKENIZER, LS, call_of, scripted

MODEL = "tiny"
ARGUMENTS = '{"path":  "/tmp"}'  # two spaces: what a client makes of it and writes anew has one
SCRIPT = {
    "list": f"I look.{call_of(ARGUMENTS)}",
    "twice": f"{call_of('{}')}{call_of(ARGUMENTS, 'cat')}",
    "think": "<think>hm, 12</think>The abc.",
}
RESPONSES_LS = {"type": "function", **LS["function"]}
MESSAGES_LS = {"name": "ls", "description": "list", "input_schema": LS["function"]["parameters"]}


@pytest.fixture(scope="module")
def hermes(tiny_target):
    with Running(tiny_target, tokenizer=HERMES_TOKENIZER) as running, scripted(SCRIPT):
        yield running


# -- chat completions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_chat_completions_tell_calls(hermes, stream):
    """Name, arguments as written, an id, content beside them, and the reason "tool_calls"."""
    got = hermes.openai().chat.completions.create(
        model=MODEL, messages=[user("list")], tools=[LS], temperature=0, stream=stream
    )
    if not stream:
        (choice,) = got.choices
        (call,) = choice.message.tool_calls
        assert choice.message.content == "I look."
        assert (call.function.name, call.function.arguments) == ("ls", ARGUMENTS)
        assert call.id.startswith("call_")
        assert choice.finish_reason == "tool_calls"
        return
    chunks = [chunk.choices[0] for chunk in got]
    pieces = [piece for chunk in chunks for piece in chunk.delta.tool_calls or ()]
    assert "".join(chunk.delta.content or "" for chunk in chunks) == "I look."
    assert {piece.index for piece in pieces} == {0}
    assert [piece.function.name for piece in pieces if piece.function.name] == ["ls"]
    assert "".join(piece.function.arguments or "" for piece in pieces) == ARGUMENTS
    assert len([piece.id for piece in pieces if piece.id]) == 1
    assert chunks[-1].finish_reason == "tool_calls"


def test_chat_completions_number_several_calls(hermes):
    """A stream's calls have indexes; a call without text beside it has no content."""
    options = {"model": MODEL, "messages": [user("twice")], "tools": [LS], "temperature": 0}
    whole = hermes.openai().chat.completions.create(**options).choices[0].message
    assert whole.content is None
    assert [call.function.name for call in whole.tool_calls] == ["ls", "cat"]
    named = {}
    for chunk in hermes.openai().chat.completions.create(stream=True, **options):
        for piece in chunk.choices[0].delta.tool_calls or ():
            named.setdefault(piece.index, [piece.function.name, ""])[1] += piece.function.arguments or ""
    assert named == {0: ["ls", "{}"], 1: ["cat", ARGUMENTS]}


def test_chat_completions_tell_reasoning_apart(hermes):
    """What stands between think tags is ``reasoning_content``, whole and streamed."""
    options = {"model": MODEL, "messages": [user("think")], "temperature": 0}
    message = hermes.openai().chat.completions.create(**options).choices[0].message
    assert (message.reasoning_content, message.content) == ("hm, 12", "The abc.")
    deltas = [
        chunk.choices[0].delta for chunk in hermes.openai().chat.completions.create(stream=True, **options)
    ]
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == "hm, 12"
    assert "".join(delta.content or "" for delta in deltas) == "The abc."


def test_without_tools_nothing_is_a_call(hermes):
    """The same text is content where no tools are given, or ``tool_choice`` is "none"."""
    for more in ({}, {"tools": [LS], "tool_choice": "none"}):
        got = hermes.openai().chat.completions.create(
            model=MODEL, messages=[user("list")], temperature=0, **more
        )
        assert got.choices[0].message.tool_calls is None
        assert got.choices[0].message.content == SCRIPT["list"]
        assert got.choices[0].finish_reason == "stop"


# -- messages -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_messages_tell_calls_and_reasoning(hermes, stream):
    """Anthropic's client puts the blocks together: text, then the call with its input; thinking, then text."""

    def ask(text):
        options = {
            "model": MODEL,
            "messages": [user(text)],
            "tools": [MESSAGES_LS],
            "max_tokens": 200,
            "extra_body": GREEDY,
        }
        if not stream:
            return hermes.anthropic().messages.create(**options)
        with hermes.anthropic().messages.stream(**options) as events:
            return events.get_final_message()

    text, call = ask("list").content
    assert text.text == "I look."
    assert (call.type, call.name, call.input) == ("tool_use", "ls", {"path": "/tmp"})
    assert ask("list").stop_reason == "tool_use"
    thinking, text = ask("think").content
    assert (thinking.thinking, text.text) == ("hm, 12", "The abc.")
    assert ask("think").stop_reason == "end_turn"


# -- responses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_responses_tell_calls_and_reasoning(hermes, stream):
    """Items in their order: message and function call; reasoning and message."""

    def ask(text):
        options = {"model": MODEL, "input": text, "tools": [RESPONSES_LS], "temperature": 0}
        if not stream:
            return hermes.openai().responses.create(**options)
        with hermes.openai().responses.stream(**options) as events:
            return events.get_final_response()

    message, call = ask("list").output
    assert message.content[0].text == "I look."
    assert (call.type, call.name, call.arguments) == ("function_call", "ls", ARGUMENTS)
    reasoning, message = ask("think").output
    assert reasoning.content[0].text == "hm, 12"
    assert message.content[0].text == "The abc."


@pytest.mark.parametrize("stream", [False, True])
def test_responses_hand_free_text_to_custom_tools(tiny_target, stream):
    """A custom tool is called with the text itself, and its call comes back into the conversation as it was."""
    tool = {"type": "custom", "name": "patch", "description": "apply a patch"}
    script = {"edit": call_of('{"input": "a\\nb"}', "patch"), "done": "ok"}
    with Running(tiny_target, tokenizer=HERMES_TOKENIZER) as running, scripted(script):
        options = {"model": MODEL, "input": "edit", "tools": [tool], "temperature": 0}
        if stream:
            events = list(running.openai().responses.create(stream=True, **options))
            (done,) = [event for event in events if event.type == "response.custom_tool_call_input.done"]
            assert done.input == "a\nb"
            got = events[-1].response
        else:
            got = running.openai().responses.create(**options)
        (call,) = got.output
        assert (call.type, call.name, call.input) == ("custom_tool_call", "patch", "a\nb")
        items = [
            user("edit"),
            call.model_dump(exclude_none=True),
            {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "done"},
        ]
        status, _, answer = running.ask(
            "/v1/responses", {"model": MODEL, "input": items, "tools": [tool], "temperature": 0}
        )
        assert status == 200, answer
        assert answer["output"][0]["content"][0]["text"] == "ok"


def test_a_stream_of_responses_is_numbered_and_closed(hermes):
    """Events have ascending numbers, each item is added, filled and done, and the last one has it all."""
    events = list(
        hermes.openai().responses.create(
            model=MODEL, input="list", tools=[RESPONSES_LS], temperature=0, stream=True
        )
    )
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events if not event.type.endswith(".delta")]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert done == events[-1].response.output


# -- loops ----------------------------------------------------------------------------------------------------

TURNS = 6
LOOP = {"go 0": f"First.{call_of(ARGUMENTS)}"} | {
    f"result {turn}": f"Step {turn}.{call_of(ARGUMENTS)}" for turn in range(1, TURNS)
}


def chat_loop(running):
    """(prompt tokens, cached tokens, output tokens) of each turn."""
    messages = [user("go 0")]
    for turn in range(TURNS):
        got = running.openai().chat.completions.create(
            model=MODEL, messages=messages, tools=[LS], temperature=0
        )
        message = got.choices[0].message
        yield (
            got.usage.prompt_tokens,
            got.usage.prompt_tokens_details.cached_tokens,
            got.usage.completion_tokens,
        )
        messages.append(message.model_dump(exclude_none=True))
        messages.append(
            {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": f"result {turn + 1}"}
        )


def messages_loop(running):
    """The same over Anthropic's API, whose client parses the arguments."""
    messages = [user("go 0")]
    for turn in range(TURNS):
        got = running.anthropic().messages.create(
            model=MODEL, messages=messages, tools=[MESSAGES_LS], max_tokens=200, extra_body=GREEDY
        )
        cached = got.usage.cache_read_input_tokens
        yield got.usage.input_tokens + cached, cached, got.usage.output_tokens
        messages.append({"role": "assistant", "content": [block.model_dump() for block in got.content]})
        result = {"type": "tool_result", "tool_use_id": got.content[-1].id, "content": f"result {turn + 1}"}
        messages.append({"role": "user", "content": [result]})


def responses_loop(running):
    """The same over the Responses API."""
    items = [user("go 0")]
    for turn in range(TURNS):
        got = running.openai().responses.create(
            model=MODEL, input=items, tools=[RESPONSES_LS], temperature=0, store=False
        )
        yield got.usage.input_tokens, got.usage.input_tokens_details.cached_tokens, got.usage.output_tokens
        items += [item.model_dump(exclude_none=True) for item in got.output]
        items.append(
            {
                "type": "function_call_output",
                "call_id": got.output[-1].call_id,
                "output": f"result {turn + 1}",
            }
        )


def stored_loop(running):
    """The same, with the conversation kept by the server."""
    previous, items = None, [user("go 0")]
    for turn in range(TURNS):
        got = running.openai().responses.create(
            model=MODEL, input=items, tools=[RESPONSES_LS], temperature=0, previous_response_id=previous
        )
        yield got.usage.input_tokens, got.usage.input_tokens_details.cached_tokens, got.usage.output_tokens
        previous = got.id
        items = [
            {
                "type": "function_call_output",
                "call_id": got.output[-1].call_id,
                "output": f"result {turn + 1}",
            }
        ]


@pytest.mark.parametrize("loop", [chat_loop, messages_loop, responses_loop, stored_loop])
def test_every_turn_goes_on_from_the_one_before(tiny_target, loop):
    """Six turns with calls: each finds the KV of the whole turn before it, its output included, and no id is sent."""
    with Running(tiny_target, tokenizer=HERMES_TOKENIZER) as running, scripted(LOOP):
        known = 0
        for turn, (prompt, cached, output) in enumerate(loop(running)):
            # All but the end token of the output, and what was emitted last: neither has KV yet.
            assert known - 2 <= cached < prompt, f"turn {turn}"
            known = prompt + output
        assert len(running.engine._sessions) == 1


def test_arguments_that_a_client_changed_are_taken_as_they_come(tiny_target):
    """Anthropic's API: another value under the same id is not replaced by what the model wrote."""
    with Running(tiny_target, tokenizer=HERMES_TOKENIZER) as running, scripted(LOOP):
        client = running.anthropic()
        got = client.messages.create(
            model=MODEL, messages=[user("go 0")], tools=[MESSAGES_LS], max_tokens=200, extra_body=GREEDY
        )
        call = got.content[-1]
        for value in ({"path": "/tmp"}, {"path": "/etc"}, {"path": 1}):
            blocks = [{"type": "tool_use", "id": call.id, "name": "ls", "input": value}]
            messages = [user("go 0"), {"role": "assistant", "content": blocks}, user("x")]
            client.messages.create(model=MODEL, messages=messages, tools=[MESSAGES_LS], max_tokens=1)
            (session,) = running.engine._sessions.values()
            shown = HERMES_TOKENIZER.decode(session.prompt_ids.tolist())
            assert (ARGUMENTS if value == {"path": "/tmp"} else json.dumps(value)) in shown
