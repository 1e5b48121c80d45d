"""Outputs that are known beforehand, for calls, reasoning and loops of turns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import torch
from engine.tiny import TOKENIZER, tokenizer

from suffixspec.engine.turn import Turn
from suffixspec.text import Tokenizer

HERMES = """
{%- if tools -%}<|im_start|>tools
{% for t in tools %}{{ t['function']['name'] }} {% endfor %}<|im_end|>
{% endif -%}
{%- for m in messages -%}
<|im_start|>{{ m['role'] }}
{% if m['reasoning_content'] %}<think>{{ m['reasoning_content'] }}</think>{% endif -%}
{{ m['content'] }}
{%- for c in m['tool_calls'] -%}
<tool_call>{"name": "{{ c['function']['name'] }}", "arguments": {{ c['function']['arguments'] }}}</tool_call>
{%- endfor -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""
"""A template that writes calls as the model does."""

HERMES_TOKENIZER = tokenizer(HERMES)
LS = {
    "type": "function",
    "function": {
        "name": "ls",
        "description": "list",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
    },
}


def call_of(arguments: str, name: str = "ls") -> str:
    """A call as the model writes it."""
    return f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>'


@contextlib.contextmanager
def scripted(
    script: dict[str, str], *, tokenizer: Tokenizer = TOKENIZER, header: str = "<|im_start|>assistant\n"
) -> Iterator[None]:
    """While this is open, a turn whose last message is a key of ``script`` is answered with its text.

    The tiny model runs all the same, so that the KV is real: only its logits are replaced, behind a prompt that
    ends with the key. All other turns are its own.
    """
    headers = {f"{key}<|im_end|>\n{header}": text for key, text in script.items()}
    forward = Turn.forward

    def replaced(turn: Turn, token_ids: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
        logits = forward(turn, token_ids, parents)
        prompt = tokenizer.decode(turn.prompt_ids.tolist())
        text = next((text for end, text in headers.items() if prompt.endswith(end)), None)
        if text is None:
            return logits
        wanted = tokenizer.encode(text + "<|im_end|>")
        output = turn.generation.token_ids
        paths: list[list[int]] = []
        for i, parent in enumerate(parents.tolist()):
            before = [] if i == 0 else [*paths[parent], int(token_ids[i])]
            paths.append(before)
            written = [*output, *before]
            if written == wanted[: len(written)] and len(written) < len(wanted):
                logits[i] = -50.0
                logits[i, wanted[len(written)]] = 50.0
        return logits

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Turn, "forward", replaced)
        yield
