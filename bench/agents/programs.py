"""Agents that are programs of their own: how each is installed, pointed at a server, and run without a terminal."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

NOWHERE = "http://127.0.0.1:9"
"""A proxy that there is none: what does not go to loopback goes nowhere, at once."""


@dataclass(frozen=True)
class Program:
    """An agent.

    Args:
        package: its name in the registry of npm, or of PyPI.
        command: arguments and environment, given the server's URL without ``/v1``, a home folder of its own and
            the task.
        style: what the scripted model says; see ``task.answer``.
        npm: whether it comes from npm.
    """

    package: str
    command: Callable[[str, Path, str], tuple[list[str], dict[str, str]]]
    style: str = "tools"
    npm: bool = True


def codex(url: str, home: Path, task: str) -> tuple[list[str], dict[str, str]]:
    """Codex: a provider in its configuration."""
    provider = f'{{name = "suffixspec", base_url = "{url}/v1", wire_api = "responses"}}'
    arguments = [
        "codex", "exec", "-c", f"model_providers.suffixspec={provider}", "-c", "model_provider=suffixspec",
        "-m", "local", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", task,
    ]  # fmt: skip
    return arguments, {"CODEX_HOME": str(home)}


def opencode(url: str, home: Path, task: str) -> tuple[list[str], dict[str, str]]:  # noqa: ARG001
    """opencode: a provider in its configuration."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {"local": {}},
    }
    configuration = {"provider": {"suffixspec": provider}, "permission": "allow", "autoupdate": False}
    environment = {"OPENCODE_CONFIG_CONTENT": json.dumps(configuration), "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    return ["opencode", "run", "-m", "suffixspec/local", task], environment


def claude(url: str, home: Path, task: str) -> tuple[list[str], dict[str, str]]:  # noqa: ARG001
    """Claude Code: two variables."""
    environment = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": "none",
        "ANTHROPIC_MODEL": "local",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return ["claude", "-p", task, "--allowedTools", "Bash,Read,Write,Edit"], environment


PROGRAMS = {
    "codex": Program("@openai/codex", codex),
    "opencode": Program("opencode-ai", opencode),
    "claude": Program("@anthropic-ai/claude-code", claude),
}


def install(folder: Path) -> None:
    """All programs from npm, into a folder.

    Raises:
        CalledProcessError: npm failed.
    """
    packages = [program.package for program in PROGRAMS.values() if program.npm]
    subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *packages],
        check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def surroundings(home: Path, work: Path, binaries: Path | None) -> dict[str, str]:
    """The environment of a client in ``work``: a home of its own, no keys, and no way out but loopback."""
    secret = ("KEY", "TOKEN", "SECRET", "PASSWORD")
    kept = {
        name: value for name, value in os.environ.items() if not any(word in name.upper() for word in secret)
    }
    path = kept.get("PATH", "") if binaries is None else f"{binaries}{os.pathsep}{kept.get('PATH', '')}"
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOWHERE)
    loopback = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
    return kept | proxies | loopback | {"HOME": str(home), "PWD": str(work), "PATH": path}
