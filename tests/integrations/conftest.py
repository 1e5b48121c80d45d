"""One server for each test that talks to one."""

import pytest

from .frameworks import needs


@pytest.fixture
def rig(tmp_path):
    for package in ("uvicorn", "starlette", "openai"):
        needs(package, "suffixspec[serve]")
    from .rig import Rig

    made = Rig(tmp_path)
    yield made
    made.server.close()
