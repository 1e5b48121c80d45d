"""One server for each test that talks to one."""

import pytest


@pytest.fixture
def rig(tmp_path):
    for package in ("uvicorn", "starlette", "openai"):
        pytest.importorskip(package, reason=f"the server needs {package}: pip install 'suffixspec[serve]'")
    from .rig import Rig

    made = Rig(tmp_path)
    yield made
    made.server.close()
