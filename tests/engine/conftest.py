"""One tiny target for all tests of the engine: making it is the slow part."""

import pytest

from suffixspec.engine import Engine

from .tiny import TOKENIZER, CountingTarget, target


@pytest.fixture(scope="session", autouse=True)
def _one_thread(one_thread):
    pass


@pytest.fixture(scope="session")
def shared_target() -> CountingTarget:
    return target()


@pytest.fixture
def tiny_target(shared_target) -> CountingTarget:
    shared_target.prefills.clear()
    shared_target.steps.clear()
    return shared_target


@pytest.fixture
def engine(tiny_target) -> Engine:
    return Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26)
