"""A smolagents CodeAgent whose Transformers model drafts.

    python examples/smolagents_agent.py MODEL

MODEL is a folder or hub id, as for ``smolagents.TransformersModel``, in whose place this model stands.
"""

import sys

from smolagents import CodeAgent

from suffixspec.integrations.smolagents import TransformersModel


def main() -> None:
    """Ask for a sum."""
    model = TransformersModel(sys.argv[1], max_new_tokens=200, do_sample=False)
    CodeAgent(tools=[], model=model, max_steps=3).run("What is the sum of the first 20 squares?")
    for call in model.acceleration.calls:
        sys.stdout.write(
            f"{call.cached_tokens} of {call.prompt_tokens} prompt tokens cached, "
            f"{call.accepted_share:.0%} of {call.new_tokens} new ones from drafts\n"
        )


if __name__ == "__main__":
    main()
