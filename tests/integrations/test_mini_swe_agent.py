"""mini-swe-agent's own agent and environment, with the model of this process."""

import os
from pathlib import Path

import pytest

os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
pytest.importorskip("minisweagent", reason="needs mini-swe-agent: pip install mini-swe-agent")

import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import builtin_config_dir
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models import get_model

from suffixspec.trace import read_sessions

from .rig import call, saying

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo done"


def agent(model, folder: Path, name: str) -> DefaultAgent:
    config = yaml.safe_load((builtin_config_dir / name).read_text())["agent"]
    settings = {
        key: value for key, value in config.items() if key in ("system_template", "instance_template")
    }
    return DefaultAgent(model, LocalEnvironment(cwd=str(folder)), **settings, step_limit=9, cost_limit=0)


@pytest.mark.parametrize("kind", ["Model", "TextModel"])
def test_an_agent_solves_a_task(rig, tmp_path, monkeypatch, kind):
    """The agent reads, writes and submits; every turn reuses the one before, and repeats are drafted."""
    import suffixspec.integrations.mini_swe_agent as plugin

    monkeypatch.setattr(plugin, "local_server", lambda _model, **_options: rig.server)
    (tmp_path / "poem.txt").write_text("the abab cat sat on the abab mat, the abab hat\n" * 3)
    model = get_model("local", {"model_class": f"suffixspec.integrations.mini_swe_agent.{kind}"})

    def says(command: str) -> str:
        if kind == "Model":
            return "I will do it." + call("bash", command=command)
        return f"I will do it.\n\n```mswea_bash_command\n{command}\n```"

    text = "the abab cat sat on the abab mat, the abab hat"
    with saying(says("cat poem.txt"), says(f"echo '{text}' > copy.txt"), says("cat copy.txt"), says(SUBMIT)):
        result = agent(model, tmp_path, "mini.yaml" if kind == "Model" else "mini_textbased.yaml").run(
            "copy it"
        )
    assert result["exit_status"] == "Submitted"
    assert (tmp_path / "copy.txt").read_text() == f"{text}\n"
    asked = rig.check_loop(4)
    assert asked[1].accepted > 5
    assert asked[0].request["messages"][0]["role"] == "system"
    (session,) = read_sessions(rig.path)
    assert [m.role for m in session.messages].count("assistant") == 4
