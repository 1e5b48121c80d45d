"""One call at most."""

import random

import pytest

from suffixspec.parsing import message_of, parser_for

from .inputs import COMMON, FRAGMENTS, TEMPLATES, TOKENIZERS, TOOLS, cuts, parsed

TWICE = {
    "hermes": f"<tool_call>{COMMON[0]}</tool_call>\n" * 2,
    "llama": f"{COMMON[0]}; {COMMON[0]}",
    "mistral": f"[TOOL_CALLS][{COMMON[0]}, {COMMON[0]}]",
}


def new(form: str, **more):
    return parser_for(TOKENIZERS[form], tools=TOOLS, prompt_text="", seed=7, **more)


@pytest.mark.parametrize("form", TEMPLATES)
def test_an_output_ends_where_its_second_call_would_begin(form):
    """Random texts, cut anywhere: all that the other parser says up to there, and nothing behind it."""
    seed = random.randrange(10**6)
    print("seed", seed)
    rng = random.Random(seed)
    several = 0
    for _ in range(400):
        marks = FRAGMENTS[form]
        text = "".join(
            f"{rng.choice((marks[0], ''))}{rng.choice(COMMON)}{rng.choice((marks[1], ''))}"
            for _ in range(rng.randint(0, 5))
        )
        if rng.random() < 0.2:
            text = TWICE[form] + text
        wanted = message_of(parsed(new(form), text))
        parser = new(form, parallel=False)
        got = message_of(parsed(parser, text, cuts(rng, text)))
        calls = wanted.get("tool_calls", [])
        assert got.get("tool_calls", []) == calls[:1], f"seed {seed}: {text!r}"
        assert parser.full == (len(calls) > 1), f"seed {seed}: {text!r}"
        if len(calls) < 2:
            assert got == wanted, f"seed {seed}: {text!r}"
        else:
            several += 1
            assert (wanted["content"] or "").startswith(got["content"] or ""), f"seed {seed}: {text!r}"
    assert several > 20


def test_a_bound_output_is_read_whatever_the_response_template():
    """Bare JSON is a call where the output is bound to it; the template's parser would take it for content."""
    pytest.importorskip("transformers.utils.chat_parsing")
    from .test_template import SOURCE

    call = '{"name": "run", "arguments": {"cmd": "ls"}}'
    options = {"tools": TOOLS, "prompt_text": "", "tool_choice": "required"}
    bound = parser_for(SOURCE, bare=True, **options)
    assert message_of(parsed(bound, call))["tool_calls"][0]["function"]["name"] == "run"
    assert "tool_calls" not in message_of(parsed(parser_for(SOURCE, **options), call))
