"""What real clients send, and what the server makes of it: ``python -m bench.agents.clients``.

Each client does the same small task in a folder of its own, against the server over a scripted model (see
``scripted``). Printed per client: its requests, how much of what was there before a turn was reused in it, and the
share of its output that was drafted and accepted.
"""

import argparse
import contextlib
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.agents import loops, task
from bench.agents.programs import PROGRAMS, install, surroundings
from bench.agents.scripted import ScriptedServer, Seen
from bench.environment import describe, write
from suffixspec.errors import SuffixspecError
from suffixspec.native.warm_up import warm_up
from suffixspec.trace import read_sessions

STYLES = {"smolagents CodeAgent": "code", "smolagents ToolCallingAgent": "bare", "mini-swe-agent": "submit"}
HINTS = ("session", "affinity", "cache_key", "conversation", "thread")
"""Words in the names of headers that may tell a loop."""


def main() -> int:
    """Run the clients."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.agents.clients", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "clients", nargs="*", metavar="CLIENT", help=f"of {', '.join((*loops.CLIENTS, *PROGRAMS))}"
    )
    parser.add_argument(
        "--python", default=sys.executable, metavar="FILE", help="the Python that has the frameworks"
    )
    parser.add_argument(
        "--node", type=Path, metavar="FOLDER", help="where npm has installed, or installs, the programs"
    )
    parser.add_argument(
        "--limit-seconds", type=float, default=300.0, metavar="S", help="of each client (default: 300)"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep recordings and outputs there")
    parser.add_argument("-o", "--output", metavar="FILE")
    args = parser.parse_args()
    names = args.clients or [*loops.CLIENTS, *(PROGRAMS if args.node else ())]
    unknown = [name for name in names if name not in loops.CLIENTS and name not in PROGRAMS]
    if unknown:
        parser.error(f"expected one of {', '.join((*loops.CLIENTS, *PROGRAMS))}, got {unknown[0]!r}")
    if any(name in PROGRAMS for name in names):
        if args.node is None:
            parser.error("expected --node FOLDER, into which npm may install codex, opencode and claude")
        if not (args.node / "node_modules" / ".bin").is_dir():
            install(args.node)
    warm_up()
    server = ScriptedServer()
    found: dict[str, Any] = {}
    document = {"environment": describe("bench.agents.clients", traces=[], seed=0), "clients": found}
    with tempfile.TemporaryDirectory() as scratch:
        for number, name in enumerate(names):
            folder = (args.keep or Path(scratch)) / f"{number:02}-{name.replace(' ', '-').replace(',', '')}"
            folder.mkdir(parents=True, exist_ok=True)
            found[name] = run(name, server, folder.resolve(), args)
            show(name, found[name])
            if args.output:
                write(args.output, document)  # each counts by itself, should a later one hang
    return 0 if all(result["done"] for result in found.values() if "missing" not in result) else 1


def run(name: str, server: ScriptedServer, folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Let one client do the task; what it sent and what came of it."""
    work, home, record = folder / "work", folder / "home", folder / "calls.jsonl"
    for each in (work, home):
        each.mkdir(exist_ok=True)
    task.set_up(work)
    record.unlink(missing_ok=True)
    style = PROGRAMS[name].style if name in PROGRAMS else STYLES.get(name, "tools")

    def script(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> tuple[int | None, str]:
        return task.answer(messages, tools, work, style=style)

    with server.serving(script, record) as (url, seen):
        if name in PROGRAMS:
            command, more = PROGRAMS[name].command(url, home, task.TASK)
            binaries: Path | None = (args.node / "node_modules" / ".bin").resolve()
        else:
            command, more = [args.python, str(Path(loops.__file__)), name, url, str(work), task.TASK], {}
            binaries = None
        environment = surroundings(home, work, binaries) | more
        with (folder / "output.txt").open("w") as output:
            ended: int | str
            try:
                done = subprocess.run(
                    command, cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                    stderr=subprocess.STDOUT, timeout=args.limit_seconds, check=False,
                )  # fmt: skip
                ended = done.returncode
            except subprocess.TimeoutExpired:
                ended = f"ended after {args.limit_seconds:g} s"
            except FileNotFoundError:
                ended = 3
    said = (folder / "output.txt").read_text(errors="replace")
    if ended == 3 and name in loops.CLIENTS:
        return {"missing": said.strip().splitlines()[-1]}
    facts = facts_of(seen, record)
    done_ = task.is_done(work) and ended == 0 and bool(facts["loop"]) and not facts["errors"]
    return (
        {"version": version_of(name, args), "done": done_, "ended": ended}
        | facts
        | ({} if done_ else {"said": said[-1500:]})
    )


def facts_of(seen: Seen, record: Path) -> dict[str, Any]:
    """What a client sent and what came of it."""
    calls = [asked.facts() for asked in seen.calls]
    loop = [call for call in calls if call["turn"] is not None]
    for before, after in itertools.pairwise(loop):
        there = before["prompt_tokens"] + before["output_tokens"]
        after["reused"] = round(min(after["cached_tokens"] / there, 1.0), 4)
    written = sum(call["output_tokens"] for call in loop)
    counts: dict[str, int] = {}
    for request in seen.requests:
        what = f"{request['method']} {request['path']}"
        counts[what] = counts.get(what, 0) + 1
    turns: list[int] = []
    with contextlib.suppress(SuffixspecError):
        turns = sorted((session.turns for session in read_sessions(record)), reverse=True)
    hints = {name for name in seen.headers if any(word in name for word in HINTS)}
    return {
        "requests": counts,
        "client": sorted({request["client"] for request in seen.requests}),
        "streamed": sorted({call["streamed"] for call in calls}),
        "hints": sorted([*hints, *seen.fields]),
        "ignored": sorted(seen.ignored),
        "errors": seen.errors,
        "loop": loop,
        "beside_the_loop": [call for call in calls if call["turn"] is None],
        "least_reused": min((call["reused"] for call in loop[1:]), default=None),
        "accepted_share": round(sum(call["accepted"] for call in loop) / written, 4) if written else None,
        "recorded_sessions": turns,
    }


def version_of(name: str, args: argparse.Namespace) -> str | None:
    """The client's version."""
    if name in PROGRAMS:
        package = args.node / "node_modules" / PROGRAMS[name].package / "package.json"
        return str(json.loads(package.read_text())["version"]) if package.is_file() else None
    package = name.replace(",", " ").split()[0]
    package = {"pydantic-ai": "pydantic-ai-slim"}.get(package, package)
    code = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    done = subprocess.run([args.python, "-c", code, package], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def show(name: str, result: dict[str, Any]) -> None:
    """A client's figures, for the eye."""
    if "missing" in result:
        print(f"\n{name}: left out: {result['missing']}")
        return
    print(
        f"\n{name} {result['version']}: {'done' if result['done'] else 'NOT DONE'} (exit {result['ended']})"
    )
    sent = ", ".join(f"{count} x {what}" for what, count in result["requests"].items())
    streamed = " and ".join("streamed" if flag else "whole" for flag in result["streamed"])
    print(f"  sent {sent}; {streamed}; hints {', '.join(result['hints']) or 'none'}")
    if result["ignored"]:
        print(f"  not followed: {', '.join(result['ignored'])}")
    for error in result["errors"]:
        print(f"  refused: {error}")
    for call in result["loop"]:
        reused = f", {call['reused']:.1%} of what was there reused" if "reused" in call else ""
        print(
            f"  turn {call['turn']}: prompt {call['prompt_tokens']:,}, cached {call['cached_tokens']:,}{reused}; "
            f"wrote {call['output_tokens']}, {call['accepted']} of them drafted"
        )
    if result["accepted_share"] is not None:
        print(f"  {result['accepted_share']:.0%} of the output was drafted and accepted; "
              f"{len(result['beside_the_loop'])} calls beside the loop; sessions of turns in the recording: "
              f"{result['recorded_sessions']}")  # fmt: skip
    if not result["done"]:
        print("  " + "\n  ".join(result["said"].splitlines()[-12:]))


if __name__ == "__main__":
    sys.exit(main())
