"""The slow and obvious twin of the sealed index: lists, slices and loops over all positions.

Definitions. Text T of n positions; negative ones separate texts. A string S without negative tokens *occurs* at j
when T[j : j + len(S)] = S.

    count(S)          = the number of such j
    successors(S)[c]  = the number of those with T[j + len(S)] = c, for c >= 0
    order             = the positions, sorted by T[j:], all negative tokens alike and a shorter list first
"""

from collections import Counter
from collections.abc import Sequence


class ListText:
    """A text; every answer is a scan over all positions."""

    def __init__(self, text: Sequence[int]) -> None:
        self.text = [-1 if token < 0 else int(token) for token in text]

    def order(self) -> list[int]:
        """The positions in the order of their suffixes."""
        return sorted(range(len(self.text)), key=lambda j: self.text[j:])

    def shared(self, i: int, j: int) -> int:
        """How many tokens the suffixes at i and j share before one of them ends or comes to a negative token."""
        length = 0
        for a, b in zip(self.text[i:], self.text[j:], strict=False):
            if a != b or a < 0:
                break
            length += 1
        return length

    def occurrences(self, string: Sequence[int]) -> list[int]:
        """Where the string occurs."""
        string = list(string)
        if any(token < 0 for token in string):
            return []
        places = range(len(self.text) - len(string) + 1)
        return [j for j in places if self.text[j : j + len(string)] == string]

    def count(self, string: Sequence[int]) -> int:
        """How often the string occurs."""
        return len(self.occurrences(string))

    def successors(self, string: Sequence[int]) -> Counter[int]:
        """Token → how often it followed the string."""
        counts: Counter[int] = Counter()
        for j in self.occurrences(string):
            after = self.text[j + len(string) : j + len(string) + 1]
            counts.update(token for token in after if token >= 0)
        return counts

    def strings(self, longest: int) -> set[tuple[int, ...]]:
        """Every string of up to so many tokens that occurs; the empty one left out."""
        found = set()
        for i in range(len(self.text)):
            for j in range(i + 1, min(i + longest, len(self.text)) + 1):
                if self.text[j - 1] < 0:
                    break
                found.add(tuple(self.text[i:j]))
        return found

    def suffix_counts(self, fed: Sequence[int]) -> list[tuple[int, int]]:
        """(length, count) of each suffix of ``fed`` that occurs, longest first; of equal counts only the longest."""
        fed = list(fed)
        for i in reversed(range(len(fed))):
            if fed[i] < 0:
                fed = fed[i + 1 :]
                break
        counts = []
        for length in range(len(fed), 0, -1):
            count = self.count(fed[len(fed) - length :])
            if count and (not counts or counts[-1][1] != count):
                counts.append((length, count))
        return counts
