"""suffixspec: model-free speculative decoding for agent loops."""

from importlib.util import find_spec as _find_spec
from pathlib import Path as _Path

__version__ = "0.1.0.dev0"

# In a checkout that was not installed, the kernels lie beside this package in ``native/``; an installation
# places them at ``suffixspec/native``. Make ``import suffixspec.native`` work in both.
if _find_spec(f"{__name__}.native") is None:
    _checkout = _Path(__file__).resolve().parent.parent
    if (_checkout / "native" / "__init__.py").is_file():
        __path__.append(str(_checkout))
