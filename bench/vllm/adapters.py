"""LoRA adapters of the tiny Llama, in one batch with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.vllm.engine import play, proposer_of
from bench.vllm.tiny import TEXTS
from bench.vllm.watch import Watch

RANK = 8
SEEDS = {"one": 1, "two": 2, "twin": 1}
"""By name of each adapter, what its weights are drawn by: ``one`` and ``twin`` write the same."""

OPENINGS = ("A tree of tokens", "What costs nothing?", "An agent begins", "Not all of it")
"""Beginnings of brief texts."""


def make(folder: Path, config: Any) -> dict[str, Path]:
    """Write the adapters of a Llama with this configuration, as PEFT does; return their folders by name."""
    import torch
    from safetensors.torch import save_file

    wide = config.hidden_size
    narrow = wide // config.num_attention_heads * config.num_key_value_heads
    sizes = {"q_proj": (wide, wide), "v_proj": (wide, narrow), "o_proj": (wide, wide)}
    folders = {}
    for name, seed in SEEDS.items():
        generator = torch.Generator().manual_seed(seed)
        weights = {}
        for layer in range(config.num_hidden_layers):
            for module, (before, after) in sizes.items():
                place = f"base_model.model.model.layers.{layer}.self_attn.{module}"
                weights[f"{place}.lora_A.weight"] = torch.randn(RANK, before, generator=generator) * 0.2
                weights[f"{place}.lora_B.weight"] = torch.randn(after, RANK, generator=generator) * 0.2
        folders[name] = folder / name
        folders[name].mkdir(parents=True, exist_ok=True)
        save_file(weights, folders[name] / "adapter_model.safetensors")
        about = {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "r": RANK,
            "lora_alpha": RANK,
            "target_modules": list(sizes),
            "bias": "none",
        }
        (folders[name] / "adapter_config.json").write_text(json.dumps(about))
    return folders


def adapters(engine: Any, watch: Watch) -> dict[str, Any]:
    """A batch of the base model and two adapters, then the same text again from an adapter, its twin, and itself.

    All sessions are closed in between, so that what one wrote is drafted from history alone. Counted are the steps that
    ``one`` took at first, that ``twin`` took for the same texts, and ``one`` again: ``first_steps``, ``twin_steps``,
    ``again_steps``. Who may draft from what ``one`` wrote takes a few: the texts are too short to repeat themselves
    much. ``unlike`` is 1 where the adapters and the base all write differently, ``namespaces`` is how many there are
    that sessions draft in.
    """
    from vllm import SamplingParams
    from vllm.lora.request import LoRARequest

    core = engine.llm_engine
    folders = make(Path(core.model_config.model).parent / "adapters", core.model_config.hf_config)
    requests = {
        name: LoRARequest(name, number, str(folders[name])) for number, name in enumerate(folders, start=1)
    }
    params = SamplingParams(temperature=0, max_tokens=96, ignore_eos=True)
    brief = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
    batch = [
        (f"{who}-{number}", TEXTS[number], params) for who in ("base", "one", "two") for number in (0, 1)
    ]
    loras = {name: requests[name.split("-")[0]] for name, _, _ in batch if not name.startswith("base")}
    found = play(engine, {0: batch}, loras=loras)
    watch.count("unlike", len({str(found[f"{who}-0"]["ids"]) for who in ("base", "one", "two")}) == 3)
    proposer = proposer_of(engine)
    namespaces: set[str] = set()
    for name, who in (("first", "one"), ("twin", "twin"), ("again", "one")):
        if proposer is not None:
            namespaces |= {lane.namespace for lane in proposer.table}
        if proposer is not None:
            core.step()  # hears of the last ends
            proposer.table.close()
        texts = [(f"{name}-{number}", f"{number} {text}", brief) for number, text in enumerate(OPENINGS)]
        found |= play(engine, {0: texts}, loras={text[0]: requests[who] for text in texts})
        watch.count(f"{name}_steps", sum(watch.steps[text[0]] for text in texts))
    watch.count("namespaces", len(namespaces))
    return found
