"""One tiny target, and one server with default settings, for all tests that do not need their own."""

import pytest
from engine.tiny import CountingTarget, target

from .harness import Running


@pytest.fixture(scope="session", autouse=True)
def _one_thread(one_thread):
    pass


@pytest.fixture(scope="session")
def tiny_target() -> CountingTarget:
    return target()


@pytest.fixture(scope="session")
def server(tiny_target):
    with Running(tiny_target) as running:
        yield running
