"""What probing finds out about chat templates."""

import pytest

from suffixspec.text import RenderError, TemplateTraits

from .templates import ALL, DROPS_CALLS, with_template

# What ChatML without anything else does; each template below differs from it in one habit.
BASE = TemplateTraits(
    content_parts=False,
    system=True,
    late_system=True,
    developer=False,
    alternating=False,
    empty_context=True,
    tool_role=True,
    tools=False,
    tool_calls="dropped",
    free_ids=True,
    reasoning=False,
    whitespace=True,
    header="",
    lead="",
    closing_text="<|im_end|>",
    closing_token="<|im_end|>",
)

EXPECTED = {
    "drops calls": {},
    "trims": {"whitespace": False},
    "refuses the tool role": {"tool_role": False, "free_ids": False},
    "drops the tool role": {"tool_role": False, "free_ids": False},
    "forgets reasoning": {"reasoning": True},
    "first system": {"late_system": False},
    "verbatim calls": {"tool_calls": "verbatim", "tools": True, "free_ids": False},
    "rewrites calls": {"tool_calls": "rewritten", "tools": True, "free_ids": False},
    "no generation prompt": {"header": "<|im_start|>assistant\n"},
    "wants parts": {"content_parts": True},
    "closes late": {},
    "plain": {},
}


def _fields(traits):
    return {name: getattr(traits, name) for name in TemplateTraits.__dataclass_fields__}


def test_smollm2(smollm2):
    """SmolLM2's template drops tool calls, schemas and reasoning, and shows every role."""
    assert smollm2.traits == BASE


@pytest.mark.parametrize("name", EXPECTED)
def test_habits(smollm2, name):
    """Each habit is found, and nothing else is."""
    assert _fields(with_template(smollm2, ALL[name]).traits) == _fields(BASE) | EXPECTED[name]


def test_strict(smollm2):
    """Refusals of system, tool and neighbouring messages are found; so is the space before a reply."""
    traits = with_template(smollm2, ALL["strict"]).traits
    assert traits.alternating
    assert not traits.system
    assert not traits.tool_role
    assert traits.lead == " "
    assert traits.closing_text == " <|im_end|>"


def test_developer_role(smollm2):
    """A role shown like a made-up one has no meaning of its own; one shown otherwise has."""
    template = DROPS_CALLS.replace(
        "{{ m['role'] }}", "{{ 'boss' if m['role'] == 'developer' else m['role'] }}"
    )
    assert with_template(smollm2, template).traits.developer
    assert not smollm2.traits.developer


def test_notes_tell_what_differs(smollm2):
    """Every substitution is told to the user, and none where the template does it all."""
    assert any("<tool_call> blocks" in note and "drops" in note for note in smollm2.traits.notes())
    assert any(
        "writes their arguments anew" in n
        for n in with_template(smollm2, ALL["rewrites calls"]).traits.notes()
    )
    assert not any(
        "tool call" in note for note in with_template(smollm2, ALL["verbatim calls"]).traits.notes()
    )


def test_a_template_without_text(smollm2):
    """A template that shows no message at all is refused rather than replayed."""
    with pytest.raises(RenderError, match="dropped"):
        assert with_template(smollm2, "nothing").traits
    with pytest.raises(RenderError, match=r"sandbox|unsafe|SecurityError"):
        assert with_template(smollm2, "{{ messages.__class__.__mro__ }}").traits


def test_tool_template_is_chosen(smollm2):
    """Of several templates, the one for tools is used when tools are given."""
    tokenizer = with_template(smollm2, {"default": DROPS_CALLS, "tool_use": "T" + DROPS_CALLS})
    assert not tokenizer.render([{"role": "user", "content": "x"}]).startswith("T")
    assert tokenizer.render([{"role": "user", "content": "x"}], [{"type": "function"}]).startswith("T")


def test_base_models_get_a_plain_layout(smollm2):
    """A tokenizer without a template still renders, with roles as text."""
    tokenizer = with_template(smollm2, None)
    assert not tokenizer.has_template
    assert (
        tokenizer.render([{"role": "user", "content": "x"}], None, True)
        == "user:\nx<|im_end|>\n\nassistant:\n"
    )
    assert tokenizer.traits.closing_token == "<|im_end|>"
