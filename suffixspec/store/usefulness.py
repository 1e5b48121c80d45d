"""How often drafts were accepted from each segment, for budgets under which the least useful leaves first."""

from __future__ import annotations

import bisect
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
from numpy.typing import NDArray

from suffixspec.store.files import Files

if TYPE_CHECKING:
    from suffixspec.index.session import SessionIndex
    from suffixspec.index.suffix_tree import SuffixTree

_VERSION = 1
_FADE = 0.9  # of what is left, at each eviction: what was useful long ago is not for ever


class UsefulnessFile:
    """Accepted tokens per segment of a namespace. Numbers, and no text. Who changes it holds the lock of the log.

    Args:
        path: of the file; its folder exists.
        files: the disk.
    """

    def __init__(self, path: Path, *, files: Files) -> None:
        self._path = path
        self._files = files

    def read(self) -> dict[str, float]:
        """By segment; none where there is no file, or a damaged one: then all are alike."""
        try:
            told = json.loads(self._path.read_bytes())
            return {
                str(name): float(n) for name, n in told["segments"].items() if told["version"] == _VERSION
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def add(self, more: Mapping[str, float]) -> None:
        """Count more accepted tokens."""
        counted = self.read()
        for name, tokens in more.items():
            counted[name] = counted.get(name, 0.0) + tokens
        self._write(counted)

    def inherit(self, old: Collection[str], new: str | None) -> None:
        """Segments were put into a new one, or have left."""
        counted = self.read()
        if not counted.keys() & set(old):
            return
        passed = sum(counted.pop(name, 0.0) for name in old)
        if new is not None:
            counted[new] = counted.get(new, 0.0) + passed
        self._write(counted)

    def fade(self) -> None:
        """Something was evicted: what was counted until now weighs less from now on."""
        counted = self.read()
        if counted:
            self._write({name: tokens * _FADE for name, tokens in counted.items()})

    def remove(self) -> None:
        """Remove the file."""
        self._files.remove(self._path)

    def _write(self, counted: Mapping[str, float]) -> None:
        self._files.write_whole(
            self._path, json.dumps({"version": _VERSION, "segments": dict(counted)}).encode("ascii")
        )


@dataclass(eq=False, slots=True, weakref_slot=True)
class Origin:
    """Where a stretch of text in memory comes from, and what was accepted from it since it was last saved."""

    segment: str | None = None
    """None: it is on no disk yet."""
    accepted: float = 0.0


@dataclass(slots=True)
class _Stretches:
    """What a text consists of: where each stretch ends, and its origin."""

    ends: list[int] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)


class Ledger:
    """Which segment each position of a history's trees comes from, and what was accepted from there."""

    def __init__(self) -> None:
        self._trees: WeakKeyDictionary[SuffixTree, _Stretches] = WeakKeyDictionary()
        self._sealed = _Stretches()
        self._origins: WeakSet[Origin] = WeakSet()

    def new(self, segment: str | None = None) -> Origin:
        """The origin of text that comes into memory."""
        origin = Origin(segment)
        self._origins.add(origin)
        return origin

    def came(self, tree: SuffixTree, origin: Origin) -> None:
        """All of a tree's text from the last stretch on is of this origin."""
        stretches = self._trees.setdefault(tree, _Stretches())
        stretches.ends.append(len(tree))
        stretches.origins.append(origin)

    def sealed(self, segments: Sequence[tuple[str, int]]) -> None:
        """The sealed index was exchanged: (segment, where its text ends) each."""
        self._sealed = _Stretches([end for _, end in segments], [self.new(name) for name, _ in segments])

    def count(self, index: SessionIndex, emitted: NDArray[np.int32]) -> None:
        """Before the target's tokens are appended to a session: credit the text that was drafted from.

        That is the history's longest match, where it is longer than the session's own and went on as the target
        did. Of equal stretches the first counts: the others could as well leave. Cost: some 10 µs.

        Args:
            index: of the session.
            emitted: int32 [accepted + 1].
        """
        from suffixspec.native.sealed import AT  # here: a store that nobody drafts from loads no kernels

        accepted = emitted[:-1]
        if not accepted.size or index.history is None:
            return
        longest = index.tree.pending
        credited: tuple[Origin, int] | None = None
        for cursor in index.history.current():
            match = cursor.match()
            at = match.pos + match.length
            if match.length > longest and (origin := _origin(self._trees.get(cursor.tree), at)) is not None:
                longest = match.length
                credited = origin, _alike(cursor.tree.tokens[at : at + accepted.size], accepted)
        if index.sealed is not None and index.sealed.match_length > longest:
            at = int(index.sealed.state[1, AT])
            if (origin := _origin(self._sealed, at)) is not None:
                credited = origin, _alike(index.sealed.index.tokens[at : at + accepted.size], accepted)
        if credited is not None:
            credited[0].accepted += credited[1]

    def take(self) -> dict[str, float]:
        """What was accepted since the last time, by segment; what is on no disk yet waits."""
        taken: dict[str, float] = {}
        for origin in list(self._origins):
            if origin.accepted and origin.segment is not None:
                taken[origin.segment] = taken.get(origin.segment, 0.0) + origin.accepted
                origin.accepted = 0.0
        return taken

    def clear(self) -> None:
        """Nothing is in memory any more."""
        self._trees.clear()
        self._sealed = _Stretches()
        self._origins.clear()


def _origin(stretches: _Stretches | None, position: int) -> Origin | None:
    if stretches is None:
        return None
    at = bisect.bisect_right(stretches.ends, position)
    return stretches.origins[at] if at < len(stretches.origins) else None


def _alike(text: NDArray[np.int32], accepted: NDArray[np.int32]) -> int:
    differs = np.flatnonzero(text != accepted[: len(text)])
    return int(differs[0]) if differs.size else len(text)
