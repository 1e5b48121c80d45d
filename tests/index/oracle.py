"""Slow and obvious twins of the index, written from its definitions and not from its kernels.

Three of them say the same thing in three ways, so that an error in one shows up against the others:

* ``ListTree`` transcribes the definitions with list slices;
* ``StringTree`` writes each token as one character and leaves all searching to ``str.find``: fast enough for
  texts of 10⁵ tokens, adversarial ones included;
* ``substring_table`` lists every substring of a short text at once.

Definitions. Text T of n positions (tokens and sentinels). ``pending`` L is the length of the longest suffix
of T that also starts at an earlier position. The occurrence of a string S (s tokens) at position j is
*flushed* when j < n − L, and *counted* unless position j was appended with ``counted=False``.

    count(S)         = min(1023, number of j flushed and counted with T[j:j+s] = S and j + s < n)
    successors(S)[c] = min(1023, number of j flushed and counted with T[j:j+s] = S and T[j+s] = c), for c ≥ 0,
                       listed exactly when some flushed j exists, counted or not
"""

from collections import Counter
from collections.abc import Iterable, Sequence

SATURATION = 1023
CURSOR_WINDOW = 64


class ListTree:
    """The text and the flags of its positions; every answer is a scan over all positions."""

    def __init__(self) -> None:
        self.text: list[int] = []
        self.counted: list[bool] = []
        self.sentinels = 0

    def append(self, token: int) -> None:
        """Add one counted token."""
        self.extend([token])

    def extend(self, tokens: Iterable[int], *, counted: bool = True) -> None:
        """Add a block of tokens."""
        for token in tokens:
            self.text.append(int(token))
            self.counted.append(counted)

    def end_sequence(self) -> None:
        """Add the next sentinel: -1, -2, …; its position is counted like any other."""
        self.sentinels += 1
        self.text.append(-self.sentinels)
        self.counted.append(True)

    def pending(self) -> int:
        """Length of the longest suffix that also starts at an earlier position."""
        n = len(self.text)
        length = 0
        while length + 1 < n and self._starts_before(self.text[n - length - 1 :], n - length - 1):
            length += 1
        return length

    def _starts_before(self, string: list[int], end: int) -> bool:
        return any(self.text[j : j + len(string)] == string for j in range(end))

    def _flushed(self, string: Sequence[int]) -> list[int]:
        n, s, string = len(self.text), len(string), list(string)
        return [j for j in range(n - self.pending()) if j + s < n and self.text[j : j + s] == string]

    def occurs(self, string: Sequence[int]) -> bool:
        """Whether the string is a substring of the text; a string with a negative token never is."""
        string = list(string)
        if any(token < 0 for token in string):
            return False
        return any(self.text[j : j + len(string)] == string for j in range(len(self.text) - len(string) + 1))

    def count(self, string: Sequence[int]) -> int:
        """Saturated number of flushed and counted occurrences that something follows."""
        return min(SATURATION, sum(self.counted[j] for j in self._flushed(string)))

    def successors(self, string: Sequence[int]) -> dict[int, int]:
        """Token → saturated count, for all tokens that follow a flushed occurrence."""
        counts: Counter[int] = Counter()
        for j in self._flushed(string):
            token = self.text[j + len(string)]
            if token >= 0:
                counts[token] += self.counted[j]
        return {token: min(SATURATION, count) for token, count in counts.items()}


class StringTree(ListTree):
    """The same answers by ``str.find``: every distinct token, and every sentinel, is one character."""

    def __init__(self) -> None:
        super().__init__()
        self.chars: dict[int, str] = {}
        self.string = ""

    def extend(self, tokens: Iterable[int], *, counted: bool = True) -> None:
        """Add a block of tokens."""
        tokens = [int(token) for token in tokens]
        super().extend(tokens, counted=counted)
        self.string += "".join(self._char(token) for token in tokens)

    def end_sequence(self) -> None:
        """Add the next sentinel."""
        super().end_sequence()
        self.string += self._char(-self.sentinels)

    def _char(self, token: int) -> str:
        return self.chars.setdefault(token, chr(33 + len(self.chars)))

    def _spell(self, string: Sequence[int]) -> str | None:
        if any(token < 0 or token not in self.chars for token in string):
            return None
        return "".join(self.chars[token] for token in string)

    def pending(self) -> int:
        """Length of the longest suffix that also starts at an earlier position.

        When a suffix starts earlier so do all the shorter ones, so bisection finds the longest.
        """
        n = len(self.string)
        low, high = 0, max(0, n - 1)
        while low < high:
            middle = (low + high + 1) // 2
            if self.string.find(self.string[n - middle :], 0, n - 1) >= 0:
                low = middle
            else:
                high = middle - 1
        return low

    def _flushed(self, string: Sequence[int]) -> list[int]:
        spelled, n, found = self._spell(string), len(self.string), []
        if spelled is None:
            return []
        flushed = n - self.pending()
        # The search area ends one before the last character, since something has to follow.
        j = self.string.find(spelled, 0, max(0, n - 1))
        while 0 <= j < flushed and j + len(spelled) < n:
            found.append(j)
            j = self.string.find(spelled, j + 1, n - 1)
        return found

    def occurs(self, string: Sequence[int]) -> bool:
        """Whether the string is a substring of the text."""
        spelled = self._spell(string)
        return spelled is not None and spelled in self.string


def substring_table(
    text: Sequence[int], counted: Sequence[bool]
) -> dict[tuple[int, ...], tuple[int, dict[int, int]]]:
    """Every substring of a short text without a negative token → (count, successors), in one sweep.

    The pending length is found from the other end than ``ListTree`` does: longest first.
    """
    text, n = tuple(text), len(text)
    flushed = n
    for start in range(1, n):
        if any(text[j : j + n - start] == text[start:] for j in range(start)):
            flushed = start
            break
    counts: Counter[tuple[int, ...]] = Counter()
    following: dict[tuple[int, ...], Counter[int]] = {}
    for j in range(n + 1):
        for end in range(j, n + 1):
            string = text[j:end]
            if string and string[-1] < 0:
                break
            successors = following.setdefault(string, Counter())
            if end < n and j < flushed:
                counts[string] += counted[j]
                if text[end] >= 0:
                    successors[text[end]] += counted[j]
    return {
        string: (min(SATURATION, counts[string]), {c: min(SATURATION, m) for c, m in successors.items()})
        for string, successors in following.items()
    }


class ListCursor:
    """Everything that was fed since the last reset; the match is looked up from scratch each time."""

    def __init__(self, tree: ListTree) -> None:
        self.tree = tree
        self.fed: list[int] = []

    def extend(self, tokens: Iterable[int]) -> None:
        """Feed tokens; a negative one resets."""
        for token in tokens:
            if token < 0:
                self.fed = []
            else:
                self.fed.append(int(token))

    def reset(self) -> None:
        """Forget what was fed."""
        self.fed = []

    def match_length(self) -> int:
        """Length of the longest suffix of the fed tokens that occurs in the tree now."""
        length = 0
        while length < len(self.fed) and self.tree.occurs(self.fed[len(self.fed) - length - 1 :]):
            length += 1
        return length


class StringCursor(ListCursor):
    """The same by bisection: when a suffix occurs, so do all the shorter ones."""

    def match_length(self) -> int:
        """Length of the longest suffix of the fed tokens that occurs in the tree now."""
        low, high = 0, len(self.fed)
        while low < high:
            middle = (low + high + 1) // 2
            if self.tree.occurs(self.fed[len(self.fed) - middle :]):
                low = middle
            else:
                high = middle - 1
        return low


class CursorContract:
    """What a cursor promises: exact while the tree rests, exact below 64 tokens after it changed.

    ``note_change`` is called after every change of the tree; ``verify`` compares one reported length. The
    cursor is taken to be exact again once it has reported a true length below 64, since from a known state
    it follows an unchanged tree exactly.
    """

    def __init__(self, tree: ListTree) -> None:
        self.twin = StringCursor(tree) if isinstance(tree, StringTree) else ListCursor(tree)
        self.exact = True

    def note_change(self) -> None:
        """Say that the tree has changed."""
        if self.twin.fed:
            self.exact = False

    def reset(self) -> None:
        """Say that the cursor was reset."""
        self.twin.reset()
        self.exact = True

    def extend(self, tokens: Sequence[int]) -> None:
        """Say that the cursor was fed."""
        self.twin.extend(tokens)
        if not self.twin.fed:
            self.exact = True

    def verify(self, length: int) -> list[int]:
        """Check a reported length and return the string that it stands for."""
        true = self.twin.match_length()
        fed = self.twin.fed
        if self.exact or true < CURSOR_WINDOW:
            assert length == true, f"expected a match of {true} tokens, got {length} (fed {len(fed)})"
            self.exact = True
        else:
            assert CURSOR_WINDOW <= length <= true, f"expected a match of 64 … {true} tokens, got {length}"
        return fed[len(fed) - length :]


def ngram_counts(sequences: Iterable[Sequence[int]], order: int) -> dict[tuple[int, ...], Counter[int]]:
    """Context of ``order`` tokens → how often each token follows it within a sequence."""
    counts: dict[tuple[int, ...], Counter[int]] = {}
    for sequence in sequences:
        for i in range(order, len(sequence)):
            context = tuple(int(token) for token in sequence[i - order : i])
            counts.setdefault(context, Counter())[int(sequence[i])] += 1
    return counts
