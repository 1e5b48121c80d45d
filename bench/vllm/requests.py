"""Requests of every kind, a few at a time: greedy and sampled ones, several outputs, schemas, ends of each sort."""

from __future__ import annotations

import json
from typing import Any

from bench.vllm.engine import ids
from bench.vllm.tiny import TEXTS
from bench.vllm.watch import Watch

SCHEMA = {
    "type": "object",
    "properties": {
        "tool": {"enum": ["search", "edit", "run"]},
        "line": {"enum": [1, 10, 100]},
        "files": {"type": "array", "items": {"enum": ["a.py", "b.py"]}, "minItems": 3, "maxItems": 3},
    },
    "required": ["tool", "line", "files"],
    "additionalProperties": False,
}


def greedy(engine: Any, watch: Watch | None = None) -> list[list[int]]:  # noqa: ARG001
    """Texts that repeat themselves, together."""
    from vllm import SamplingParams

    return ids(engine.generate(list(TEXTS), SamplingParams(temperature=0, max_tokens=96, ignore_eos=True)))


def seeded(engine: Any, watch: Watch | None = None) -> list[list[int]]:  # noqa: ARG001
    """Sampling with seeds, two outputs a prompt, beside a greedy request that is drafted for.

    One seeded prompt at a time: where prompts are prefilled in chunks beside a seeded request, vLLM 0.32 stops on a CPU
    ("CPU Generator does not use offset"), with and without drafts.
    """
    from vllm import SamplingParams

    sampled = SamplingParams(temperature=0.3, top_p=0.9, seed=7, n=2, max_tokens=48, ignore_eos=True)
    beside = SamplingParams(temperature=0, max_tokens=48, ignore_eos=True)
    return [
        output for text in TEXTS for output in ids(engine.generate([text, "1 2 3 4 " * 6], [sampled, beside]))
    ]


def several(engine: Any, watch: Watch) -> dict[str, list[list[int]]]:  # noqa: ARG001
    """Several outputs a prompt: of seeds, and greedy ones.

    At temperature 0 vLLM refuses n > 1. With a tiny ``top_p`` the most probable token is the only one, too, and such
    requests are drafted for. Not with ``top_k`` = 1: on a CPU vLLM
    0.32 stops by that in a step without drafts, with its own ngram drafts too.
    """
    from vllm import SamplingParams

    most_probable = SamplingParams(temperature=1.0, top_p=1e-6, n=3, max_tokens=64, ignore_eos=True)
    of_seeds = SamplingParams(temperature=0.8, seed=11, n=4, max_tokens=32, ignore_eos=True)
    plain = SamplingParams(temperature=0, max_tokens=64, ignore_eos=True)
    found = {
        "most_probable": ids(engine.generate(list(TEXTS[1:3]), most_probable)),
        "greedy": ids(engine.generate(list(TEXTS[1:3]), plain)),
    }
    for times in (1, 3):  # short ones, for the reason that ``seeded`` gives
        found[f"seeds_{times}"] = ids(engine.generate([TEXTS[0] * times], of_seeds))
    return found


def schema(engine: Any, watch: Watch | None = None) -> list[str]:  # noqa: ARG001
    """A JSON schema; without whitespace, of which a random model would write any amount."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    params = SamplingParams(
        temperature=0,
        max_tokens=160,
        structured_outputs=StructuredOutputsParams(json=SCHEMA),
    )
    texts = [output.outputs[0].text for output in engine.generate(["Call a tool: "] * 3, params)]
    for text in texts:
        value = json.loads(text)
        assert value["tool"] in {"search", "edit", "run"}, value
    return texts


def ends(engine: Any, watch: Watch) -> dict[str, list[Any]]:
    """Outputs that end by the model's length, by very few tokens, by stop tokens and by stop texts.

    What they end by is counted: ``at_length`` those that fill the model's length, ``refused`` prompts that leave no
    room, ``stopped`` those that a stop token or text ended, ``held`` those that went on beyond one for ``min_tokens``.
    """
    from vllm import SamplingParams

    length, tokenizer = engine.llm_engine.model_config.max_model_len, engine.get_tokenizer()

    def run(prompts: list[Any], **given: Any) -> list[Any]:
        params = SamplingParams(temperature=0, **{"ignore_eos": True} | given)
        outputs = [one.outputs[0] for one in engine.generate(prompts, params)]
        return [[list(one.token_ids), one.text, one.finish_reason, one.stop_reason] for one in outputs]

    found: dict[str, list[Any]] = {"growing": []}
    prompt = tokenizer.encode(TEXTS[1] * 6)
    for observation in (*TEXTS, *TEXTS[2:] * 2):
        found["growing"] += run([{"prompt_token_ids": prompt}], max_tokens=100)
        written = found["growing"][-1][0]
        watch.count("at_length", len(prompt) + len(written) == length and len(written) < 100)
        if len(prompt) == length - 1:
            break
        prompt = (prompt + written + tokenizer.encode(observation))[: length - 1]
    try:
        run([{"prompt_token_ids": [*prompt, 5]}], max_tokens=4)
    except Exception as error:  # of a class that is not the same in all versions
        if "maximum model length" not in str(error):
            raise
        watch.count("refused", 1)
    for tokens in (1, 2, 3):
        found[f"tokens_{tokens}"] = run(list(TEXTS), max_tokens=tokens)
    whole = run(list(TEXTS), max_tokens=64)
    for number, (written, text, _, _) in enumerate(whole):
        middle = text[len(text) // 2 :][:6]
        stops: dict[str, dict[str, Any]] = {
            "token": {"stop_token_ids": [written[20]]},
            "held": {"stop_token_ids": [written[20]], "min_tokens": 30},
            "text": {"stop": [middle]},
        }
        for name, given in stops.items():
            found[f"{name}_{number}"] = run([TEXTS[number]], max_tokens=64, **given)
            ended, _, why, _ = found[f"{name}_{number}"][0]
            watch.count("stopped", why == "stop" and len(ended) < 64)
            watch.count("held", name == "held" and len(ended) >= 30)
    return found
