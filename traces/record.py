#!/usr/bin/env python3
"""Record tool loops: start a session, send turns, finish it, and join all sessions into swebench.jsonl.

    record.py tasks
    record.py start TASK [--session ID] [--native-tools]
    record.py turn SESSION < message
    record.py show SESSION
    record.py finish SESSION --outcome solved|failed
    record.py recheck TASK
    record.py build

A session is a file under sessions/; the folder its commands work on is a copy of the package in /tmp, made
anew from the recorded commands when it is lost. README.md describes the formats.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from pathlib import Path

from sandbox import (
    HERE,
    Observation,
    Sandbox,
    SandboxError,
    Task,
    command_of,
    load_tasks,
    opening_messages,
    refusal,
    tool_schemas,
)

SESSIONS = HERE / "sessions"
TRACE = HERE / "swebench.jsonl"
LIVE = Path("/tmp") / f"suffixspec-recording-{os.getuid()}"
CALL_MARK = "<<<bash\n"


def session_file(session_id: str) -> Path:
    """`toolbox__inikit-1#2` lies in `toolbox__inikit-1.try2.json`."""
    return SESSIONS / (session_id.replace("#", ".try") + ".json")


def read_session(session_id: str) -> dict:
    """The stored session of an id."""
    path = session_file(session_id)
    if not path.exists():
        raise SandboxError(f"expected the session {session_id!r}, got no file {path.name}; start it first")
    return json.loads(path.read_text(encoding="utf-8"))


def write_atomically(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_session(session: dict) -> None:
    """Store a session under its id."""
    text = json.dumps(session, ensure_ascii=False, indent=1) + "\n"
    write_atomically(session_file(session["session_id"]), text)


def live_sandbox(session: dict, task: Task) -> Sandbox:
    """The folder of an unfinished session; rebuilt from its commands when it is gone."""
    LIVE.mkdir(mode=0o700, exist_ok=True)
    pointer = LIVE / session_file(session["session_id"]).stem
    if pointer.exists():
        root = Path(pointer.read_text(encoding="utf-8"))
        if root.is_dir():
            return Sandbox(task.package, root=root)
    sandbox = Sandbox(task.package)
    for message in session["messages"]:
        command = command_of(message) if message["role"] == "assistant" else None
        if command is not None:
            sandbox.run(command)
    pointer.write_text(str(sandbox.root), encoding="utf-8")
    return sandbox


def parse_message(text: str, *, native_tools: bool, number: int) -> dict:
    """An assistant message of what the solver wrote.

    In the tool-call style everything after a line `<<<bash` is the arguments string, kept verbatim.
    """
    text = text.strip("\n")
    if not text.strip():
        raise SandboxError("expected a message on standard input, got nothing")
    if not native_tools:
        return {"role": "assistant", "content": text}
    content, mark, arguments = ("\n" + text).partition("\n" + CALL_MARK)
    message: dict = {"role": "assistant", "content": content.strip("\n")}
    if mark:
        function = {"name": "bash", "arguments": arguments}
        message["tool_calls"] = [{"id": f"call_{number:03}", "type": "function", "function": function}]
    return message


def observation_message(message: dict, observation: Observation) -> dict:
    """What comes back for a command: a tool message after a call, a user message otherwise."""
    if message.get("tool_calls"):
        call = message["tool_calls"][0]["id"]
        return {"role": "tool", "tool_call_id": call, "content": observation.text}
    return {"role": "user", "content": observation.text}


def turns(session: dict) -> int:
    """How many messages the solver wrote."""
    return sum(message["role"] == "assistant" for message in session["messages"])


def cmd_tasks(_: argparse.Namespace) -> int:
    """List the tasks."""
    for task in load_tasks()[1].values():
        print(f"{task.id}  (package {task.package}, at most {task.turn_limit} turns)")
    return 0


def cmd_start(args: argparse.Namespace) -> int:
    """Begin a session."""
    _, tasks = load_tasks()
    if args.task not in tasks:
        raise SandboxError(f"expected one of {', '.join(tasks)}; got {args.task!r}")
    session_id = args.session
    if session_id is None:
        attempt = 1
        while session_file(f"{args.task}#{attempt}").exists():
            attempt += 1
        session_id = f"{args.task}#{attempt}"
    if not re.fullmatch(re.escape(args.task) + r"#[1-9]\d*", session_id):
        raise SandboxError(f"expected a session such as {args.task}#1, got {session_id!r}")
    if session_file(session_id).exists():
        raise SandboxError(f"expected a new session, got {session_id!r}; it exists already")
    session: dict = {"session_id": session_id, "task": args.task, "source": "suffixspec traces/record.py"}
    if args.native_tools:
        session["tools"] = tool_schemas()
    session["messages"] = opening_messages(tasks[args.task], native_tools=args.native_tools)
    write_session(session)
    for message in session["messages"]:
        print(f"--- {message['role']}\n{message['content']}\n")
    print(f"--- session {session_id} started", file=sys.stderr)
    return 0


def cmd_turn(args: argparse.Namespace) -> int:
    """Record one message and what its command printed."""
    session = read_session(args.session)
    task = load_tasks()[1][session["task"]]
    if "outcome" in session:
        raise SandboxError(f"expected an open session, got {args.session!r}, which is finished")
    if session["messages"][-1]["role"] == "assistant":
        raise SandboxError("expected a turn before the closing message; this session has ended: finish it")
    number = turns(session) + 1
    message = parse_message(sys.stdin.read(), native_tools="tools" in session, number=number)
    command = command_of(message)
    if command is None:
        session["messages"].append(message)
        write_session(session)
        print("--- closing message recorded; now finish the session", file=sys.stderr)
        return 0
    if number > task.turn_limit:
        raise SandboxError(f"expected at most {task.turn_limit} turns; send a closing message or finish")
    reason = refusal(command)
    if reason:
        raise SandboxError(f"not run and not recorded: {reason}")
    observation = live_sandbox(session, task).run(command)
    session["messages"] += [message, observation_message(message, observation)]
    write_session(session)
    print(observation.text)
    print(f"--- turn {number} of at most {task.turn_limit}", file=sys.stderr)
    return 0


def cmd_show(args: argparse.Namespace) -> int:
    """Print a session."""
    for message in read_session(args.session)["messages"]:
        print(f"--- {message['role']}\n{message['content']}")
        for call in message.get("tool_calls", ()):
            print(f"[{call['function']['name']}] {call['function']['arguments']}")
    return 0


def set_outcome(session: dict, *, claimed: str, passed: bool) -> None:
    """A session counts as solved only if the solver said so and the check agrees."""
    session["outcome"] = "solved" if passed and claimed == "solved" else "failed"
    session["claimed"] = claimed
    session["check_passed"] = passed


def cmd_finish(args: argparse.Namespace) -> int:
    """Run the hidden check and store the outcome."""
    session = read_session(args.session)
    if "outcome" in session:
        raise SandboxError(f"expected an open session, got {args.session!r}, which is finished")
    task = load_tasks()[1][session["task"]]
    sandbox = live_sandbox(session, task)
    passed, output = sandbox.check(task)
    set_outcome(session, claimed=args.outcome, passed=passed)
    write_session(session)
    sandbox.remove()
    (LIVE / session_file(args.session).stem).unlink(missing_ok=True)
    print(output)
    print(f"--- {args.session}: {session['outcome']} after {turns(session)} turns", file=sys.stderr)
    return 0


def cmd_recheck(args: argparse.Namespace) -> int:
    """Compute the outcomes of a task's finished sessions anew, after its check was corrected."""
    task = load_tasks()[1].get(args.task)
    if task is None:
        raise SandboxError(f"expected one of the tasks that 'record.py tasks' lists, got {args.task!r}")
    for session in finished_sessions():
        if session["task"] != task.id:
            continue
        sandbox = Sandbox(task.package)
        try:
            for message in session["messages"]:
                command = command_of(message) if message["role"] == "assistant" else None
                if command is not None:
                    sandbox.run(command)
            passed, _ = sandbox.check(task)
        finally:
            sandbox.remove()
        set_outcome(session, claimed=session["claimed"], passed=passed)
        write_session(session)
        print(f"{session['session_id']}: {session['outcome']}")
    return 0


def finished_sessions() -> list[dict]:
    """All finished sessions: first tries in the order of the tasks, then second tries, and so on."""
    order = {task: number for number, task in enumerate(load_tasks()[1])}
    sessions = []
    for path in sorted(SESSIONS.glob("*.json")):
        session = json.loads(path.read_text(encoding="utf-8"))
        if "outcome" in session:
            sessions.append(session)
        else:
            print(f"left out, not finished: {session['session_id']}", file=sys.stderr)
    return sorted(sessions, key=lambda s: (int(s["session_id"].rpartition("#")[2]), order[s["task"]]))


def cmd_build(_: argparse.Namespace) -> int:
    """Join the finished sessions into the trace."""
    sessions = finished_sessions()
    text = "".join(json.dumps(session, ensure_ascii=False) + "\n" for session in sessions)
    write_atomically(TRACE, text)
    total = sum(turns(session) for session in sessions)
    print(f"{TRACE.name}: {len(sessions)} sessions, {total} model turns, {len(text)} characters")
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="record.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("tasks", help="list the tasks").set_defaults(run=cmd_tasks)
    start = commands.add_parser("start", help="begin a session and print its first messages")
    start.add_argument("task", metavar="TASK")
    start.add_argument("--session", metavar="ID", help="TASK#N; the next free N when not given")
    start.add_argument("--native-tools", action="store_true", help="tool calls instead of fenced blocks")
    start.set_defaults(run=cmd_start)
    turn = commands.add_parser("turn", help="read a message, run its command, record and print the output")
    turn.add_argument("session", metavar="SESSION")
    turn.set_defaults(run=cmd_turn)
    show = commands.add_parser("show", help="print a session")
    show.add_argument("session", metavar="SESSION")
    show.set_defaults(run=cmd_show)
    finish = commands.add_parser("finish", help="run the hidden check and close the session")
    finish.add_argument("session", metavar="SESSION")
    finish.add_argument(
        "--outcome", choices=("solved", "failed"), required=True, help="what the solver thinks"
    )
    finish.set_defaults(run=cmd_finish)
    recheck = commands.add_parser("recheck", help="compute outcomes anew after a task's check was corrected")
    recheck.add_argument("task", metavar="TASK")
    recheck.set_defaults(run=cmd_recheck)
    commands.add_parser("build", help="write swebench.jsonl").set_defaults(run=cmd_build)
    return parser


def main() -> int:
    """Run the command; returns the exit status."""
    args = build_parser().parse_args()
    try:
        return args.run(args)
    except SandboxError as error:
        print(f"record.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
