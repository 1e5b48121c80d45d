"""Where the text is cut into pieces changes nothing; nothing is lost."""

import random

import pytest

from suffixspec.parsing import ContentDelta, ReasoningDelta, ToolCallStart, merge, message_of

from .inputs import COMMON, FRAGMENTS, cuts, new, parsed

FORMS = ("hermes", "llama", "mistral")
MARKERS = {
    "hermes": ("<tool_call>", "<think>"),
    "llama": ("<|python_tag|>", "<think>"),
    "mistral": ("[TOOL_CALLS]", "<think>"),
}
WHOLE = {
    "hermes": (
        '<tool_call>{"name": "run", "arguments": {"cmd": "ls"}}',
        "<tool_call><function=run><parameter=a>\n1\n",
    ),
    "llama": (
        '<|python_tag|>{"name": "run", "parameters": {"cmd": "ls"}}',
        '{"name": "read", "parameters": {}}',
    ),
    "mistral": ('[TOOL_CALLS] [{"name": "run", "arguments": {"a": 1}}]', '[TOOL_CALLS]run[ARGS]{"a": "b"}'),
}


def garbage(rng: random.Random, form: str) -> str:
    """Fragments of calls, markers and text in any order, some of them cut."""
    likely = rng.choice((COMMON, WHOLE[form], FRAGMENTS[form]))
    pieces = [rng.choice((*COMMON, *likely * 9)) for _ in range(rng.randint(1, 14))]
    return "".join(piece[: rng.randint(1, len(piece))] if rng.random() < 0.2 else piece for piece in pieces)


@pytest.mark.parametrize("form", FORMS)
def test_the_deltas_do_not_depend_on_the_cuts(form):
    """Fed in one piece, character by character or cut at random: the same deltas, once merged."""
    with_calls = 0
    for seed in range(400):
        rng = random.Random(f"{form} {seed}")
        text = garbage(rng, form)
        more = {
            "prompt": rng.choice(("", "", "", "<think>\n")),
            "choice": rng.choice(("auto", "auto", "required", {"function": {"name": "run"}})),
        }
        whole = merge(parsed(new(form, **more), text))
        with_calls += any(isinstance(delta, ToolCallStart) for delta in whole)
        for _ in range(3):
            places = cuts(rng, text)
            assert merge(parsed(new(form, **more), text, places)) == whole, f"seed {seed}, {text!r}, {places}"
    assert with_calls > 60


@pytest.mark.parametrize("form", FORMS)
def test_text_without_calls_and_reasoning_comes_out_whole(form):
    """Where neither a call nor reasoning was found, the content is the text, character by character."""
    plain = 0
    for seed in range(400):
        rng = random.Random(f"whole {form} {seed}")
        text = garbage(rng, form)
        deltas = merge(parsed(new(form), text, cuts(rng, text)))
        if all(isinstance(delta, ContentDelta) for delta in deltas) and not text.lstrip().startswith(
            ("<think>", "[THINK]")
        ):
            plain += 1
            assert "".join(delta.text for delta in deltas) == text, f"seed {seed}"
    assert plain > 40


@pytest.mark.parametrize("form", FORMS)
def test_every_character_of_what_is_written_comes_out(form):
    """Of random messages, written in the form and cut at random, each part comes back as it was."""
    for seed in range(200):
        rng = random.Random(f"message {form} {seed}")
        word = lambda: rng.choice(("a<b", "tool", "é\n\nx", "[1]", "</tool", "{}", "<|x|>", "5 > 3"))  # noqa: B023, E731
        reasoning = " ".join(word() for _ in range(rng.randint(0, 3)))
        content = " ".join(word() for _ in range(rng.randint(0, 3)))
        if not reasoning and content.startswith("{}") and form == "llama":
            content = f"so {content}"
        arguments = [
            rng.choice(('{"cmd": "ls"}', '{"cmd": "}\\"{<tool_call>"}', "{}", '{"a": {"b": [1, {}]}}'))
            for _ in range(rng.randint(0, 3))
        ]
        text = f"<think>\n{reasoning}\n</think>\n\n" if reasoning else ""
        text += content + written(form, arguments, rng)
        message = message_of(parsed(new(form), text, cuts(rng, text)))
        calls = [call["function"]["arguments"] for call in message.get("tool_calls", [])]
        assert (message.get("reasoning_content", ""), message["content"] or "", calls) == (
            reasoning, content, arguments,
        ), f"seed {seed}, {text!r}"  # fmt: skip


def written(form: str, arguments: list[str], rng: random.Random) -> str:
    """Calls of "run" as the form writes them."""
    objects = [f'{{"name": "run", "arguments": {text}}}' for text in arguments]
    if not objects:
        return ""
    if form == "hermes":
        return "".join(f"\n<tool_call>\n{text}\n</tool_call>" for text in objects)
    if form == "llama":
        return f"<|python_tag|>{rng.choice(('; ', ', ', chr(10))).join(objects)}"
    if rng.random() < 0.5:
        return f"[TOOL_CALLS] [{', '.join(objects)}]"
    return "".join(f"[TOOL_CALLS]run[ARGS]{text}" for text in arguments)


@pytest.mark.parametrize("form", FORMS)
def test_no_delta_is_empty_or_half_a_marker(form):
    """Every delta has a text, and none ends with the beginning of a marker that is then recognised."""
    for seed in range(200):
        rng = random.Random(f"half {form} {seed}")
        marker = rng.choice(MARKERS[form])
        call = written(form, ["{}"], rng) if marker != "<think>" else "<think>x</think>"
        text = (f"say{rng.choice(('', ' ', '<', '['))}" if marker != "<think>" else "") + call
        shown = ""
        for delta in parsed(new(form), text, range(len(text))):
            if isinstance(delta, (ContentDelta, ReasoningDelta)):
                assert delta.text, f"seed {seed}"
                shown += delta.text
        assert shown in {"say", "say<", "say[", "x"}, f"seed {seed}: {shown!r}"
