"""The options of commands that keep a history. Imports nothing heavy."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suffixspec.store.budget import Budget

SAVED = "saved"
"""Instead of a folder: the one in the user's data folder."""
MODES = ("off", "session", "namespace")
"""What else ``--history`` may say, of a replay."""


def add_history_options(parser: argparse.ArgumentParser, *, namespace: bool = True) -> None:
    """Where outputs are kept from one run to the next, see ``history_folder``, what leaves first, and for whom."""
    group = parser.add_argument_group("history")
    group.add_argument(
        "--history",
        metavar="FOLDER",
        help=f"keep outputs in this folder, and draft from those of earlier runs; {SAVED!r}: the folder of this "
        "user (default: nothing is kept; suffixspec history --help says more)",
    )
    add_eviction_option(group)
    if not namespace:
        return
    group.add_argument(
        "--namespace", default="default", metavar="NAME", help="who shares a history (default: default)"
    )


def add_eviction_option(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """What leaves a history that is over its budget, see ``budget_of``."""
    parser.add_argument(
        "--history-eviction",
        choices=("oldest", "least-useful"),
        help="what leaves first when the history outgrows its budget (100 million tokens or 1 GiB a namespace): the "
        "oldest segment, or the one that drafts were accepted from least, for its size; the newest quarter stays. "
        "Use is counted only by commands that are told least-useful, so tell it to all that share the folder "
        "(default: oldest)",
    )


def budget_of(args: argparse.Namespace, *, kept: bool) -> Budget:
    """The budget that the options ask for.

    Args:
        args: of a parser with ``add_eviction_option``, or of one without.
        kept: whether there is a history that it could be about.

    Raises:
        InputError: an eviction was named, and nothing is kept.
    """
    from suffixspec.store.budget import Budget

    eviction = getattr(args, "history_eviction", None)
    if eviction is None:
        return Budget()
    if not kept:
        from suffixspec.errors import InputError

        raise InputError(
            f"expected a folder as --history with --history-eviction {eviction}, got none; nothing is "
            "kept that could leave, so name a folder or leave the option out"
        )
    return Budget(eviction=eviction)


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
