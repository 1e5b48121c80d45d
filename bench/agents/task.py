"""The task that every agent is given, and what a model that can do it would say, in the tools that it is offered."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = "greet.py"
BEFORE = '''\
"""Greetings for the people at the door."""

import sys

KNOWN = {"ada": "Ada Lovelace", "alan": "Alan Turing", "grace": "Grace Hopper"}


def greet(name: str, *, politely: bool = False) -> str:
    """The greeting for a name; known people are greeted by their full name."""
    full = KNOWN.get(name.lower(), name)
    if politely:
        return f"Good morning, {full}. How are you today?"
    return f"Hello, {full}!"


def greet_all(names: list[str], *, politely: bool = False) -> list[str]:
    """The greetings for several names, in their order."""
    return [greet(name, politely=politely) for name in names]


if __name__ == "__main__":
    for line in greet_all(sys.argv[1:] or ["world"]):
        print(line)
'''
AFTER = BEFORE.replace("def greet(", "def welcome(").replace("[greet(", "[welcome(")
TASK = (
    f"Rename the function greet to welcome in {FILE}, then run it for ada and alan, and say what it printed."
)
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
FINAL = "The function is called welcome now. It printed:\n\nHello, Ada Lovelace!\nHello, Alan Turing!"
TITLE = "Rename greet to welcome"
"""The answer to everything that is asked beside the loop."""


def set_up(folder: Path) -> None:
    """Begin: the file as it was."""
    (folder / FILE).write_text(BEFORE, encoding="utf-8")


def is_done(folder: Path) -> bool:
    """Whether the agent has done it."""
    return (folder / FILE).read_text(encoding="utf-8") == AFTER


@dataclass(frozen=True)
class Step:
    """One turn of the loop: what is said, and what is done."""

    says: str
    reads: str | None = None
    writes: str | None = None
    runs: str | None = None

    @property
    def command(self) -> str:
        """What is done, in a shell."""
        if self.reads is not None:
            return f"cat {self.reads}"
        if self.writes is not None:
            return f"cat > {self.writes} <<'END'\n{AFTER}END"
        return self.runs or ""


STEPS = (
    Step("I will look at the file first.", reads=FILE),
    Step("Now I write it with the new name.", writes=FILE),
    Step("I run it.", runs=f"python3 {FILE} ada alan"),
    Step("I check that the old name is gone.", runs=f"grep -n 'greet(' {FILE} || cat {FILE}"),
)


def answer(
    messages: Iterable[Mapping[str, Any]],
    tools: Iterable[Mapping[str, Any]] | None,
    folder: Path,
    *,
    style: str,
) -> tuple[int | None, str]:
    """What the model says next.

    Args:
        messages: the conversation so far, in OpenAI's form.
        tools: what it may call, likewise.
        folder: where the file is; tools that want a whole path get it.
        style: "tools": with calls. "bare": calls that are required, and so are all of an output. "submit": with
            calls, the last of which says the end. "code": with Python that calls ``bash``, as a CodeAgent has it.

    Returns:
        The number of the loop's turn, or None for a request beside the loop, and the text.
    """
    functions = {tool["function"]["name"]: tool["function"] for tool in tools or ()}
    turn = sum(message["role"] == "assistant" for message in messages)
    if style == "tools" and not functions:
        return None, TITLE
    if turn >= len(STEPS):
        return turn, _final(style)
    step = STEPS[turn]
    if style == "code":
        return turn, f"{step.says}\n<code>\nprint(bash({step.command!r}))\n</code>"
    name, arguments = _call(step, functions, folder)
    if style == "bare":
        return turn, _json(name, arguments)
    return turn, f"{step.says}\n{_written(name, arguments)}"


def _final(style: str) -> str:
    if style == "code":
        return f"It is done.\n<code>\nfinal_answer({FINAL!r})\n</code>"
    if style == "submit":
        return "It is done.\n" + _written("bash", {"command": SUBMIT})
    if style == "bare":  # smolagents' ToolCallingAgent, which ends with a tool
        return _json("final_answer", {"answer": FINAL})
    return FINAL


def _written(name: str, arguments: dict[str, Any]) -> str:
    """A call as the model writes it."""
    return f"<tool_call>\n{_json(name, arguments)}\n</tool_call>"


def _json(name: str, arguments: dict[str, Any]) -> str:
    return json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)


def _call(step: Step, functions: Mapping[str, Any], folder: Path) -> tuple[str, dict[str, Any]]:
    """The step by the tool for files, where there is one, else by the shell."""
    for name, function in functions.items():
        fields = function.get("parameters", {}).get("properties", {})
        path = next((field for field in ("filePath", "file_path") if field in fields), None)
        if path is None:
            continue
        if step.reads is not None and name.lower() == "read":
            return name, {path: str(folder / step.reads)}
        if step.writes is not None and name.lower() == "write" and "content" in fields:
            return name, {path: str(folder / step.writes), "content": AFTER}
    for name, function in functions.items():
        fields = function.get("parameters", {}).get("properties", {})
        field = next((field for field in ("command", "cmd") if field in fields), None)
        if field is None or not any(word in name.lower() for word in ("bash", "shell", "exec")):
            continue
        listed = fields[field].get("type") == "array"
        arguments: dict[str, Any] = {field: ["bash", "-lc", step.command] if listed else step.command}
        if "description" in function.get("parameters", {}).get("required", ()):
            arguments["description"] = step.says
        return name, arguments
    raise ValueError(f"expected a tool for files or a shell among {sorted(functions)}")
