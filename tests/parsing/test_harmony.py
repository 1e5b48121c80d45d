"""Messages to channels, as gpt-oss writes them."""

import random

import pytest

from suffixspec.parsing import merge, message_of, parser_for, reasonings

from .inputs import CHATML, TOOLS, cuts, parsed, tokenizer

MARKS = ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>")
HEADER = "<|start|>assistant"


SOURCE = tokenizer(CHATML, MARKS)
ANALYSIS = "<|channel|>analysis<|message|>hm, <|x|> 12<|end|>"
FINAL = f"{HEADER}<|channel|>final<|message|>The < abc."
CALL = f'{HEADER}<|channel|>commentary to=functions.run <|constrain|>json<|message|>{{"cmd": "ls"}}<|call|>'


def new(**more):
    return parser_for(SOURCE, **{"tools": TOOLS, "prompt_text": f"x{HEADER}", "seed": 1, **more})


def test_channels_are_reasoning_content_and_calls():
    """The analysis, the final text and what is addressed to a function, in any order of the header's words."""
    message = message_of(parsed(new(), ANALYSIS + FINAL))
    assert (message["reasoning_content"], message["content"]) == ("hm, <|x|> 12", "The < abc.")
    first = " to=functions.run<|channel|>commentary json<|message|>{}"
    for text, arguments in ((ANALYSIS + CALL, '{"cmd": "ls"}'), (first, "{}")):
        message = message_of(parsed(new(), text))
        (call,) = message["tool_calls"]
        assert call["function"] == {"name": "run", "arguments": arguments}
        assert not message.get("content")
    said = "<|channel|>commentary<|message|>I will look.<|end|>"
    message = message_of(parsed(new(), said + CALL + CALL))
    assert message["content"] == "I will look."
    assert len({call["id"] for call in message["tool_calls"]}) == 2


def test_what_is_no_message_is_content():
    """A text without a header, a header that was cut off, and a call where the request looks for none."""
    for text in ("The abc.", "to be <|end", "<", "to=", "<|x|>"):
        assert message_of(parsed(new(), text)) == {"role": "assistant", "content": text}
    assert message_of(parsed(new(), ANALYSIS + f"{HEADER}<|channel|>fin")).get("content") in {"", None}
    message = message_of(parsed(new(tools=None), CALL))
    assert "tool_calls" not in message
    assert message["content"].endswith('json<|message|>{"cmd": "ls"}')


def test_the_prompt_may_have_begun_the_message():
    """Its header says what the output's first text is."""
    for channel, field in (("analysis", "reasoning_content"), ("final", "content")):
        message = message_of(parsed(new(prompt_text=f"{HEADER}<|channel|>{channel}<|message|>"), "So."))
        assert message[field] == "So."


def test_a_required_call_may_be_the_final_text():
    """As where a grammar binds it: bare JSON behind the reasoning."""
    bare = FINAL.replace("The < abc.", '{"name": "run", "arguments": {"cmd": "ls"}}')
    message = message_of(parsed(new(tool_choice="required", bare=True), ANALYSIS + bare))
    assert message["reasoning_content"]
    assert [call["function"]["arguments"] for call in message["tool_calls"]] == ['{"cmd": "ls"}']
    assert not message.get("content")


@pytest.mark.parametrize("choice", ["auto", "required", "none"])
def test_the_deltas_do_not_depend_on_the_cuts(choice):
    """Cut anywhere: the same deltas, once merged."""
    pieces = (*MARKS, ANALYSIS, FINAL, CALL, "to=run", " ", "text", "<|", "final", '{"name": "run"')
    for seed in range(400):
        rng = random.Random(seed)
        text = "".join(rng.choice(pieces) for _ in range(rng.randint(1, 9)))
        whole = merge(parsed(new(tool_choice=choice), text))
        for _ in range(3):
            places = cuts(rng, text)
            assert merge(parsed(new(tool_choice=choice), text, places)) == whole, f"seed {seed}, {text!r}"


@pytest.mark.parametrize(
    ("end", "found"),
    [
        ("", ("<|message|>", "<|channel|>final")),
        ("<|channel|>analysis<|message|>hm", ("<|message|>", "<|channel|>final")),
        ("<|channel|>final", ("<|message|>", None)),
        ("<|channel|>final<|message|>", None),
    ],
)
def test_the_answer_begins_in_the_final_channel(end, found):
    """Whatever the prompt has begun; an earlier message's final text is not the output's."""
    prompt = f"{HEADER}<|channel|>final<|message|>before<|end|><|start|>user<|message|>go<|end|>{HEADER}{end}"
    got = [(each.closes, each.header) for each in reasonings(prompt, SOURCE.special_tokens)]
    assert got == ([] if found is None else [found])
