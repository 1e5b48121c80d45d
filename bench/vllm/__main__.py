"""The end-to-end checks and bars inside vLLM: ``bench/vllm/run [--only PART,…] [TRACE]``.

Everything runs in the environment that ``bench/vllm/setup`` makes. Parts:

* contract: the tests against vLLM's own factory, and those on stand-ins, beside the versions that vLLM pins
* greedy, seeded, aborts, schema, loop: a tiny random Llama, with and without drafts, outputs have to be equal
* tp: the first two of them on two tensor-parallel ranks
* serve: ``vllm serve`` with an ``openai`` client over six turns, and ``/metrics``
* propose: CPU time of ``propose`` for 1, 16 and 64 sequences
* cost: what a forward costs here, as the setting ``cost`` takes it (not among the default parts)
* bars: tokens per second on SmolLM2-135M over loops of a trace, four modes in turn
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import environment, sessions
from bench.vllm import bars, propose, serve
from bench.vllm.modes import MODES
from bench.vllm.modes import environment as variables

IN_ONE_PROCESS = ("greedy", "seeded", "aborts", "schema", "loop")
PARTS = ("contract", *IN_ONE_PROCESS, "tp", "serve", "propose", "bars")


def main() -> None:
    """Run the parts, print the table, save the figures; exit with 1 where a check fails."""
    parser = argparse.ArgumentParser(
        prog="bench/vllm/run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", nargs="?", default=sessions.DEFAULT_TRACE, metavar="TRACE")
    parser.add_argument("--only", default=",".join(PARTS), metavar="PART,…", help=", ".join(PARTS))
    parser.add_argument("--loops", type=int, default=3, help="loops of the bars (default: 3)")
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
            "checks": checks(wanted, folder, Path(scratch)),
        }
        if "propose" in wanted:
            document["propose"] = propose.run(args.trace)
            _table("CPU time of propose per step", document["propose"])
        if "cost" in wanted:
            document["cost"] = _result(["bench.vllm.cost", "--model", str(bars.smollm2(folder / "smollm2"))])
            print(json.dumps(document["cost"]))
        if "bars" in wanted:
            document["bars"] = bars.run(
                args.trace,
                bars.smollm2(folder / "smollm2"),
                modes=args.modes.split(","),
                most=args.loops,
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


def checks(wanted: list[str], folder: Path, scratch: Path) -> dict[str, Any]:
    """Each check: whether it holds, its time, and what was seen."""
    found: dict[str, Any] = {}
    model = folder / "tiny"
    if "contract" in wanted:
        begun = time.monotonic()
        tests = environment.ROOT / "tests" / "integrations"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-o",
            "addopts=",
            "-p",
            "no:cacheprovider",
            *(str(tests / name) for name in ("hosted", "vllm")),
        ]
        done = subprocess.run(
            command, cwd=environment.ROOT, env=variables(), capture_output=True, text=True, check=False
        )
        last = (done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]])[-1]
        found["contract"] = _check(
            "contract", done.returncode == 0 and "skipped" not in last, begun, last.strip("= ")
        )
    parts = [part for part in IN_ONE_PROCESS if part in wanted]
    if parts:
        begun = time.monotonic()
        plain = _decode("none", parts, model)
        drafted = _decode("suffixspec", [*parts, *([] if "loop" in parts else ["loop"])], model)
        state = drafted.pop("proposer")
        for part in parts:
            found[part] = _check(part, drafted[part] == plain[part], begun, _about(part, drafted[part]))
        # The last request itself has told of the ends of all others, and nothing has told of its own.
        clean = state["live"] == state["busy"] == 1 and not (state["failures"] or state["said"])
        once = state["loop_sessions"] == 1 and state["loop_indexed"] < 1.3 * state["loop_context"] + 300
        found["released"] = _check(
            "released", clean and once and state["proposed"] > 0, begun, json.dumps(state)
        )
    if "tp" in wanted:
        begun = time.monotonic()
        plain = _decode("none", ["greedy", "seeded"], model, tensor_parallel=2)
        drafted = _decode("suffixspec", ["greedy", "seeded"], model, tensor_parallel=2)
        found["tp"] = _check("tp", drafted == plain, begun, "two ranks, greedy and seeded, outputs equal")
    if "serve" in wanted:
        begun = time.monotonic()
        plain_server = serve.run(model, "none")
        server = serve.run(model, "suffixspec", history=scratch / "history")
        said = server["metrics"]
        kept = sum(path.stat().st_size for path in (scratch / "history").glob("namespaces/*/*"))
        ok = server["texts"] == plain_server["texts"] and len(server["texts"]) == serve.TURNS
        ok = ok and said.get("spec_decode_num_accepted_tokens_total", 0) > 0 and kept > 0
        about = f"{serve.TURNS} turns, {said}; ready in {server['ready_seconds']} s; history of {kept} bytes"
        found["serve"] = _check("serve", ok, begun, about)
    return found


def _decode(mode: str, parts: list[str], model: Path, *, tensor_parallel: int = 1) -> dict[str, Any]:
    """What one process decodes; see ``decode``."""
    options = ["--mode", mode, "--model", str(model), "--tensor-parallel", str(tensor_parallel)]
    return _result(["bench.vllm.decode", *options, "--parts", *parts], in_process=tensor_parallel == 1)


def _result(command: list[str], *, in_process: bool = True) -> dict[str, Any]:
    """What a module of this folder prints."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=environment.ROOT,
        env=variables(in_process=in_process),
        capture_output=True,
        text=True,
        check=False,
    )
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            result: dict[str, Any] = json.loads(line[7:])
            return result
    raise SystemExit(f"expected a result of {command[0]}, got:\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}")


def _about(part: str, outputs: Any) -> str:
    if part == "schema":
        return f"{len(outputs)} documents, as without drafts: {outputs[0]}"
    sizes = outputs.values() if isinstance(outputs, dict) else outputs
    return f"{len(outputs)} outputs, {sum(map(len, sizes))} tokens, as without drafts"


def _check(name: str, ok: bool, begun: float, about: str) -> dict[str, Any]:
    seconds = round(time.monotonic() - begun, 1)
    print(f"{'ok  ' if ok else 'FAIL'} {name:9} {seconds:6.1f} s  {about}", flush=True)
    return {"ok": bool(ok), "seconds": seconds, "about": about}


def _table(title: str, rows: list[dict[str, Any]]) -> None:
    print(f"\n{title}\n" + " | ".join(rows[0]))
    for row in rows:
        print(" | ".join(str(value) for value in row.values()))


if __name__ == "__main__":
    main()
