"""History that lasts: outputs of earlier sessions on disk, shared between processes.

`HistoryStore` is the folder, `SavedHistory` keeps it and a drafter together, `Budget` bounds it. Imports numpy and
nothing heavier until a drafter is attached.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suffixspec.store.budget import Budget
    from suffixspec.store.history_store import ForgetReport, HistoryStore
    from suffixspec.store.identity import TokenizerMismatchError
    from suffixspec.store.record import Record
    from suffixspec.store.saved_history import SavedHistory

_HOME = {
    "Budget": "budget",
    "ForgetReport": "history_store",
    "HistoryStore": "history_store",
    "Record": "record",
    "SavedHistory": "saved_history",
    "TokenizerMismatchError": "identity",
}

__all__ = ["Budget", "ForgetReport", "HistoryStore", "Record", "SavedHistory", "TokenizerMismatchError"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
