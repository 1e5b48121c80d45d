"""Where an output stands in its prediction, and what is drafted from there."""

import random

import numpy as np
import pytest

from suffixspec.draft import IndexDrafter, NoDrafter
from suffixspec.draft.alignment import Alignment
from suffixspec.draft.predicted import PREDICTION, PredictedDraftSession, PredictionTrust

TEXT = list(range(100, 140))


def follow(prediction, output) -> Alignment:
    alignment = Alignment(prediction)
    for token in output:
        alignment.push(token)
    return alignment


def next_tokens(alignment: Alignment) -> list[int]:
    """What the pointers say comes next, the most likely first."""
    return [int(tokens[0]) for tokens, _, _ in alignment.chains()]


def counts(prediction, output) -> tuple[int, int]:
    alignment = follow(prediction, output)
    return alignment.accepted, alignment.rejected


# -- following --------------------------------------------------------------------------------------------


def test_it_begins_at_the_start():
    """Before the first token the whole prediction is what comes next; then the rest of it; then nothing."""
    alignment = Alignment(TEXT)
    for place, token in enumerate(TEXT):
        ((tokens, _, run),) = alignment.chains()
        assert tokens.tolist() == TEXT[place:]
        assert run == place
        alignment.push(token)
    assert list(alignment.chains()) == []
    assert (alignment.accepted, alignment.rejected) == (40, 0)


@pytest.mark.parametrize(
    ("name", "output", "following", "rejected"),
    [
        ("replaced", [*TEXT[:10], 1, 2], 12, 2),
        ("replaced by fewer", [*TEXT[:10], 1, TEXT[13]], 14, 3),
        ("inserted", [*TEXT[:10], 1, 2, 3], 10, 0),
        ("deleted", [*TEXT[:10], *TEXT[15:17]], 17, 5),
        ("deleted at the start", TEXT[5:7], 7, 5),
        ("inserted at the start", [1, 2, 3, 4], 0, 0),
        ("much inserted", [*TEXT[:10], *range(30), TEXT[10]], 11, 0),
        ("moved back", [*TEXT[:20], *TEXT[3:6]], 6, 0),
    ],
)
def test_it_finds_its_place_again(name, output, following, rejected):
    """After tokens replaced, inserted or left out a pointer goes on at the right place, and counts go on."""
    alignment = follow(TEXT, output)
    assert TEXT[following] in next_tokens(alignment), name
    for token in TEXT[following:]:
        alignment.push(token)
    assert (alignment.accepted, alignment.rejected) == (40 - rejected, rejected)


def test_of_several_places_the_nearest_ahead_is_taken():
    """A token that stands in many places: the next of them, not the first."""
    text = [1, 2, 3, 9, 4, 9, 5, 9, 6]
    assert next_tokens(follow(text, [1, 2, 3, 9, 4, 7, 9]))[0] in {5, 6}
    alignment = follow(text, [1, 2, 3, 9, 4, 7, 7, 7, 7, 7, 7, 7, 7, 7, 9])
    assert next_tokens(alignment) == [5]
    alignment = follow(text, [1, 2, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 4, 9])
    assert next_tokens(alignment) == [5]


def test_a_longer_match_counts_for_more_than_a_near_one():
    """Of places that agree in one token and in three the latter comes first."""
    text = [1, 5, 20, 21, 22, 5, 30, 31, 32, 5, 40]
    assert next_tokens(follow(text, [1, 7, 7, 7, 7, 7, 7, 7, 7, 7, 31, 32, 5])) == [40]


# -- counting ---------------------------------------------------------------------------------------------


def test_each_token_of_the_prediction_counts_once():
    """Repeated in the output, it is accepted once; absent, it is rejected; both sum up to the prediction."""
    assert counts(TEXT, TEXT + TEXT) == (40, 0)
    assert counts(TEXT, [1, 2, 3]) == (0, 40)
    assert counts(TEXT, []) == (0, 40)
    assert counts([], [1, 2]) == (0, 0)
    assert counts([5], [5]) == (1, 0)
    assert counts([1, 2, 3, 4], [1, 9, 3, 4]) == (3, 1)


def test_a_single_token_that_agrees_by_chance_does_not_count():
    """Elsewhere in the output a lone token of the prediction says nothing; two in a row do."""
    text = [50, *TEXT]
    assert counts(text, [*range(1, 20), TEXT[30], 1, 2, 3]) == (0, 41)
    assert counts(text, [*range(1, 20), TEXT[30], TEXT[31], 1, 2, 3]) == (2, 39)


def test_counts_of_random_edits_are_those_of_the_edit():
    """Random replacements, insertions and deletions in text without repeats: what was kept is accepted."""
    for seed in range(100):
        rng = random.Random(seed)
        text = rng.sample(range(1000, 9000), rng.randint(20, 300))
        output, kept, at = [], 0, 0
        while at < len(text):
            run = rng.randint(4, 30)
            output += text[at : at + run]
            kept += len(text[at : at + run])
            at += run
            edit = rng.choice("rid")
            if edit in "ri" and at < len(text):
                output += [rng.randrange(1000) for _ in range(rng.randint(1, 5))]
            if edit in "rd":
                at += rng.randint(1, 5)
        alignment = follow(text, output)
        assert alignment.accepted + alignment.rejected == len(text), f"seed {seed}"
        assert kept - 3 <= alignment.accepted <= kept, f"seed {seed}"


def test_a_huge_prediction_costs_little_where_it_is_lost():
    """A hundred thousand tokens, found again in a few array operations; the result is as for a short one."""
    rng = np.random.default_rng(0)
    text = rng.integers(0, 50_000, 100_000)
    alignment = follow(text, [*text[:5], 60_000, 60_001, *text[70_000:70_003]])
    assert next_tokens(alignment)[0] == text[70_003]
    assert alignment.accepted == 8


# -- drafting ---------------------------------------------------------------------------------------------


def session(prediction, inner=None, *, nodes: int = 16, costs=None, **more) -> PredictedDraftSession:
    inner = inner or NoDrafter().session()
    trust = more.pop("trust", PredictionTrust())
    return PredictedDraftSession(
        inner, Alignment(prediction), trust, max_nodes=nodes, costs=lambda: costs, **more
    )


def test_the_first_draft_is_the_predictions_start():
    """One path, parents first, with falling probabilities, all from the prediction; the bounds are kept."""
    drafting = session(TEXT)
    drafting.sync([1, 2, 3])
    draft = drafting.draft()
    assert draft.token_ids.tolist() == TEXT[:16]
    assert draft.parents.tolist() == list(range(-1, 15))
    assert (np.diff(draft.probs) <= 0).all()
    assert drafting.sources(16).tolist() == [PREDICTION] * 16
    assert len(drafting.draft(5)) == 5
    assert len(drafting.draft(0)) == 0
    assert len(session([]).draft()) == 0
    assert len(session(TEXT, drafts=False).draft()) == 0


def test_after_a_difference_all_ways_to_go_on_are_in_the_draft():
    """Replaced, inserted: both continuations hang beside each other on the context."""
    drafting = session(TEXT)
    drafting.sync([1])
    drafting.accept(np.array([*TEXT[:5], 7], np.int32))
    draft = drafting.draft()
    first = draft.token_ids[draft.parents == -1].tolist()
    assert set(first) == {TEXT[6], TEXT[5]}


def test_it_is_merged_with_what_the_index_knows():
    """One tree under one budget: shared nodes once, siblings that are at most certain together."""
    inner = IndexDrafter(max_nodes=16).session()
    drafting = session([5, 6, 7, 8, 9], inner)
    prompt = [1, 2, 3, 5, 6, 30, 31, 1, 2, 3, 5, 6, 30, 31, 1, 2, 3]
    drafting.sync(prompt)
    draft = drafting.draft()
    paths = draft.paths()
    assert any(path[:5] == [5, 6, 7, 8, 9] for path in paths)
    assert any(path[:4] == [5, 6, 30, 31] for path in paths)
    draft._check()
    assert len(draft) <= 16
    for parent in {-1, *draft.parents.tolist()}:
        whole = 1.0 if parent < 0 else float(draft.probs[parent])
        assert draft.probs[draft.parents == parent].sum() <= whole + 1e-6
    sources = drafting.sources(len(draft)).tolist()
    assert {0, PREDICTION} <= set(sources)
    assert sources[draft.token_ids.tolist().index(8)] == PREDICTION


def test_only_what_pays_is_drafted():
    """Where a node costs nine tenths of a forward, few are; where it costs more than one, none."""
    steep = (1 + 0.9 * np.arange(17)).astype(np.float32)
    drafting = session(TEXT, costs=steep)
    assert 0 == len(drafting.draft()) < len(session(TEXT, costs=(steep - 1) / 2 + 1).draft()) < 16
    assert len(session(TEXT, costs=np.ones(9, np.float32)).draft()) == 8


def test_trust_is_learned_apart_for_greedy_and_sampled():
    """Predictions that fail at the start are drafted less; at another temperature nothing is known of it."""
    trust = PredictionTrust()
    for _ in range(50):
        drafting = session(TEXT, trust=trust)
        drafting.sync([1])
        drafting.accept(np.array([7], np.int32))
    greedy, sampled = session(TEXT, trust=trust), session(TEXT, trust=trust)
    greedy.sync([1])
    sampled.sync([1], temperature=1.0)
    assert greedy.draft().probs[0] < 0.2
    assert sampled.draft().probs[0] > 0.7
    for _ in range(50):  # lenient turns say nothing about the target
        drafting = session(TEXT, trust=trust)
        drafting.sync([1], temperature=1.0, learn=False)
        drafting.accept(np.array([7], np.int32))
    assert sampled.draft().probs[0] > 0.7


def test_the_inner_session_indexes_the_output_and_never_the_prediction():
    """What the session's index holds afterwards is the prompt and the output."""
    inner = IndexDrafter().session()
    drafting = session(TEXT, inner)
    drafting.sync([1, 2, 3])
    drafting.draft()
    drafting.accept(np.array([4, 5], np.int32))
    drafting.end_turn()
    assert inner.context.tolist() == [1, 2, 3, 4, 5]
    assert inner._index.tree.tokens.tolist() == [1, 2, 3, 4, 5]
    assert drafting.nbytes == inner.nbytes + 160
    assert drafting.indexed_tokens == inner.indexed_tokens == 5
