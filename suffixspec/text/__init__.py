"""Tokenizers and the rendering of messages to token ids.

Nothing heavy is imported until a name below is used: ``import suffixspec.text`` loads neither tokenizers nor
transformers nor numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suffixspec.text.render import RenderedTurn, render_session
    from suffixspec.text.template import ChatTemplate, RenderError
    from suffixspec.text.tokenizer import Tokenizer, load_tokenizer
    from suffixspec.text.traits import TemplateTraits

_HOME = {
    "ChatTemplate": "template",
    "RenderError": "template",
    "RenderedTurn": "render",
    "TemplateTraits": "traits",
    "Tokenizer": "tokenizer",
    "load_tokenizer": "tokenizer",
    "render_session": "render",
}

__all__ = [
    "ChatTemplate",
    "RenderError",
    "RenderedTurn",
    "TemplateTraits",
    "Tokenizer",
    "load_tokenizer",
    "render_session",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
