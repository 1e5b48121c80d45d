"""One tiny target, and one server with default settings, for all tests that do not need their own."""

import pytest
import torch
from engine.tiny import CountingTarget, target

from .harness import Running


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """Tiny matrices: more threads only wait for one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny_target() -> CountingTarget:
    return target()


@pytest.fixture(scope="session")
def server(tiny_target):
    with Running(tiny_target) as running:
        yield running
