"""suffixspec: model-free speculative decoding for agent loops."""

from pathlib import Path as _Path
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from suffixspec import hf as hf
    from suffixspec.engine.engine import Engine as Engine

__version__ = "0.1.0.dev0"

# In a checkout that was not installed, the kernels lie beside this package in ``native/``; an installation
# places them at ``suffixspec/native``. Make ``import suffixspec.native`` work in both, and let a checkout
# bring its own kernels even where another one is installed.
_package = _Path(__file__).resolve().parent
if (
    not (_package / "native" / "__init__.py").is_file()
    and (_package.parent / "native" / "__init__.py").is_file()
):
    __path__.append(str(_package.parent))


def __getattr__(name: str) -> _Any:
    """``suffixspec.Engine`` and ``suffixspec.hf``, imported when first used: they need torch and the kernels."""
    if name == "hf":
        from importlib import import_module

        return import_module("suffixspec.hf")
    if name != "Engine":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from suffixspec.engine.engine import Engine

    return Engine
