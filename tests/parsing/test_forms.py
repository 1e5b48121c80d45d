"""Each form of tool calls, reasoning, and what only looks like them."""

import json

import pytest

from suffixspec.errors import InputError
from suffixspec.parsing import (
    ContentDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallStart,
    message_of,
    parser_for,
    required_call_format,
)
from suffixspec.verify.stopping import Stopping

from .inputs import CHATML, TEMPLATES, TOKENIZERS, TOOLS, new, parsed, tokenizer

FORMS = ("hermes", "llama", "mistral")


def read(form: str, text: str, **more) -> tuple[str | None, list[tuple[str, str]], str | None]:
    """(content, calls as (name, arguments), reasoning) of a whole output."""
    message = message_of(parsed(new(form, **more), text))
    calls = [
        (call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", [])
    ]
    return message["content"], calls, message.get("reasoning_content")


# -- calls ------------------------------------------------------------------------------------------------

CALLS = [
    ("hermes", '<tool_call>\n{"name": "run", "arguments": {"cmd": "ls -l"}}\n</tool_call>', '{"cmd": "ls -l"}'),
    ("hermes", '<tool_call>{"arguments": {"cmd":1}, "name":"run"}</tool_call>', '{"cmd":1}'),
    ("hermes", '<tool_call>{"name": "run", "arguments": "{\\"cmd\\": \\"é\\"}"}</tool_call>', '{"cmd": "é"}'),
    ("hermes", '<tool_call>{"name": "run"}</tool_call>', "{}"),
    ("hermes", '<tool_call>{"name": "run", "arguments": null}</tool_call>', "{}"),
    ("hermes", '<tool_call>{"id": [1, "}"], "name": "run", "arguments": {}, "x": 2}</tool_call>', "{}"),
    (
        "hermes",
        '<tool_call>{"name": "run", "arguments": {"cmd": "echo \\"</tool_call>\\" } {"}}</tool_call>',
        '{"cmd": "echo \\"</tool_call>\\" } {"}',
    ),
    (
        "hermes",
        "<tool_call>\n<function=run>\n<parameter=cmd>\nls\n-l\n</parameter>\n</function>\n</tool_call>",
        '{"cmd": "ls\\n-l"}',
    ),
    ("hermes", "<tool_call><function=run></function></tool_call>", "{}"),
    ("llama", '{"name": "run", "parameters": {"cmd": "ls"}}', '{"cmd": "ls"}'),
    ("llama", '\n{"type": "function", "name": "run", "parameters": {"cmd": "ls"}}\n', '{"cmd": "ls"}'),
    ("llama", '<|python_tag|>{"name": "run", "parameters": {"cmd": "ls"}}', '{"cmd": "ls"}'),
    ("llama", '[{"name": "run", "parameters": {"cmd": "ls"}}]', '{"cmd": "ls"}'),
    ("mistral", '[TOOL_CALLS] [{"name": "run", "arguments": {"cmd": "ls"}, "id": "abcdefghi"}]', '{"cmd": "ls"}'),
    ("mistral", '[TOOL_CALLS]run[ARGS]{"cmd": "ls"}', '{"cmd": "ls"}'),
    ("mistral", '[TOOL_CALLS]run[CALL_ID]abcdefghi[ARGS] {"cmd": "ls"}', '{"cmd": "ls"}'),
    ("mistral", '[TOOL_CALLS]run{"cmd": "ls"}', '{"cmd": "ls"}'),
]  # fmt: skip


@pytest.mark.parametrize(("form", "text", "arguments"), CALLS, ids=[text for _, text, _ in CALLS])
def test_a_call_is_a_call(form, text, arguments):
    """In every way a form writes a call: its name, its arguments as they were written, and no content."""
    assert read(form, text) == (None, [("run", arguments)], None)
    assert json.loads(arguments) is not None


def test_parameters_in_tags_are_of_the_type_that_the_schema_says():
    """Qwen's coder form: integers and objects become JSON values, strings and what is of another type strings."""
    text = (
        "<tool_call>\n<function=read>\n<parameter=n>\n12\n</parameter>\n<parameter=deep>\n"
        '{"a": [1]}\n</parameter>\n<parameter=path>\n12\n</parameter>\n</function>\n</tool_call>'
    )
    assert read("hermes", text)[1] == [("read", '{"n": 12, "deep": {"a": [1]}, "path": "12"}')]
    text = text.replace("12", "twelve")
    assert json.loads(read("hermes", text)[1][0][1]) == {"n": "twelve", "deep": {"a": [1]}, "path": "twelve"}


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("hermes", 'On it.\n<tool_call>\n{}\n</tool_call>\n<tool_call>\n{}\n</tool_call>\n'),
        ("llama", "On it.\n<|python_tag|>{}; {}"),
        ("mistral", "On it. [TOOL_CALLS] [{}, {}]"),
        ("mistral", "On it.[TOOL_CALLS] {}[TOOL_CALLS]{}"),
    ],
)  # fmt: skip
def test_content_and_several_calls(form, text):
    """What is said before calls is content, without the white space between them; indices count up."""
    one = '{"name": "run", "arguments": {"cmd": "a"}}'
    two = '{"name": "read", "parameters": {"n": 2}}'
    text = text.replace("{}", one, 1).replace("{}", two, 1)
    deltas = parsed(new(form), text)
    assert message_of(deltas)["content"] == "On it."
    starts = [delta for delta in deltas if isinstance(delta, ToolCallStart)]
    assert [(start.index, start.name) for start in starts] == [(0, "run"), (1, "read")]
    assert starts[0].id != starts[1].id
    assert read(form, text)[1] == [("run", '{"cmd": "a"}'), ("read", '{"n": 2}')]


def test_content_behind_a_call_is_kept():
    """Text after a call is content too, with the white space before it."""
    content, calls, _ = read("hermes", f"a {CALLS[0][1]}\nb\n")
    assert content == "a\nb\n"
    assert len(calls) == 1


MALFORMED = [
    ("hermes", "<tool_call>"),
    ("hermes", "<tool_call> <tool_call>"),
    ("hermes", "<tool_call>run</tool_call>"),
    ("hermes", '<tool_call>{"name": "run", "arguments": [1]}</tool_call>'),
    ("hermes", '<tool_call>{"name": 3, "arguments": {}}</tool_call>'),
    ("hermes", '<tool_call>{"name": "", "arguments": {}}</tool_call>'),
    ("hermes", '<tool_call>{"arguments": {}}</tool_call>'),
    ("hermes", '<tool_call>{"arguments": {"cmd": "x"}, "name": "run"</tool_call>'),
    ("hermes", '<tool_call>{"name": "run", "argu'),
    ("hermes", "<tool_call>\n<function=run\n>"),
    ("hermes", "<tool_call>\n<function=run>\nls"),
    ("hermes", "a <tool_cal</tool_call> <|python_tag|> [TOOL_CALLS]"),
    ("hermes", '{"name": "run", "arguments": {}}'),
    ("llama", '{"name": "Bob", "parameters": {}}'),
    ("llama", '{"name": "run"}'),
    ("llama", '{"answer": {"name": "run", "parameters": {}}}'),
    ("llama", 'See: {"name": "run", "parameters": {}}'),
    ("llama", "<|python_tag|>print(1)\n"),
    ("llama", "[1, 2]"),
    ("llama", "<|python_ta"),
    ("mistral", "[TOOL_CALLS]"),
    ("mistral", "[TOOL_CALLS] run"),
    ("mistral", "[TOOL_CALLS]run[ARGS][1]"),
    ("mistral", '[TOOL_CALLS] [{"name": "run"'),
    ("mistral", "[TOOL_CALL] [TOOL[TOOL_"),
    ("mistral", "[1] [THINK]"),
]


@pytest.mark.parametrize(("form", "text"), MALFORMED, ids=[text for _, text in MALFORMED])
def test_what_is_no_call_is_content(form, text):
    """Malformed, cut off before it is certain, or only alike: every character comes out as content."""
    assert read(form, text) == (text, [], None)


def test_a_call_behind_a_malformed_one_is_found():
    """A marker that leads to nothing is content, and what follows is looked at anew."""
    text = '<tool_call> no <tool_call>{"name": "run", "arguments": {}}</tool_call>'
    assert read("hermes", text) == ("<tool_call> no", [("run", "{}")], None)


@pytest.mark.parametrize("form", FORMS)
def test_a_call_that_is_cut_off_in_its_arguments_keeps_what_there_is(form):
    """The token limit ends the output in the middle of the arguments: a call with the part that was written."""
    whole = {"hermes": 0, "llama": 9, "mistral": 14}[form]
    text = CALLS[whole][1]
    cut = text[: text.index("ls")]
    assert read(form, cut) == (None, [("run", '{"cmd": "')], None)


def test_a_missing_brace_and_what_else_stands_behind_the_arguments():
    """A call without its last brace is still closed; other text in its place is content."""
    text = '<tool_call>{"name": "run", "arguments": {}\n</tool_call>'
    assert read("hermes", text) == (None, [("run", "{}")], None)
    assert read("hermes", text.replace("\n", " oops ")) == (" oops </tool_call>", [("run", "{}")], None)
    assert read("mistral", '[TOOL_CALLS] [{"name": "run", "arguments": {}}, 3]')[0] == ", 3]"


def test_a_function_that_does_not_exist():
    """Between markers it is a call all the same; as bare JSON it is text."""
    call = '{"name": "nope", "arguments": {}}'
    assert read("hermes", f"<tool_call>{call}</tool_call>")[1] == [("nope", "{}")]
    assert read("llama", call) == (call, [], None)
    assert read("llama", f"<|python_tag|>{call}")[1] == [("nope", "{}")]


# -- streaming --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_arguments_stream_as_they_come(form):
    """Once the name is known each further piece of the arguments comes out at once."""
    head = {
        "hermes": '<tool_call>\n{"name": "run", "arguments": ',
        "llama": '{"name": "run", "parameters": ',
        "mistral": "[TOOL_CALLS]run[ARGS]",
    }[form]
    parser = new(form)
    assert parser.feed(head) == []
    (start, opened) = parser.feed('{"cmd')
    assert (start.index, start.name) == (0, "run")
    assert opened == ToolCallArguments(0, '{"cmd')
    assert parser.feed('": "x') == [ToolCallArguments(0, '": "x')]


def test_half_a_marker_waits():
    """What may become a marker is held back, and white space before it; released when it is none."""
    parser = new("hermes")
    assert parser.feed("so ") == [ContentDelta("so")]
    assert parser.feed("<tool_") == []
    assert parser.feed("x") == [ContentDelta(" <tool_x")]
    assert parser.feed("</thi") == [ContentDelta("</thi")]
    assert parser.feed(" \n") == []
    assert parser.finish() == [ContentDelta(" \n")]
    assert parser.finish() == []
    with pytest.raises(RuntimeError, match="after finish"):
        parser.feed("x")


# -- reasoning --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_reasoning_at_the_start(form):
    """It comes apart from the content, without the line breaks between the two."""
    assert read(form, "<think>\nwhy\nnot?\n</think>\n\nSo.") == ("So.", [], "why\nnot?")
    assert read(form, "\n[THINK]why[/THINK]So. \n") == ("So. \n", [], "why")
    call = '<tool_call>{"name": "run", "arguments": {}}</tool_call>'
    if form == "hermes":
        assert read(form, f"<think>\nhm\n</think>\n\n{call}") == (None, [("run", "{}")], "hm")
    assert read(form, "<think>\n\n</think>\n\nSo.") == ("So.", [], None)


@pytest.mark.parametrize("form", FORMS)
def test_reasoning_that_the_prompt_has_opened(form):
    """The output begins in the middle of it; a closed block in the prompt opens nothing."""
    assert read(form, "why\n</think>\nSo.", prompt="user: <think>?\nassistant\n<think>\n") == (
        "So.",
        [],
        "why",
    )
    assert read(form, "cut off ", prompt="<think>") == ("", [], "cut off ")
    text = "why\n</think>\nSo."
    assert read(form, text, prompt="assistant\n<think>\n\n</think>\n\n") == (text, [], None)
    assert read(form, text, prompt="say <think> twice") == (text, [], None)


def test_reasoning_is_only_at_the_start():
    """In the middle of the content the tag is text; inside the reasoning so are calls."""
    assert read("hermes", "Use <think>x</think>.") == ("Use <think>x</think>.", [], None)
    call = '<tool_call>{"name": "run", "arguments": {}}</tool_call>'
    assert read("hermes", f"<think>{call} <</think>") == ("", [], f"{call} <")


# -- tool_choice ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_without_tools_or_with_tool_choice_none_nothing_is_a_call(form):
    """The markers are text then."""
    for _, text, _ in CALLS:
        assert read(form, f"x {text}", choice="none")[:2] == (f"x {text}", [])
        assert read(form, text, tools=None)[:2] == (text, [])
        assert read(form, text, tools=[])[:2] == (text, [])


@pytest.mark.parametrize("form", FORMS)
def test_a_required_call_needs_no_markers(form):
    """Bare JSON at the start is a call, in whatever form the model calls otherwise."""
    call = '{"name": "run", "arguments": {"cmd": "ls"}}'
    for choice in ("required", {"type": "function", "function": {"name": "run"}}):
        assert read(form, call, choice=choice) == (None, [("run", '{"cmd": "ls"}')], None)
        assert len(read(form, f"[{call},{call}]", choice=choice)[1]) == 2
        assert read(form, "no", choice=choice) == ("no", [], None)


@pytest.mark.parametrize("form", FORMS)
def test_of_a_named_function_only_its_own_calls_count(form):
    """A call of another function is content then."""
    text = CALLS[{"hermes": 0, "llama": 11, "mistral": 14}[form]][1]
    choice = {"type": "function", "name": "read"}
    assert read(form, text, choice=choice) == (text, [], None)
    assert read(form, text.replace("run", "read"), choice=choice)[1][0][0] == "read"


@pytest.mark.parametrize(
    ("tools", "choice", "message"),
    [
        (TOOLS, "any", "one of auto, none, required, got 'any'"),
        (TOOLS, 3, "expected tool_choice to be"),
        (TOOLS, {"function": {"name": "nope"}}, r"one of the tools \(read, run\), got 'nope'"),
        (None, "required", "expected tools"),
        ([{"type": "function"}], "auto", "expected each of tools"),
        ([{"function": {"name": ""}}], "auto", "expected each of tools"),
    ],
)
def test_a_malformed_choice_is_an_input_error(tools, choice, message):
    """Said before anything is parsed."""
    with pytest.raises(InputError, match=message):
        parser_for(TOKENIZERS["hermes"], tools=tools, prompt_text="", tool_choice=choice)


def test_the_format_of_a_required_call():
    """One function, or any of several, each with the schema of its parameters; None where none is required."""
    assert required_call_format(TOOLS) is None
    assert required_call_format(TOOLS, "none") is None
    several = required_call_format(TOOLS, "required")["json_schema"]["schema"]["anyOf"]
    assert [call["properties"]["name"]["const"] for call in several] == ["run", "read"]
    (one,) = [required_call_format(TOOLS, {"function": {"name": "read"}})["json_schema"]["schema"]]
    assert one["properties"]["arguments"] == TOOLS[1]["function"]["parameters"]
    bare = required_call_format([{"name": "f"}], "required")["json_schema"]["schema"]
    assert bare["properties"]["arguments"] == {"type": "object"}


# -- which form, ids --------------------------------------------------------------------------------------


def test_the_form_is_the_templates_then_the_vocabularys():
    """A marker in the chat template decides, then a special token, then the form of ``<tool_call>``."""
    named = '[TOOL_CALLS]run[ARGS]{"cmd": "ls"}'
    marked = CALLS[0][1]

    def calls(source, text):
        return message_of(parsed(parser_for(source, tools=TOOLS, prompt_text=""), text)).get("tool_calls", [])

    assert calls(tokenizer(CHATML, ("[TOOL_CALLS]",)), named)
    assert calls(tokenizer(CHATML, ("<|python_tag|>",)), '{"name": "run", "parameters": {}}')
    assert calls(tokenizer(TEMPLATES["hermes"], ("[TOOL_CALLS]", "<|python_tag|>")), marked)
    assert not calls(tokenizer(TEMPLATES["hermes"], ("[TOOL_CALLS]",)), named)
    assert calls(tokenizer(CHATML), marked)


def test_ids_have_openais_form_and_follow_the_seed():
    """``call_`` and 24 letters and digits; the same for the same seed; nine where a template accepts no more."""
    text = CALLS[0][1] * 2

    def ids(seed, source=TOKENIZERS["hermes"]):
        parser = parser_for(source, tools=TOOLS, prompt_text="", seed=seed)
        return [call["id"] for call in message_of(parsed(parser, text))["tool_calls"]]

    assert ids(1) == ids(1)
    assert len({*ids(1), *ids(2), *ids(None), *ids(None)}) == 8
    assert all(len(x) == 29 and x.startswith("call_") and x[5:].isalnum() for x in ids(None))
    strict = TEMPLATES["hermes"].replace(
        "{%- for m in messages -%}",
        "{%- for m in messages -%}{%- if m['role'] == 'tool' and m['tool_call_id'] | length != 9 -%}"
        "{{ raise_exception('id') }}{%- endif -%}",
    )
    assert all(len(x) == 9 and x.isalnum() for x in ids(3, tokenizer(strict)))


# -- the message ------------------------------------------------------------------------------------------


def test_deltas_add_up_to_a_message():
    """In OpenAI's form; no content beside calls is None, without calls it is empty text."""
    deltas = [
        ReasoningDelta("h"), ReasoningDelta("m"), ContentDelta("a"), ToolCallStart(0, "x", "run"),
        ToolCallArguments(0, "{"), ToolCallArguments(0, "}"), ToolCallStart(1, "y", "read"),
    ]  # fmt: skip
    assert message_of(deltas) == {
        "role": "assistant",
        "content": "a",
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "x", "type": "function", "function": {"name": "run", "arguments": "{}"}},
            {"id": "y", "type": "function", "function": {"name": "read", "arguments": ""}},
        ],
    }
    assert message_of([]) == {"role": "assistant", "content": ""}
    assert message_of(deltas[3:])["content"] is None


# -- from tokens ------------------------------------------------------------------------------------------


def test_the_engines_text_shows_what_the_parser_needs():
    """Special tokens that mark calls are in the text that decoding streams; the end token is not."""
    special = ("[TOOL_CALLS]", "[ARGS]")
    source = tokenizer(TEMPLATES["mistral"], special)
    ids = source.encode('Well. [TOOL_CALLS]run[ARGS]{"cmd": "é"}<|im_end|>')
    assert all(source.special_tokens[token] in ids for token in special)
    stopping = Stopping(end_ids=source.eos_ids, decode=lambda some: source.decode(some, continues=True))
    parser = parser_for(source, tools=TOOLS, prompt_text="")
    deltas = []
    for token in ids:
        stopping(token)
        deltas += parser.feed(stopping.take())
    message = message_of(deltas + parser.finish())
    assert message["content"] == "Well."
    assert message["tool_calls"][0]["function"] == {"name": "run", "arguments": '{"cmd": "é"}'}
