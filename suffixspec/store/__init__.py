"""History that lasts: outputs of earlier sessions on disk, shared between processes.

`HistoryStore` is the folder, `SavedHistory` keeps it and a drafter together, `Budget` bounds it. Imports numpy and
nothing heavier until a drafter is attached.

What is promised to those who share a store, or a process, but no namespace:

* No draft holds a token of another namespace's text. Each has logs, trees, n-grams and a sealed index of its own, and
  the drafting kernel is given one namespace's only.
* What a namespace holds changes nothing in another's drafts: not their tokens, nor their shape, nor their
  probabilities, as long as they do not learn from one another (next point). Finding something and finding nothing
  take the same way through the code.
* After ``forget`` has returned, no process drafts what was forgotten, and no file of the folder holds it.

And what is not:

* What was learned of repeats (which kinds of evidence were right how often: counts, no text) is shared by all
  namespaces of a drafter, and saved. How many tokens are drafted can tell a little about how well others' drafts
  did. A server with keys keeps it apart while it runs.
* Time is not hidden. Drafts of long repeats take longer, all namespaces share the machine, and a full history makes
  the one that was used least leave the memory.
* Whoever can read the folder can read everything: it is the user's own and not encrypted. Names of namespaces and
  sessions stand in it.
* Blocks of deleted files, backups and exports are beyond a program. So is an agent loop that is under way, which
  keeps its own conversation.
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
