"""What all tests of the target share."""

from functools import wraps

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def _one_thread(one_thread):
    pass


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
