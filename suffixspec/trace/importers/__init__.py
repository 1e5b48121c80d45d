"""Importers of other tools' logs, recognised by content.

One file holds one format. `find` says which importer reads a record; see `base.Importer` for what one does.
"""

from typing import Any

from suffixspec.trace.importers.aider import Aider
from suffixspec.trace.importers.atif import Atif
from suffixspec.trace.importers.base import Context, Importer
from suffixspec.trace.importers.claude_code import ClaudeCode
from suffixspec.trace.importers.codex import Codex
from suffixspec.trace.importers.mini_swe_agent import MiniSweAgent
from suffixspec.trace.importers.native import Native
from suffixspec.trace.importers.openai_chat import OpenAiChat, OpenAiLog
from suffixspec.trace.importers.openhands import OpenHands
from suffixspec.trace.importers.pi import Pi
from suffixspec.trace.importers.recording import Recording
from suffixspec.trace.importers.sharegpt import ShareGpt
from suffixspec.trace.importers.swe_agent import SweAgent
from suffixspec.trace.importers.tau2_bench import Tau2Bench
from suffixspec.trace.importers.tau_bench import TauBench

# In the order in which they are asked: the ones with loose signs come last.
IMPORTERS: tuple[type[Importer], ...] = (
    Recording,
    Native,
    Atif,
    SweAgent,
    Tau2Bench,
    TauBench,
    ClaudeCode,
    Codex,
    Pi,
    OpenHands,
    MiniSweAgent,
    ShareGpt,
    OpenAiLog,
    OpenAiChat,
    Aider,
)

__all__ = ["IMPORTERS", "Context", "Importer", "find", "known_formats"]


def find(record: Any) -> type[Importer] | None:
    """Return the importer for a record: a line's JSON value, a document, or a line of text.

    Cost: O(importers), each looks at keys and a few items only.
    """
    found = next((importer for importer in IMPORTERS if importer.matches(record)), None)
    if found is None and isinstance(record, dict) and "session_id" in record:
        return Native  # whose errors say what is missing
    return found


def known_formats() -> str:
    """Return the names of all formats, as an error message lists them."""
    return ", ".join(importer.title for importer in IMPORTERS)
