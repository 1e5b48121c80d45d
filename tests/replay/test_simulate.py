"""The simulation: scripted drafters with results worked out by hand, real ones with what always holds."""

import random
from itertools import pairwise

import numba
import numpy as np
import pytest

from replay.scripted import ScriptedDrafter, chain, session, turns
from suffixspec.cost import CostCurve, best_prefix
from suffixspec.draft import IndexDrafter, NoDrafter
from suffixspec.draft.indexed import IndexDraftSession
from suffixspec.native.draft import PATH
from suffixspec.replay.command import DRAFTERS, make_drafter
from suffixspec.replay.result import SOURCES
from suffixspec.replay.simulate import RenderedSession, Simulation, replay

GPU = CostCurve.named("gpu")
PROMPT = [1, 2, 3]
OUTPUT = list(range(100, 111))  # eleven tokens


def knows(output: list[int], ahead: int):
    """A script that always drafts the next tokens of ``output``, and garbage beyond its end."""

    def script(context: list[int]):
        written = context[len(PROMPT) :]
        return chain([*output, *[7] * ahead][len(written) : len(written) + ahead])

    return script


def simulate(drafter, *sessions, cost=GPU) -> Simulation:
    simulation = Simulation(drafter, cost)
    replay(sessions, [simulation])
    return simulation


# -- by hand ----------------------------------------------------------------------------------------------


def test_a_drafter_that_is_always_right():
    """Eleven tokens with four drafted each time: steps of 5, 5 and 1 tokens, each at t(5)."""
    result = simulate(ScriptedDrafter(knows(OUTPUT, 4)), session((PROMPT, OUTPUT))).result
    (turn,) = result.turns
    assert (turn.tokens, turn.steps, turn.drafted, turn.accepted) == (11, 3, 12, 9)
    # The last step confirms a draft token that ends the output: there is no token of the target's own.
    assert result.accepted_length_histogram.tolist() == [0, 1, 0, 0, 2]
    assert turn.target_ms == pytest.approx(3 * GPU.ms(5))
    assert GPU.ms(5) == pytest.approx(10.08)
    assert (turn.context_tokens, turn.appended_tokens) == (3, 3 + 11)
    assert (result.chain_tested, result.chain_accepted) == (4 + 4 + 1, 4 + 4 + 1)
    assert result.accepted_by_source.tolist() == [9, 0, 0]
    assert result.drafted_by_source.tolist() == [12, 0, 0]


def test_a_drafter_that_is_always_wrong():
    """Three wrong nodes each time: a step per token, all of them at t(4), nothing accepted."""
    drafter = ScriptedDrafter(lambda _: chain([7, 8, 9]), source=2)
    result = simulate(drafter, session((PROMPT, OUTPUT))).result
    (turn,) = result.turns
    assert (turn.tokens, turn.steps, turn.drafted, turn.accepted) == (11, 11, 33, 0)
    assert result.accepted_length_histogram.tolist() == [11]
    assert turn.target_ms == pytest.approx(11 * GPU.ms(4))
    assert (result.chain_tested, result.chain_accepted) == (11, 0)
    assert result.drafted_by_source.tolist() == [0, 0, 33]


@pytest.mark.parametrize("drafter", [NoDrafter(), ScriptedDrafter(lambda _: [])], ids=["none", "empty"])
def test_a_drafter_that_drafts_nothing(drafter):
    """Plain decoding: a step per token, each at t(1)."""
    result = simulate(drafter, session((PROMPT, OUTPUT))).result
    (turn,) = result.turns
    assert (turn.tokens, turn.steps, turn.drafted, turn.accepted) == (11, 11, 0, 0)
    assert result.accepted_length_histogram.tolist() == [11]
    assert turn.target_ms == pytest.approx(110.0)
    assert result.chain_tested == 0
    assert len(result.draft_us) == 11


def test_a_tree_is_followed_where_the_record_goes():
    """Of two branches the recorded one is accepted; the best chain alone would have failed at its first node."""
    nodes = [(50, -1, 0.6), (100, -1, 0.4), (101, 1, 0.35), (99, 2, 0.2), (102, 2, 0.1)]
    drafter = ScriptedDrafter(lambda context: nodes if len(context) == 3 else [])
    result = simulate(drafter, session((PROMPT, [100, 101, 102, 103, 104]))).result
    (turn,) = result.turns
    assert (turn.tokens, turn.steps, turn.drafted, turn.accepted) == (5, 2, 5, 3)
    assert result.accepted_length_histogram.tolist() == [1, 0, 0, 1]
    assert (result.chain_tested, result.chain_accepted) == (1, 0)


def test_an_empty_output_takes_no_step():
    """A model call without output decodes nothing, and the session goes on."""
    result = simulate(NoDrafter(), session((PROMPT, []), ([4], [5]))).result
    assert [(turn.turn, turn.tokens, turn.steps) for turn in result.turns] == [(0, 0, 0), (1, 1, 1)]


def test_the_calls_that_a_drafter_sees():
    """Per turn sync, then draft and accept in turn, then end_turn; close at the end. Accepted is the record."""
    drafter = ScriptedDrafter(knows(OUTPUT, 2))
    second = [*PROMPT, *OUTPUT, 5]
    simulate(drafter, session((PROMPT, OUTPUT[:4]), (second, [6]), namespace="mine"))
    names = [name for name, _ in drafter.calls]
    assert names == ["session", "sync", *["draft", "accept"] * 2, "end_turn", "sync", "draft", "accept",
                     "end_turn", "close"]  # fmt: skip
    assert drafter.calls[0] == ("session", "mine")
    assert [value for name, value in drafter.calls if name == "sync"] == [PROMPT, second]
    accepted = [value for name, value in drafter.calls if name == "accept"]
    assert accepted == [OUTPUT[:3], [OUTPUT[3]], [6]]


def test_only_new_prompt_tokens_are_charged_to_indexing():
    """A turn is charged for what of its prompt was not known, and for its output."""
    drafter = ScriptedDrafter(lambda _: [])
    long_prompt = [*PROMPT, 9, 9, 8]
    result = simulate(drafter, session((PROMPT, [9, 9]), (long_prompt, [4]))).result
    assert [turn.appended_tokens for turn in result.turns] == [3 + 2, 1 + 1]


def test_tries_of_a_task_are_counted():
    """The second session of a task is attempt 2, in whatever order tasks come."""
    sessions = [session(([1], [2]), name=name, task=task) for name, task in ["ax", "by", "cx", "dx"]]
    result = simulate(NoDrafter(), *sessions).result
    assert [(t.session_id, t.attempt) for t in result.turns] == [("a", 1), ("b", 1), ("c", 2), ("d", 3)]


def test_memory_is_measured_at_its_largest():
    """Bytes and tokens of the drafter and the session together, at the same moment."""

    class Growing(ScriptedDrafter):
        sizes = iter([(700, 7), (900, 9), (800, 8)])

        def session(self, namespace="default"):
            self.nbytes, self.indexed_tokens = next(self.sizes)
            return super().session(namespace)

    result = simulate(Growing(lambda _: []), *[session(([1], [2]))] * 3).result
    assert (result.index_bytes, result.index_tokens) == (900 + 500, 9 + 5)


def test_the_sample_is_the_output_in_which_most_was_copied():
    """Its spans spell the whole output, and alternate between what was drafted and what was not."""
    lengths = {1000: 80, 2000: 90, 3000: 95, 4000: 1000}
    outputs = [list(range(first, first + length)) for first, length in lengths.items()]

    def script(context: list[int]):
        # Knows the second output in pieces of four, the third less well; the last is too long for a sample.
        last = context[-1]
        known = 2000 <= last < 2085 or 3000 <= last < 3020 or last >= 4000
        return chain(range(last + 1, last + 5)) if known else []

    sessions = [session((PROMPT, output), name=f"s{i}") for i, output in enumerate(outputs)]
    result = simulate(ScriptedDrafter(script, source=1), *sessions).result
    assert result.sample_title == "s1, model call 1"
    spelled = " ".join(span.text for span in result.sample)
    assert spelled.split() == [str(token) for token in outputs[1]]
    kinds = [span.kind for span in result.sample]
    assert kinds[:4] == ["bonus", SOURCES[1], "bonus", SOURCES[1]]
    assert all(a != b for a, b in pairwise(kinds))


def test_an_interrupted_turn_counts_as_far_as_it_came():
    """Ctrl-C in the third step of the second turn: both turns are there, and the session was closed."""

    def script(context: list[int]):
        if context == [4, 100, 101]:
            raise KeyboardInterrupt
        return []

    drafter, never = ScriptedDrafter(script), ScriptedDrafter(lambda _: [])
    simulations = [Simulation(drafter, GPU), Simulation(never, GPU)]
    done = replay([session((PROMPT, OUTPUT), ([4], OUTPUT))], simulations)
    assert done == (0, True)
    result = simulations[0].result
    assert [(turn.tokens, turn.steps) for turn in result.turns] == [(11, 11), (2, 2)]
    assert result.accepted_length_histogram.tolist() == [13]
    assert len(result.draft_us) == 13
    assert drafter.calls[-1] == ("close", None)
    assert never.calls == []


def test_an_error_in_the_input_stops_the_replay():
    """An error of the sessions' source is not swallowed; what was measured is complete."""

    def sessions():
        yield session((PROMPT, OUTPUT))
        raise ValueError("line 2")

    simulation = Simulation(NoDrafter(), GPU)
    with pytest.raises(ValueError, match="line 2"):
        replay(sessions(), [simulation])
    assert simulation.result.accepted_length_histogram.tolist() == [11]


def test_all_drafters_finish_a_session_before_the_next_begins():
    """The order of the work, and what is reported after every turn and session."""
    seen = []
    simulations = [Simulation(ScriptedDrafter(lambda _: []), GPU) for _ in range(2)]
    done = replay(
        [session(([1], [2]), name="a"), session(([1], [2]), name="b")],
        simulations,
        on_turn=lambda simulation, turn: seen.append((simulations.index(simulation), turn.session_id)),
        on_session=lambda decoded: seen.append(decoded.session_id),
    )
    assert done == (2, False)
    assert seen == [(0, "a"), (1, "a"), "a", (0, "b"), (1, "b"), "b"]


# -- what always holds ------------------------------------------------------------------------------------


class Watched(IndexDrafter):
    """A real drafter whose every draft is looked at."""

    def session(self, namespace="default"):
        """Begin a session."""
        return WatchedSession(self, namespace)


class WatchedSession(IndexDraftSession):
    """Its session."""

    def draft(self, max_nodes=None):
        """Draft, and check the draft."""
        draft = super().draft(max_nodes)
        drafter, grown = self._drafter, self._grown
        assert len(draft) <= drafter.max_nodes
        siblings = set(zip(draft.parents.tolist(), draft.token_ids.tolist(), strict=True))
        assert len(siblings) == len(draft), "siblings with the same token"
        assert (draft.parents < np.arange(len(draft))).all(), "a child before its parent"
        assert (draft.token_ids >= 0).all(), "a sentinel was drafted"
        grown_probs = self._block[2 + PATH, 1 : grown + 1].view(np.float32)
        assert (np.diff(grown_probs) <= 0).all(), "not in descending probability"
        assert ((grown_probs >= 0) & (grown_probs <= 1)).all()
        expected = best_prefix(grown_probs, drafter.costs)
        # Interpreted kernels add up in float32: then a prefix that is as good will do.
        gains = (1 + np.concatenate([[0], np.cumsum(grown_probs, dtype=np.float64)])) / drafter.costs[
            : grown + 1
        ]
        assert len(draft) == expected or gains[len(draft)] >= gains[expected] * (1 - 1e-6)
        accepted_before = self._index.tree.tokens.copy()
        again = super().draft(max_nodes)
        assert np.array_equal(self._index.tree.tokens, accepted_before)
        assert draft.token_ids.tolist() == again.token_ids.tolist()
        assert draft.parents.tolist() == again.parents.tolist()
        return draft

    def accept(self, emitted):
        """Accept, and check that the context is one longer by just that."""
        emitted_before = len(self.context)
        super().accept(emitted)
        assert self.context[emitted_before:].tolist() == emitted.tolist()


def random_sessions(rng: random.Random, count: int) -> list[RenderedSession]:
    """Sessions that quote themselves and one another, whose prompts sometimes depart from what was before."""
    written: list[list[int]] = [[1, 2, 3]]

    def text(most: int, alphabet: int) -> list[int]:
        pieces: list[int] = []
        length = rng.randrange(most)
        while len(pieces) < length:
            old = rng.choice(written)
            start = rng.randrange(len(old) + 1)
            pieces += rng.choice([old[start : start + 12], [rng.randrange(alphabet)], [2**31 - 1, 0]])
        return pieces

    sessions = []
    for number in range(count):
        alphabet = rng.choice([2, 5, 40, 100_000])
        context: list[int] = []
        pairs = []
        for _ in range(rng.randrange(1, 5)):
            if context and rng.random() < 0.3:  # cut back, or rewritten
                context = context[: rng.randrange(len(context))]
            prompt = context + text(60, alphabet)
            output = text(60, alphabet)
            written.append(output)
            context = prompt + output
            pairs.append((prompt, output))
        sessions.append(
            session(*pairs, name=f"s{number}", task=rng.choice("xyz"), namespace=rng.choice("ab"))
        )
    return sessions


@pytest.mark.kernels
@pytest.mark.parametrize("history", ["off", "session", "namespace"])
@pytest.mark.parametrize("name", ["suffix", "ngram", "combined"])
@pytest.mark.parametrize("cost", [None, "gpu", "mid", "cpu"])
def test_every_recorded_token_is_decoded_once(name, history, cost):
    """Whatever the drafter, history and cost: emitted is recorded, and every draft is a sound best prefix."""
    seed = sum(map(ord, f"{name}{history}{cost}"))
    rng = random.Random(seed)
    sessions = random_sessions(rng, 4 if numba.config.DISABLE_JIT else 30)
    curve = None if cost is None else CostCurve.named(cost)
    drafter = Watched(
        name=name,
        suffix=name != "ngram",
        ngram=name != "suffix",
        history=history,
        max_nodes=rng.choice([1, 4, 32]),
        cost=curve,
        ngram_slots=256,
    )
    result = simulate(drafter, *sessions).result
    recorded = [len(turn.output_ids) for s in sessions for turn in s.turns]
    assert [turn.tokens for turn in result.turns] == recorded, f"seed {seed}"
    lengths = result.accepted_length_histogram
    accepted = sum(turn.accepted for turn in result.turns)
    assert lengths.sum() == sum(turn.steps for turn in result.turns) == len(result.draft_us)
    assert (lengths * np.arange(len(lengths))).sum() == accepted == result.accepted_by_source.sum()
    assert sum(turn.drafted for turn in result.turns) == result.drafted_by_source.sum()
    for turn in result.turns:
        # Every step has a token of the target's own, but for a last one whose draft ends the output.
        assert turn.tokens - turn.steps <= turn.accepted <= turn.tokens - turn.steps + 1


def test_the_names_of_the_command_line_are_drafters():
    """``make_drafter`` knows every name that ``--drafter`` takes, and the results carry that name."""
    for name in DRAFTERS:
        drafter = make_drafter(name, max_nodes=4, cost=GPU, history="namespace")
        result = simulate(drafter, session((PROMPT, OUTPUT))).result
        assert result.name == name
        assert result.turns[0].tokens == 11
    with pytest.raises(ValueError, match="expected a drafter of suffix"):
        make_drafter("magic", max_nodes=4, cost=GPU, history="off")


@pytest.mark.kernels
@pytest.mark.parametrize("name", ["suffix", "combined"])
def test_a_session_replayed_after_itself_is_almost_free(name):
    """With a warm history, a text without repeats comes back in drafts of 32: some 33 tokens per step."""
    rng = np.random.default_rng(5)
    output = rng.permutation(5000)[:330]
    recorded = RenderedSession("s", "t", "default", turns((rng.integers(5000, 6000, 40), output)))
    drafter = make_drafter(name, max_nodes=32, cost=None, history="namespace")
    first, second = Simulation(drafter, GPU), Simulation(drafter, GPU)
    replay([recorded], [first])
    replay([recorded], [second])
    assert first.result.turns[0].steps == 330
    assert second.result.turns[0].steps == 10
