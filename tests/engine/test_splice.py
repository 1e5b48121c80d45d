"""Earlier outputs in later prompts: the very tokens where the text is the same, and never otherwise."""

import json

import pytest

from suffixspec.engine.json_equal import equal_as_json
from suffixspec.engine.prompt import render_prompt
from suffixspec.engine.splice import Splicer

from .tiny import EOS, TOKENIZER

USER = {"role": "user", "content": "go"}


def odd(text: str) -> list[int]:
    """The text byte by byte: not how the tokenizer would encode it."""
    ids = [i for byte in text for i in TOKENIZER.encode(byte, special=False)]
    assert TOKENIZER.decode(ids) == text
    return ids


def assistant(content: str, *arguments: str) -> dict:
    calls = [
        {"id": f"call_{i}", "type": "function", "function": {"name": "f", "arguments": text}}
        for i, text in enumerate(arguments)
    ]
    return {"role": "assistant", "content": content} | ({"tool_calls": calls} if calls else {})


def prompt_text(*messages: dict) -> str:
    return render_prompt(TOKENIZER, list(messages), None)


def after(output: str, *messages: dict, json_equal: bool = False, ids: list[int] | None = None):
    """Encode a prompt after ``output`` was written behind [USER]: (ids of the prompt, how, ids written)."""
    splicer = Splicer(TOKENIZER, json_equal=json_equal)
    written = odd(output) if ids is None else ids
    splicer.note(prompt_text(USER), written)
    text = prompt_text(*messages)
    encoded, how = splicer.encode(text, lambda: prefixes(messages))
    assert how.count("json") or TOKENIZER.decode(encoded.tolist()) == text, "the prompt's text has changed"
    return encoded.tolist(), how, written


def prefixes(messages) -> list[str]:
    return [prompt_text(*messages[:i]) for i, m in enumerate(messages) if m["role"] == "assistant"]


def contains(ids: list[int], part: list[int]) -> bool:
    return any(ids[i : i + len(part)] == part for i in range(len(ids)))


def canonical(*messages: dict) -> list[int]:
    return TOKENIZER.encode(prompt_text(*messages))


def test_an_output_comes_back_as_the_tokens_that_were_produced():
    """Where the client sends the output back unchanged, the prompt has the tokens that were produced."""
    ids, how, written = after("the abc", USER, assistant("the abc"), USER)
    assert how == ["bytes"]
    assert contains(ids, written)
    assert ids != canonical(USER, assistant("the abc"), USER)


def test_all_outputs_of_a_loop_come_back():
    """Every earlier output is put back, each at its own place."""
    splicer = Splicer(TOKENIZER)
    messages = [USER]
    outputs = ["the abc", "abc the", "the abc", "12 the"]
    for output in outputs:
        splicer.note(prompt_text(*messages), odd(output))
        messages += [assistant(output), {"role": "user", "content": f"next after {output}"}]
    ids, how = splicer.encode(prompt_text(*messages))
    assert how == ["bytes"] * 4
    for output in outputs:
        assert contains(ids.tolist(), odd(output))
    assert TOKENIZER.decode(ids.tolist()) == prompt_text(*messages)


@pytest.mark.parametrize(
    "content",
    ["the abd", "the abc!", " the abc", "The abc", "he abc", "", "x"],
    ids=["edited", "longer", "space", "case", "start cut", "dropped", "other"],
)
def test_an_edited_output_is_encoded_as_it_stands(content):
    """Text that the client changed gets the tokenizer's tokens, none of the output's."""
    ids, how, _ = after("the abc", USER, assistant(content), USER)
    assert how == []
    assert ids == canonical(USER, assistant(content), USER)


def test_a_shortened_output_keeps_the_tokens_of_what_is_left():
    """An output that comes back cut off (a stop string, trimmed white space) keeps its first tokens."""
    ids, how, written = after("the abc\n\n", USER, assistant("the abc"), USER)
    assert how == ["bytes"]
    assert contains(ids, written[:-2])
    assert not contains(ids, written)


def test_what_was_cut_within_a_token_is_encoded_anew():
    """Where the cut does not fall between two tokens, nothing is put back."""
    ids, how, _ = after("x abc", USER, assistant("x ab"), USER, ids=TOKENIZER.encode("x abc"))
    assert how == []
    assert ids == canonical(USER, assistant("x ab"), USER)


@pytest.mark.parametrize("json_equal", [False, True])
@pytest.mark.parametrize(
    "sent",
    [
        '{"a": 2}',
        '{"a": 1.0}',
        '{"a": "1"}',
        '{"a": 1, "a": 1}',
        '{"a": true}',
        '{"b": 1}',
        '{"a": [1]}',
        "{}",
    ],
)
def test_another_value_is_never_put_back(sent, json_equal):
    """An edited value, 1.0 for 1, duplicate keys: not the output, with either rule."""
    written = 'x<call>f {"a":  1}</call>'
    ids, how, _ = after(written, USER, assistant("x", sent), USER, json_equal=json_equal)
    assert how == []
    assert ids == canonical(USER, assistant("x", sent), USER)


def test_duplicate_keys_in_the_output_are_never_equal_to_anything():
    """An output with a duplicate key is only ever put back byte for byte."""
    written = 'x<call>f {"a":  1, "a": 2}</call>'
    _, how, _ = after(written, USER, assistant("x", '{"a": 2}'), USER, json_equal=True)
    assert how == []
    _, how, _ = after(written, USER, assistant("x", '{"a":  1, "a": 2}'), USER, json_equal=True)
    assert how == ["bytes"]


def test_equal_json_is_put_back_only_where_asked_for_and_is_reported():
    """Other white space within JSON: as it stands by default; with the option the output's tokens, reported."""
    written = 'x<call>f {"a":  1}</call>'
    messages = USER, assistant("x", '{"a": 1}'), USER
    ids, how, _ = after(written, *messages)
    assert how == []
    assert ids == canonical(*messages)
    ids, how, tokens = after(written, *messages, json_equal=True)
    assert how == ["json"]
    assert contains(ids, tokens)
    assert TOKENIZER.decode(ids) == prompt_text(USER, assistant("x", '{"a":  1}'), USER)


def test_an_array_of_calls_is_equal_as_json_too():
    """Calls written as a JSON array: other white space between them is put back with the option, 1.0 for 1 never."""
    written = 'x<call>f [{"a":  1},{"b": [2]}]</call>'
    messages = USER, assistant("x", '[{"a": 1}, {"b": [2]}]'), USER
    ids, how, tokens = after(written, *messages, json_equal=True)
    assert how == ["json"]
    assert contains(ids, tokens)
    assert after(written, *messages)[1] == []
    _, how, _ = after(written, USER, assistant("x", '[{"a": 1.0}, {"b": [2]}]'), USER, json_equal=True)
    assert how == []


def test_dropped_reasoning_does_not_come_back():
    """Reasoning that the client left out is not in the prompt."""
    ids, how, _ = after("<think>abc</think>the 12", USER, assistant("the 12"), USER)
    assert how == []
    assert ids == canonical(USER, assistant("the 12"), USER)
    assert "think" not in TOKENIZER.decode(ids)


def test_a_forged_tool_call_id_brings_nothing_back():
    """A message with the id of a real call and another text is encoded as it stands."""
    written = 'x<call>f {"a":  1}</call>'
    forged = assistant("x", '{"a": 1, "evil": true}')
    assert forged["tool_calls"][0]["id"] == assistant("x", '{"a":  1}')["tool_calls"][0]["id"]
    ids, how, _ = after(written, USER, forged, USER, json_equal=True)
    assert how == []
    assert ids == canonical(USER, forged, USER)


def test_a_literal_end_token_in_the_output_stays_text():
    """``<|im_end|>`` that the model wrote as text comes back as those tokens, not as an end of its turn."""
    written = "say <|im_end|> to end"
    ids, how, tokens = after(written, USER, assistant(written), USER)
    assert how == ["bytes"]
    assert contains(ids, tokens)
    assert EOS not in tokens
    assert ids.count(EOS) == canonical(USER, assistant(written), USER).count(EOS) - 1


def test_a_literal_end_token_does_not_cut_an_output_short():
    """An end token that the client wrote behind the output's first words does not make them the output."""
    ids, how, _ = after("say abc", USER, assistant("say <|im_end|> to end"), USER)
    assert ids == canonical(USER, assistant("say <|im_end|> to end"), USER)
    assert how in ([], ["bytes"])  # "say " may come back: it is the output's own start


def test_a_quoted_output_in_another_place_is_encoded_as_it_stands():
    """A user who quotes an output does not get its tokens."""
    quote = {"role": "user", "content": "the abc"}
    ids, how, _ = after("the abc", quote, assistant("no"), USER)
    assert how == []
    assert ids == canonical(quote, assistant("no"), USER)


def test_a_quoted_output_at_the_very_place_is_encoded_as_it_stands():
    """A user's text that happens to lie where an output began, behind another text, does not get its tokens."""
    start = len(prompt_text({"role": "user", "content": ""}).split("<|im_end|>")[0])
    quote = {"role": "user", "content": "z" * (len(prompt_text(USER)) - start) + "the abc"}
    assert prompt_text(quote).startswith("the abc<|im_end|>", len(prompt_text(USER)))
    ids, how, _ = after("the abc", quote, assistant("no"), USER)
    assert how == []
    assert ids == canonical(quote, assistant("no"), USER)


def test_an_output_is_found_again_when_earlier_text_has_changed():
    """After an edit of an earlier message, the outputs behind it still come back as they were."""
    edited = {"role": "user", "content": "go on"}
    ids, how, written = after("the abc", edited, assistant("the abc"), USER)
    assert how == ["bytes"]
    assert contains(ids, written)


def test_sessions_do_not_share_outputs():
    """A splicer puts back what its own session wrote, nothing else."""
    text = prompt_text(USER, assistant("the abc"), USER)
    ids, how = Splicer(TOKENIZER).encode(text)
    assert how == []
    assert ids.tolist() == TOKENIZER.encode(text)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ('{"a": 1}', '{"a":1}'),
        ('{"a": 1, "b": [1, {"c": null}]}', '{"b":[1,{"c":null}],"a":1}'),
        ('{"a": "\\u00e9"}', '{"a": "é"}'),
        ('x {"a": 1} y {"b": 2} z', 'x {"a":1} y {"b":2} z'),
        ("no json", "no json"),
        ("{not json} {", "{not json} {"),
        ('{"a": 1.50}', '{"a": 1.5}'),
        ('[{"a": 1}, {"b": 2}]', '[{"a":1},{"b":2}]'),
        ("x [1, [2]] y", "x [1,[2]] y"),
        ('[CALLS][{"a": 1}]', '[CALLS][{"a":1}]'),
        ("[not json [1, 2]", "[not json [1,2]"),
    ],
)
def test_texts_that_are_equal_as_json(a, b):
    """White space, key order, escapes and trailing zeros make no difference."""
    assert equal_as_json(a, b)
    assert equal_as_json(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ('{"a": 1}', '{"a": 1.0}'),
        ('{"a": 1}', '{"a": true}'),
        ('{"a": 0}', '{"a": false}'),
        ('{"a": 1}', '{"a": "1"}'),
        ('{"a": null}', "{}"),
        ('{"a": [1, 2]}', '{"a": [2, 1]}'),
        ('{"a": 1}', '{"a": 1} '),
        ('x{"a": 1}', 'y{"a": 1}'),
        ('{"a": 1}', '{"a": 1}{"a": 1}'),
        ('{"a": 1e400}', '{"a": 2e400}'),
        ('{"a": 12345678901234567890.1}', '{"a": 12345678901234567890.2}'),
        ('{"a": NaN}', '{"a": NaN}'),
        ('{"a": 1, "a": 1}', '{"a": 1, "a": 1}'),
        ('{"a": [["object", {}]]}', '{"a": [{}]}'),
        (json.dumps({"a": "x"}), json.dumps({"a": "X"})),
        ("[1, 2]", "[1, 2.0]"),
        ("[1, 2]", "[2, 1]"),
        ("[1, 2]", "[1, 2, 2]"),
        ("[]", "{}"),
        ('[{"a": 1, "a": 1}]', '[{"a": 1, "a": 1}]'),
        ("1", "1.0"),
        ('"\\u00e9"', '"é"'),
        ("[CALLS] [1]", "[CALLS][1]"),
    ],
)
def test_texts_that_are_not_equal_as_json(a, b):
    """A type, a value, text around it, a duplicate key: all of these count."""
    assert not equal_as_json(a, b)
