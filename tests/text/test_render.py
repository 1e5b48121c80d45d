"""Sessions as token ids: everything recorded is decoded, and prompts go on from what was there."""

import random

import numpy as np
import pytest

from suffixspec.errors import InputError
from suffixspec.text import render_session
from suffixspec.text.render import _common_prefix
from suffixspec.trace.session import Message

from .sessions import ODD_ARGUMENTS, SCHEMA, SESSIONS, call, check_turns, random_session, reply, session, user
from .templates import ALL, with_template


@pytest.mark.parametrize("name", SESSIONS)
def test_everything_is_decoded_with_smollm2(smollm2, name):
    """SmolLM2's tokenizer and template decode every recorded assistant character, in order."""
    check_turns(SESSIONS[name], smollm2)


@pytest.mark.parametrize("template", ALL)
@pytest.mark.parametrize("name", SESSIONS)
def test_everything_is_decoded_with_any_template(smollm2, name, template):
    """Whatever a template drops, trims, rewrites or refuses, every recorded character is decoded."""
    check_turns(SESSIONS[name], with_template(smollm2, ALL[template]))


@pytest.mark.parametrize("template", [None, *ALL])
def test_random_sessions(smollm2, template):
    """Any order of roles and texts renders under every template, with everything decoded."""
    tokenizer = smollm2 if template is None else with_template(smollm2, ALL[template])
    for seed in range(40):
        recorded = random_session(random.Random(seed))
        try:
            check_turns(recorded, tokenizer)
        except BaseException:
            print(f"seed {seed}: {recorded}")
            raise


def test_a_turn_is_what_the_template_wrote(smollm2):
    """Prompt and output of a plain turn are the template's own text, cut before and after the reply."""
    first, second = render_session(SESSIONS["chat"], smollm2)
    assert smollm2.decode(first.prompt_ids.tolist()) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert first.output_text == "hello<|im_end|>"
    whole = smollm2.render([{"role": m.role, "content": m.content} for m in SESSIONS["chat"].messages])
    assert smollm2.decode([*second.prompt_ids.tolist(), *second.output_ids.tolist()]) + "\n" == whole
    assert first.prompt_ids.dtype == first.output_ids.dtype == np.int32
    assert not first.prompt_ids.flags.writeable


def test_prompts_are_those_of_transformers(smollm2, cache_folder):
    """The first prompt has the ids of apply_chat_template(tokenize=True), special text included."""
    transformers = pytest.importorskip("transformers")
    (folder,) = (cache_folder / "tokenizers").iterdir()
    theirs = transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    recorded = session(user("a  1 23 <|im_end|> x"), reply("y"))
    (turn,) = render_session(recorded, smollm2)
    expected = theirs.apply_chat_template(
        [{"role": "user", "content": "a  1 23 <|im_end|> x"}], add_generation_prompt=True, return_dict=False
    )
    assert turn.prompt_ids.tolist() == expected
    assert smollm2.encode("1 <|im_end|>") == theirs.encode("1 <|im_end|>", add_special_tokens=False)


def test_dropped_calls_become_blocks(smollm2):
    """A template that drops tool calls gets them as blocks behind the content, arguments verbatim."""
    turns = check_turns(SESSIONS["tool loop"], smollm2)
    assert turns[0].output_text == (
        f'I look.\n<tool_call>\n{{"name": "bash", "arguments": {ODD_ARGUMENTS}}}\n</tool_call><|im_end|>'
    )
    assert turns[1].output_text.startswith(
        '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool'
    )
    assert "<|im_start|>tool\nr1<|im_end|>\n<|im_start|>tool\nr2" in smollm2.decode(
        turns[2].prompt_ids.tolist()
    )


def test_verbatim_calls_stay_the_template_s(smollm2):
    """A template that writes argument text verbatim renders the calls itself, and gets the tool schemas."""
    tokenizer = with_template(smollm2, ALL["verbatim calls"])
    turns = check_turns(SESSIONS["tool loop"], tokenizer)
    assert turns[0].output_text == f"I look.<call call00000>bash {ODD_ARGUMENTS}</call><|im_end|>"
    prompt = tokenizer.decode(turns[2].prompt_ids.tolist())
    assert prompt.startswith('<|im_start|>tools\n[{"type": "function"')
    assert "<|im_start|>tool call00001\nr1<|im_end|>\n<|im_start|>tool call00002\nr2" in prompt


def test_refused_tool_results_become_user_messages(smollm2):
    """What a tool answered is shown as a user message where the template refuses or drops the role."""
    for template in ("refuses the tool role", "drops the tool role"):
        tokenizer = with_template(smollm2, ALL[template])
        turns = check_turns(SESSIONS["tool loop"], tokenizer)
        assert "user\n<tool_response>\nout\n1\n</tool_response>" in tokenizer.decode(
            turns[1].prompt_ids.tolist()
        )


def test_strict_templates_get_turns(smollm2):
    """Where user and assistant must take turns, neighbours are merged and the system text leads the first."""
    tokenizer = with_template(smollm2, ALL["strict"])
    turns = check_turns(SESSIONS["tool loop"], tokenizer)
    text = tokenizer.decode(turns[2].prompt_ids.tolist())
    assert text.startswith("[INST] Be brief.\n\nfix it [/INST] I look.")
    assert (
        "[INST] <tool_response>\nr1\n</tool_response>\n\n<tool_response>\nr2\n</tool_response> [/INST]"
        in text
    )
    assert turns[0].output_text.endswith("</tool_call> <|im_end|>")


def test_the_space_before_a_reply(smollm2):
    """The space that a template puts before a reply is kept when the output is put together by hand."""
    turns = check_turns(SESSIONS["white space"], with_template(smollm2, ALL["strict, trims"]))
    assert turns[1].output_text == " \n\nx\n <|im_end|>"


def test_late_system_messages(smollm2):
    """Where only a leading system message is shown, a second is joined to it and a later one is a user's."""
    tokenizer = with_template(smollm2, ALL["first system"])
    system = Message("system", "one"), Message("system", "two")
    (turn,) = check_turns(session(*system, user("q"), Message("system", "three"), reply("x")), tokenizer)
    assert tokenizer.decode(turn.prompt_ids.tolist()) == (
        "<|im_start|>system\none\n\ntwo<|im_end|>\n<|im_start|>user\nq<|im_end|>\n"
        "<|im_start|>user\nthree<|im_end|>\n<|im_start|>assistant\n"
    )


def test_reasoning_the_template_forgets(smollm2):
    """Reasoning is decoded, and missing from later prompts where the template drops it."""
    tokenizer = with_template(smollm2, ALL["forgets reasoning"])
    turns = check_turns(SESSIONS["reasoning"], tokenizer)
    assert turns[0].output_text.startswith("<think>\nlet me think\nabout it\n</think>\n\nc1")
    assert "let me think" not in tokenizer.decode(turns[1].prompt_ids.tolist())
    assert " again " in tokenizer.decode(turns[2].prompt_ids.tolist())
    assert turns[1].reused_tokens == len(turns[0].prompt_ids)
    assert turns[2].reused_tokens == len(turns[1].prompt_ids) + len(turns[1].output_ids)


def test_reasoning_the_prompt_opens(smollm2):
    """Where the prompt ends with an open <think>, the output goes on from it and closes it."""
    tokenizer = with_template(smollm2, ALL["opens reasoning"])
    turns = check_turns(SESSIONS["reasoning"], tokenizer)
    assert turns[0].output_text == "let me think\nabout it\n</think>\n\nc1<|im_end|>"
    assert turns[3].output_text == "</think>\n\nc4<|im_end|>"


def test_trimmed_replies_are_encoded_again(smollm2):
    """White space that the template trims is decoded, and the next prompt is kept up to the reply."""
    tokenizer = with_template(smollm2, ALL["trims"])
    turns = check_turns(SESSIONS["white space"], tokenizer)
    assert turns[0].output_text == "  both ends \n\n<|im_end|>"
    assert "assistant\nboth ends<|im_end|>" in tokenizer.decode(turns[1].prompt_ids.tolist())
    assert turns[1].reused_tokens == len(turns[0].prompt_ids)


def test_a_missing_end_of_turn_costs_only_itself(smollm2):
    """Where a template writes no end token behind the newest reply, the reply's ids still stay."""
    for template in ("closes late", "plain"):
        turns = check_turns(SESSIONS["chat"], with_template(smollm2, ALL[template]))
        assert turns[0].output_text == "hello<|im_end|>"
        assert turns[1].reused_tokens >= len(turns[0].prompt_ids) + len(turns[0].output_ids) - 1


def test_a_template_without_generation_prompt(smollm2):
    """The header that such a template leaves out is part of the prompt, not of what the model wrote."""
    tokenizer = with_template(smollm2, ALL["no generation prompt"])
    first, second = check_turns(SESSIONS["chat"], tokenizer)
    assert first.output_text == "hello<|im_end|>"
    assert second.reused_tokens == len(first.prompt_ids) + len(first.output_ids)


def test_given_messages_are_context(smollm2):
    """An assistant message that the model did not write is shown and never decoded."""
    first, second = check_turns(SESSIONS["given"], smollm2)
    assert first.message_index == 3
    assert "assistant\nHello!<|im_end|>" in smollm2.decode(first.prompt_ids.tolist())
    assert second.reused_tokens == len(first.prompt_ids) + len(first.output_ids)


def test_recorded_ids_are_kept(smollm2):
    """Recorded ids are the output if they decode to it, with or without the end token; else ignored."""
    split = [smollm2.encode("he"), smollm2.encode("llo")]
    ids = tuple(split[0] + split[1])
    assert list(ids) != smollm2.encode("hello")
    end = tuple(smollm2.encode("<|im_end|>"))
    for recorded, output in [(ids + end, ids + end), (ids, ids)]:
        one, two = check_turns(
            session(user("q"), reply("hello", token_ids=recorded), user("r"), reply("x")), smollm2
        )
        assert tuple(one.output_ids.tolist()) == output
        assert two.reused_tokens == len(one.prompt_ids) + len(output)
        assert smollm2.decode(two.prompt_ids.tolist()).count("hello<|im_end|>\n") == 1
    for wrong in [(5, 6), (-1,), (10**9,), ()]:
        (turn,) = check_turns(session(user("q"), reply("hello", token_ids=wrong)), smollm2)
        assert turn.output_ids.tolist() == [*smollm2.encode("hello"), *end]


def test_recorded_ids_outlive_a_missing_end_token(smollm2):
    """Recorded ids stay in the next prompt though the template there leaves the end token out."""
    ids = tuple(token for character in "hello" for token in smollm2.encode(character))
    message = reply("hello", token_ids=(*ids, 2))
    one, two = check_turns(
        session(user("q"), message, user("r"), reply("x")), with_template(smollm2, ALL["plain"])
    )
    assert tuple(one.output_ids.tolist()) == (*ids, 2)
    assert two.reused_tokens == len(one.prompt_ids) + len(ids)


def test_recorded_ids_may_carry_calls(smollm2):
    """Recorded ids of a tool call count when they decode to the form that the call is rendered in."""
    text = f'<tool_call>\n{{"name": "bash", "arguments": {ODD_ARGUMENTS}}}\n</tool_call>'
    ids = tuple(token for character in text for token in smollm2.encode(character))
    message = reply("", tool_calls=(call(),), token_ids=ids)
    (turn,) = check_turns(session(user("q"), message), smollm2)
    assert tuple(turn.output_ids.tolist()) == ids


def _count_encoded(monkeypatch, tokenizer):
    counted = [0]
    encode = type(tokenizer).encode

    def counting(self, text, **more):
        counted[0] += len(text)
        return encode(self, text, **more)

    monkeypatch.setattr(type(tokenizer), "encode", counting)
    return counted


def _long_session(turns):
    messages = [Message("system", "s" * 200)]
    for number in range(turns):
        messages += [user(f"question {number} " * 20), reply(f"answer {number} " * 20, reasoning="hm")]
    return session(*messages, tools=(SCHEMA,))


def test_text_is_encoded_once(smollm2, monkeypatch):
    """A session of 60 turns encodes each character once, not once per turn."""
    recorded = _long_session(60)
    counted = _count_encoded(monkeypatch, smollm2)
    last = list(render_session(recorded, smollm2))[-1]
    assert counted[0] == len(smollm2.decode([*last.prompt_ids.tolist(), *last.output_ids.tolist()]))


@pytest.mark.parametrize("template", ["forgets reasoning", "counts"])
def test_rewritten_text_is_not_encoded_per_turn(smollm2, monkeypatch, template):
    """Even where every prompt rewrites earlier text, what is encoded is a small multiple of the session."""
    recorded = _long_session(60)
    tokenizer = with_template(smollm2, ALL[template])
    assert tokenizer.traits
    counted = _count_encoded(monkeypatch, tokenizer)
    turns = check_turns(recorded, tokenizer)
    kept = [turn.reused_tokens for turn in turns[1:]]
    assert max(kept) < 5 if template == "counts" else min(kept) > 50
    assert counted[0] < 4 * sum(len(message.content) for message in recorded.messages)


def test_encoding_stretches_is_encoding_the_whole(smollm2):
    """What is encoded again, stretch by stretch, has the ids of the text encoded at once."""
    tokenizer = with_template(smollm2, ALL["counts"])
    turns = list(render_session(_long_session(8), tokenizer))
    text = tokenizer.decode(turns[-1].prompt_ids.tolist())
    assert turns[-1].prompt_ids.tolist() == tokenizer.encode(text)


def test_common_prefix():
    """The length of the common prefix is exact."""
    rng = random.Random(5)
    for _ in range(300):
        a = "".join(rng.choices("ab", weights=[9, 1], k=rng.randrange(12)))
        b = "".join(rng.choices("ab", weights=[9, 1], k=rng.randrange(12)))
        differ = (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
        assert _common_prefix(a, b) == next(differ, min(len(a), len(b))), (a, b)


def test_views_outlive_later_turns(smollm2):
    """Ids that were handed out do not change when later turns rewrite the text."""
    tokenizer = with_template(smollm2, ALL["counts"])
    seen, copies = [], []
    for turn in render_session(_long_session(12), tokenizer):
        seen.append(turn)
        copies.append((turn.prompt_ids.copy(), turn.output_ids.copy()))
    for turn, (prompt, output) in zip(seen, copies, strict=True):
        assert np.array_equal(turn.prompt_ids, prompt)
        assert np.array_equal(turn.output_ids, output)


def test_a_template_that_refuses_everything(smollm2):
    """A session that no form of rendering fits is an input error that names it and the template's reason."""
    needs_magic = (
        "{% if 'magic' not in messages[-1]['content'] and 'probe' not in messages[-1]['content'] -%}"
    )
    needs_magic += "{{ raise_exception('no magic here') }}{% endif %}" + ALL["drops calls"]
    with pytest.raises(InputError, match="no magic here"):
        list(render_session(SESSIONS["chat"], with_template(smollm2, needs_magic)))
    with pytest.raises(Exception, match="never"):
        list(render_session(SESSIONS["chat"], with_template(smollm2, "{{ raise_exception('never') }}")))


def test_no_turns_no_output(smollm2):
    """A session without anything the model wrote yields nothing."""
    assert list(render_session(session(user("q")), smollm2)) == []
