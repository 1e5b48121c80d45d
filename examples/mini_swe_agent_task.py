"""mini-swe-agent with a model of this process, on a task in a temporary folder.

    python examples/mini_swe_agent_task.py [MODEL]

The same from the command line: ``mini --model-class suffixspec.integrations.mini_swe_agent.Model -m MODEL``.
"""

import sys
import tempfile
from pathlib import Path

import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import builtin_config_dir
from minisweagent.environments.local import LocalEnvironment

from suffixspec.integrations.mini_swe_agent import TextModel


def main() -> None:
    """Run a few steps."""
    config = yaml.safe_load((builtin_config_dir / "mini_textbased.yaml").read_text())["agent"]
    templates = {name: config[name] for name in ("system_template", "instance_template")}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "poem.txt").write_text("the cat sat on the mat\n")
        record = str(Path.cwd() / "mini-calls.jsonl")
        model = TextModel(
            model_name=sys.argv[1] if len(sys.argv) > 1 else "local",
            record=record,
            model_kwargs={"max_tokens": 96},
        )
        agent = DefaultAgent(model, LocalEnvironment(cwd=folder), **templates, step_limit=3, cost_limit=0)
        result = agent.run("Copy poem.txt to copy.txt.")
    sys.stdout.write(f"{result['exit_status']}; replay it: suffixspec replay {record}\n")


if __name__ == "__main__":
    main()
