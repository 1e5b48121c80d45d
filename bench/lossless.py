"""Whether drafted output is plain decoding's: ``python -m bench.lossless [--model default|tiny] [-o FILE.json]``.

* **default**: SmolLM2-135M-Instruct edits and repeats code, greedily; two minutes on a quiet CPU core.
* **tiny**: random models of every family, in float64, over random prompts, budgets and drafters, greedily and
  seeded; greedy outputs are compared with ``model.generate`` as well. A minute for each 200 prompts.

Every token is compared with plain decoding of the same engine, and every difference printed with the gap of
plain decoding's two best logits: below 1e-3 in float32 it is a near-tie. Ends with 1 if one is not.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from bench import environment
from suffixspec.engine import Engine
from suffixspec.engine.lossless import LosslessReport, check_lossless
from suffixspec.engine.reply import Reply
from suffixspec.native.warm_up import warm_up
from suffixspec.target.model import Target
from suffixspec.verify.sampling import SamplingParams

sys.path.insert(0, str(environment.ROOT / "tests"))  # the tests' families and drafters, at greater length

TEXTS = (
    "def mean(values):\n    total = 0\n    for value in values:\n        total += value\n"
    "    return total / len(values)\n",
    'class Stack:\n    """Last in, first out."""\n\n    def __init__(self):\n        self.items = []\n\n'
    "    def push(self, item):\n        self.items.append(item)\n\n    def pop(self):\n"
    "        return self.items.pop()\n",
    "import json\n\ndef load(path):\n    with open(path) as file:\n        return json.load(file)\n\n"
    "def save(path, value):\n    with open(path, 'w') as file:\n        json.dump(value, file)\n",
)
TASKS = (
    "Repeat this code.",
    "Repeat this code with type hints.",
    "Add a docstring to every function.",
    "What does this code do? Quote the lines that matter.",
)
DTYPES = ("float64", "float32", "bfloat16")


@dataclass
class Row:
    """One line of the table."""

    name: str
    prompts: int = 0
    tokens: int = 0
    """Compared with plain decoding."""
    drafted: int = 0
    accepted: int = 0
    differences: int = 0
    """That rounding cannot account for."""
    near_ties: int = 0
    not_generate: int | None = None
    """Outputs that differ from ``model.generate``'s; None: not compared."""
    sentences: list[str] = field(default_factory=list)

    def note(self, reply: Reply, report: LosslessReport, engine: Engine) -> None:
        """Count an output and its comparison."""
        self.prompts += 1
        self.tokens += report.compared
        self.drafted += reply.counts.drafted
        self.accepted += reply.counts.accepted
        self.differences += report.errors
        self.near_ties += report.near_ties
        self.sentences += report.sentences(engine)[:-1]


def main() -> None:
    """Decode twice, compare, print a table, and save the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.lossless",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", choices=("default", "tiny"), default="default")
    parser.add_argument("--prompts", type=int, metavar="N", help="default: 12, and 200 of each tiny family")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="default: 48, and 12 of tiny models")
    parser.add_argument("--dtype", choices=DTYPES, help="default: float32, and float64 for tiny models")
    parser.add_argument("-o", "--output", metavar="FILE.json")
    args = parser.parse_args()
    tiny = args.model == "tiny"
    settings = {
        "model": args.model,
        "prompts": args.prompts or (200 if tiny else 12),
        "max_tokens": args.max_tokens or (12 if tiny else 48),
        "dtype": args.dtype or ("float64" if tiny else "float32"),
    }
    if min(settings["prompts"], settings["max_tokens"]) < 1:
        parser.error("expected --prompts and --max-tokens from 1")
    warm_up()
    rows = []
    print(
        f"{'':<24}{'prompts':>8}{'tokens':>8}{'accepted':>10}{'differ':>8}{'near-ties':>10}{'≠ generate':>12}"
    )
    for row in (tiny_rows if tiny else default_rows)(settings):
        generate = "-" if row.not_generate is None else f"{row.not_generate:,}"
        print(
            f"{row.name:<24}{row.prompts:>8,}{row.tokens:>8,}{row.accepted:>10,}{row.differences:>8,}"
            f"{row.near_ties:>10,}{generate:>12}",
            flush=True,
        )
        for sentence in row.sentences:
            print(f"    {sentence}")
        rows.append(row)
    document = {
        "environment": environment.describe("bench.lossless", traces=[], seed=0),
        "settings": settings,
        "rows": [asdict(row) for row in rows],
    }
    environment.save(args.output, document)
    if any(row.differences or row.not_generate for row in rows):
        sys.exit(1)


def default_rows(settings: dict[str, Any]) -> Iterator[Row]:
    """SmolLM2-135M-Instruct."""
    engine = Engine.from_pretrained(dtype=settings["dtype"], device="cpu", measure=False, max_nodes=16)
    row = Row(f"SmolLM2 {settings['dtype']}")
    count = settings["max_tokens"]
    for index in range(settings["prompts"]):
        text, task = TEXTS[index % len(TEXTS)], TASKS[index // len(TEXTS) % len(TASKS)]
        with engine.session(f"{index}") as session:
            content = f"{text}\n{task}" if index < len(TEXTS) * len(TASKS) else f"{text}\n{task} ({index})"
            reply = session.chat([{"role": "user", "content": content}], max_tokens=count)
            params = SamplingParams(max_tokens=count)
            row.note(reply, check_lossless(engine, session.prompt_ids, reply.token_ids, params), engine)
    yield row


def tiny_rows(settings: dict[str, Any]) -> Iterator[Row]:
    """Every family, greedily and seeded."""
    from target.cases import Tally, decode, engine_of, generated, random_cases
    from target.families import CONFIGS, EAGER_ONLY, FAMILIES, new_model

    dtype, count = getattr(torch, settings["dtype"]), settings["max_tokens"]
    for family in FAMILIES:
        model = new_model(CONFIGS[family](), "eager" if family in EAGER_ONLY else "sdpa").to(dtype)
        targets = [Target(model, buckets=buckets) for buckets in ((), (1, 4, 8, 16, 32))]
        cases = list(random_cases(family, settings["prompts"], most_tokens=count))
        outputs = generated(model, [case.prompt for case in cases], count)
        for seeded in (False, True):
            row = Row(f"{family} {'seeded' if seeded else 'greedy'}")
            if not seeded and dtype == torch.float64:
                row.not_generate = 0
            for index, (case, output) in enumerate(zip(cases, outputs, strict=True)):
                target = targets[index // 2 % 2]
                options = case.options if seeded else {}
                reply = decode(target, case, case.prompt + output, Tally(), **options)
                params = SamplingParams(max_tokens=case.max_tokens, **options)
                engine = engine_of(target)
                row.note(reply, check_lossless(engine, case.prompt, reply.token_ids, params), engine)
                if row.not_generate is not None:
                    row.not_generate += reply.token_ids != output[: case.max_tokens]
            yield row


if __name__ == "__main__":
    main()
