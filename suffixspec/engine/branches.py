"""All branches of an engine, under one byte budget."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable

import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedDict

from suffixspec.engine.branch import Branch
from suffixspec.engine.errors import OutOfMemoryError

_SMALL_LOSS = 64
"""A branch is cut back in any case where no more than so many tokens are lost."""


class Branches:
    """Which branches there are, and which of them a prompt continues.

    Least recently used branches leave first when the budget is exceeded, whoever owns them; those that are
    being decoded (``pin``) stay.

    Args:
        budget_bytes: upper bound of the KV of all branches together; one branch that alone exceeds it is an
            error.
        per_owner: branches that one owner may have; the least recently used of its own leaves first.
    """

    def __init__(self, *, budget_bytes: int, per_owner: int = 4) -> None:
        self.budget_bytes = budget_bytes
        self._per_owner = per_owner
        self._clock = itertools.count()
        self._by_use: SortedDict[int, Branch] = SortedDict()  # least recently used first
        self._last_use: dict[int, int] = {}  # by id(branch)
        self._pinned: set[int] = set()  # id(branch)
        self.evicted = 0
        """Branches dropped so far to make room."""
        self.kin: Callable[[Hashable], Hashable] = lambda owner: owner
        """Who may have a copy of whose KV: owners for which it says the same. By default only an owner itself."""

    def __len__(self) -> int:
        """Number of branches."""
        return len(self._by_use)

    @property
    def nbytes(self) -> int:
        """Allocated bytes of all KV. Cost: O(branches)."""
        return sum(branch.nbytes for branch in self._by_use.values())

    def of(self, owner: Hashable) -> list[Branch]:
        """An owner's branches, the least recently used first."""
        return [branch for branch in self._by_use.values() if branch.owner == owner]

    def best(self, owner: Hashable, token_ids: NDArray[np.int32]) -> tuple[Branch | None, int]:
        """The owner's branch with the longest common prefix, and its length. Changes nothing.

        Of equally long ones the shortest branch is taken: least is lost when it is cut back.
        """
        found, most = None, -1
        for branch in self.of(owner):
            common = branch.common_prefix(token_ids)
            if common > most or (common == most and found is not None and len(branch) < len(found)):
                found, most = branch, common
        return found, max(most, 0)

    def take(self, owner: Hashable, token_ids: NDArray[np.int32], new: Callable[[], Branch]) -> Branch:
        """The branch to decode ``token_ids`` (int32 [n], n >= 1) on, cut back to what they have in common.

        The owner's branch with the longest common prefix, if no more is lost by cutting it back than is kept
        (or next to nothing); else a new one, so that a side request does not destroy the main branch. What
        it has in common with another branch, the owner's or one of its ``kin``, is copied into it, not computed
        again. Where there is no memory for two, or the owner may have no more, the branch is cut back all the
        same. The last token never keeps its KV: the first step's forward begins with it.

        Args:
            owner: whose branch.
            token_ids: the prompt.
            new: makes an empty branch with room for the prompt; others may leave for it.

        Raises:
            OutOfMemoryError: there is no memory for a new branch, and none that could be cut back.

        Cost: O(n) per branch of the owner, of its kin too for a new branch; a copy of the common prefix's KV.
        """
        source, common = self.best(owner, token_ids)
        common = min(common, token_ids.shape[0] - 1)
        branch = None
        if source is None or len(source) - common > max(common, _SMALL_LOSS):
            donor, shared = self._donor(owner, token_ids, source, common)
            branch = self._fork(owner, donor, shared, new)
        if branch is None and source is not None:
            source.cut(common)
            branch = source
        if branch is None:  # there is no memory for a copy of what others have
            branch = self._fork(owner, None, 0, new)
            assert branch is not None  # a fork of nothing is a branch, or an error
        self.use(branch)
        return branch

    def _donor(
        self, owner: Hashable, token_ids: NDArray[np.int32], source: Branch | None, common: int
    ) -> tuple[Branch | None, int]:
        """The branch that a new one can copy most from, and how much: the owner's ``source``, or its kin's."""
        found, most = (source, common) if common else (None, 0)
        kin = self.kin(owner)
        for branch in self._by_use.values():
            if branch.owner != owner and self.kin(branch.owner) == kin:
                shared = min(branch.common_prefix(token_ids), token_ids.shape[0] - 1)
                if shared > most:
                    found, most = branch, shared
        return found, most

    def _fork(
        self, owner: Hashable, source: Branch | None, common: int, new: Callable[[], Branch]
    ) -> Branch | None:
        """A new branch that begins with the first ``common`` tokens of ``source``, which stays as it is.

        None where both cannot be had; without a source, that is an error.
        """
        own = self.of(owner)
        if len(own) >= self._per_owner:
            others = [branch for branch in own if branch is not source]
            if not others:
                return None
            self.drop(others[0])
        if source is None:
            return new()
        was_pinned = id(source) in self._pinned
        self.pin(source)  # or it might leave for the new one
        try:
            branch = new()
            branch.copy(source, common)
        except OutOfMemoryError:
            return None
        finally:
            if not was_pinned:
                self.unpin(source)
        return branch

    def use(self, branch: Branch) -> None:
        """Note a use; adds the branch if it is new. Cost: O(log branches)."""
        before = self._last_use.get(id(branch))
        if before is not None:
            del self._by_use[before]
        now = next(self._clock)
        self._last_use[id(branch)] = now
        self._by_use[now] = branch

    def pin(self, branch: Branch) -> None:
        """Keep a branch until ``unpin``: it is being decoded."""
        self._pinned.add(id(branch))

    def unpin(self, branch: Branch) -> None:
        """The branch may leave again."""
        self._pinned.discard(id(branch))

    def drop(self, branch: Branch) -> None:
        """Forget a branch; nothing happens when it is not here. Cost: O(log branches)."""
        used = self._last_use.pop(id(branch), None)
        if used is not None:
            del self._by_use[used]
        self._pinned.discard(id(branch))

    def make_room(self, more: int, branch: Branch) -> None:
        """Evict other branches until ``more`` bytes for ``branch`` fit into the budget.

        Raises:
            OutOfMemoryError: the branch alone, or with those that are being decoded, exceeds the budget. Then
                none was evicted.
        """
        staying = sum(one.nbytes for one in self._by_use.values() if one is branch or id(one) in self._pinned)
        if staying + more > self.budget_bytes:
            raise OutOfMemoryError(
                f"expected at most {self.budget_bytes:,} bytes of KV (kv_bytes), got "
                f"{staying + more:,} for {len(branch):,} tokens and what is being decoded beside "
                "them; raise kv_bytes, shorten the prompt or lower max_tokens"
            )
        while self.nbytes + more > self.budget_bytes and self._evict_one(branch):
            pass

    def evict_others(self, branch: Branch) -> int:
        """Evict every branch but this one and those being decoded; return how many."""
        count = 0
        while self._evict_one(branch):
            count += 1
        return count

    def _evict_one(self, keep: Branch) -> bool:
        for branch in self._by_use.values():
            if branch is not keep and id(branch) not in self._pinned:
                self.drop(branch)
                self.evicted += 1
                return True
        return False

    def check(self) -> None:
        """Verify every invariant; for tests.

        Raises:
            AssertionError: names what is broken.
        """
        by_id = {id(branch): use for use, branch in self._by_use.items()}
        assert by_id == self._last_use, "uses differ"
        assert self._pinned <= set(by_id), "a pinned branch is not here"
        for branch in self._by_use.values():
            assert len(branch.token_ids) == len(branch), "tokens and KV differ in length"
