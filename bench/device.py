"""A target of realistic size on an accelerator: ``python -m bench.device [--size 7b] [-o FILE.json]``.

Random weights: nothing is downloaded, and times do not hang on what the weights say.

* The tree mask in bfloat16: logits of random draft trees beside those of plain forwards over every path, and
  how often the most probable token differs (near-ties of a random model are frequent; its gap is given).
* t(n) for n = 1 … 128 behind several contexts, for a tree and for a plain chain of n tokens.

Minutes on a data-centre GPU. ``--size tiny --device cpu`` tries the script out anywhere.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from bench import environment
from suffixspec.target.attention import register
from suffixspec.target.cache import KVCache
from suffixspec.target.model import Target

SEED = 0
WIDTHS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128)
SIZES: dict[str, dict[str, Any]] = {
    # The shapes of common models: grouped key-value heads, gated MLP.
    "7b": {
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "vocab_size": 152064,
        "max_position_embeddings": 32768,
    },
    "tiny": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 512,
        "max_position_embeddings": 4096,
    },
}


def main() -> None:
    """Measure, print, and save the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.device",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--size", choices=sorted(SIZES), default="7b")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--contexts", type=int, nargs="+", default=[512, 4096, 16384])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("-o", "--output", metavar="FILE.json")
    args = parser.parse_args()
    target = build(args.size, args.device, getattr(torch, args.dtype))
    document: dict[str, Any] = {
        "environment": environment.describe("bench.device", traces=[], seed=SEED),
        "settings": {
            "size": args.size,
            "device": target.device_name,
            "dtype": args.dtype,
            "attention": target.attention,
            "buckets": target.buckets,
        },
    }
    print(f"{target!r} on {target.device_name}, forwards padded to {target.buckets or 'nothing'}")
    document["mask"] = mask(target)
    document["times"] = {
        length: times(target, length, args.rounds)
        for length in args.contexts
        if length + max(WIDTHS) <= target.max_positions
    }
    environment.save(args.output, document)


def build(size: str, device: str, dtype: torch.dtype) -> Target:
    """A target with random weights, made where it runs."""
    from transformers import AutoModelForCausalLM, Qwen2Config

    torch.manual_seed(SEED)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(
            Qwen2Config(**SIZES[size]), dtype=dtype, attn_implementation="sdpa"
        )
    model.set_attn_implementation(register())
    return Target(model, name=f"random {size}")


# -- is the mask right ----------------------------------------------------------------------------------------


def mask(target: Target, *, context_length: int = 300, trees: int = 6) -> dict[str, Any]:
    """Trees against plain forwards over each of their paths."""
    generator = torch.Generator().manual_seed(SEED)
    context = torch.randint(3, target.vocab_size, (context_length,), generator=generator)
    cache = target.new_cache(context_length + 256)
    target.prefill(cache, context)
    worst, flips, nodes, gaps = 0.0, 0, 0, []
    for tree in range(trees):
        n = 4 + 7 * tree
        ids = torch.randint(3, target.vocab_size, (n,), generator=generator)
        parents = [-1, *(int(torch.randint(0, i, (), generator=generator)) for i in range(1, n))]
        logits = target.forward_tree(cache, ids, parents)
        for node in range(n):
            path = _path(parents, node)
            plain = _plain(target, torch.cat([context, ids[path]]))
            worst = max(worst, float((logits[node] - plain).abs().max() / plain.abs().max()))
            nodes += 1
            if int(plain.argmax()) != int(logits[node].argmax()):
                flips += 1
                top = plain.topk(2).values
                gaps.append(float(top[0] - top[1]))
    print(
        f"tree mask: {nodes} nodes of {trees} trees behind {context_length} tokens; largest difference to plain "
        f"forwards {worst:.2%} of the largest logit; {flips} most probable tokens differ"
        + (f", at top-2 gaps of {max(gaps):.2g} at most" if gaps else "")
    )
    return {"nodes": nodes, "largest_relative_difference": worst, "flips": flips, "flip_gaps": gaps}


def _plain(target: Target, ids: torch.Tensor) -> torch.Tensor:
    """Logits [V] after ``ids``, with the model's own mask and no cache of ours."""
    with torch.inference_mode():
        logits = target.model(ids[None].to(target.device), use_cache=False, logits_to_keep=1).logits
    return logits[0, -1].float()


def _path(parents: list[int], node: int) -> list[int]:
    path = []
    while node >= 0:
        path.append(node)
        node = parents[node]
    return path[::-1]


# -- what a forward costs -------------------------------------------------------------------------------------


def times(target: Target, context_length: int, rounds: int) -> dict[str, list[list[float]]]:
    """[n, median ms, least ms] of trees and of chains, measured in turns."""
    cache = target.new_cache(context_length + target.padded(max(WIDTHS)))
    cache.commit(context_length)  # blank slots: their content makes no difference to the time
    kinds: dict[str, Callable[[int], list[int]]] = {
        "tree": lambda n: [-1, *((i - 1) // 2 for i in range(1, n))],
        "plain": lambda n: list(range(-1, n - 1)),
    }
    taken: dict[tuple[str, int], list[float]] = {(kind, n): [] for kind in kinds for n in WIDTHS}
    for done in range(rounds + 2):
        for (kind, n), of in taken.items():
            ms = _forward_ms(target, cache, kinds[kind](n))
            if done >= 2:  # before: kernels are chosen
                of.append(ms)
    result = {
        kind: [[n, statistics.median(taken[kind, n]), min(taken[kind, n])] for n in WIDTHS] for kind in kinds
    }
    base = result["plain"][0][1]
    print(f"behind {context_length:,} tokens, t(1) {base:.2f} ms; t(n) / t(1), tree and plain:")
    for (n, tree, _), (_, plain, _) in zip(result["tree"], result["plain"], strict=True):
        print(f"{n:>5} {tree / base:6.2f} {plain / base:6.2f}")
    return result


def _forward_ms(target: Target, cache: KVCache, parents: list[int]) -> float:
    ids = torch.arange(len(parents)) % target.vocab_size
    started = time.perf_counter()
    logits = target.forward_tree(cache, ids, parents)
    float(logits[-1, 0])  # waits for the device
    return (time.perf_counter() - started) * 1e3


if __name__ == "__main__":
    main()
