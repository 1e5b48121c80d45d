"""Indexes over token sequences: the suffix tree, its bounded generations, and the n-gram index.

Nothing in here imports torch. Every method states whether it changes the index, its shapes, cost and errors.
"""

from suffixspec.index.generations import GenerationalCursor, GenerationalIndex
from suffixspec.index.ngram_index import NgramIndex
from suffixspec.index.suffix_tree import SATURATION, Cursor, Match, SuffixTree

__all__ = [
    "SATURATION",
    "Cursor",
    "GenerationalCursor",
    "GenerationalIndex",
    "Match",
    "NgramIndex",
    "SuffixTree",
]
