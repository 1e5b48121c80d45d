"""What SGLang's worker calls of ``sgl_kernel`` on a CPU, written from the definition: there is no build for every CPU.

A call of any other kernel fails, and says which.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch


def install() -> None:
    """Have SGLang use its CPU engine, with these kernels where it has none of its own. Before it is imported."""
    os.environ.setdefault("SGLANG_USE_CPU_ENGINE", "1")
    if "sgl_kernel" in sys.modules or importlib.util.find_spec("sgl_kernel") is not None:
        return
    for name in ("sgl_kernel", "sgl_kernel.speculative", "sgl_kernel.kvcacheio"):
        module = _Kernels(name)
        module.__spec__ = ModuleSpec(name, None)
        module.__path__ = []
        sys.modules[name] = module
    vars(sys.modules["sgl_kernel"]).update(
        assign_extend_cache_locs_cpu=assign_extend_cache_locs,
        fill_accept_out_cache_loc_cpu=fill_accept_out_cache_loc,
        verify_tree_greedy_cpu=verify_tree_greedy,
    )
    vars(sys.modules["sgl_kernel.speculative"]).update(
        reconstruct_indices_from_tree_mask=reconstruct_indices_from_tree_mask
    )


class _Kernels(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def missing(*_: Any, **__: Any) -> None:
            raise NotImplementedError(f"expected no call of {self.__name__}.{name}, which is not here")

        return missing


def assign_extend_cache_locs(
    rows: torch.Tensor,
    table: torch.Tensor,
    starts: torch.Tensor,
    ends: torch.Tensor,
    out: torch.Tensor,
    _: int,
) -> None:
    """Put the entries from start to end of each row of a table behind one another."""
    found = [table[row, start:end] for row, start, end in zip(rows, starts, ends, strict=True)]
    joined = torch.cat(found).to(out.dtype)
    out[: len(joined)] = joined


def fill_accept_out_cache_loc(accepted: torch.Tensor, locations: torch.Tensor, out: torch.Tensor) -> None:
    """Put the locations of accepted nodes, those that are not -1, behind one another."""
    kept = accepted.flatten()
    kept = kept[kept >= 0].long()
    out[: len(kept)] = locations[kept]


def reconstruct_indices_from_tree_mask(
    mask: torch.Tensor,
    lengths: torch.Tensor,
    positions: torch.Tensor,
    index: torch.Tensor,
    child: torch.Tensor,
    sibling: torch.Tensor,
    requests: int,
    nodes: int,
) -> None:
    """Positions, first child and next sibling of each node, -1 for none, from which nodes see which."""
    for request in range(requests):
        sees = mask.reshape(requests, nodes, nodes)[request].tolist()
        above = [[up for up in range(node) if sees[node][up]] for node in range(nodes)]
        parents = [max(up, default=-1) for up in above]
        for node in range(nodes):
            index[request, node] = request * nodes + node
            positions[request * nodes + node] = int(lengths[request]) + len(above[node])
            below = [other for other in range(nodes) if parents[other] == node]
            beside = [other for other in range(node + 1, nodes) if parents[other] == parents[node] >= 0]
            child[request, node] = below[0] if below else -1
            sibling[request, node] = beside[0] if beside else -1


def verify_tree_greedy(
    *,
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    target_predict: torch.Tensor,
) -> None:
    """Follow the target's choice from the root for as long as a child proposes it."""
    for request in range(candidates.shape[0]):
        node, accepted = 0, 0
        accept_index[request, 0] = retrive_index[request, 0]
        while True:
            wanted = target_predict[request, node]
            predicts[retrive_index[request, node]] = wanted
            child = int(retrive_next_token[request, node])
            while child >= 0 and candidates[request, child] != wanted:
                child = int(retrive_next_sibling[request, child])
            if child < 0:
                break
            node, accepted = child, accepted + 1
            accept_index[request, accepted] = retrive_index[request, node]
        accept_token_num[request] = accepted
