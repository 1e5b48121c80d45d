"""What the drafters propose, where it may come from, and that proposing leaves no trace."""

import copy
import random

import numpy as np
import pytest

from suffixspec.cost import CostCurve
from suffixspec.draft import Drafter, DraftSession, IndexDrafter, NoDrafter

SESSION, HISTORY, NGRAM = range(3)  # as ``DraftSession.sources`` numbers them
KINDS = {"suffix": {}, "ngram": {"suffix": False, "ngram": True}, "combined": {"ngram": True}}
FLAT = None
STEEP = CostCurve.fit([(1, 1.0), (2, 1.9), (3, 2.8)])
"""A node costs nine tenths of a forward: only what is almost certain pays."""


def drafter(kind: str = "suffix", **more) -> IndexDrafter:
    return IndexDrafter(**{"name": kind, "ngram_slots": 1 << 10} | KINDS[kind] | more)


def run_turn(session, prompt, output) -> None:
    """One model call, drafted step by step as a replay does it, a token at a time."""
    session.sync(prompt)
    for token in output:
        session.draft()
        session.accept(np.array([token], np.int32))
    session.end_turn()


def distinct(seed: int, count: int, low: int = 0, high: int = 10_000) -> list[int]:
    return (np.random.default_rng(seed).permutation(high - low)[:count] + low).tolist()


def drafted(session) -> set[int]:
    """Tokens of the next draft."""
    return set(session.draft().token_ids.tolist())


# -- what is drafted --------------------------------------------------------------------------------------


def chain_of(draft) -> list[int]:
    """The tokens of a draft that is one path."""
    assert draft.parents.tolist() == list(range(-1, len(draft) - 1)), "expected one path"
    return draft.token_ids.tolist()


def goes_as_far_as_it_can(draft, budget: int) -> bool:
    """Whether the budget is used up, or the next node would hardly ever be reached."""
    return len(draft) == budget or float(draft.probs[-1]) < 0.005


@pytest.mark.kernels
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nodes", [1, 7, 32, 100])
def test_an_exact_repeat_is_drafted_as_one_chain(kind, nodes):
    """A text that comes again is drafted as one path, as long as the budget where drafting is free."""
    text = distinct(1, 200)
    session = drafter(kind, max_nodes=nodes, cost=FLAT).session()
    session.sync([*text, 20_000, *text[:20]])
    draft = session.draft()
    assert chain_of(draft) == text[20 : 20 + len(draft)]
    assert goes_as_far_as_it_can(draft, nodes)
    assert len(draft) >= min(nodes, 8 if kind == "ngram" else 32)


@pytest.mark.kernels
@pytest.mark.parametrize("kind", ["suffix", "combined"])
@pytest.mark.parametrize("period", [[7], [1, 2, 3], [4, 4, 5], distinct(3, 20)], ids=["1", "3", "aab", "20"])
def test_periodic_text_is_drafted_beyond_its_end(kind, period):
    """The draft goes round and round: it is not bounded by how much of the text follows its match."""
    length = 2 * len(period) + 1
    text = period * 60
    session = drafter(kind, cost=FLAT).session()
    session.sync(text[:length])
    draft = session.draft()
    chain = draft.token_ids[draft.best_chain()].tolist()
    assert chain == text[length : length + len(chain)]
    assert len(chain) > len(period)  # after the match of one period and a token, one period is left
    assert goes_as_far_as_it_can(draft, 32)


def test_what_followed_more_often_comes_first():
    """Of two continuations, the one seen three times is more probable than the one seen once."""
    session = drafter(cost=FLAT).session()
    session.sync([5, 6, 8, 0, 5, 6, 7, 1, 5, 6, 7, 2, 5, 6, 7, 3, 5, 6])
    draft = session.draft()
    first = {
        int(t): float(p) for t, q, p in zip(draft.token_ids, draft.parents, draft.probs, strict=True) if q < 0
    }
    assert first[7] > first[8] > 0
    assert int(draft.token_ids[0]) == 7


def test_nothing_is_drafted_where_nothing_was_seen():
    """An empty context, and one whose last token is new, have no draft."""
    session = drafter("combined", cost=FLAT).session()
    assert len(session.draft()) == 0
    session.sync([1, 2, 3, 4])
    assert len(session.draft()) == 0


def test_the_budget_follows_the_cost():
    """The same text drafts all where drafting is free, and little where a node costs almost a forward."""
    text = [*distinct(4, 80), 20_000]
    lengths = {}
    for name, cost in {"free": FLAT, "gpu": CostCurve.named("gpu"), "steep": STEEP}.items():
        session = drafter(cost=cost).session()
        session.sync([*text, *text[:20]])
        lengths[name] = len(session.draft())
    assert lengths["free"] == 32
    assert lengths["free"] >= lengths["gpu"] > lengths["steep"]


def test_the_cost_can_change_between_drafts():
    """``set_cost`` holds from the next draft on, for sessions under way too."""
    text = [*distinct(5, 80), 20_000]
    shared = drafter(cost=FLAT)
    session = shared.session()
    session.sync([*text, *text[:20]])
    assert len(session.draft()) == 32
    shared.set_cost(STEEP)
    assert len(session.draft()) < 32
    shared.set_cost(None)
    assert len(session.draft()) == 32


def test_a_smaller_budget_is_a_prefix():
    """``draft(5)`` is the first five nodes of ``draft()``; ``draft(0)`` is no draft."""
    text = distinct(6, 50)
    session = drafter(cost=FLAT).session()
    session.sync([*text, 20_000, *text[:9]])
    whole, part = session.draft(), session.draft(5)
    assert part.token_ids.tolist() == whole.token_ids.tolist()[:5]
    assert part.parents.tolist() == whole.parents.tolist()[:5]
    assert len(session.draft(0)) == 0


@pytest.mark.kernels
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_a_small_budget_finds_what_a_large_one_finds_first(kind, seed):
    """What is left out of a draft of few nodes would not have been among its best: nothing is pruned too early."""
    rng = random.Random(seed)
    context, output = random_text(rng, 300), random_text(rng, 10)
    sessions = {nodes: drafter(kind, cost=FLAT, max_nodes=nodes).session() for nodes in (4, 16, 64)}
    for length in range(len(output)):
        for session in sessions.values():
            session.sync(
                [*context, *output[:length]]
            )  # and not accept, which would teach each something else
        drafts = {nodes: session.draft() for nodes, session in sessions.items()}
        for nodes in (4, 16):
            few, best = drafts[nodes].probs, drafts[64].probs[:nodes]
            assert len(few) == len(best), f"seed {seed}"
            assert few.sum() >= best.sum() * (1 - 1e-4), f"seed {seed}"


def test_a_draft_outlives_the_next_one():
    """A draft is a value: later drafts do not write into its arrays."""
    text = distinct(7, 50)
    session = drafter(cost=FLAT).session()
    session.sync([*text, 20_000, *text[:9]])
    draft = session.draft()
    before = [array.tolist() for array in (draft.token_ids, draft.parents, draft.probs)]
    session.accept(np.array([text[9], 3], np.int32))
    session.draft()
    assert [array.tolist() for array in (draft.token_ids, draft.parents, draft.probs)] == before


# -- where it comes from ----------------------------------------------------------------------------------

SECRET = distinct(8, 12, 30_000, 40_000)


def secret_drafted(session, prompt) -> bool:
    """Whether the session drafts the secret after its first three tokens."""
    session.sync([*prompt, *SECRET[:3]])
    return bool(drafted(session) & set(SECRET))


@pytest.mark.kernels
@pytest.mark.parametrize("kind", KINDS)
def test_namespaces_never_mix(kind):
    """What was written in one namespace is drafted there, and in no other."""
    shared = drafter(kind, cost=FLAT)
    writer = shared.session("a")
    run_turn(writer, [1, 2], SECRET)
    writer.close()
    assert secret_drafted(shared.session("a"), [3, 4])
    assert not secret_drafted(shared.session("b"), [3, 4])
    assert not secret_drafted(shared.session(), [3, 4])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("history", "same_session", "later_session"),
    [("off", False, False), ("session", True, False), ("namespace", True, True)],
)
def test_history_modes(kind, history, same_session, later_session):
    """Off: a turn stands alone. Session: the session's own turns. Namespace: earlier sessions too."""
    shared = drafter(kind, cost=FLAT, history=history)
    session = shared.session()
    run_turn(session, [1, 2], SECRET)
    # The next prompt departs from the first one, so that what was written is not in it.
    assert secret_drafted(session, [7, 8]) is same_session
    session.close()
    assert (shared.indexed_tokens > 0) is (later_session and kind != "ngram")
    later = shared.session()
    assert secret_drafted(later, [7, 8]) is later_session
    # A prompt that holds the text is drafted from in any case.
    assert secret_drafted(later, [*SECRET, 9])


def test_only_outputs_become_history():
    """The suffix drafter's history is what was written, not what was read."""
    shared = drafter(cost=FLAT)
    session = shared.session()
    run_turn(session, [1, 2, *SECRET, *distinct(13, 40)], [5, 6])
    session.close()
    assert not secret_drafted(shared.session(), [7, 8])


def test_an_output_is_history_when_its_turn_ends():
    """Not before it is complete, not once more when the session is closed, and not where none is kept."""
    shared = drafter(cost=FLAT)
    session, other = shared.session(), shared.session()
    session.sync([1, 2])
    session.accept(np.array(SECRET, np.int32))
    assert not secret_drafted(other, [7, 8])
    session.end_turn()
    assert secret_drafted(other, [7, 8])
    tokens = shared.indexed_tokens
    assert tokens == len(SECRET) + 2 + 1, "with the end of its prompt, and a sentinel"
    session.end_turn()
    session.close()
    assert shared.indexed_tokens == tokens
    session = shared.session()
    session.sync([3, 4])
    session.accept(np.array([5, 6], np.int32))
    session.close()
    assert shared.indexed_tokens == tokens, "an output that is not complete"
    alone = drafter(cost=FLAT, history="session")
    run_turn(alone.session(), [1, 2], SECRET)
    assert alone.indexed_tokens == 0


@pytest.mark.kernels
@pytest.mark.parametrize("kind", ["suffix", "combined", "ngram"])
def test_sessions_of_a_namespace_may_take_turns(kind):
    """Two loops under way at once: each is drafted from its own context, as if the other were not there."""
    a_text, b_text = distinct(15, 40, 0, 5_000), distinct(16, 40, 5_000, 10_000)
    shared = drafter(kind, cost=FLAT, history="namespace")
    a, b = shared.session(), shared.session()
    a.sync([*a_text, 20_000])
    b.sync([*b_text, 20_001])
    for i in range(10):
        a.accept(np.array(a_text[i : i + 1], np.int32))
        b.accept(np.array(b_text[i : i + 1], np.int32))
    assert int(a.draft().token_ids[0]) == a_text[10]
    assert int(b.draft().token_ids[0]) == b_text[10]
    # The last token of one and the next of the other never stood side by side. (A suffix drafter believes that
    # one token of the text was replaced.)
    a.accept(np.array(b_text[9:10], np.int32))
    assert drafted(a) & set(a_text) <= (set() if kind == "ngram" else set(a_text[11:]))


def test_the_first_token_of_an_output_is_drafted_from_history():
    """The end of the prompt that an output followed is remembered with it."""
    shared = drafter(cost=FLAT)
    session = shared.session()
    prompt = distinct(9, 30)
    run_turn(session, prompt, SECRET)
    session.close()
    later = shared.session()
    later.sync([9_999, *prompt[10:]])
    draft = later.draft()
    assert draft.token_ids[draft.best_chain()].tolist() == SECRET
    assert set(later.sources(len(draft)).tolist()) == {HISTORY}


def test_sources_name_where_a_node_came_from():
    """Session, history and n-grams are told apart, also after the draft was judged."""
    shared = drafter("combined", cost=FLAT)
    writer = shared.session()
    run_turn(writer, [1, 2], SECRET)
    writer.close()
    session = shared.session()
    text = distinct(10, 20)
    session.sync([*text, 20_000, *text[:5]])
    draft = session.draft()
    assert set(session.sources(len(draft)).tolist()) == {SESSION}
    session.accept(np.array(SECRET[:3], np.int32))
    draft = session.draft()
    sources = session.sources(len(draft))
    assert int(draft.token_ids[0]) == SECRET[3]
    assert sources[0] in (HISTORY, NGRAM)
    session.accept(np.array(SECRET[3:5], np.int32))
    assert session.sources(len(draft)).tolist() == sources.tolist()
    ngrams = drafter("ngram", cost=FLAT).session()
    ngrams.sync([*text, 20_000, *text[:5]])
    assert set(ngrams.sources(len(ngrams.draft())).tolist()) == {NGRAM}


# -- no trace of what was rejected ------------------------------------------------------------------------


def index_state(session) -> list[np.ndarray]:
    """Everything that the session's indexes hold."""
    parts = [array.copy() for array in (*session._index.tree.arrays, session._index.tree.state)]
    if session._index.history is not None:
        for cursor in session._index.history.current():
            parts += [array.copy() for array in (*cursor.tree.arrays, cursor.state, cursor.recent())]
    if session._ngrams is not None:
        parts += [session._ngrams.index.table.copy(), session._ngrams.tail.copy()]
    return [*parts, session.context.copy()]


def same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def random_text(rng: random.Random, length: int) -> list[int]:
    text: list[int] = [1]
    while len(text) < length:
        start = rng.randrange(len(text))
        text += rng.choice([text[start : start + 9], [rng.randrange(30)]])
    return text[:length]


@pytest.mark.kernels
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_drafting_changes_no_index(kind, seed):
    """One drafter drafts before every step, the other never: their indexes and next drafts are the same."""
    rng = random.Random(seed)
    eager, lazy = drafter(kind, cost=FLAT), drafter(kind, cost=FLAT)
    for _ in range(3):
        a, b = eager.session(), lazy.session()
        context: list[int] = []
        for _ in range(2):
            prompt, output = [*context, *random_text(rng, 40)], random_text(rng, 30)
            assert a.sync(prompt) == b.sync(prompt)
            at = 0
            while at < len(output):
                emitted = np.array(output[at : at + rng.randrange(1, 6)], np.int32)
                before = index_state(a)
                first, second = a.draft(), a.draft()
                assert same(before, index_state(a)), f"seed {seed}: drafting changed an index"
                assert first.token_ids.tolist() == second.token_ids.tolist()
                a.accept(emitted)
                b.accept(emitted)
                at += len(emitted)
            assert same(index_state(a), index_state(b)), f"seed {seed}"
            a._index.tree.check()
            # What remains of drafts is what they taught, and what the context was seen to stray from.
            lazy.calibration = copy.deepcopy(eager.calibration)
            b._strayed[:] = a._strayed
            x, y = a.draft(), b.draft()
            assert x.token_ids.tolist() == y.token_ids.tolist(), f"seed {seed}"
            assert x.probs.tolist() == y.probs.tolist()
            a.end_turn()
            b.end_turn()
            context = [*prompt, *output][: rng.choice([70, 55, 10])]
        a.close()
        b.close()


# -- calibration ------------------------------------------------------------------------------------------


@pytest.mark.kernels
def test_evidence_that_fails_is_trusted_less():
    """A kind of repeat that never goes on as before stops being drafted, one that always does is kept."""
    probs = {}
    for outcome in ("fails", "holds"):
        shared = drafter(cost=STEEP)
        session = shared.session()
        text = distinct(11, 400)
        session.sync(text)
        for piece in distinct(14, 75, 0, 75):
            # Two tokens that were seen side by side once, and then what followed them, or something new.
            i = 4 * piece
            session.accept(np.array(text[i : i + 2], np.int32))
            session.draft()
            session.accept(np.array([text[i + 2] if outcome == "holds" else 50_000 + i], np.int32))
        session.accept(np.array(text[310:312], np.int32))
        shared.set_cost(FLAT)
        probs[outcome] = float(session.draft(1).probs[0])
        shared.set_cost(STEEP)
        assert (len(session.draft()) > 0) is (outcome == "holds")
    assert probs["fails"] < 0.2
    assert probs["holds"] > 0.9


def chance(text: list[int], token: int) -> float:
    """The probability that a drafter without experience gives a token after a text."""
    session = drafter(cost=FLAT).session()
    session.sync(text)
    draft = session.draft()
    follows = (draft.parents < 0) & (draft.token_ids == token)
    return float(draft.probs[follows].sum())


def test_longer_and_clearer_repeats_are_trusted_more():
    """Before anything was learned, a chance grows with the length, the number and the share of the repeats."""
    a, b, *more = distinct(17, 60)
    short, long = [1, b], [*more[:20], b]
    assert chance([*long, a, 20_000, *long], a) > chance([*short, a, 20_000, b], a) > 0
    often = [x for i in range(9) for x in (b, a, more[i])]
    assert chance([*often, b], a) > chance([b, a, more[0], b], a)
    mixed = [x for i in range(9) for x in (b, a if i % 3 else 77, more[i])]
    assert chance([*often, b], a) > chance([*mixed, b], a) > chance([*mixed, b], 77) > 0


def test_what_was_trusted_for_long_can_lose_its_trust():
    """After thousands of repeats that held, some hundreds that fail count for more than the old ones."""
    shared = drafter(cost=FLAT)
    session = shared.session()
    text = distinct(18, 9_000)
    session.sync(text)

    def repeat(pieces: range, held: bool) -> float:
        for piece in pieces:
            i = 4 * (7 * piece % 2_000)
            session.accept(np.array(text[i : i + 2], np.int32))
            probability = float(session.draft(1).probs[0])
            session.accept(np.array([text[i + 2] if held else 50_000 + piece], np.int32))
        return probability

    assert repeat(range(1_500), held=True) > 0.9
    assert repeat(range(1_500, 2_000), held=False) < 0.5


@pytest.mark.kernels
def test_a_node_is_judged_only_where_its_parent_was_right():
    """A draft that fails at its first node says nothing of the nodes after it: their kind keeps its trust."""
    text = distinct(19, 400)
    probs = {}
    for wrong_at in (0, 1):
        shared = drafter(cost=FLAT)
        session = shared.session()
        session.sync(text)
        for piece in distinct(20, 60, 0, 60):
            i = 6 * piece
            session.accept(np.array(text[i : i + 2], np.int32))
            session.draft()
            wrote = [text[i + 2], text[i + 3]]
            wrote[wrong_at] = 50_000 + i
            session.accept(np.array(wrote, np.int32))
        session.accept(np.array(text[380:382], np.int32))
        draft = session.draft()
        # Probability of the second node given the first.
        probs[wrong_at] = float(draft.probs[1] / draft.probs[0])
    assert probs[1] < probs[0]


# -- the protocol -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [NoDrafter(), *(drafter(kind) for kind in KINDS)], ids=lambda d: d.name)
def test_every_drafter_keeps_to_the_protocol(made):
    """A turn through every method: what the engine and the replay rely on."""
    assert isinstance(made, Drafter)
    session = made.session("n")
    assert isinstance(session, DraftSession)
    assert session.sync([1, 2, 3, 1, 2]) == 0
    draft = session.draft(4)
    assert len(draft) <= 4
    assert session.sources(len(draft)).shape == (len(draft),)
    session.accept(np.array([3, 1], np.int32))
    session.end_turn()
    assert session.nbytes >= 0
    assert made.nbytes >= 0
    own, history = (0, 0) if made.name == "none" else (7, 8 if made.suffix else 0)
    assert (session.indexed_tokens, made.indexed_tokens) == (own, history)
    known = session.sync([1, 2, 3, 1, 2, 3, 1, 9])
    assert known == (0 if made.name == "none" else 7)
    session.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"suffix": False}, "expected at least one of suffix and ngram, got neither"),
        ({"history": "all"}, "expected history to be one of off, session, namespace, got 'all'"),
        ({"max_nodes": 0}, "expected max_nodes from 1 to 1024, got 0"),
        ({"max_nodes": 1025}, "expected max_nodes from 1 to 1024, got 1025"),
    ],
    ids=["no source", "history", "no nodes", "too many nodes"],
)
def test_what_makes_no_drafter_is_refused(arguments, message):
    """Settings without a meaning are refused when the drafter is made."""
    with pytest.raises(ValueError, match=message):
        IndexDrafter(**arguments)


@pytest.mark.parametrize("wrong", [[-1], [2**31], [[1, 2]], [1.5]], ids=str)
def test_a_wrong_prompt_changes_nothing(wrong):
    """Tokens out of range, floats, two dimensions: refused, and the session goes on as before."""
    session = drafter("combined").session()
    session.sync([1, 2, 3])
    before = index_state(session)
    with pytest.raises((TypeError, ValueError)):
        session.sync(wrong)
    with pytest.raises((TypeError, ValueError)):
        session.accept(np.array(wrong))
    assert same(before, index_state(session))
    assert session.sync([1, 2, 3, 4]) == 3


@pytest.mark.kernels
def test_a_history_without_its_sentinel_is_drafted_to_its_end():
    """An output that was interrupted before its sentinel was written is drafted to its end and not beyond."""
    output = [1, 2, 3, 4, 5, 6]
    combined = IndexDrafter(ngram=True)
    tree = combined.history.index("default").trees[0]
    tree.extend([*range(1000, 1050), *output])
    combined.ngrams("default").cursor().extend([*output[3:], 7, 8] * 3)
    session = combined.session()
    session.sync(output[:3])
    assert chain_of(session.draft())[:5] == [4, 5, 6, 7, 8]


# -- resuming ---------------------------------------------------------------------------------------------


def test_after_a_change_the_text_is_resumed():
    """A copy in which one token became another, or two, or none goes on where the original does."""
    text = distinct(17, 40, 0, 5_000)
    for written in ([9_001], [9_001, 9_002], [9_001, 9_002, text[13]], [text[12]]):
        session = drafter(cost=FLAT).session()
        session.sync([*text, 20_000])
        session.draft()
        session.accept(np.array(text[:5], np.int32))
        assert int(session.draft().token_ids[0]) == text[5]
        session.accept(np.array([*text[5:10]], np.int32))
        for token in written:  # where text[10] stood
            session.draft()
            session.accept(np.array([token], np.int32))
        draft = session.draft()
        expected = {9_001: text[11], 9_002: text[12], text[13]: text[14], text[12]: text[13]}[written[-1]]
        assert int(draft.token_ids[0]) == expected, f"after {written}"


def test_a_prompt_ends_what_could_be_resumed():
    """What the context strayed from in one turn is not offered in the next one."""
    text = distinct(18, 40, 0, 5_000)
    session = drafter(cost=FLAT).session()
    session.sync([*text, 20_000])
    for token in (*text[:9], 9_001):
        session.draft()
        session.accept(np.array([token], np.int32))
    assert int(session.draft().token_ids[0]) == text[10]
    session.end_turn()
    session.sync([*session.context.tolist(), 9_002])
    assert not drafted(session) & set(text)


def test_lenient_turns_resume_too_and_teach_nothing():
    """A turn that teaches nothing leaves the calibration alone, and still knows what it strayed from."""
    text = distinct(19, 40, 0, 5_000)
    shared = drafter(cost=FLAT)
    session = shared.session()
    session.sync([*text, 20_000], learn=False)
    before = shared.calibration.cells.copy(), shared.calibration.weights.copy()
    for token in (*text[:9], 9_001):
        session.draft()
        session.accept(np.array([token], np.int32))
    assert int(session.draft().token_ids[0]) == text[10]
    assert np.array_equal(before[0], shared.calibration.cells)
    assert np.array_equal(before[1], shared.calibration.weights)


def test_history_is_resumed_until_its_places_are_others():
    """What is added behind a place leaves it; when a generation begins, the place may be one of another text."""
    shared = drafter(cost=FLAT, history_bytes=4 * 2 * 16_384)
    writer = shared.session()
    run_turn(writer, [1, 2], SECRET)
    writer.close()
    session = shared.session()
    session.sync([7, 8])
    for token in (*SECRET[:9], 9_001):
        session.draft()
        session.accept(np.array([token], np.int32))
    assert int(session.draft().token_ids[0]) == SECRET[10]
    other = shared.session()
    run_turn(other, [3, 4], distinct(20, 30, 6_000, 9_000))
    assert int(session.draft().token_ids[0]) == SECRET[10]
    history = shared.history.index("default")
    while history.epoch == 0:
        run_turn(other, [3, 4], distinct(21, 30, 9_000, 12_000))
    assert not drafted(session), "neither the old text nor what stands in its place"
