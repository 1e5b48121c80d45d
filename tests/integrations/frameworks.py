"""Frameworks that may be missing where the tests run, and must not be in CI."""

import importlib
import os
from typing import Any

import pytest

REQUIRED = "SUFFIXSPEC_TEST_FRAMEWORKS"
"""Environment variable; ``required``: a framework that is missing fails its tests instead of leaving them out."""


def needs(module: str, package: str) -> Any:
    """The module of a framework; without it the test, or the file of tests, is skipped with a word on why."""
    if os.environ.get(REQUIRED) == "required":
        return importlib.import_module(module)
    return pytest.importorskip(module, reason=f"needs {module}: pip install '{package}'")
