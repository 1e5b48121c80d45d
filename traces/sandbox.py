"""The shell that solvers work in: a fresh copy of a package, and outputs that are the same anywhere.

`record.py` and `verify` both run commands through `Sandbox`, so what was recorded can be run again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TASKS = HERE / "tasks.json"
TIMEOUT_S = 30
"""Seconds after which a command and all its children are killed."""
KEEP_HEAD = 6000
KEEP_TAIL = 3000
"""Characters kept of an output that is longer than both together."""

# The command's folder is named /tmp/XXXXX: as long as /workspace, so that masking changes no column,
# no line wrap and no character count.
_NAMES = "abcdefghijklmnopqrstuvwxyz0123456789"

_MASKS = [
    # unittest's duration.
    (re.compile(r"(Ran \d+ tests? in )\d+\.\d+s"), r"\g<1>0.001s"),
    # Time stamps in the headers of diff -u, and of stat and ls --full-time.
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9} [+-]\d{4}"), "2024-01-01 00:00:00.000000000 +0000"),
    # Addresses in the default repr.
    (re.compile(r"\bat 0x[0-9a-f]{6,16}\b"), "at 0x7f0000000000"),
    # Line numbers inside the standard library differ between Python's patch versions.
    (re.compile(r'(File "(?:/usr/lib/python3/|<frozen )[^"]*", line )\d+'), r"\g<1>1"),
    # Since 3.13 Python shows the source of python -c and of a script on standard input.
    (re.compile(r'(  File "<(?:string|stdin)>", line \d+(?:, in .*)?\n)    .*\n'), r"\g<1>"),
    # Where the limit strikes differs between minor versions.
    (re.compile(r"(RecursionError: maximum recursion depth exceeded).*"), r"\g<1>"),
    (re.compile(r"\[Previous line repeated \d+ more times\]"), "[Previous line repeated 900 more times]"),
]


class SandboxError(Exception):
    """The sandbox cannot be made or used."""


@dataclass(frozen=True)
class Task:
    """One entry of tasks.json.

    Attributes:
        id: such as `toolbox__inikit-1`.
        package: the folder under `packages/` that a solver gets a copy of.
        issue: what a user reported.
        turn_limit: the largest number of commands of one session.
    """

    id: str
    package: str
    issue: str
    turn_limit: int

    @property
    def check(self) -> Path:
        """The hidden check: a unittest file that the solver never sees."""
        return HERE / "tasks" / f"{self.id}.py"


def load_tasks() -> tuple[dict, dict[str, Task]]:
    """The whole of tasks.json and its tasks by id."""
    data = json.loads(TASKS.read_text(encoding="utf-8"))
    return data, {entry["id"]: Task(**entry) for entry in data["tasks"]}


def opening_messages(task: Task, *, native_tools: bool) -> list[dict]:
    """The system and user message that every session of a task begins with."""
    data, _ = load_tasks()
    user = data["user"].format(package=task.package, issue=task.issue, turn_limit=task.turn_limit)
    system = data["system_native" if native_tools else "system"]
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def tool_schemas() -> list[dict]:
    """The tools of a session in the tool-call style, as OpenAI's API takes them."""
    return load_tasks()[0]["tools"]


_BLOCK = re.compile(r"^```bash\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)


def command_of(message: dict) -> str | None:
    """The command of an assistant message; None for the message that ends a session.

    Raises:
        SandboxError: there is more than one block or call, or the arguments hold no command.
    """
    calls = message.get("tool_calls") or []
    if calls:
        if len(calls) != 1 or calls[0]["function"]["name"] != "bash":
            raise SandboxError("expected exactly one call of the tool bash; make one call a turn")
        try:
            command = json.loads(calls[0]["function"]["arguments"])["command"]
        except (ValueError, KeyError, TypeError) as error:
            raise SandboxError(f'expected arguments such as {{"command": "ls"}}, got {error!r}') from error
        if not isinstance(command, str):
            raise SandboxError(f"expected the command to be a string, got {type(command).__name__}")
        return command
    fences = sum(line.startswith("```") for line in message["content"].splitlines())
    if not fences:
        return None
    blocks = _BLOCK.findall(message["content"])
    if len(blocks) != 1 or fences != 2:
        raise SandboxError(
            f"expected one ```bash block and no other line that starts with ```, got {fences} such lines; "
            "give one command a turn"
        )
    return blocks[0].rstrip("\n")


# What would make an output differ elsewhere. Refused before it runs, so that it is never recorded.
_AT = r"(?:^|[;&|(`\n])\s*"  # where a command begins
_REFUSED = [
    (_AT + r"(git|pip3?|curl|wget|ssh|sudo|apt|apt-get|tree)\s", "it is not there on every machine"),
    (
        _AT
        + r"(date|uname|hostname|whoami|id|ps|top|df|du|free|nproc|env|printenv|which|stat)(?=[\s;&|)]|$)",
        "its output depends on the machine or the moment",
    ),
    (_AT + r"ls\s+(-\w+\s+)*-\w*[lsit]", "sizes, owners and times depend on the machine; use plain ls"),
    (r"(?<![\w.$~/-])/tmp\b", "it is outside the sandbox; use /workspace/tmp"),
    (r"\bpython3?\s+(-V|--version)\b|sys\.version|platform\.", "its output depends on the Python version"),
    (r"\bpython3?\b[^|;&\n]*\s(-h|--help)\b", "argparse's layout depends on the Python version"),
]
_UNSORTED = [
    _AT + r"find\s",
    _AT + r"grep\s+(-\w+\s+|--\S+\s+)*(-\w*[rR]\w*|--recursive)(?=\s)",
]


def refusal(command: str) -> str | None:
    """Why a command is refused; None when it may run.

    Only the part before a here-document counts: what is written into a file is the solver's affair.
    """
    shell = "\n".join(re.split(r"<<-?\s*['\"]?\w+['\"]?", command, maxsplit=1)[:1])
    for pattern, reason in _REFUSED:
        match = re.search(pattern, shell)
        if match:
            return f"{match.group().strip()!r}: {reason}"
    for pattern in _UNSORTED:
        for match in re.finditer(pattern, shell):
            if not re.search(r"\|\s*(sort|wc)\b", shell[match.end() :]) and "-quit" not in shell:
                return f"{match.group().strip()!r}: the order depends on the file system; end with | sort"
    return None


@dataclass(frozen=True)
class Observation:
    """The result of one command, paths and times masked.

    Attributes:
        returncode: the shell's, or -9 when the time was up.
        output: standard output and error in the order in which they were written.
    """

    returncode: int
    output: str

    @property
    def text(self) -> str:
        """What the solver is shown."""
        output = self.output
        if len(output) > KEEP_HEAD + KEEP_TAIL:
            left_out = len(output) - KEEP_HEAD - KEEP_TAIL
            output = (
                output[:KEEP_HEAD]
                + f"\n[... {left_out} characters left out; use head, tail or sed -n to see them ...]\n"
                + output[-KEEP_TAIL:]
            )
        if output and not output.endswith("\n"):
            output += "\n"
        return f"<returncode>{self.returncode}</returncode>\n<output>\n{output}</output>"


# In `command | head -n 1` it is a matter of luck whether the command is still running, and may go on printing
# to standard error, when head ends. This head reads its input to the end, so that the command always is.
_HEAD = """\
#!/bin/bash
/usr/bin/head "$@"
status=$?
operand=
skip=
for argument; do
    if [ "$skip" ]; then skip=
    elif [ "$argument" = -n ] || [ "$argument" = -c ]; then skip=1
    elif [ "${argument#-}" = "$argument" ]; then operand=1
    fi
done
if [ -z "$operand" ] && [ -p /dev/stdin ]; then cat > /dev/null; fi
exit $status
"""


class Sandbox:
    """A folder that commands see as /workspace.

    It holds `<package>` (the copy the solver works on), `orig/<package>` (an untouched one), `home`, `tmp`,
    and a Python without any installed packages. Not a security boundary: commands run as the user.

    Args:
        package: the name of a folder under `packages/`.
        root: the folder of an existing sandbox to go on with; a new one is made without it.
    """

    def __init__(self, package: str, *, root: Path | None = None):
        self.package = package
        if root is None:
            root = _new_root()
            try:
                self._fill(root)
            except BaseException:
                shutil.rmtree(root, ignore_errors=True)
                raise
        self.root = root

    def _fill(self, root: Path) -> None:
        source = HERE / "packages" / self.package
        if not source.is_dir():
            raise SandboxError(f"expected the package {source}, got nothing there; see traces/packages")
        ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
        for target in (root / self.package, root / "orig" / self.package):
            shutil.copytree(source, target, ignore=ignore)
        for name in ("home", "tmp", ".venv/bin"):
            (root / name).mkdir(parents=True)
        # A virtual environment made of one link and one file: no packages that are installed here.
        executable = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
        for name in ("python", "python3"):
            (root / ".venv/bin" / name).symlink_to(executable)
        head = root / ".venv/bin/head"
        head.write_text(_HEAD, encoding="utf-8")
        head.chmod(0o755)
        (root / ".venv/pyvenv.cfg").write_text(
            f"home = {executable.parent}\ninclude-system-site-packages = false\n", encoding="utf-8"
        )

    def run(self, command: str) -> Observation:
        """Run a command in the package's folder; `/workspace` in it means this sandbox."""
        environment = {
            "PATH": f"{self.root}/.venv/bin:/usr/bin:/bin",
            "HOME": f"{self.root}/home",
            "TMPDIR": f"{self.root}/tmp",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "dumb",
            "COLUMNS": "80",
            "NO_COLOR": "1",
            "PYTHON_COLORS": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            # No ^^^^ under traceback lines: where they stand differs between Python's minor versions.
            "PYTHONNODEBUGRANGES": "1",
            "PYTHONIOENCODING": "utf-8",
        }
        script = command.replace("/workspace", str(self.root))
        with tempfile.TemporaryFile() as out:
            process = subprocess.Popen(
                # The outer shell keeps a command that prints without end from filling the disk.
                ["bash", "-c", 'ulimit -f 65536; exec bash --noprofile --norc -c "$1"', "bash", script],
                cwd=self.root / self.package,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                returncode = process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                returncode = -9
            finally:
                # Also ends what the command left in the background.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            out.seek(0)
            output = self.mask(out.read().decode("utf-8", "replace"))
        if returncode == -9:
            if output and not output.endswith("\n"):
                output += "\n"
            output += f"[killed: the command ran longer than {TIMEOUT_S} s]\n"
        return Observation(returncode, output)

    def mask(self, text: str) -> str:
        """Replace what depends on the machine or the moment."""
        text = text.replace(str(self.root), "/workspace")
        library = Path(os.__file__).parent
        for path in {str(library), str(library.resolve())}:
            text = text.replace(path, "/usr/lib/python3")
        text = text.replace(sys.base_prefix + "/", "/usr/")
        for pattern, replacement in _MASKS:
            text = pattern.sub(replacement, text)
        return text

    def check(self, task: Task) -> tuple[bool, str]:
        """Whether the package's own tests and the task's hidden check pass, and what they printed."""
        name = f".check/{task.check.name}"
        (self.root / ".check").mkdir(exist_ok=True)
        shutil.copy(task.check, self.root / name)
        own = self.run("python -m unittest 2>&1")
        hidden = self.run(f"PYTHONPATH=. python ../{name} 2>&1")
        shutil.rmtree(self.root / ".check")
        return own.returncode == 0 and hidden.returncode == 0, own.output + hidden.output

    def remove(self) -> None:
        """Delete the sandbox."""
        shutil.rmtree(self.root, ignore_errors=True)


def _new_root() -> Path:
    """Make an empty folder /tmp/XXXXX that nobody else has."""
    base = Path("/tmp")  # not gettempdir(): its name may be longer than /workspace allows
    for _ in range(1000):
        root = base / "".join(secrets.choice(_NAMES) for _ in range(5))
        try:
            root.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return root
    raise SandboxError("expected a free name /tmp/XXXXX, got none in 1000 tries; clean up /tmp")
