"""Every draft and every lesson of seeded random sessions, beside those of a slow and obvious twin."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from oracle import (
    HISTORY,
    PRIOR,
    RESUMED,
    RESUMED_HISTORY,
    SESSION,
    SOURCES,
    TIE,
    Beliefs,
    Ngrams,
    Row,
    SealedText,
    Text,
    Twin,
    best_gain,
    cell_of,
    number,
)

from suffixspec.cost import CostCurve
from suffixspec.draft import IndexDrafter
from suffixspec.draft.calibration import _MEMORY as MEMORY  # trials at which a cell is halved
from suffixspec.draft.calibration import Calibration, no_start
from suffixspec.draft.indexed import IndexDraftSession
from suffixspec.draft.prior import Prior
from suffixspec.index.sealed import SealedIndex
from suffixspec.native import draft as native
from suffixspec.native import evidence as native_evidence

KINDS = {"suffix": {}, "ngram": {"suffix": False, "ngram": True}, "combined": {"ngram": True}}
SMALL_HISTORY = 1 << 17  # bytes: about a hundred tokens fill a generation

Op = tuple


@dataclass(frozen=True)
class Case:
    """One seeded run: a drafter, and sessions that are closed into its history one after the other."""

    seed: int
    kind: str = "suffix"
    history: int = 0
    """Generations that the history may have."""
    max_nodes: int = 32
    cost: str | None = None
    alphabet: int = 4
    prior: bool = True
    """Whether the calibration starts from its prior; else from random rates and weights."""
    common: int = 0
    """Tokens of a text that all sessions share."""
    sealed: int = 0
    """Tokens of history that does not change any more."""
    sessions: int = 2
    turns: int = 3
    steps: int = 3


@dataclass
class Tally:
    """What a run has looked at, so that a test can say that it looked at something."""

    drafts: int = 0
    rows: int = 0
    pruned: int = 0
    """Drafts for which some evidence was left out."""
    loss: float = 0.0
    """Tokens that they would be expected to yield more with all evidence, together."""
    worst_loss: float = 0.0
    """The largest of these, as a share of what the draft is expected to yield."""
    hits: int = 0
    beyond_the_end: int = 0
    from_ngrams: int = 0
    from_prior: int = 0
    resumed: int = 0
    resumed_history: int = 0
    generations: int = 0
    uncounted: int = 0


# -- scripts ----------------------------------------------------------------------------------------------


def random_script(case: Case) -> list[Op]:
    """Operations that stand for themselves, so that a shorter script is a script too."""
    rng = np.random.default_rng(case.seed)
    written: list[int] = []

    def fresh(most: int) -> list[int]:
        """Random tokens, a run of a short period, or something written before."""
        how = rng.random()
        length = int(rng.integers(1, most + 1))
        if how < 0.35 or not written:
            block = rng.integers(0, case.alphabet, length).tolist()
        elif how < 0.55:
            period = rng.integers(0, case.alphabet, int(rng.integers(1, 5))).tolist()
            block = (period * length)[:length]
        else:
            start = int(rng.integers(0, len(written)))
            block = written[start : start + length]
        written.extend(block)
        return block

    script: list[Op] = []
    for _ in range(case.sessions):
        for turn in range(case.turns):
            if turn and rng.random() < 0.35:
                script.append(("depart", float(rng.random()), tuple(fresh(20))))
            else:
                script.append(("prompt", tuple(fresh(40) + fresh(20))))
            if case.history and rng.random() < 0.3:
                script.append(("aside", tuple(fresh(10)), tuple(fresh(30))))
            for _ in range(case.steps):
                script.append(("step", float(rng.random()), int(rng.integers(0, case.alphabet))))
                if rng.random() < 0.3:
                    script.append(("write", tuple(fresh(12))))
            script.append(("end",))
        script.append(("close",))
    return script


def sealed_text(rng: np.random.Generator, size: int, alphabet: int) -> SealedText:
    """Random texts of 40 tokens."""
    text = SealedText()
    for start in range(0, size, 40):
        text.extend(rng.integers(0, alphabet, min(40, size - start)).tolist())
        text.end_sequence()
    return text


class Pair:
    """A drafter's session and its twin, told the same and compared at every step."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.tally = Tally()
        self.common = sealed_text(np.random.default_rng([case.seed, 2]), case.common, case.alphabet)
        self.sealed = sealed_text(np.random.default_rng([case.seed, 3]), case.sealed, case.alphabet)
        rng = np.random.default_rng([case.seed, 4])
        # Not of every token, so that some are in no class.
        classes = rng.integers(0, native_evidence.CLASSES, int(rng.integers(0, case.alphabet + 1))).astype(
            np.uint8
        )
        has_prior = case.common > 0 or case.seed % 2 > 0
        self.drafter = IndexDrafter(
            prior=Prior(SealedIndex.build(self.common.tokens), classes) if has_prior else None,
            history="namespace" if case.history else "session",
            history_bytes=SMALL_HISTORY if case.history > 1 else 1 << 24,
            max_nodes=case.max_nodes,
            cost=None if case.cost is None else CostCurve.named(case.cost),
            **KINDS[case.kind],
        )
        self.classes = () if self.drafter.prior is None else self.drafter.prior.classes.tolist()
        if case.sealed:
            self.drafter.history.index("default").sealed = SealedIndex.build(self.sealed.tokens)
        calibration = self.drafter.calibration
        if not case.prior:
            rng = np.random.default_rng([case.seed, 1])
            cells, weights = calibration.cells, calibration.weights
            cells[:, 1] = rng.choice([1, 8, 500, MEMORY - 1, MEMORY], len(cells))
            cells[:, 0] = np.floor(cells[:, 1] * rng.beta(0.5, 0.7, len(cells)))
            cells[:, 2] = cells[:, 0] / cells[:, 1]
            weights[:, 0] = rng.normal(0, 0.3, len(weights))
            weights[:, 1] = rng.uniform(1, 20, len(weights))
            weights[0, 0] = rng.uniform(0.7, 1.2)
        self.shared_ngrams = Ngrams() if "ngram" in KINDS[case.kind] else None
        self.added: list[tuple[list[int], list[int]]] = []
        self._generations: tuple[int, list[Text]] = (-1, [])
        self.begin()

    def begin(self) -> None:
        """Begin a session."""
        self.session = self.drafter.session()
        ngrams = self.shared_ngrams
        if ngrams is not None and not self.case.history:
            ngrams = Ngrams()
        calibration = self.drafter.calibration
        self.twin = Twin(
            Beliefs(calibration.cells, calibration.weights, self.classes),
            history=self.history,
            sealed=self.sealed,
            prior=self.common,
            suffix=self.drafter.suffix,
            ngrams=ngrams,
        )
        self.turn_start = 0

    def history(self) -> list[Text]:
        """The texts of the history's generations, newest first, from what sessions wrote."""
        if not self.case.history or not self.drafter.suffix:
            return []
        if self._generations[0] != len(self.added):
            texts, end = [], len(self.added)
            for tree in self.drafter.history.index("default").trees:
                text = Text()
                start = end - int((tree.tokens < 0).sum())
                for context, output in self.added[start:end]:
                    text.extend(context, counted=False)
                    text.extend(output)
                    text.end_sequence()
                assert text.tokens == tree.tokens.tolist(), "the twin's history is another one"
                texts.append(text)
                end = start
            self._generations = len(self.added), texts
        return self._generations[1]

    def run(self, script: Sequence[Op]) -> Tally:
        """Do what a script says."""
        for name, *arguments in script:
            getattr(self, name)(*arguments)
        return self.tally

    # -- operations -----------------------------------------------------------------------------------

    def prompt(self, tokens: Sequence[int]) -> None:
        """A prompt that goes on from the context."""
        self._sync([*self.twin.context, *tokens])

    def depart(self, where: float, tokens: Sequence[int]) -> None:
        """A prompt that leaves the context somewhere."""
        self._sync([*self.twin.context[: int(where * len(self.twin.context))], *tokens])

    def _sync(self, prompt: list[int]) -> None:
        self.session.sync(np.array(prompt, np.int32))
        self.twin.sync(prompt)
        self.turn_start = len(prompt)
        if self.drafter.suffix:
            assert self.twin.text.tokens == self.session._index.tree.tokens.tolist()
            self.tally.uncounted += not all(self.twin.text._counted)

    def aside(self, prompt: Sequence[int], output: Sequence[int]) -> None:
        """Another session writes something: the history changes under the one that is open."""
        session = self.drafter.session()
        session.sync(np.array(prompt, np.int32))
        session.accept(np.array(output, np.int32))
        session.end_turn()
        session.close()
        self.added.append((list(prompt)[-16:], list(output)))
        if self.shared_ngrams is not None:
            Twin(self.twin.beliefs, suffix=False, ngrams=self.shared_ngrams).sync([*prompt, *output])

    def step(self, where: float, token: int) -> None:
        """Draft; the target follows the draft to one of its rows, and then writes a token."""
        rows, chosen = compare_draft(self.session, self.twin, self.drafter.costs, self.tally)
        row = rows[int(where * (chosen + 1))]
        self._accept([*row.path, token], rows)

    def write(self, tokens: Sequence[int]) -> None:
        """Draft; the target writes what it will."""
        rows, _ = compare_draft(self.session, self.twin, self.drafter.costs, self.tally)
        self._accept(list(tokens), rows)

    def _accept(self, emitted: list[int], rows: list[Row]) -> None:
        self.session.accept(np.array(emitted, np.int32))
        self.tally.hits += self.twin.beliefs.learn(rows[1:], emitted, MEMORY)
        self.twin.follow(rows[1:], emitted)
        calibration, beliefs = self.drafter.calibration, self.twin.beliefs
        np.testing.assert_allclose(calibration.cells, beliefs.cells, rtol=1e-6, err_msg="cells")
        np.testing.assert_allclose(
            calibration.weights, beliefs.weights, rtol=1e-4, atol=1e-5, err_msg="weights"
        )
        # Rounding must not add up: each step is compared for itself.
        self.twin.beliefs = Beliefs(calibration.cells, calibration.weights, self.classes)
        self.twin.extend(emitted)

    def end(self) -> None:
        """The model's output is complete: it is history, for this session too."""
        self.session.end_turn()
        context = self.twin.context
        if len(context) > self.turn_start:
            before = context[max(0, self.turn_start - 16) : self.turn_start]
            self.added.append((before, context[self.turn_start :]))
        self.turn_start = len(context)

    def close(self) -> None:
        """Another session begins."""
        self.session.close()
        self.tally.generations = max(self.tally.generations, len(self.history()))
        self.begin()


def compare_draft(
    session: IndexDraftSession, twin: Twin, costs: np.ndarray, tally: Tally
) -> tuple[list[Row], int]:
    """Compare the session's draft with the twin's; return the twin's rows, and how many nodes are drafted."""
    draft = session.draft()
    grown, chosen = session._grown, len(draft)
    tokens, parents = (field[1 : grown + 1].tolist() for field in session._block[:2])
    chances, given = session._block[2:, 1 : grown + 1].view(np.float32).astype(np.float64)
    paths: list[tuple[int, ...]] = []
    for row in range(grown):
        assert -1 <= parents[row] < row, f"row {row} comes before its parent {parents[row]}"
        paths.append((*(paths[parents[row]] if parents[row] >= 0 else ()), tokens[row]))
    assert len(set(paths)) == grown, f"a path is drafted twice: {paths}"
    assert (np.diff(chances) <= TIE * chances[1:]).all(), f"expected descending chances, got {chances}"
    most = len(costs) - 1
    rows = twin.draft(most, prune=True, follow=paths)
    for at in range(max(grown, len(rows) - 1)):
        ours = f"{paths[at]} {chances[at]:.6f} {given[at]:.6f}" if at < grown else "nothing"
        row = rows[at + 1] if at + 1 < len(rows) else None
        theirs = f"{row.path} {row.chance:.6f} {row.given:.6f}" if row else "nothing"
        assert at < grown, f"row {at + 1}: expected {theirs}, got {ours}"
        assert row is not None, f"row {at + 1}: expected {theirs}, got {ours}"
        same = row.path == paths[at]
        same = same and math.isclose(row.chance, chances[at], rel_tol=1e-4)
        same = same and math.isclose(row.given, given[at], rel_tol=1e-4)
        assert same, f"row {at + 1}: expected {theirs}, got {ours}"
    sources = session.sources(grown).tolist()
    reported = {PRIOR: HISTORY, RESUMED: SESSION, RESUMED_HISTORY: HISTORY}
    theirs = [reported.get(row.source, row.source) for row in rows[1:]]
    assert [SOURCES[source] for source in sources] == theirs
    best, gains = best_gain([row.chance for row in rows[1:]], costs)
    assert gains[chosen] >= gains[best] * (1 - TIE), f"expected {best} nodes of {grown}, got {chosen}"
    assert draft.token_ids.tolist() == tokens[:chosen]
    assert draft.parents.tolist() == parents[:chosen]
    assert draft.probs.tolist() == chances[:chosen].tolist()
    tally.drafts += 1
    tally.rows += grown
    tally.from_prior += "prior" in {row.source for row in rows[1:]}
    tally.resumed += RESUMED in {row.source for row in rows[1:]}
    tally.resumed_history += RESUMED_HISTORY in {row.source for row in rows[1:]}
    tally.from_ngrams += "ngram" in {row.source for row in rows[1:]}
    tally.beyond_the_end += any(goes_on_from_the_pending_string(row) for row in rows)
    if any(row.lost for row in rows):
        tally.pruned += 1
        full = twin.draft(most, prune=False, follow=paths)
        loss = max(0.0, sum(row.chance for row in full[1:]) - float(chances.sum()))
        tally.loss += loss
        tally.worst_loss = max(tally.worst_loss, loss / (1 + float(chances.sum())))
    return rows, chosen


def goes_on_from_the_pending_string(row: Row) -> bool:
    """Whether a context of the row is not its parent's, one token longer."""
    if row.parent is None or not row.contexts or not row.contexts[0]:
        return False
    return row.contexts[0][0] not in [(*before, row.path[-1]) for before in row.parent.contexts[0]]


# -- tests ------------------------------------------------------------------------------------------------


def run(case: Case) -> Tally:
    """Run a case; where it fails, say so with a short script that still does."""
    script = random_script(case)
    try:
        return Pair(case).run(script)
    except Exception as error:
        script = shrunk(case, script)
        lines = "\n".join(f"    {op!r}," for op in script)
        raise AssertionError(f"{case}: {error}\nPair(case).run([\n{lines}\n])") from error


def shrunk(case: Case, script: list[Op], tries: int = 150) -> list[Op]:
    """A script from which no operation and no token can be taken, or as short as it got in so many tries."""

    def fails(candidate: list[Op]) -> bool:
        nonlocal tries
        tries -= 1
        if tries < 0:
            return False
        try:
            Pair(case).run(candidate)
        except Exception:  # noqa: BLE001 - any failure counts
            return True
        return False

    size = len(script) // 2
    while size:
        at = 0
        while at < len(script):
            shorter = script[:at] + script[at + size :]
            if fails(shorter):
                script = shorter
            else:
                at += size
        size //= 2
    for at in range(len(script)):
        for place in range(1, len(script[at])):
            start, size = 0, 32
            while size and isinstance(script[at][place], tuple):
                op, block = script[at], script[at][place]
                shorter = (*op[:place], block[:start] + block[start + size :], *op[place + 1 :])
                if start < len(block) and fails([*script[:at], shorter, *script[at + 1 :]]):
                    script[at] = shorter
                elif start < len(block):
                    start += size
                else:
                    start, size = 0, size // 2
    return script


def total(tallies: Sequence[Tally]) -> Tally:
    """The sum of what several runs have looked at."""
    largest = ("worst_loss", "generations")
    return Tally(
        **{
            field.name: (max if field.name in largest else sum)(
                getattr(tally, field.name) for tally in tallies
            )
            for field in dataclasses.fields(Tally)
        }
    )


BUDGETS = (1, 2, 8, 32, 64)
CURVES = (None, "gpu", "mid", "cpu")


def cases(first: int, count: int, **fixed) -> list[Case]:
    """Seeded cases that go through the budgets and alphabets, and through the cost curves."""
    return [
        Case(
            **{
                "seed": seed,
                "max_nodes": BUDGETS[seed % len(BUDGETS)],
                "cost": CURVES[seed % len(CURVES)],
                "alphabet": 2 + seed % 9,
                "prior": seed % 3 > 0,
            }
            | fixed
        )
        for seed in range(first, first + count)
    ]


@pytest.mark.kernels
@pytest.mark.parametrize("kind", KINDS)
def test_a_few_sessions_are_drafted_and_learned_from_as_by_the_twin(kind):
    """Rows, chances, sources, budget, cells and weights are the twin's; a small set for slow kernels too."""
    small = {"kind": kind, "history": 1, "turns": 2, "steps": 2}
    tally = total([run(Case(seed, max_nodes=most, **small)) for seed, most in enumerate(BUDGETS)])
    assert tally.drafts > 40
    assert tally.hits > 0


@pytest.mark.parametrize("history", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_sessions_are_drafted_and_learned_from_as_by_the_twin(kind, history):
    """With histories of no, one and two generations, branches and asides: every step is the twin's."""
    tally = total(
        [
            run(case)
            for case in cases(
                100,
                10 if history > 1 else 15,
                kind=kind,
                history=history,
                sessions=4 if history > 1 else 2,
                common=300 if history == 1 and kind != "ngram" else 0,
                sealed=200 if history == 2 and kind != "ngram" else 0,
            )
        ]
    )
    print(tally)
    assert tally.drafts > 200
    assert tally.rows > 2000
    assert tally.hits > 200
    assert tally.pruned > 20
    if kind != "suffix":
        assert tally.from_ngrams > (5 if history else 20)  # a sealed text leaves few gaps
    if kind != "ngram":
        assert tally.beyond_the_end > 50
        assert tally.uncounted > 10
        assert tally.generations == history
        assert (tally.from_prior > 20) == (history == 1)
        assert tally.resumed > 20
        assert (tally.resumed_history > 5) == (history > 0)


def test_pruning_loses_next_to_nothing():
    """With all evidence, drafts by a learned calibration would be expected to yield a thousandth of a token more.

    Where no evidence was left out, nothing is lost at all: the twin keeps all candidates, however many, and its
    rows are the same. A single draft may lose more, as an early piece of evidence of a token that is too weak
    alone is left out also where a stronger one of the same token follows.
    """
    longer = {"sessions": 4, "turns": 4, "steps": 5}
    runs = [case for kind in KINDS for case in cases(200, 8, kind=kind, history=1, cost=None, prior=True)]
    runs += [
        Case(1071, max_nodes=2, alphabet=2, **longer),
        Case(1066, kind="combined", history=1, max_nodes=2, alphabet=6, **longer),
        Case(1002, history=1, max_nodes=8, alphabet=5, **longer),
    ]
    tally = total([run(case) for case in runs])
    print(tally)
    assert tally.pruned > 150
    assert tally.loss / tally.drafts < 1e-3
    assert tally.worst_loss < 0.05


def test_counts_stop_at_saturation_for_drafts_too():
    """In a text with more than 1,023 occurrences of a context, shares are those of the saturated counts."""
    rng = np.random.default_rng(5)
    pair = Pair(Case(5, max_nodes=8))
    for _ in range(3):
        pair.prompt((rng.random(900) < 0.02).astype(int).tolist())
        pair.step(0.99, 0)
        pair.step(0.5, 1)
    assert len(pair.twin.text.positions((0, 0))) > 2 * 1023


def test_a_context_longer_than_a_window_is_matched_in_history():
    """A history match of hundreds of tokens, and its second context of at most 16, are the twin's."""
    text = np.random.default_rng(6).integers(0, 10, 300).tolist()
    pair = Pair(Case(6, history=1, max_nodes=8))
    pair.prompt(text[:20])
    pair.write(text[20:])
    pair.end()
    pair.close()
    for stop in (40, 120, 121, 250):
        pair.prompt(text[len(pair.twin.context) : stop])
        pair.step(0.0, text[stop])
    rows = pair.twin.draft(8, prune=True)
    assert len(rows[0].contexts[1][0]) == 251 - 20 + 16
    assert len(rows[0].contexts[1][1]) <= 16


@pytest.mark.kernels
def test_a_worked_example():
    """1 2 was followed by 1 and by 3, once each: both are drafted at the prior's rate of such evidence."""
    drafter = IndexDrafter(cost=None, history="session", max_nodes=2)
    drafter.calibration = Calibration(start=no_start())
    session = drafter.session()
    session.sync([1, 2, 1, 2, 3, 1, 2])
    draft = session.draft()
    cell = 1 * 5 * 8 + 0 * 8 + 4  # source 0; length 2 is class 1; count 1 is class 0; one half is class 4
    rate = float(session._drafter.calibration.cells[cell, native_evidence.RATE])
    assert number(cell_of("session", 2, 1, 2)) == cell + 1
    assert set(draft.token_ids.tolist()) == {1, 3}
    assert draft.parents.tolist() == [-1, -1]
    assert draft.probs.tolist() == pytest.approx([rate, rate], rel=1e-5)


def test_of_two_ngram_contexts_the_longer_one_counts():
    """3 followed both 1 2 and 2: its chance is that of a token that follows the longer context."""
    session = IndexDrafter(cost=None, history="session", suffix=False, ngram=True, max_nodes=1).session()
    session.sync([1, 2, 3, 1, 2])
    draft = session.draft()
    cell = number(cell_of("ngram", 2, 1, 1)) - 1
    assert draft.token_ids.tolist() == [3]
    rate = float(session._drafter.calibration.cells[cell, native_evidence.RATE])
    assert draft.probs.tolist() == pytest.approx([rate], rel=1e-5)


@pytest.mark.kernels
def test_cells_are_the_twins():
    """Each class border of length, count and share lies where the twin has it."""
    for source, name in enumerate(SOURCES):
        for length in (*range(1, 12), 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000):
            assert int(native_evidence.cell_of(source, length, 3, 7)) + 1 == number(
                cell_of(name, length, 3, 7)
            )
    for total_count in (1, 2, 3, 7, 19, 20, 21, 100, 1023):
        for count in {*range(1, min(total_count, 21) + 1), *range(1, total_count + 1, 13), total_count}:
            mine = number(cell_of("history", 3, count, total_count))
            assert int(native_evidence.cell_of(1, 3, count, total_count)) + 1 == mine, (count, total_count)


@pytest.mark.kernels
def test_features_are_spread_over_the_weights():
    """The hash reaches all weights of its half alike, and each of its inputs matters."""
    rng = np.random.default_rng(8)
    inputs = [(kind, a, b) for kind in range(1, 13) for a, b in rng.integers(-1, 50_000, (1000, 2)).tolist()]
    for feature, first, end in (
        (native_evidence._feature, native_evidence.FIRST_FEATURE, native_evidence.FIRST_TOKEN_FEATURE),
        (native_evidence._token_feature, native_evidence.FIRST_TOKEN_FEATURE, native_evidence.WEIGHTS),
    ):
        reached = {int(feature(*each)) for each in inputs}
        assert min(reached) >= first
        assert max(reached) < end
        # Of 32,768 weights, 12,000 random draws reach 10,049 on average.
        assert len(reached) > 9_800
    for vary in (lambda i: (1 + i % 12, 5, 7), lambda i: (1, i, 7), lambda i: (1, 5, i)):
        values = {vary(i) for i in range(300)}
        assert len({int(native_evidence._feature(*value)) for value in values}) > 0.95 * len(values)


@pytest.mark.parametrize("twice", [0, 20, 40])
def test_of_many_successors_a_bounded_number_is_offered(twice):
    """A node with 40 children offers at most 12 of those seen more than once and 4 others, all of them true."""
    successors = list(range(100, 140))
    again = np.random.default_rng(9).permutation(successors[:twice]).tolist()
    text = [token for successor in [*successors, *again] for token in (7, successor)]
    session = IndexDrafter(cost=None, history="session", max_nodes=64).session()
    session.sync([*text, 0, 7])  # the match is 7 alone
    draft = session.draft()
    offered = draft.token_ids[draft.parents < 0].tolist()
    assert len(set(offered)) == len(offered)
    assert set(offered) <= set(successors)
    assert len(offered) == min(twice, native.MOST_INNERS) + min(40 - twice, native.MOST_LEAVES)
    # Of those seen once, the last ones.
    assert set(successors[twice:][-native.MOST_LEAVES :]) <= set(offered)
