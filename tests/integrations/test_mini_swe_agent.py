"""mini-swe-agent's own agent and environment, with the model of this process."""

import os
from pathlib import Path

import pytest

from .frameworks import needs

os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
needs("minisweagent", "mini-swe-agent")

import yaml  # noqa: E402
from minisweagent.agents.default import DefaultAgent  # noqa: E402
from minisweagent.config import builtin_config_dir  # noqa: E402
from minisweagent.environments.local import LocalEnvironment  # noqa: E402
from minisweagent.models import get_model  # noqa: E402

from suffixspec.trace import read_sessions  # noqa: E402

from .rig import call, saying  # noqa: E402

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

    began = []
    monkeypatch.setattr(
        plugin, "local_server", lambda *given, **options: began.append((given, options)) or rig.server
    )
    (tmp_path / "poem.txt").write_text("the abab cat sat on the abab mat, the abab hat\n" * 3)
    settings = {"record": "calls.jsonl", "engine": {"max_nodes": 8}}
    model = get_model("local", settings | {"model_class": f"suffixspec.integrations.mini_swe_agent.{kind}"})

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
    assert began == [(("local",), {"record": "calls.jsonl", "max_nodes": 8})]
    asked = rig.check_loop(4)
    assert asked[1].accepted > 5
    assert asked[0].request["messages"][0]["role"] == "system"
    (session,) = read_sessions(rig.path)
    assert [m.role for m in session.messages].count("assistant") == 4
