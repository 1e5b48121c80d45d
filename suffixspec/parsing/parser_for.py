"""Which parser reads a model's output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suffixspec.parsing.call_ids import CallIds
from suffixspec.parsing.choice import tool_choice_of
from suffixspec.parsing.form_parser import FormParser
from suffixspec.parsing.harmony import HarmonyParser
from suffixspec.parsing.hermes import OPEN, HermesParser
from suffixspec.parsing.llama import TAG as LLAMA_TAG
from suffixspec.parsing.llama import LlamaParser
from suffixspec.parsing.mistral import TAG as MISTRAL_TAG
from suffixspec.parsing.mistral import MistralParser
from suffixspec.parsing.output_parser import OutputParser
from suffixspec.parsing.reasoning import has_channels, open_reasoning
from suffixspec.parsing.single_call import SingleCallParser

if TYPE_CHECKING:
    from suffixspec.text.tokenizer import Tokenizer

_FORMS: tuple[tuple[str, type[FormParser]], ...] = (
    (OPEN, HermesParser),
    (MISTRAL_TAG, MistralParser),
    (LLAMA_TAG, LlamaParser),
)


def parser_for(
    tokenizer: Tokenizer,
    *,
    tools: list[dict[str, Any]] | None,
    prompt_text: str,
    tool_choice: Any = "auto",
    parallel: bool = True,
    bare: bool = False,
    seed: int | None = None,
) -> OutputParser:
    """A parser for one output of the model that has this tokenizer.

    A tokenizer with a response template is read by transformers. Else the form of calls is that whose marker
    the chat template writes, or else the vocabulary has as a special token; where neither tells, it is
    ``<tool_call>``, the form in which calls are shown to a model whose template drops them. Special tokens for
    channels make it Harmony's.

    Args:
        tokenizer: of the model.
        tools: the request's; without any, nothing is a call.
        prompt_text: the text that the output follows: its end may have opened the reasoning.
        tool_choice: the request's. "none": nothing is a call. "required", or one function: a JSON call
            without markers at the start of the output is one too; and of one function only its own calls are.
        parallel: False: an output ends where its second call would begin, see ``SingleCallParser``.
        bare: the output is bound to ``required_call_format``, whatever a response template says.
        seed: the same seed gives the same ids of calls; None gives ids that nobody has had before.

    Raises:
        InputError: malformed tools or tool_choice.
        SuffixspecError: a response template that transformers does not take.
    """
    choice = tool_choice_of(tools, tool_choice)
    traits = tokenizer.traits
    ids = CallIds(seed, short=traits.tool_role and not traits.free_ids)
    template = tokenizer.response_template
    parser: OutputParser
    if template is not None and not bare and _has_response_parser():
        from suffixspec.parsing.template_parser import TemplateParser

        parser = TemplateParser(template, choice, ids, prompt_text=prompt_text, tools=tools)
    elif has_channels(tokenizer.special_tokens):
        parser = HarmonyParser(choice, ids, prompt_text=prompt_text)
    else:
        parser = form_of(tokenizer)(choice, ids, closes=open_reasoning(prompt_text))
    return parser if parallel else SingleCallParser(parser)


def form_of(tokenizer: Tokenizer) -> type[FormParser]:
    """The form in which the model writes calls. Cost: looks through the chat template."""
    texts = "\n".join(tokenizer.template.sources.values())
    for marker, form in _FORMS:
        if marker in texts:
            return form
    for marker, form in _FORMS:
        if marker in tokenizer.special_tokens:
            return form
    return HermesParser


def _has_response_parser() -> bool:
    """Not in every transformers that suffixspec admits."""
    try:
        from transformers.utils import chat_parsing
    except ImportError:
        return False
    return hasattr(chat_parsing, "ResponseParser")
