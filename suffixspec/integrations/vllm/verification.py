"""How vLLM verifies drafts of sampled requests on a CPU: tried before it is relied on, and mended where it is wrong.

vLLM 0.32 gives each draft token the temperature, the top_p and the top_k of its request by a kernel for whole numbers,
which it calls with a copy of the memory that the result is read from: what is read was never written. Then a batch with
a sampled request is verified by whatever that memory held, for its greedy requests too, and whoever drafted. The output
would not be the target's. Elsewhere vLLM does the same by Triton, which writes where it should.
"""

from __future__ import annotations

import sys
from typing import Any

MODULE = "vllm.v1.sample.rejection_sampler"
FUNCTION = "expand_batch_to_tokens"


def mend() -> str | None:
    """Where vLLM's function is wrong here, put a right one in its place; what was found, None if it is right.

    Tried with numbers, not by version, and only in this process. May be called again. Cost: microseconds.
    """
    module = sys.modules.get(MODULE)
    function = getattr(module, FUNCTION, None)
    if module is None or function is None:
        return None
    try:
        if _is_right(function):
            return None
    except Exception as error:  # noqa: BLE001  # another version's, that is called otherwise: vLLM starts, whatever it is
        return f"{MODULE}.{FUNCTION} of this version of vLLM could not be tried: {error}"
    setattr(module, FUNCTION, expand_batch_to_tokens)
    return (
        f"{MODULE}.{FUNCTION} of this version of vLLM is wrong on a CPU: it verifies drafts of sampled requests, and of "
        "greedy ones beside them, by memory that was never written; put a right one in its place"
    )


def expand_batch_to_tokens(
    x: Any, cu_num_tokens: Any, num_tokens: int, replace_from: int = 0, replace_to: int = 0
) -> Any:
    """A value per token from one per request.

    Args:
        x: tensor [batch].
        cu_num_tokens: whole numbers [batch], tokens of each request and of all before it.
        num_tokens: of all.
        replace_from: a value that is taken for another one; whole, as vLLM's has it.
        replace_to: that one.

    Returns:
        Tensor [num_tokens] of x's type, in memory of its own.
    """
    counts = cu_num_tokens.diff(prepend=cu_num_tokens.new_zeros(1))
    values = x.masked_fill(x == replace_from, replace_to) if replace_from != replace_to else x
    return values.repeat_interleave(counts, output_size=num_tokens)


def _is_right(function: Any) -> bool:
    import torch

    x, ends = torch.tensor([0.0, 0.25, 0.75]), torch.tensor([1, 1, 4], dtype=torch.int32)
    return all(  # memory that happens to hold what is right holds it once
        function(x, ends, 4, replace_from=0, replace_to=replaced).tolist() == [replaced, 0.75, 0.75, 0.75]
        for replaced in (0, 1)
    )
