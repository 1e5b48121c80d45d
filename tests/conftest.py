"""What tests of every folder may ask for."""

import pytest


@pytest.fixture(scope="session")
def one_thread():
    """Torch on one thread: with tiny matrices more threads only wait for one another."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
