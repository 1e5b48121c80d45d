"""What all tests of the target share."""

from collections.abc import Iterator
from functools import wraps

import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    """Layers this small are slower on several threads, much slower where other work competes for the cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def exact_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eager attention takes its softmax in float32 even of a float64 model; the tests are exact without that."""
    softmax = torch.nn.functional.softmax

    @wraps(softmax)
    def wide(
        x: torch.Tensor, *args: object, dtype: torch.dtype | None = None, **kwargs: object
    ) -> torch.Tensor:
        return softmax(x, *args, dtype=x.dtype if x.dtype == torch.float64 else dtype, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "softmax", wide)
