"""The suffix automaton of a growing text: every substring of it is a path from the root."""

from __future__ import annotations


class SuffixAutomaton:
    """Built online, state by state (Blumer et al.): amortised O(1) states and transitions per token.

    A state stands for the substrings that end at the same places. ``first`` and ``recent`` are the first and
    the latest of those places, as the number of tokens up to there. The latest is brought up to date for all
    suffixes of the text only when the next token comes, so that until then ``recent`` of a suffix is its
    latest *earlier* occurrence: what a draft is copied from.

    State 0 is the root: the empty string.
    """

    def __init__(self) -> None:
        self.text: list[int] = []
        self.next: list[dict[int, int]] = [{}]
        self.link: list[int] = [-1]
        """The state of the longest suffix that ends at more places."""
        self.length: list[int] = [0]
        """Of the longest string of a state."""
        self.first: list[int] = [0]
        self.recent: list[int] = [0]
        self._last = 0

    def append(self, token: int) -> None:
        """Append a token. Cost: amortised O(1), and one step per state on the way to the root."""
        following, link, length = self.next, self.link, self.length
        end = len(self.text)
        at = self._last
        while at > 0:
            self.recent[at] = end
            at = link[at]
        self.text.append(token)
        new = self._state({}, end + 1, end + 1, end + 1)
        at = self._last
        while at >= 0 and token not in following[at]:
            following[at][token] = new
            at = link[at]
        if at < 0:
            link[new] = 0
        else:
            target = following[at][token]
            if length[target] != length[at] + 1:
                target = self._split(at, token, target)
            link[new] = target
        self._last = new

    def _split(self, at: int, token: int, target: int) -> int:
        """The shorter strings of ``target`` end at one more place now: give them a state of their own."""
        following, link = self.next, self.link
        length = self.length[at] + 1
        clone = self._state(dict(following[target]), length, self.first[target], self.recent[target])
        link[clone] = link[target]
        link[target] = clone
        while at >= 0 and following[at].get(token) == target:
            following[at][token] = clone
            at = link[at]
        return clone

    def _state(self, following: dict[int, int], length: int, first: int, recent: int) -> int:
        self.next.append(following)
        self.link.append(-1)
        self.length.append(length)
        self.first.append(first)
        self.recent.append(recent)
        return len(self.next) - 1

    def repeat(self) -> tuple[int, int]:
        """State and length of the longest suffix of the text that occurred before; (0, 0) if there is none."""
        state = max(0, self.link[self._last])
        return state, self.length[state]

    def step(self, state: int, length: int, token: int) -> tuple[int, int]:
        """Follow another text: the longest suffix of what was followed so far that occurs in this one.

        Args:
            state: where the longest suffix so far is.
            length: its length.
            token: what comes next in the other text.
        """
        while state > 0 and token not in self.next[state]:
            state = self.link[state]
            length = self.length[state]
        if token in self.next[state]:
            return self.next[state][token], length + 1
        return 0, 0
