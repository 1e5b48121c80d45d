"""How the runner is reached, and that nothing else is touched."""

import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from suffixspec.integrations.vllm import hooks, plugin


@pytest.fixture
def runner_module(monkeypatch):
    """A module in the place of vLLM's runner, with a runner that notes how it was called."""

    class GPUModelRunner:
        def __init__(self, drafter):
            self.drafter = drafter
            self.requests, self.input_batch = {}, SimpleNamespace(req_ids=[])
            self.calls = []

        def propose_draft_token_ids(self, scheduler_output, *rest, **more):
            """Docs."""
            self.calls.append((scheduler_output, rest, more))
            return "drafts"

        def execute_model(self, _scheduler_output):
            return "step"

    module = ModuleType(hooks.RUNNER_MODULE)
    module.GPUModelRunner = GPUModelRunner
    monkeypatch.setitem(sys.modules, hooks.RUNNER_MODULE, module)
    return module


def test_the_runner_introduces_itself_with_what_it_schedules(runner_module):
    plugin.register()
    plugin.register()
    met = []
    drafter = SimpleNamespace(introduce=lambda *about: met.append(about))
    runner = runner_module.GPUModelRunner(drafter)
    assert runner.propose_draft_token_ids("scheduled", 1, two=2) == "drafts"
    assert met == [(runner, "scheduled")]
    assert runner.calls == [("scheduled", (1,), {"two": 2})]


def test_a_step_without_tokens_says_which_requests_have_ended(runner_module):
    """Also where that method is missing, all else goes on."""
    plugin.register()
    plugin.register()
    ended = []
    runner = runner_module.GPUModelRunner(SimpleNamespace(ended=lambda ids: ended.append(set(ids))))
    assert runner.execute_model(SimpleNamespace(finished_req_ids={"a", "b"})) == "step"
    assert runner.execute_model(SimpleNamespace(finished_req_ids=set())) == "step"
    assert ended == [{"a", "b"}]
    del runner_module.GPUModelRunner.execute_model
    assert hooks.install() is None


def test_for_other_drafters_nothing_changes(runner_module):
    plugin.register()
    runner = runner_module.GPUModelRunner(object())
    assert runner.propose_draft_token_ids(scheduler_output="scheduled") == "drafts"
    assert runner.execute_model(SimpleNamespace(finished_req_ids={"a"})) == "step"


def test_what_is_missing_is_named(runner_module, monkeypatch):
    assert hooks.install() is None
    del runner_module.GPUModelRunner.propose_draft_token_ids
    assert "propose_draft_token_ids" in hooks.install()
    del runner_module.GPUModelRunner
    assert "GPUModelRunner" in hooks.install()
    monkeypatch.delitem(sys.modules, hooks.RUNNER_MODULE)
    assert "not loaded" in hooks.install()
    assert hooks.missing_of(object()) == ["runner.requests", "runner.input_batch.req_ids"]


def test_the_plug_in_imports_nothing_and_is_inert_for_users_who_did_not_ask():
    code = (
        "import sys; from suffixspec.integrations.vllm.plugin import register; register(); "
        "heavy = {'numba', 'numpy', 'torch', 'transformers', 'vllm'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_entry_points_are_declared():
    import tomllib
    from pathlib import Path

    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    entry = project["entry-points"]["vllm.general_plugins"]["suffixspec"]
    assert entry == f"{plugin.__name__}:{plugin.register.__name__}"
