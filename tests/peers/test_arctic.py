"""The adapter of ArcticInference: how it calls the cache, with a stand-in for the package."""

import random
import sys

import numpy as np
import pytest
from replay.scripted import session

from suffixspec.cost import CostCurve
from suffixspec.errors import InputError, MissingExtraError
from suffixspec.replay.peers import make_peer, parse_peers
from suffixspec.replay.simulate import Simulation, replay

from . import fake_arctic
from .slow import loop

GPU = CostCurve.named("gpu")


@pytest.fixture
def _package(monkeypatch):
    for name, module in fake_arctic.modules().items():
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("_package")
def test_each_turn_is_a_request_of_its_own():
    """Prompt registered, then step by step a draft and what was written; the request before is stopped after."""
    drafter = make_peer("arctic", max_nodes=5)
    simulation = Simulation(drafter, GPU)
    replay([session(([1, 2, 3], [2, 3]), ([1, 2, 3, 2, 3, 9], [9, 8]))], [simulation])
    (cache,) = drafter._caches.values()
    options = {
        "max_spec_tokens": 5,
        "max_spec_factor": 1.0,
        "max_spec_offset": 0.0,
        "min_token_prob": 0.1,
        "use_tree_spec": False,
    }
    assert cache.calls == [
        ("start", 0, [1, 2, 3]),
        ("speculate", 0, [1, 2, 3], options),
        ("add", 0, [2]),
        ("speculate", 0, [1, 2, 3, 2], options),
        ("add", 0, [3]),
        ("start", 1, [1, 2, 3, 2, 3, 9]),
        ("speculate", 1, [1, 2, 3, 2, 3, 9], options),
        ("add", 1, [9]),
        ("speculate", 1, [1, 2, 3, 2, 3, 9, 9], options),
        ("add", 1, [8]),
        ("stop", 0),
        ("stop", 1),
    ]
    # The response of 4 tokens, and the last prompt of 6 with its response of 2, at 100 bytes each.
    assert (simulation.result.index_bytes, simulation.result.index_tokens) == (1200, 12)
    assert simulation.result.turns[1].appended_tokens == 8


@pytest.mark.usefixtures("_package")
def test_options_reach_the_cache():
    """What the name says is what the cache is asked for; the budget caps the number of tokens."""
    name = "arctic:factor=4:offset=8.5:min_prob=0:tree=yes:depth=3:nodes=2"
    drafter = make_peer(name, max_nodes=5)
    assert drafter.name == name
    running = drafter.session()
    running.sync(np.arange(10, dtype=np.int32))
    running.draft()
    (cache,) = drafter._caches.values()
    assert cache.max_tree_depth == 3
    assert cache.calls[-1] == (
        "speculate",
        0,
        [7, 8, 9],
        {
            "max_spec_tokens": 2,
            "max_spec_factor": 4.0,
            "max_spec_offset": 8.5,
            "min_token_prob": 0.0,
            "use_tree_spec": True,
        },
    )


@pytest.mark.usefixtures("_package")
@pytest.mark.parametrize(("history", "expected"), [("namespace", [5, 6]), ("session", []), ("off", [])])
def test_history_decides_which_responses_are_kept(history, expected):
    """A later session drafts from an earlier one's response only with history of the namespace."""
    drafter = make_peer("arctic:factor=9", max_nodes=2, history=history)
    first = drafter.session()
    first.sync(np.array([1, 2], np.int32))
    first.accept(np.array([4, 5, 6, 7], np.int32))
    first.end_turn()
    first.close()
    for namespace in ("default", "other"):
        later = drafter.session(namespace)
        later.sync(np.array([3, 4], np.int32))
        draft = later.draft()
        assert draft.token_ids.tolist() == (expected if namespace == "default" else [])
        assert later.sources(len(draft)).tolist() == [1] * len(draft)


@pytest.mark.usefixtures("_package")
def test_sources_tell_the_prompts_tree_from_the_responses():
    """A draft that scores as much in the prompt's tree came from there."""
    running = make_peer("arctic:factor=9", max_nodes=2).session()
    running.sync(np.array([1, 2, 3, 1], np.int32))
    draft = running.draft()
    assert draft.token_ids.tolist() == [2, 3]
    assert running.sources(2).tolist() == [0, 0]


@pytest.mark.usefixtures("_package")
def test_every_token_of_a_loop_is_decoded():
    """Whatever it drafts, the simulation writes the recorded text."""
    rng = random.Random(1)
    recorded = [loop(rng, str(i)) for i in range(3)]
    for turn in (turn for one in recorded for turn in one.turns):  # as the renderer hands them out
        turn.prompt_ids.flags.writeable = turn.output_ids.flags.writeable = False
    simulation = Simulation(make_peer("arctic:factor=4", max_nodes=8), GPU)
    replay(recorded, [simulation])
    assert [turn.tokens for turn in simulation.result.turns] == [
        len(turn.output_ids) for one in recorded for turn in one.turns
    ]
    assert simulation.result.turns[0].accepted > 0


def test_without_the_package_the_message_has_the_commands(monkeypatch):
    """Not installed: what was expected, and the exact commands that install it."""
    monkeypatch.setitem(sys.modules, "arctic_inference", None)
    monkeypatch.delitem(sys.modules, "arctic_inference.suffix_decoding", raising=False)
    with pytest.raises(MissingExtraError) as caught:
        make_peer("arctic", max_nodes=32)
    message = str(caught.value)
    assert message.startswith("expected arctic-inference 0.1.2 for the peer arctic, got none")
    assert "\n  pip install 'setuptools<80' wheel ninja cmake nanobind==2.9.2 protobuf==5.29.5" in message
    assert (
        "\n  ARCTIC_MINIMAL_BUILD=1 pip install --no-deps --no-build-isolation arctic-inference==0.1.2"
        in message
    )


def made(text: str) -> list:
    return [make_peer(spec, max_nodes=8) for spec in parse_peers(text)]


BAD = {
    "magic": "expected a peer of arctic, prompt-lookup, vllm-ngram, automaton, got 'magic'",
    "": "expected a peer of arctic, prompt-lookup, vllm-ngram, automaton, got ''",
    "arctic:tree": "expected OPTION=VALUE after arctic:, got 'tree'",
    "arctic:fctor=4": "arctic:fctor=4: expected an option of factor, offset, min_prob, tree, nodes, depth, got 'fctor'",
    "arctic:factor=x": "arctic:factor=x: expected a number for factor, got 'x'",
    "arctic:factor=nan": "arctic:factor=nan: expected factor >= 0, got factor=nan",
    "arctic:depth=0": "arctic:depth=0: expected depth >= 1, got depth=0",
    "arctic:tree=maybe": "arctic:tree=maybe: expected tree=yes or tree=no, got 'maybe'",
    "prompt-lookup:tokens=0": "prompt-lookup:tokens=0: expected tokens >= 1, got tokens=0",
    "vllm-ngram:longest=1": "vllm-ngram:longest=1: expected 1 <= shortest <= longest <= 64, got shortest=2, longest=1",
    "automaton:occurrence=last": "automaton:occurrence=last: expected occurrence=recent or occurrence=first, got 'last'",
    "automaton:tokens=1.5": "automaton:tokens=1.5: expected a whole number for tokens, got '1.5'",
}


@pytest.mark.usefixtures("_package")
@pytest.mark.parametrize("text", BAD)
def test_a_wrong_name_or_option_is_explained(text):
    """The message says what is known and what came."""
    with pytest.raises(InputError) as caught:
        made(text)
    assert str(caught.value) == BAD[text]
