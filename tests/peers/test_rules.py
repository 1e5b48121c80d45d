"""The peers that are written from their rules: by hand, and against the rule written in the obvious way."""

import random

import numpy as np
import pytest

from suffixspec.replay.peers import make_peer
from suffixspec.replay.peers.automaton import AutomatonDrafter, AutomatonSettings
from suffixspec.replay.peers.ngram import NgramDrafter, NgramSettings
from suffixspec.replay.peers.suffix_automaton import SuffixAutomaton

from .slow import automaton_draft, longest_match, loop, ngram_draft, occurrences, text


def drafted(drafter, context: list[int]) -> list[int]:
    """What a fresh session of the drafter drafts after a prompt; every draft is one path."""
    session = drafter.session()
    session.sync(np.array(context, np.int32))
    draft = session.draft()
    assert draft.parents.tolist() == list(range(-1, len(draft) - 1))
    return draft.token_ids.tolist()


# -- prompt lookup and the n-gram proposer ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ([1, 2, 3, 4, 1, 2, 5, 6, 1, 2], [3, 4, 1, 2, 5, 6, 1, 2]),  # first occurrence of 1 2, to the end
        ([7, 3, 4, 8, 3, 5, 9, 3], [4, 8, 3, 5, 9, 3]),  # 9 3 is new; 3 was first followed by 4
        ([1, 2, 3], []),  # nothing repeats
        ([5, 5], [5]),  # an occurrence may overlap the end, if something follows it
        ([5], []),
        ([], []),
        ([1, 2, *range(10, 30), 1, 2], list(range(10, 20))),  # ten tokens
    ],
)
def test_prompt_lookup_copies_after_the_first_bigram_or_else_the_first_token(context, expected):
    """With n = 2, then 1: the first occurrence decides, ten tokens or up to the end are copied."""
    assert drafted(make_peer("prompt-lookup", max_nodes=32), context) == expected


def test_the_ngram_proposer_takes_the_longest_of_two_to_five():
    """A longer match later wins over a shorter one earlier; a single token is no match."""
    drafter = make_peer("vllm-ngram", max_nodes=3)
    assert drafted(drafter, [4, 5, 90, 1, 2, 3, 4, 5, 91, 92, 93, 94, 2, 3, 4, 5]) == [91, 92, 93]
    # Only the last five count: the first occurrence of those, not the one that goes on matching before them.
    assert drafted(drafter, [8, 2, 3, 4, 5, 6, 70, 9, 2, 3, 4, 5, 6, 71, 9, 2, 3, 4, 5, 6]) == [70, 9, 2]
    assert drafted(drafter, [1, 2, 3, 1]) == []


def test_the_node_budget_caps_what_is_copied():
    """Ten tokens by the rule, four by the budget, two by the call."""
    session = make_peer("prompt-lookup", max_nodes=4).session()
    session.sync(np.array([*range(20), 0, 1], np.int32))
    assert session.draft().token_ids.tolist() == [2, 3, 4, 5]
    assert session.draft(2).token_ids.tolist() == [2, 3]


# -- the automaton ----------------------------------------------------------------------------------------


def test_the_automaton_copies_after_the_longest_match():
    """Of 2 3 4 and 4, which both occurred, the longer one decides, wherever it is."""
    context = [4, 50, 2, 3, 4, 60, 61, 4, 70, 2, 3, 4]
    for which in ("recent", "first"):
        assert drafted(make_peer(f"automaton:occurrence={which}:tokens=2", max_nodes=32), context) == [60, 61]


def test_the_automaton_copies_the_recent_or_the_first_occurrence():
    """The same match at two places: one option takes the later, the other the earlier one."""
    context = [1, 2, 30, 1, 2, 40, 1, 2]
    assert drafted(make_peer("automaton:occurrence=recent", max_nodes=1), context) == [40]
    assert drafted(make_peer("automaton:occurrence=first", max_nodes=1), context) == [30]


def test_the_automaton_copies_from_earlier_sessions_of_the_namespace():
    """History counts once the session is closed, in its namespace only, and never beyond the end of an output."""
    drafter = make_peer("automaton", max_nodes=8)
    first = drafter.session("mine")
    first.sync(np.array([90], np.int32))
    first.accept(np.array([1, 2, 3, 4], np.int32))
    first.end_turn()
    again = np.array([91, 1, 2], np.int32)
    for namespace, closed, expected in (("mine", False, []), ("mine", True, [3, 4]), ("other", True, [])):
        if closed:
            first.close()
        session = drafter.session(namespace)
        session.sync(again)
        draft = session.draft()
        assert draft.token_ids.tolist() == expected
        assert session.sources(len(draft)).tolist() == [1] * len(expected)


def test_a_session_sees_history_that_comes_while_it_runs():
    """Another session ends in the middle of this one: from its next step on it is copied from."""
    drafter = make_peer("automaton", max_nodes=8)
    running, other = drafter.session(), drafter.session()
    running.sync(np.array([90, 1], np.int32))
    for output in ([1, 2, 3, 4], [7, 2, 6]):
        other.sync(np.array([80], np.int32))
        other.accept(np.array(output, np.int32))
        other.end_turn()
    other.close()
    assert len(running.draft()) == 0
    running.accept(np.array([2], np.int32))
    # The 1 that came before the history did is a part of the match.
    assert running.draft().token_ids.tolist() == [3, 4]


@pytest.mark.parametrize("seed", range(30))
def test_the_automaton_knows_first_and_recent_occurrences(seed):
    """After every token: the longest repeated suffix, and where it ended first and last before the end."""
    rng = random.Random(seed)
    tokens = text(rng, 60, alphabet=rng.choice([2, 4]))
    automaton = SuffixAutomaton()
    for at, token in enumerate(tokens, start=1):
        automaton.append(token)
        state, length = automaton.repeat()
        expected, ends = longest_match(tokens[:at], tokens[:at])
        assert length == expected, f"seed {seed}, {at} tokens"
        if length:
            assert (automaton.first[state], automaton.recent[state]) == (ends[0], ends[-1]), f"seed {seed}"
    # Every substring is found, and where it ends first.
    for _ in range(20):
        start = rng.randrange(len(tokens))
        piece = tokens[start : start + rng.randint(1, 6)]
        state, length = 0, 0
        for token in piece:
            state, length = automaton.step(state, length, token)
        assert length == len(piece), f"seed {seed}"
        everywhere = occurrences([*tokens, -1], piece)
        assert automaton.first[state] == everywhere[0], f"seed {seed}"


# -- against the obvious versions ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "settings",
    [
        NgramSettings(),
        NgramSettings(longest=5, shortest=2, tokens=32),
        NgramSettings(longest=3, shortest=3, tokens=4),
    ],
    ids=["prompt-lookup", "vllm-ngram", "trigram"],
)
def test_ngrams_draft_what_the_obvious_version_drafts(seed, settings):
    """Over whole loops, prompts that change earlier text included: the same draft in every step."""
    rng = random.Random(seed)
    session = NgramDrafter(name="x", settings=settings, max_nodes=16).session()
    for turn in loop(rng, "s", rewrite=seed % 2 == 1).turns:
        session.sync(turn.prompt_ids)
        for context, block in steps(rng, turn):
            expected = ngram_draft(
                context,
                longest=settings.longest,
                shortest=settings.shortest,
                tokens=min(settings.tokens, 16),
            )
            assert session.draft().token_ids.tolist() == expected, f"seed {seed}, after {context}"
            session.accept(np.array(block, np.int32))
        session.end_turn()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("occurrence", ["recent", "first"])
def test_the_automaton_drafts_what_the_obvious_version_drafts(seed, occurrence):
    """Over three loops, the outputs of the earlier ones as history: the same draft, from the same place."""
    rng = random.Random(seed)
    settings = AutomatonSettings(occurrence=occurrence, shortest=rng.choice([1, 3]), tokens=6)
    drafter = AutomatonDrafter(settings=settings, max_nodes=16)
    outputs: list[list[int]] = []
    for number in range(3):
        session = drafter.session()
        written = []
        for turn in loop(rng, str(number), rewrite=seed % 2 == 1).turns:
            session.sync(turn.prompt_ids)
            for context, block in steps(rng, turn):
                draft = session.draft()
                expected, source = automaton_draft(
                    context, outputs, occurrence=occurrence, shortest=settings.shortest, tokens=6
                )
                assert draft.token_ids.tolist() == expected, f"seed {seed}, after {context}"
                assert set(session.sources(len(draft)).tolist()) <= {source}, f"seed {seed}"
                session.accept(np.array(block, np.int32))
            session.end_turn()
            written.append(turn.output_ids.tolist())
        session.close()
        outputs += written


def steps(rng: random.Random, turn):
    """The context before each step of a turn, and the tokens of the step."""
    at = 0
    output = turn.output_ids.tolist()
    while at < len(output):
        block = output[at : at + rng.randint(1, 5)]
        yield turn.prompt_ids.tolist() + output[:at], block
        at += len(block)
