"""The engine: sessions, branches and the step. Nothing heavy is imported until a name below is used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suffixspec.engine.engine import Engine
    from suffixspec.engine.errors import ContextLengthError, OutOfMemoryError
    from suffixspec.engine.miss import Miss
    from suffixspec.engine.reply import Reply
    from suffixspec.engine.session import Session
    from suffixspec.engine.stream import Stream

_HOME = {
    "ContextLengthError": "errors",
    "Engine": "engine",
    "Miss": "miss",
    "OutOfMemoryError": "errors",
    "Reply": "reply",
    "Session": "session",
    "Stream": "stream",
}

__all__ = [
    "ContextLengthError",
    "Engine",
    "Miss",
    "OutOfMemoryError",
    "Reply",
    "Session",
    "Stream",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
