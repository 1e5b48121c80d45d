r"""Drafts inside vLLM, from 0.22 on: ``method: custom_class``, ``model: suffixspec.integrations.vllm.Proposer``.

::

    vllm serve MODEL --speculative-config \
        '{"method":"custom_class","model":"suffixspec.integrations.vllm.Proposer","num_speculative_tokens":32}'

- ``proposer``: what vLLM calls; one chain per sequence and step
- ``chain``: the path of a draft tree that is worth most to a target that checks chains
- ``forward_time``: what a forward costs, learned from the engine's steps
- ``load_gate``: how many tokens each sequence of a batch may propose
- ``verification``: what vLLM does wrong on a CPU with sampled requests, tried and mended
- ``hooks``: how the runner, its requests and its rows are reached, and what of that is missing
- ``plugin``: what vLLM's entry point ``vllm.general_plugins`` calls

Sessions, settings (``--additional-config '{"suffixspec": {…}}'``) and what is kept are ``hosted``'s, beside this.
Importing this imports neither vLLM nor Numba. The same drafter, indexes, calibration and history store as the
project's own engine; see ``suffixspec.draft`` and ``suffixspec.store``.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suffixspec.integrations.vllm.proposer import Proposer

__all__ = ["Proposer"]


def __getattr__(name: str) -> Any:
    # vLLM loads the plug-in in every process, also for users who draft otherwise: Numba is not for them.
    if name == "Proposer":
        from suffixspec.integrations.vllm.proposer import Proposer

        return Proposer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
