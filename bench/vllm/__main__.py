"""The end-to-end checks and bars inside vLLM: ``bench/vllm/run [--only PART,…] [TRACE]``.

Everything runs in the environment that ``bench/vllm/setup`` makes. Parts:

* contract: the tests against vLLM's own factory, and those on stand-ins, beside the versions that vLLM pins
* greedy, seeded, aborts, schema, loop: a tiny random Llama, with and without drafts, outputs have to be equal, as in
  all that follow; each also says by what vLLM and the proposer count that what it is about came about
* n: several outputs a prompt, of seeds and greedy ones
* edge: outputs that end by the model's length, after 1, 2, 3 tokens, by stop tokens, ``min_tokens`` and stop texts
* rows: a batch of eight whose requests end one after the other, with late arrivals
* chunked: long prompts that are prefilled in pieces beside requests that decode
* preemption: too few KV blocks, requests leave and come back
* prefix: an agent loop with prefix caching and without
* lora: two adapters and the base model in one batch; who may draft from whose outputs
* tp: greedy and seeded on two tensor-parallel ranks
* serve: ``vllm serve`` with an ``openai`` client over six turns, and ``/metrics``
* shared: two of them on one folder of outputs, one is killed; a third one drafts from what both wrote
* dp: one of two data-parallel engines, with four clients
* propose: CPU time of ``propose`` for 1, 16 and 64 sequences
* cost: what a forward costs here, as the setting ``cost`` takes it (not among the default parts)
* bars: tokens per second on SmolLM2-135M over loops of a trace, four modes in turn; ``--beside 8``: eight loops at a
  time (with VLLM_CPU_KVCACHE_SPACE=2, if they are long)
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import environment, sessions
from bench.vllm import bars, checks, propose
from bench.vllm.modes import MODES

PARTS = (*checks.ALL, "propose", "bars")


def main() -> None:
    """Run the parts, print the table, save the figures; exit with 1 where a check fails."""
    parser = argparse.ArgumentParser(
        prog="bench/vllm/run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", nargs="?", default=sessions.DEFAULT_TRACE, metavar="TRACE")
    parser.add_argument("--only", default=",".join(PARTS), metavar="PART,…", help=", ".join(PARTS))
    parser.add_argument("--loops", type=int, default=3, help="loops of the bars (default: 3)")
    parser.add_argument("--beside", type=int, default=1, metavar="N", help="loops at a time (default: 1)")
    parser.add_argument("--turns", type=int, default=8, help="turns of each (default: 8)")
    parser.add_argument("--max-tokens", type=int, default=64, help="new tokens a turn (default: 64)")
    parser.add_argument(
        "--tokens", type=int, help="most tokens of a draft, in every mode of the bars (default: by mode)"
    )
    parser.add_argument(
        "--minutes", type=float, default=18.0, help="for the bars: no further loop beyond (default: 18)"
    )
    parser.add_argument("--max-model-len", type=int, default=6144)
    parser.add_argument("--modes", default=",".join(MODES), help="of the bars (default: all)")
    parser.add_argument(
        "--settings", type=json.loads, default={}, help="of the proposer, in the bars, as JSON"
    )
    parser.add_argument("--models", type=Path, help="folder for the models (default: a temporary one)")
    parser.add_argument("-o", "--output", metavar="FILE.json")
    args = parser.parse_args()
    wanted = args.only.split(",")
    unknown = set(wanted) - {*PARTS, "cost"}
    if unknown:
        parser.error(f"expected parts among {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="suffixspec-vllm-") as scratch:
        folder = args.models or Path(scratch)
        document: dict[str, Any] = {
            "environment": environment.describe("bench.vllm", traces=[args.trace], seed=0),
            "checks": checks.run(wanted, folder, Path(scratch)),
        }
        if "propose" in wanted:
            document["propose"] = propose.run(args.trace)
            _table("CPU time of propose per step", document["propose"])
        if "cost" in wanted:
            document["cost"] = checks.result(
                ["bench.vllm.cost", "--model", str(bars.smollm2(folder / "smollm2"))]
            )
            print(json.dumps(document["cost"]))
        if "bars" in wanted:
            document["bars"] = bars.run(
                args.trace,
                bars.smollm2(folder / "smollm2"),
                modes=args.modes.split(","),
                most=args.loops,
                beside=args.beside,
                turns=args.turns,
                max_model_len=args.max_model_len,
                max_tokens=args.max_tokens,
                tokens=args.tokens,
                settings=args.settings,
                minutes=args.minutes,
                log=Path(scratch) / "bars.log",
            )
            _table("SmolLM2-135M, float32", document["bars"]["table"])
            for mode, ratio in document["bars"]["ratios"].items():
                bar = (
                    ""
                    if ratio["bar"] is None
                    else f", bar {ratio['bar']}x: {'met' if ratio['met'] else 'MISSED'}"
                )
                spread = f"{ratio['least']:.2f} to {ratio['most']:.2f}"
                print(f"suffixspec against {mode}: {ratio['overall']:.2f}x (by loop {spread}){bar}")
            print(f"turns with unequal outputs: {document['bars']['unequal_turns']}")
    failed = [name for name, check in document["checks"].items() if not check["ok"]]
    print(f"\n{len(document['checks'])} checks, {', '.join(failed) or 'none'} failed")
    environment.save(args.output, document)
    sys.exit(1 if failed else 0)


def _table(title: str, rows: list[dict[str, Any]]) -> None:
    print(f"\n{title}\n" + " | ".join(rows[0]))
    for row in rows:
        print(" | ".join(str(value) for value in row.values()))


if __name__ == "__main__":
    main()
