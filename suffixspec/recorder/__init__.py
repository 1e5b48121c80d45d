"""Recording an agent's model calls, one JSON line each; ``suffixspec convert`` and ``replay`` read the file.

`Recorder` writes the file, `call` describes a line, `Proxy` records what passes between an agent and a server.
Nothing heavy is imported until it is used: the proxy needs the extra ``serve``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suffixspec.recorder.call import Api, new_call, session_hint
    from suffixspec.recorder.join import StreamJoiner
    from suffixspec.recorder.proxy import Proxy
    from suffixspec.recorder.writer import Recorder

_HOME = {
    "Api": "call",
    "Proxy": "proxy",
    "Recorder": "writer",
    "StreamJoiner": "join",
    "new_call": "call",
    "session_hint": "call",
}

__all__ = ["Api", "Proxy", "Recorder", "StreamJoiner", "new_call", "session_hint"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
