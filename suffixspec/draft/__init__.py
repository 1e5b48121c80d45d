"""Drafters: what to propose next. Nothing in here imports torch."""

from suffixspec.draft.drafter import Drafter, DraftSession, SampledDraftSession
from suffixspec.draft.indexed import HISTORY_MODES, HistoryMode, IndexDrafter
from suffixspec.draft.none import NoDrafter
from suffixspec.draft.tree import EMPTY, DraftTree

__all__ = [
    "EMPTY",
    "HISTORY_MODES",
    "DraftSession",
    "DraftTree",
    "Drafter",
    "HistoryMode",
    "IndexDrafter",
    "NoDrafter",
    "SampledDraftSession",
]
