"""Calls of tools and reasoning over the three chat APIs, and loops of turns with them."""

import json
import sys

import pytest
import tokenizers
from engine.tiny import CHATML, MERGES, TOKENIZER, VOCAB, tokenizer
from tokenizers import decoders, models, pre_tokenizers

from suffixspec.text import Tokenizer

from .harness import GREEDY, Running, user
from .scripts import HERMES, HERMES_TOKENIZER, LS, call_of, scripted

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


# -- calls that are required, and one at a time -----------------------------------------------------------------

PARAMETERS = {
    "type": "object",
    "properties": {"path": {"enum": ["/", "/tmp"]}, "all": {"type": "boolean"}},
    "required": ["path", "all"],
}


def forced(running, api: str, how: str, *, parameters=PARAMETERS, stream=False, **more):
    """(name, arguments) of each call, and the response's headers, of a model that would not call by itself."""
    function = {"name": "ls", "parameters": parameters}
    other = {"name": "cat", "parameters": PARAMETERS}
    body = {"model": MODEL, "temperature": 1, "stream": stream}
    if api == "chat":
        path, body["messages"] = "/v1/chat/completions", [user("x")]
        body["tools"] = [{"type": "function", "function": one} for one in (function, other)]
        body["tool_choice"] = "required" if how == "any" else {"type": "function", "function": {"name": "ls"}}
    elif api == "responses":
        path, body["input"] = "/v1/responses", "x"
        body["tools"] = [{"type": "function", **one} for one in (function, other)]
        body["tool_choice"] = "required" if how == "any" else {"type": "function", "name": "ls"}
    else:
        path, body["messages"], body["max_tokens"] = "/v1/messages", [user("x")], 300
        body["tools"] = [
            {"name": one["name"], "input_schema": one["parameters"]} for one in (function, other)
        ]
        body["tool_choice"] = {"type": "any"} if how == "any" else {"type": "tool", "name": "ls"}
    status, headers, answer = running.ask(path, body | more)
    assert status == 200, answer
    if stream:
        return streamed_calls(api, answer), headers
    if api == "chat":
        (choice,) = answer["choices"]
        calls = choice["message"].get("tool_calls") or []
        assert (choice["finish_reason"] == "tool_calls") == bool(calls)
        return [
            (call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls
        ], headers
    if api == "responses":
        calls = [item for item in answer["output"] if item["type"] == "function_call"]
        return [(call["name"], json.loads(call["arguments"])) for call in calls], headers
    return [
        (block["name"], block["input"]) for block in answer["content"] if block["type"] == "tool_use"
    ], headers


def streamed_calls(api: str, text: str) -> list:
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    named: dict[int, list[str]] = {}
    for event in events:
        if api == "chat":
            for piece in event["choices"][0]["delta"].get("tool_calls") or ():
                named.setdefault(piece["index"], [piece["function"].get("name"), ""])
                named[piece["index"]][1] += piece["function"].get("arguments") or ""
        elif event["type"] == "response.function_call_arguments.done":
            named[event["output_index"]] = [event["name"], event["arguments"]]
        elif event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            named[event["index"]] = [event["content_block"]["name"], ""]
        elif event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
            named[event["index"]][1] += event["delta"]["partial_json"]
    return [(name, json.loads(arguments)) for name, arguments in named.values()]


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_required_call_is_made(hermes, api, stream):
    """A model of random weights calls a tool that there is, or the one that was named, by its schema."""
    pytest.importorskip("xgrammar")
    for how, names in (("any", {"ls", "cat"}), ("named", {"ls"})):
        for _ in range(3):
            ((name, arguments),), headers = forced(hermes, api, how, stream=stream)
            assert name in names
            assert set(arguments) == {"path", "all"}
            assert arguments["path"] in {"/", "/tmp"}
            assert "x-suffixspec-ignored" not in headers


def test_a_required_call_goes_before_a_response_format(hermes):
    """A call has no content that could be bound; a malformed format is an error all the same."""
    pytest.importorskip("xgrammar")
    ((name, _),), _ = forced(hermes, "chat", "named", response_format={"type": "json_object"})
    assert name == "ls"
    body = {
        "messages": [user("x")],
        "tools": [LS],
        "tool_choice": "required",
        "response_format": {"type": "x"},
    }
    assert hermes.ask("/v1/chat/completions", body)[0] == 400


def test_a_schema_that_cannot_be_compiled_leaves_arguments_free(hermes):
    """The call is made all the same, with some object; the header says so."""
    pytest.importorskip("xgrammar")
    odd = {"type": "object", "properties": {"a": {"type": "unicorn"}}}
    for how in ("any", "named"):
        ((name, arguments),), headers = forced(
            hermes, "chat", how, parameters=odd, temperature=0, max_tokens=600, logit_bias={"125": 5}
        )
        assert name in {"ls", "cat"}
        assert isinstance(arguments, dict)
        assert headers["x-suffixspec-ignored"] == "tools.function.parameters"


def test_without_the_extra_a_required_call_is_looked_for(tiny_target, monkeypatch):
    """No grammar: a free output, and the header says that the choice was not enforced."""
    monkeypatch.setitem(sys.modules, "xgrammar", None)
    with Running(tiny_target, tokenizer=tokenizer(HERMES)) as running:
        for api, most in (
            ("chat", "max_tokens"),
            ("responses", "max_output_tokens"),
            ("messages", "max_tokens"),
        ):
            calls, headers = forced(running, api, "any", **{most: 5})
            assert calls == []
            assert headers["x-suffixspec-ignored"] == "tool_choice"


@pytest.mark.parametrize("stream", [False, True])
def test_one_call_at_most_where_parallel_calls_are_ruled_out(hermes, stream):
    """The output ends where the second call would begin, over all three APIs; else both calls come."""
    bodies = {
        "/v1/chat/completions": {"messages": [user("twice")], "tools": [LS], "parallel_tool_calls": False},
        "/v1/responses": {"input": "twice", "tools": [RESPONSES_LS], "parallel_tool_calls": False},
        "/v1/messages": {
            "messages": [user("twice")],
            "tools": [MESSAGES_LS],
            "max_tokens": 200,
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        },
    }
    for path, body in bodies.items():
        api = path.rpartition("/")[2].replace("completions", "chat")
        several = {name: body[name] for name in body if name not in {"parallel_tool_calls", "tool_choice"}}
        for single, asked in ((True, body), (False, several)):
            status, headers, answer = hermes.ask(path, {"model": MODEL, **GREEDY, "stream": stream, **asked})
            assert status == 200, answer
            assert "x-suffixspec-ignored" not in headers
            if stream:
                assert [name for name, _ in streamed_calls(api, answer)] == ["ls", "cat"][
                    : 1 if single else 2
                ]
            elif api == "chat":
                (choice,) = answer["choices"]
                assert len(choice["message"]["tool_calls"]) == (1 if single else 2)
                assert choice["finish_reason"] == "tool_calls"
                assert choice["message"]["content"] is None
                whole = len(TOKENIZER.encode(SCRIPT["twice"]))
                assert (answer["usage"]["completion_tokens"] < whole) == single, (
                    "it is not written to its end"
                )
            elif api == "responses":
                assert [item["type"] for item in answer["output"]] == ["function_call"] * (1 if single else 2)
            else:
                assert [block["type"] for block in answer["content"]] == ["tool_use"] * (1 if single else 2)
                assert answer["stop_reason"] == "tool_use"


# -- a form behind the reasoning --------------------------------------------------------------------------------

FORM = {
    "type": "json_schema",
    "json_schema": {
        "name": "x",
        "schema": {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
    },
}
ANSWER = '{"a": true}'


@pytest.mark.parametrize(
    ("header", "script", "reasoning"),
    [
        ("", f"<think>hm, 12</think>{ANSWER}", "hm, 12"),
        ("<think>\n", f"hm, 12</think>{ANSWER}", "hm, 12"),
        ("", ANSWER, None),
        ("<think>\n\n</think>\n\n", ANSWER, None),
    ],
    ids=["the model opens it", "the prompt opens it", "there is none", "the prompt has closed it"],
)
def test_a_form_begins_behind_the_reasoning(tiny_target, header, script, reasoning):
    """What is thought is free, and the answer behind it follows the schema, forced tokens drafted."""
    pytest.importorskip("xgrammar")
    thinking = reasoner(header)
    assert thinking.vocab_size == VOCAB
    # What the model wants to write last is no JSON: without the form the answer would be that.
    script = script.replace(ANSWER, ANSWER + " no")
    answers = scripted({"go": script}, tokenizer=thinking, header=f"<|im_start|>assistant\n{header}")
    with Running(tiny_target, tokenizer=thinking) as running, answers:
        body = {"model": MODEL, "messages": [user("go")], "max_tokens": 60, "temperature": 0}
        _, _, free = running.ask("/v1/chat/completions", body)
        assert free["choices"][0]["message"]["content"] == f"{ANSWER} no"
        status, _, bound = running.ask("/v1/chat/completions", body | {"response_format": FORM})
        assert status == 200, bound
        message = bound["choices"][0]["message"]
        assert message["content"] == ANSWER
        assert message.get("reasoning_content") == reasoning


CHANNELS = ("<|start|>", "<|end|>", "<|channel|>", "<|message|>")
THOUGHT = '<|channel|>analysis<|message|>{"hm": 12<|end|><|start|>assistant'


@pytest.mark.parametrize(
    ("header", "script", "reasoning"),
    [
        ("", f"{THOUGHT}<|channel|>final<|message|>{ANSWER}", '{"hm": 12'),
        ("", f"{THOUGHT}<|channel|>final json<|message|>{ANSWER}", '{"hm": 12'),
        ("", f"<|channel|>final<|message|>{ANSWER}", None),
        ("<|channel|>final<|message|>", ANSWER, None),
        ("<|channel|>final", f"<|message|>{ANSWER}", None),
    ],
    ids=["behind the analysis", "its type is named", "at once", "the prompt begins it", "its header alone"],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_form_binds_the_final_channel(tiny_target, header, script, reasoning, stream):
    """Of a model that writes to channels only the final text follows the schema; the analysis is free."""
    pytest.importorskip("xgrammar")
    channels = reasoner(f"<|start|>assistant{header}", CHANNELS)
    assert channels.vocab_size == VOCAB
    script = script.replace(ANSWER, ANSWER + " no")
    begin = f"<|im_start|>assistant\n<|start|>assistant{header}"
    with (
        Running(tiny_target, tokenizer=channels) as running,
        scripted({"go": script}, tokenizer=channels, header=begin),
        running.openai() as client,
    ):
        for form, content in (({}, f"{ANSWER} no"), ({"response_format": FORM}, ANSWER)):
            body = {"model": MODEL, "messages": [user("go")], "max_tokens": 90, "temperature": 0, **form}
            if stream:
                pieces = [
                    chunk.choices[0].delta for chunk in client.chat.completions.create(**body, stream=True)
                ]
                said = "".join(piece.content or "" for piece in pieces)
                thought = "".join(getattr(piece, "reasoning_content", None) or "" for piece in pieces)
            else:
                message = client.chat.completions.create(**body).choices[0].message
                said, thought = message.content, getattr(message, "reasoning_content", None) or ""
            assert (said, thought or None) == (content, reasoning), form


def test_a_required_call_binds_the_final_channel(tiny_target):
    """The call is made behind the analysis, which stays free."""
    pytest.importorskip("xgrammar")
    channels = reasoner("<|start|>assistant", CHANNELS)
    call = '{"name": "ls", "arguments": {"path": "/"}}'
    script = f"{THOUGHT}<|channel|>final<|message|>{call} no"
    begin = "<|im_start|>assistant\n<|start|>assistant"
    answers = scripted({"go": script}, tokenizer=channels, header=begin)
    with Running(tiny_target, tokenizer=channels) as running, answers:
        body = {"model": MODEL, "messages": [user("go")], "max_tokens": 120, "temperature": 0}
        more = {"tools": [LS], "tool_choice": "required"}
        status, _, answer = running.ask("/v1/chat/completions", body | more)
        assert status == 200, answer
        message = answer["choices"][0]["message"]
        assert message["reasoning_content"] == '{"hm": 12'
        (made,) = message["tool_calls"]
        assert (made["function"]["name"], made["function"]["arguments"]) == ("ls", '{"path": "/"}')


def reasoner(header: str, marks: tuple[str, ...] = ("<think>", "</think>")):
    """A tokenizer with the marks of reasoning, as many tokens as the tiny model has, and what a reply begins with."""
    vocab = {char: index for index, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = [tuple(merge.split()) for merge in MERGES[: -len(marks)]]
    for pair in merges:
        vocab["".join(pair)] = len(vocab)
    backend = tokenizers.Tokenizer(models.BPE(vocab, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_tokens([mark for mark in marks if "|" not in mark])
    backend.add_special_tokens([*(mark for mark in marks if "|" in mark), "<|im_start|>", "<|im_end|>"])
    template = CHATML.replace("<|im_start|>assistant\n", "<|im_start|>assistant\n" + header)
    return Tokenizer(backend, name="thinker", template=template, special={"eos_token": "<|im_end|>"})
