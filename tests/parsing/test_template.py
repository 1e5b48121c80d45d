"""Tokenizers that bring a response template: transformers reads their outputs."""

import json
import random

import pytest

from suffixspec.errors import SuffixspecError
from suffixspec.parsing import (
    ContentDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallStart,
    merge,
    message_of,
    parser_for,
)
from suffixspec.text import load_tokenizer

from .inputs import CHATML, TOOLS, cuts, parsed, tokenizer

pytest.importorskip("transformers.utils.chat_parsing", reason="a transformers without response templates")

RESPONSE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "thinking": {"open": "<|think|>", "close": "<|/think|>"},
        "tool_calls": {
            "open_pattern": r"\s*<\|call\|>",
            "close": "<|/call|>",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {},
    },
}
SOURCE = tokenizer(CHATML, response_template=RESPONSE)
CALL = '<|call|>{"name": "run", "arguments": {"cmd": "é"}}<|/call|>'


def new(**more):
    more = {"tools": TOOLS, "prompt_text": "<|im_start|>assistant\n", "seed": 1, **more}
    return parser_for(SOURCE, **more)


def test_content_reasoning_and_calls():
    """The fields of the template become deltas, white space at their borders left out."""
    deltas = parsed(new(), f"<|think|>\nhm m\n<|/think|>\n\nSo be it.\n{CALL}\n{CALL}\n")
    message = message_of(deltas)
    assert (message["content"], message["reasoning_content"]) == ("So be it.", "hm m")
    assert [call["function"] for call in message["tool_calls"]] == [
        {"name": "run", "arguments": '{"cmd": "é"}'}
    ] * 2
    assert len({call["id"] for call in message["tool_calls"]}) == 2


def test_content_streams_and_a_call_comes_whole():
    """Content and reasoning as they come; a call when its region closes."""
    parser = new()
    assert parser.feed("<|think|>a") == [ReasoningDelta("a")]
    assert parser.feed(" b") == [ReasoningDelta(" b")]
    assert parser.feed("<|/think|>c") == [ContentDelta("c")]
    assert parser.feed(CALL[:-1]) == []
    start, arguments = parser.feed(CALL[-1])
    assert isinstance(start, ToolCallStart)
    assert arguments == ToolCallArguments(0, '{"cmd": "é"}')
    assert parser.finish() == []
    with pytest.raises(RuntimeError, match="after finish"):
        parser.feed("x")


def test_the_prompt_may_have_opened_the_reasoning():
    """Its end belongs to the message; its text is not the output's."""
    prompt = "<|im_start|>user\n<|think|>?<|im_end|>\n<|im_start|>assistant\n<|think|>well, "
    message = message_of(parsed(new(prompt_text=prompt), "why not<|/think|>So."))
    assert message == {"role": "assistant", "content": "So.", "reasoning_content": "why not"}


@pytest.mark.parametrize(
    "text",
    [
        "a <|call|>{oops<|/call|> b",
        "a <|call|>[1]<|/call|> b",
        'a <|call|>{"name": ""}<|/call|> b',
        'a <|call|>{"name": "run"',
        "a <|cal",
    ],
)
def test_a_malformed_call_is_content(text):
    """A region that cannot be read comes out as it was written, and what follows is read on."""
    assert message_of(parsed(new(), text)) == {"role": "assistant", "content": text}
    if text.endswith("b"):
        message = message_of(parsed(new(), text + CALL))
        assert message["content"] == text
        assert len(message["tool_calls"]) == 1


def test_without_tools_calls_are_content():
    """No tools, or tool_choice "none": the region as it was written; a named function: only its calls."""
    for more in ({"tools": None}, {"tool_choice": "none"}, {"tool_choice": {"function": {"name": "read"}}}):
        message = message_of(parsed(new(**more), f"a {CALL}"))
        assert message == {"role": "assistant", "content": f"a {CALL}"}, more


def test_the_deltas_do_not_depend_on_the_cuts():
    """Cut anywhere: the same deltas, once merged."""
    pieces = (
        CALL,
        "<|call|>",
        "<|/call|>",
        "{}",
        "<|think|>",
        "<|/think|>",
        " ",
        "\n",
        "text",
        "<|",
        '{"name"',
    )
    for seed in range(150):
        rng = random.Random(seed)
        text = "".join(rng.choice(pieces) for _ in range(rng.randint(1, 9)))
        whole = merge(parsed(new(), text))
        assert merge(parsed(new(), text, cuts(rng, text))) == whole, f"seed {seed}, {text!r}"


def test_a_template_that_transformers_refuses_is_an_error():
    """Said when the parser is made."""
    source = tokenizer(CHATML, response_template={"fields": {}})
    with pytest.raises(SuffixspecError, match="response template that transformers can use"):
        parser_for(source, tools=None, prompt_text="")


def test_it_is_read_from_the_tokenizers_folder(tmp_path):
    """From ``tokenizer_config.json``, where transformers keeps it."""
    SOURCE._backend.save(str(tmp_path / "tokenizer.json"))
    config = {"chat_template": CHATML, "response_template": RESPONSE}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert load_tokenizer(str(tmp_path)).response_template == RESPONSE
    config["response_template"] = "x"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert load_tokenizer(str(tmp_path)).response_template is None
