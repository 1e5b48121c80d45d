"""Parsers of every form, and texts to feed them."""

import itertools
import random

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from suffixspec.parsing import parser_for
from suffixspec.text import Tokenizer

CHATML = """
{%- for m in messages -%}
<|im_start|>{{ m['role'] }}
{{ m['content'] }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}
"""
TEMPLATES = {
    "hermes": CHATML + "{#- calls: <tool_call>…</tool_call> -#}",
    "llama": CHATML + "{#- calls: <|python_tag|> -#}",
    "mistral": CHATML + "{#- calls: [TOOL_CALLS] -#}",
}
FRAGMENTS = {
    "hermes": (
        "<tool_call>",
        "</tool_call>",
        "<function=run>",
        "<parameter=cmd>",
        "</parameter>",
        "</function>",
    ),
    "llama": ("<|python_tag|>", ";", "<|python"),
    "mistral": ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "run", "[", "]"),
}
COMMON = (
    '{"name": "run", "arguments": {"cmd": "ls"}}',
    '{"name": "run", "parameters": {"cmd": "a\\"}b"}}',
    '{"arguments": {"n": [1, {}]}, "name": "read"}',
    '{"name": "other", "arguments": {}}',
    '{"name": "run"',
    '"arguments": {',
    "}",
    "{",
    "<think>",
    "</think>",
    "[THINK]",
    "[/THINK]",
    "<",
    "</",
    "[",
    "text",
    "é😀",
    " ",
    "\n\n",
    '"',
    "\\",
    ",",
)
TOOLS = [
    {
        "type": "function",
        "function": {"name": "run", "parameters": {"properties": {"cmd": {"type": "string"}}}},
    },
    {
        "type": "function",
        "function": {
            "name": "read",
            "parameters": {
                "properties": {
                    "n": {"type": "integer"},
                    "deep": {"type": "object"},
                    "path": {"type": "string"},
                }
            },
        },
    },
]


def tokenizer(template: str, special: tuple[str, ...] = (), **more) -> Tokenizer:
    """Bytes under a chat template."""
    vocab = {char: index for index, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    backend = tokenizers.Tokenizer(models.BPE(vocab, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<|im_start|>", "<|im_end|>", *special])
    return Tokenizer(backend, name="bytes", template=template, special={"eos_token": "<|im_end|>"}, **more)


TOKENIZERS = {form: tokenizer(template) for form, template in TEMPLATES.items()}


def new(form: str, *, tools=TOOLS, prompt: str = "", seed: int | None = 7, choice="auto"):
    """A parser of a form."""
    return parser_for(TOKENIZERS[form], tools=tools, prompt_text=prompt, tool_choice=choice, seed=seed)


def parsed(parser, text: str, cuts=None) -> list:
    """All deltas of a text, cut at some places."""
    deltas = []
    places = sorted({0, len(text), *(cuts or ())})
    for start, end in itertools.pairwise(places):
        deltas += parser.feed(text[start:end])
    return deltas + parser.finish()


def cuts(rng: random.Random, text: str) -> list[int]:
    """Places to cut a text at: none, every one, or some."""
    if rng.random() < 0.2:
        return list(range(len(text)))
    return [rng.randint(0, len(text)) for _ in range(rng.randint(0, 12))]
