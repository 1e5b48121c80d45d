"""The options of commands that keep a history. Imports nothing heavy."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SAVED = "saved"
"""Instead of a folder: the one in the user's data folder."""
MODES = ("off", "session", "namespace")
"""What else ``--history`` may say, of a replay."""


def add_history_options(parser: argparse.ArgumentParser, *, namespace: bool = True) -> None:
    """Where outputs are kept from one run to the next, see ``history_folder``, and for whom."""
    group = parser.add_argument_group("history")
    group.add_argument(
        "--history",
        metavar="FOLDER",
        help=f"keep outputs in this folder, and draft from those of earlier runs; {SAVED!r}: the folder of this "
        "user (default: nothing is kept; suffixspec history --help says more)",
    )
    if not namespace:
        return
    group.add_argument(
        "--namespace", default="default", metavar="NAME", help="who shares a history (default: default)"
    )


def history_folder(value: str) -> Path:
    """The folder that ``--history`` names."""
    from suffixspec.store.folder import default_history

    return default_history() if value == SAVED else Path(value).expanduser()


class HistoryAction(argparse.Action):
    """``--history`` where a mode may be given too: sets ``history`` (the mode), ``history_store`` (text or None)."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Take the option's value."""
        value = str(values)
        named = value not in MODES
        if not value or (named and value != SAVED and "/" not in value and not Path(value).is_dir()):
            parser.error(
                f"argument {option_string}: expected {', '.join(MODES)}, {SAVED} or a folder, got {value!r}; a new "
                f"folder is named with a slash: {value}/"
            )
        namespace.history = "namespace" if named else value
        namespace.history_store = value if named else None
