"""A slow, obvious twin of drafting and of learning, written from the definitions and not from the kernels.

Strings of tokens, searched for in whole texts, stand where the kernels have loci in trees and in sealed indexes.

Definitions. A live text has n positions; the *pending* length is that of its longest suffix that also starts at an
earlier position, and what starts in the last ``pending`` positions is not seen yet. A string was *seen* at the
other positions where it stands and something follows it. How *often*: once where that is one position, else as
many times as positions were counted (at most 1,023). It stood *last* at the last of these. A sealed text does not
change: all its positions are seen, and counted.

A row of a draft is a path of tokens. Per text it has up to two *contexts*: strings that were seen in it. Those of
the empty path are the longest suffix of the context that was seen, and the longest one (in a live text of at most
16 tokens) that was seen another number of times. Those of a longer path are the parent's, one token longer, where
they still stand in the text; one that the session's text ends with goes on as that text's pending string. Where
none is left in a live text, and no text before it had anything to offer, the last two tokens if they were seen,
or else the last one.

Every context is a piece of evidence for each token that followed it: of those that followed more than once, all
(the kernels look at 12: keep alphabets below that), of the others the four that followed last; in a sealed text
the eight most frequent ones of a context that was seen eight times and went on differently, else all.

Where the context *strayed* from a live text (its longest context there had four tokens or more, and what came next
was another token), the text is *resumed*: one more piece of evidence, for the token at the place where it is
believed to go on. See ``resumed_place``.

The twin rounds to float32 where the kernels do, since rates that are equal have to be equal here too.
"""

import bisect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from suffixspec.native import evidence as native
from suffixspec.native.contexts import JUMP  # what is tuned is the kernels' to say
from suffixspec.native.draft import MOST_LEAVES, PRUNE
from suffixspec.native.resume import AHEAD, LEAST_MATCH, MOST_GAP

SATURATION = 1023
OVERLAP = 64  # tokens of left context that a session repeats where a prompt departs
HISTORY_CONTEXT = 16  # tokens before an output that go into the history with it
LEAST_CHANCE = 2.0**-10  # of a row
BORDERS = [2.0**octave * (1 + eighth / 8) for octave in range(-10, 1) for eighth in range(8)]
TIE = 1e-5  # relative difference of probabilities below which the order is left open

SESSION, HISTORY, NGRAM, PRIOR = "session", "history", "ngram", "prior"
RESUMED, RESUMED_HISTORY = "resumed", "resumed history"
SOURCES = (SESSION, HISTORY, NGRAM, PRIOR, RESUMED, RESUMED_HISTORY)
LIVE = 3
# The session's text, newer history, older history, sealed history, the prior.
SOURCE_OF_TEXT = (SESSION, HISTORY, HISTORY, HISTORY, PRIOR)

String = tuple[int, ...]
Cell = tuple[
    str, int, int, int
]  # source, class of the context's length, class of the count, class of the share
Slot = tuple[int, int]  # text and rank of the context in it, the longest first
Place = tuple[int, int]  # a position of a text, and how sure it is
NAMED: tuple[Slot, ...] = tuple((text, rank) for text in range(5) for rank in range(2))
NGRAM_SLOT: Slot = (5, 0)
RESUMED_SLOTS: tuple[Slot, ...] = tuple((6, text) for text in range(LIVE))
SLOTS: tuple[Slot, ...] = (*NAMED, NGRAM_SLOT, *RESUMED_SLOTS)
SUBSTITUTED, FOUND, FOUND_BOTH, FOLLOWED = 1, 2, 3, 4

_CHARS: dict[int, str] = {}


def _spell(tokens: Iterable[int]) -> str:
    """One character per token, so that ``str.find`` does the searching."""
    return "".join(_CHARS.setdefault(token, chr(0x100 + len(_CHARS))) for token in tokens)


class Text:
    """What one tree holds: tokens, sentinels, and which positions count."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._counted: list[bool] = []
        self._spelled = ""
        self._followers: dict[String, dict[int, list[int]]] = {}
        self._pending: int | None = 0

    def extend(self, tokens: Iterable[int], *, counted: bool = True) -> None:
        """Append tokens."""
        tokens = [int(token) for token in tokens]
        self.tokens += tokens
        self._counted += [counted] * len(tokens)
        self._spelled += _spell(tokens)
        self._followers, self._pending = {}, None

    def end_sequence(self) -> None:
        """Append a sentinel of its own."""
        self.extend([-1 - sum(token < 0 for token in self.tokens)])

    def occurs(self, string: String) -> bool:
        """Whether the string stands anywhere in the text."""
        return _spell(string) in self._spelled

    def ends_with(self, string: String) -> bool:
        """Whether the text ends with the string."""
        return self._spelled.endswith(_spell(string))

    def longest_suffix(self, tokens: Sequence[int]) -> String:
        """The longest suffix of some other tokens that occurs here."""
        length = 0
        while length < len(tokens) and self.occurs(tuple(tokens[len(tokens) - length - 1 :])):
            length += 1
        return tuple(tokens[len(tokens) - length :])

    def pending(self) -> String:
        """The longest suffix of the text that also starts at an earlier position."""
        n = len(self.tokens)
        if self._pending is None:
            self._pending = 0
            while self._spelled.find(self._spelled[n - self._pending - 1 :], 0, n - 1) >= 0:
                self._pending += 1
        return tuple(self.tokens[n - self._pending :])

    def followers(self, string: String) -> dict[int, list[int]]:
        """Token or sentinel that followed the string → the positions where the string stood then."""
        if string not in self._followers:
            n, found, spelled = len(self.tokens), {}, _spell(string)
            seen = n - len(self.pending())
            at = self._spelled.find(spelled)
            while 0 <= at < seen and at + len(string) < n:
                found.setdefault(self.tokens[at + len(string)], []).append(at)
                at = self._spelled.find(spelled, at + 1)
            self._followers[string] = found
        return self._followers[string]

    def positions(self, string: String) -> list[int]:
        """Where the string was seen, in ascending order."""
        return sorted(at for positions in self.followers(string).values() for at in positions)

    def often(self, positions: list[int]) -> int:
        """How often what was seen at these positions was seen; 0 where only uncounted text has it, several times."""
        return 1 if len(positions) == 1 else min(SATURATION, sum(self._counted[at] for at in positions))

    def last(self, positions: list[int]) -> int:
        """The last of the positions that counted; where none did, the first."""
        counted = [at for at in positions if self._counted[at]]
        return counted[:SATURATION][-1] if counted and len(positions) > 1 else positions[0]

    def evidence(self, context: String) -> dict[int, int]:
        """Token that followed a context → how often, as far as it is looked at."""
        followers = self.followers(context)
        once = sorted((positions[0], token) for token, positions in followers.items() if len(positions) == 1)
        left_out = {token for _, token in once[:-MOST_LEAVES]}
        return {
            token: max(1, self.often(positions))
            for token, positions in followers.items()
            if token >= 0 and token not in left_out
        }


class SealedText(Text):
    """A text that does not change any more."""

    def end_sequence(self) -> None:
        """Append the separator."""
        self.extend([-1])

    def pending(self) -> String:
        """Nothing: every position is seen."""
        return ()

    def often(self, positions: list[int]) -> int:
        """How many they are."""
        return len(positions)

    def evidence(self, context: String) -> dict[int, int]:
        """Token that followed a context → how often: all, or the eight most frequent ones."""
        followers = self.followers(context)
        found = {token: len(positions) for token, positions in followers.items() if token >= 0}
        if len(followers) > 1 and len(self.positions(context)) >= 8:
            found = dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:8])
        return found


class Ngrams:
    """Contexts of one to four tokens → what followed them, four tokens each, in memory without an end."""

    def __init__(self) -> None:
        self._seen: dict[String, tuple[list[int], list[list[int]]]] = {}

    def count(self, before: Sequence[int], token: int) -> None:
        """Say that ``token`` followed ``before``."""
        for order in range(1, min(4, len(before)) + 1):
            total, successors = self._seen.setdefault(tuple(before[len(before) - order :]), ([0], []))
            total[0] = min(SATURATION, total[0] + 1)
            known = next((pair for pair in successors if pair[0] == token), None)
            if known is not None:
                known[1] = min(SATURATION, known[1] + 1)
            elif len(successors) < 4:
                successors.append([token, 1])
            else:  # a newcomer wears down the smallest count before it takes its place
                least = min(successors, key=lambda pair: pair[1])
                least[:] = [least[0], least[1] - 1] if least[1] > 1 else [token, 1]

    def pieces(self, before: Sequence[int]) -> list[tuple[int, Cell]]:
        """(token, cell) for what followed the two longest contexts that are known."""
        known = [
            before[-order:]
            for order in range(min(4, len(before)), 0, -1)
            if tuple(before[-order:]) in self._seen
        ]
        found = []
        for context in known[:2]:
            total, successors = self._seen[tuple(context)]
            found += [(token, cell_of(NGRAM, len(context), count, total[0])) for token, count in successors]
        return found


def _rounded(value: float) -> float:
    return float(np.float32(value))


def _class(borders: Sequence[float], value: float) -> int:
    return sum(value >= border for border in borders)


def length_class(length: int) -> int:
    """0 to 9."""
    return _class([2, 3, 4, 5, 7, 10, 16, 32, 64], length)


def cell_of(source: str, length: int, count: int, total: int) -> Cell:
    """What kind of evidence it is that a token followed a context ``count`` of ``total`` times."""
    count_class = _class([2, 3, 5, 10], count)
    # 5, 10, 20, 40, 60, 80 and 95 per cent of the context's occurrences.
    share_class = _class([total * per_cent for per_cent in (5, 10, 20, 40, 60, 80, 95)], 100 * count)
    return source, length_class(length), count_class, share_class


def number(cell: Cell | None) -> int:
    """A cell's row in the calibration and one more; 0 for none."""
    if cell is None:
        return 0
    source, length, count, share = cell
    return 1 + ((SOURCES.index(source) * 10 + length) * 5 + count) * 8 + share


def bits(slots: Iterable[Slot]) -> int:
    """One bit for each slot."""
    return sum(1 << NAMED.index(slot) for slot in slots)


# Which weight a feature has is arbitrary, so the kernel's hash serves the twin as well.
_weight_of: Callable[[int, int, int], int] = lru_cache(maxsize=None)(
    lambda kind, a, b: int((native._token_feature if kind in (3, 4, 6) else native._feature)(kind, a, b))
)


@dataclass
class Row:
    """A drafted token, or one that might be."""

    path: String
    parent: "Row | None"
    evidence: dict[Slot, Cell] = field(default_factory=dict)
    source: str = SESSION
    stood: int = 0
    """Where it followed last in the session's text; 0 where it never did."""
    features: list[int] = field(default_factory=list)
    given: float = 1.0
    """Its chance once its parent is accepted, a float32's value; so is the next."""
    chance: float = 1.0
    """Its chance."""
    contexts: tuple[list[String], ...] = ()
    """Per text; set when the row is expanded."""
    resumes: list[Place | None] = field(default_factory=list)
    """Per live text; set when the row is expanded."""
    lost: int = 0
    """Pieces of evidence for its children that were not looked at."""


class Beliefs:
    """The calibration's state and what it says about a candidate.

    Args:
        cells: float32 [2400, 3] and weights: float32 [65538, 2], as the kernels have them; copied.
        classes: of tokens; those that are not in it are of class 0.
    """

    def __init__(self, cells: np.ndarray, weights: np.ndarray, classes: Sequence[int] = ()) -> None:
        self.cells = cells.copy()
        self.weights = weights.copy()
        self.classes = dict(enumerate(classes))

    def rate(self, cell: Cell) -> float:
        """How often such evidence was right."""
        return float(self.cells[number(cell) - 1, 2])

    def logit(self, row: Row) -> float:
        """Log odds of the best of the row's cells."""
        best = max(self.rate(cell) for cell in row.evidence.values())
        best = min(max(best, 1e-4), 0.9995)
        return math.log(best / (1 - best))

    def features_of(
        self,
        row: Row,
        last: int,
        before: int,
        session: int,
        history: int,
        age: int,
        newest: bool,
        known: int,
    ) -> list[int]:
        """The row's features: its evidence, how long and how far back, and the tokens."""
        at = row.evidence.get
        s1, s2 = at((0, 0)), at((0, 1))
        h1, h2 = at((1, 0)), at((1, 1))
        for text in (2, 3):  # the one that promises most
            other = at((text, 0))
            if other and (not h1 or self.rate(other) > self.rate(h1)):
                h1, h2 = other, at((text, 1))
        token = row.path[-1]
        session_share, history_share = (cell[3] if cell else 8 for cell in (s1, h1))
        shares = session_share * 16 + history_share
        first, second, third = (int(self.classes.get(one, 0)) for one in (before, last, token))
        return [
            _weight_of(*feature)
            for feature in (
                (1, number(h1), number(h2)),
                (2, session * 16 + history, shares),
                (3, token, 0),
                (4, last, token),
                (5, number(s1) if s1 else 2400 + number(s2), number(h1) if h1 else 2400 + number(h2)),
                (6, token, shares),
                (7, bits(slot for slot in row.evidence if slot in NAMED), known),
                (8, age * 2 + newest, session_share),
                (9, number(at(RESUMED_SLOTS[0])), session * 16 + session_share),
                (10, second * 16 + third, session * 16 + history),
                (11, (first * 16 + second) * 16 + third, session_share),
                (12, second * 16 + third, age * 2 + newest),
            )
        ]

    def score(self, row: Row) -> float:
        """The row's chance once its parent is accepted."""
        scale, bias = float(self.weights[0, 0]), float(self.weights[1, 0])
        z = scale * self.logit(row) + bias + sum(float(self.weights[i, 0]) for i in row.features)
        return 1 / (1 + math.exp(-z))

    def learn(self, rows: Iterable[Row], emitted: Sequence[int], memory: float) -> int:
        """Learn from the target's next tokens; return how many rows they confirm."""
        emitted = tuple(int(token) for token in emitted)
        confirmed = 0
        for row in rows:
            depth = len(row.path)
            if depth > len(emitted) or row.path[:-1] != emitted[: depth - 1]:
                continue
            hit = row.path[-1] == emitted[depth - 1]
            confirmed += hit
            error = row.given - hit
            logit = self.logit(row)
            for i in row.features:
                self._step(i, error, native.STEP)
            self._step(0, error * logit, native.SLOW_STEP)
            self._step(1, error, native.SLOW_STEP)
            for slot in SLOTS:
                if slot in row.evidence:
                    cell = self.cells[number(row.evidence[slot]) - 1]
                    if cell[1] >= memory:
                        cell[:2] /= 2
                    cell[:2] += (hit, 1)
                    cell[2] = cell[0] / cell[1]
        return confirmed

    def _step(self, i: int, gradient: float, rate: float) -> None:
        """AdaGrad: the more gradients a weight has seen, the smaller its steps."""
        squares = float(self.weights[i, 1]) + gradient**2
        self.weights[i] = float(self.weights[i, 0]) - rate * gradient / math.sqrt(squares), squares


class Twin:
    """What a drafter's session knows, as texts.

    Args:
        beliefs: the calibration.
        history: how the texts of the history are found, newest first, at most two.
        sealed: the part of history that does not change any more.
        prior: the text that all sessions share.
        suffix: whether there is a session's tree.
        ngrams: shared with other sessions of the namespace; None where they are not used.
    """

    def __init__(
        self,
        beliefs: Beliefs,
        *,
        history: Callable[[], list[Text]] = list,
        sealed: SealedText | None = None,
        prior: SealedText | None = None,
        suffix: bool = True,
        ngrams: Ngrams | None = None,
    ) -> None:
        self.beliefs = beliefs
        self.text = Text()
        self.context: list[int] = []
        self._suffix = suffix
        self._history = history
        self._sealed = sealed or SealedText()
        self._prior = prior or SealedText()
        self._ngrams = ngrams
        self._fed_from = 0  # the history is matched with the context from here on ...
        self._sealed_from = 0  # ... what is sealed from here on ...
        self._counted_from = 0  # ... and n-grams with what was counted without a break
        self._texts: list[Text] = []
        self._strayed: list[tuple[int, int] | None] = [None] * LIVE  # place, tokens since
        self._history_before: list[list[int]] = []

    # -- the text -----------------------------------------------------------------------------------

    def sync(self, prompt: Sequence[int]) -> None:
        """Make the prompt the context."""
        self._strayed = [None] * LIVE
        prompt = [int(token) for token in prompt]
        common = 0
        while common < min(len(prompt), len(self.context)) and prompt[common] == self.context[common]:
            common += 1
        if common < len(self.context):
            overlap = prompt[max(0, common - OVERLAP) : common]
            if self._suffix:
                self.text.end_sequence()
                self.text.extend(overlap, counted=False)
            self.context = prompt[:common]
            self._fed_from = self._sealed_from = common - len(overlap)
            self._counted_from = common
        self.extend(prompt[common:])

    def extend(self, tokens: Iterable[int]) -> None:
        """Append to the context."""
        tokens = [int(token) for token in tokens]
        if len(tokens) > OVERLAP:
            self._sealed_from = len(self.context) + len(tokens) - OVERLAP
        for token in tokens:
            if self._ngrams is not None:
                self._ngrams.count(self.context[self._counted_from :], token)
            self.context.append(token)
        if self._suffix:
            self.text.extend(tokens)

    # -- the draft ----------------------------------------------------------------------------------

    def draft(self, most: int, *, prune: bool, follow: Sequence[String] = ()) -> list[Row]:
        """The empty path, then the ``most`` most probable rows in descending order, parents before children.

        Args:
            most: nodes.
            prune: whether to leave out evidence as the kernel does: a token is not taken up by a piece of
                evidence whose rate is below PRUNE times what can still matter.
            follow: where several rows are equally probable, the one that stands here comes first.
        """
        history = self._history()
        texts = [text.tokens for text in history]
        if not all(new[: len(old)] == old for new, old in zip(texts, self._history_before, strict=False)):
            self._strayed[1:] = [None] * (LIVE - 1)  # a generation has begun: its places are others
        self._history_before = [list(tokens) for tokens in texts]
        self._texts = [self.text, *history, *[Text()] * (2 - len(history)), self._sealed, self._prior]
        rows, waiting, floor = [Row((), None)], [], 0.0
        while True:
            least = PRUNE * max(floor, LEAST_CHANCE) / rows[-1].chance if prune else 0.0
            waiting += [row for row in self.expand(rows[-1], least) if row.chance >= LEAST_CHANCE]
            if not waiting:
                break
            bound = max(row.chance for row in waiting) * (1 - TIE)
            place = len(rows) - 1
            wanted = [
                row
                for row in waiting
                if place < len(follow) and row.path == follow[place] and row.chance >= bound
            ]
            rows.append(wanted[0] if wanted else max(waiting, key=lambda row: row.chance))
            waiting.remove(rows[-1])
            left = most - (len(rows) - 1)
            if left == 0:
                break
            # Of what waits, only the ``left`` most probable can matter.
            if len(waiting) >= left:
                last = sorted((row.chance for row in waiting), reverse=True)[left - 1]
                floor = max(floor, BORDERS[bisect.bisect_right(BORDERS, last) - 1])
        return rows

    def expand(self, row: Row, least: float) -> list[Row]:
        """The rows that may follow a row, with their chances."""
        offered: dict[int, Row] = {}
        best: dict[int, float] = {}

        def offer(token: int, slot: Slot, cell: Cell, stood: int = 0) -> None:
            rate = self.beliefs.rate(cell)
            if rate < least:
                row.lost += 1
                return
            if token not in offered:
                offered[token], best[token] = Row((*row.path, token), row), -1.0
            if slot in offered[token].evidence:  # of two n-gram contexts, the longer one counts
                return
            offered[token].evidence[slot] = cell
            offered[token].stood = max(offered[token].stood, stood)
            if rate > best[token]:
                best[token], offered[token].source = rate, cell[0]

        found = []
        for number_of, text in enumerate(self._texts):
            contexts = self._contexts(row, number_of, text)
            if row.parent is not None and not contexts and not offered and number_of < LIVE:
                last_two = self._last_two(row)
                short = [last_two[1:]] if last_two[0] < 0 else [last_two, last_two[1:]]
                contexts = [context for context in short if text.positions(context)][:1]
            found.append(contexts)
            for rank, context in enumerate(contexts):
                total = max(1, text.often(text.positions(context)))
                for token, count in text.evidence(context).items():
                    cell = cell_of(SOURCE_OF_TEXT[number_of], len(context), count, total)
                    stood = text.last(text.followers(context)[token]) + len(context) if number_of == 0 else 0
                    offer(token, (number_of, rank), cell, stood)
        row.contexts = tuple(found)
        if row.parent is None:
            self._remember(row)
        row.resumes = [self._resumed_place(row, number_of) for number_of in range(LIVE)]
        for number_of, place in enumerate(row.resumes):
            if place:
                at, run = place
                strayed = self._strayed[number_of]
                count = 1 + (strayed[1] if strayed else 0)
                cell = cell_of(RESUMED if number_of == 0 else RESUMED_HISTORY, run, count, count)
                token = self._texts[number_of].tokens[at]
                offer(token, RESUMED_SLOTS[number_of], cell, at if number_of == 0 else 0)
        if not offered and self._ngrams is not None:
            for token, cell in self._ngrams.pieces([*self.context[self._counted_from :], *row.path][-4:]):
                offer(token, NGRAM_SLOT, cell)
        self._set_chances(row, list(offered.values()))
        return list(offered.values())

    def _last_two(self, row: Row) -> String:
        # Once a prompt has departed, what stands before the overlap is a sentinel.
        return tuple([-1, -1, *self.text.tokens, *row.path][-2:])

    def _set_chances(self, row: Row, children: list[Row]) -> None:
        first = [contexts[0] if contexts else () for contexts in row.contexts]
        session, history = len(first[0]), max(len(context) for context in first[1:4])
        known = bits(
            (text, rank) for text, contexts in enumerate(row.contexts) for rank in range(len(contexts))
        )
        newest = max((child.stood for child in children), default=0)
        for child in children:
            age = math.floor(math.log2(len(self.text.tokens) - child.stood)) + 1 if child.stood else 0
            child.features = self.beliefs.features_of(
                child,
                *self._last_two(row)[::-1],
                1 + length_class(session) if session else 0,
                1 + length_class(history) if history else 0,
                age,
                0 < child.stood == newest,
                known,
            )
            child.given = _rounded(self.beliefs.score(child))
        total = sum(child.given for child in children)
        for child in children:
            child.chance = _rounded(child.given * row.chance / max(1.0, total))

    # -- resuming -----------------------------------------------------------------------------------

    def _remember(self, row: Row) -> None:
        """The context stands at the row now: what it follows there is what it may stray from."""
        for number_of in range(LIVE):
            contexts = row.contexts[number_of]
            if contexts and len(contexts[0]) >= LEAST_MATCH:
                self._strayed[number_of] = self._next(number_of, contexts[0]), 0
            elif row.parent is not None:
                self._stray(number_of)

    def _stray(self, number_of: int) -> None:
        strayed = self._strayed[number_of]
        if strayed is not None:
            place, gap = strayed
            self._strayed[number_of] = (place, gap + 1) if gap < MOST_GAP else None

    def _next(self, number_of: int, context: String) -> int:
        """The position after a context where it stood last."""
        text = self._texts[number_of]
        return text.last(text.positions(context)) + len(context)

    def follow(self, rows: Iterable[Row], emitted: Sequence[int]) -> None:
        """The target has written these tokens: note what they followed, and where they strayed from it."""
        emitted = tuple(int(token) for token in emitted)
        confirmed = [row for row in rows if row.path and row.path == emitted[: len(row.path)]]
        for row in sorted(confirmed, key=lambda row: len(row.path)):
            if not row.contexts:
                # A row that was never expanded: the last of a full draft.
                self._stray_all()
            else:
                self._remember(row)
        for _ in range(len(emitted) - len(confirmed)):
            self._stray_all()

    def _stray_all(self) -> None:
        for number_of in range(LIVE):
            self._stray(number_of)

    def _resumed_place(self, row: Row, number_of: int) -> Place | None:
        """Where the row, or the context, goes on in a text that it strayed from, and how sure that is.

        The context: behind the first place, of the 16 from where it strayed, at which its last two tokens stand,
        or else the last one; failing that as many tokens on as were written since. A row: where its parent's
        place went on with its token, one further.
        """
        tokens = self._texts[number_of].tokens
        n = len(tokens)
        found: Place | None = None
        before, token = self._last_two(row)
        if row.parent is None:
            strayed = self._strayed[number_of]
            if strayed is not None and strayed[1] > 0:
                place, gap = strayed
                window = []
                for at in range(place, min(place + AHEAD, n - 1)):
                    if tokens[at] < 0:
                        break
                    window.append(at)
                single = [at for at in window if tokens[at] == token]
                both = [at for at in single if at > 0 and tokens[at - 1] == before]
                if both:
                    found = both[0] + 1, FOUND_BOTH
                elif single:
                    found = single[0] + 1, FOUND
                elif place + gap < n:
                    found = place + gap, SUBSTITUTED
        elif (place := row.parent.resumes[number_of]) and tokens[place[0]] == token:
            found = place[0] + 1, max(place[1] + 1, FOLLOWED)
        if found is None or found[0] >= n or tokens[found[0]] < 0:
            return None
        return found

    # -- contexts -----------------------------------------------------------------------------------

    def _contexts(self, row: Row, number_of: int, text: Text) -> list[String]:
        if row.parent is not None:
            contexts = []
            for before in row.parent.contexts[number_of]:
                context = (*before, row.path[-1])
                if text.positions(context):
                    contexts.append(context)
                elif number_of == 0 and text.ends_with(context) and text.pending():
                    contexts.append(text.pending())
            return contexts
        live = number_of < LIVE
        if number_of == 0:
            longest = text.pending()
        else:
            longest = text.longest_suffix(self.context[self._fed_from if live else self._sealed_from :])
        contexts, often = [], []
        longest_other = min(len(longest) - 1, JUMP) if live else len(longest) - 1
        for length in (len(longest), *range(longest_other, 0, -1)):
            context = longest[len(longest) - length :]
            times = text.often(text.positions(context)) if length else None
            if length and len(contexts) < 2 and times not in often[-1:]:
                contexts.append(context)
                often.append(times)
        return contexts


def best_gain(chances: Sequence[float], costs: Sequence[float]) -> tuple[int, list[float]]:
    """(the prefix of a draft that pays most, tokens per time of every prefix); costs as ``draft`` has them."""
    gains = [(1 + sum(chances[:k])) / float(costs[k]) for k in range(len(chances) + 1)]
    return gains.index(max(gains)), gains
