"""What vLLM's entry point ``vllm.general_plugins`` calls, in each of its processes."""

from __future__ import annotations


def register() -> None:
    """Make the runner introduce itself to its proposer, if its module is loaded here; import nothing of vLLM.

    For users who draft otherwise nothing changes: see ``hooks.install``. The proposer does the same when it is made,
    so that it also works where ``VLLM_PLUGINS`` keeps this one out. May be called again.
    """
    from suffixspec.integrations.vllm import hooks

    hooks.install()
