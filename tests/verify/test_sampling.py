"""Logits are processed in the order and with the arithmetic of transformers' ``generate``."""

import math
import random

import numpy as np
import pytest
import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from suffixspec.verify.sampling import SamplingParams, process_logits


def theirs(params):
    """The processors of transformers, in the order in which ``generate`` puts them."""
    processors = LogitsProcessorList()
    if params.logit_bias:
        processors.append(SequenceBiasLogitsProcessor({(t,): b for t, b in params.logit_bias.items()}))
    if params.repetition_penalty != 1.0:
        processors.append(RepetitionPenaltyLogitsProcessor(params.repetition_penalty))
    processors += params.logits_processors
    if params.temperature > 0:
        processors.append(TemperatureLogitsWarper(params.temperature))
        if params.top_k:
            processors.append(TopKLogitsWarper(params.top_k))
        if params.top_p < 1:
            processors.append(TopPLogitsWarper(params.top_p))
        if params.min_p:
            processors.append(MinPLogitsWarper(params.min_p))
    return processors


def random_params(rng, vocab, **more):
    """Each step is on in about half of the cases."""
    settings = {
        "temperature": rng.choice([0.0, 0.3, 1.0, 1.7]),
        "top_k": rng.choice([0, 1, 3, vocab + 5]),
        "top_p": rng.choice([1.0, 0.0, 0.05, 0.6, 0.95]),
        "min_p": rng.choice([0.0, 0.1, 0.5, 1.0]),
        "repetition_penalty": rng.choice([1.0, 0.7, 1.4]),
        "logit_bias": rng.choice([{}, {1: 2.5, vocab - 1: -3.0}, {0: -math.inf}]),
    }
    return SamplingParams(**{**settings, **more})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_scores_equal_those_of_transformers(dtype):
    """Over 300 random settings the scores equal, bit for bit, those of transformers' processors in its order."""
    steps_seen = set()
    for seed in range(300):
        rng = random.Random(seed)
        vocab = rng.choice([5, 33, 300])
        # Coarse logits make ties, also at the borders of top-k and top-p.
        logits = (torch.randn(vocab, generator=torch.Generator().manual_seed(seed)) * 4).round(decimals=1)
        logits = logits.to(dtype)
        before = logits.clone()
        ids = torch.tensor([rng.randrange(vocab + 2) for _ in range(rng.randint(1, 20))])

        def halve_odd(input_ids, scores):
            return torch.where(torch.arange(scores.shape[-1]) % 2 == input_ids[0, -1] % 2, scores / 2, scores)

        def forbid_last(input_ids, scores):
            scores[0, input_ids[0, -1].clamp(max=scores.shape[-1] - 1)] = -torch.inf  # in place
            return scores

        processors = rng.choice([(), (halve_odd,), (forbid_last, halve_odd)])
        params = random_params(rng, vocab, logits_processors=processors)
        expected = theirs(params)(ids[None], logits.to(copy=True, dtype=torch.float32)[None])[0]
        found = process_logits(logits, ids, params)
        assert found.dtype == torch.float32
        assert torch.equal(found, expected), f"seed {seed}: {params}"
        assert torch.equal(logits, before), f"seed {seed}: the logits were changed"
        steps_seen |= {type(step).__name__ for step in theirs(params)}
    assert len(steps_seen) == 7, steps_seen


@pytest.mark.parametrize("top_p", [0.0, 0.25, 0.5, 0.75, 0.76])
def test_equal_probabilities_at_the_border_of_top_p(top_p):
    """Where the probabilities kept sum to exactly top_p, those below go, as in transformers."""
    logits, params = torch.zeros(4), SamplingParams(temperature=1.0, top_p=top_p)
    found = process_logits(logits, torch.tensor([0]), params)
    assert torch.equal(found, theirs(params)(None, logits[None])[0])
    assert int((found == 0).sum()) == max(1, math.ceil(4 * top_p))


def test_presence_and_frequency_follow_their_definition():
    """Each score is logit − frequency · count − presence · [count > 0], after repetition, before the rest."""
    logits = torch.tensor([2.0, -1.0, 3.0, 0.5])
    counts = torch.tensor([0, 1, 3, 0])
    params = SamplingParams(presence_penalty=0.5, frequency_penalty=0.25)
    found = process_logits(logits, torch.tensor([0]), params, counts)
    assert found.tolist() == pytest.approx([2.0, -1.75, 1.75, 0.5])
    seen = []

    def note(_ids, scores):
        seen.append(scores.tolist())
        return scores

    params = SamplingParams(
        presence_penalty=0.5, repetition_penalty=2.0, temperature=2.0, logits_processors=[note]
    )
    found = process_logits(logits, torch.tensor([1, 2]), params, counts)
    assert seen == [[[2.0, -2.5, 1.0, 0.5]]]
    assert found.tolist() == pytest.approx([1.0, -1.25, 0.5, 0.25])


def test_greedy_scores_are_not_cut_off():
    """At temperature 0 the cut-offs do nothing, as ``generate`` leaves them out without sampling."""
    logits = torch.tensor([1.0, 1.5, -2.0])
    params = SamplingParams(temperature=0, top_k=1, top_p=0.1, min_p=0.9)
    assert torch.equal(process_logits(logits, torch.tensor([0]), params), logits)


def test_a_processor_sees_the_whole_context():
    """A processor gets int64 [1, n] ids and float32 [1, V] scores, and its result counts."""
    seen = []

    def only_token_two(input_ids, scores):
        seen.append((input_ids.dtype, input_ids.tolist(), scores.dtype, tuple(scores.shape)))
        return torch.full_like(scores, -torch.inf).index_fill(1, torch.tensor(2), 0.0)

    params = SamplingParams(logits_processors=[only_token_two])
    scores = process_logits(torch.randn(4).bfloat16(), torch.tensor([7, 8, 9]), params)
    assert scores.tolist() == [-math.inf, -math.inf, 0.0, -math.inf]
    assert seen == [(torch.int64, [[7, 8, 9]], torch.float32, (1, 4))]


def test_misuse_of_processing_is_an_error():
    """Bias beyond the vocabulary, missing counts and processors that return nonsense say what was expected."""
    logits, ids = torch.zeros(4), torch.tensor([0])
    with pytest.raises(
        ValueError, match=r"expected token ids below 4 \(the vocabulary\) in logit_bias, got 4"
    ):
        process_logits(logits, ids, SamplingParams(logit_bias={4: 1.0}))
    with pytest.raises(ValueError, match="expected counts"):
        process_logits(logits, ids, SamplingParams(presence_penalty=1.0))

    def forgets_to_return(_ids, scores):
        scores += 1

    with pytest.raises(
        ValueError, match=r"forgets_to_return to return scores of shape \(1, 4\), got NoneType"
    ):
        process_logits(logits, ids, SamplingParams(logits_processors=[forgets_to_return]))

    class Flattens:
        def __call__(self, _ids, scores):
            return scores[0]

    with pytest.raises(ValueError, match=r"Flattens to return scores of shape \(1, 4\), got \(4,\)"):
        process_logits(logits, ids, SamplingParams(logits_processors=[Flattens()]))


BAD = [
    ("temperature", -0.1, "expected temperature to be 0 or a number from 1e-6 up, got -0.1"),
    ("temperature", 1e-9, "expected temperature to be 0 or a number from 1e-6 up, got 1e-09"),
    ("temperature", math.nan, "expected temperature to be 0 or a number from 1e-6 up, got nan"),
    ("temperature", math.inf, "expected temperature to be 0 or a number from 1e-6 up, got inf"),
    ("temperature", "1", "expected temperature to be 0 or a number from 1e-6 up, got '1'"),
    ("temperature", None, "expected temperature to be 0 or a number from 1e-6 up, got None"),
    ("temperature", True, "expected temperature to be 0 or a number from 1e-6 up, got True"),
    ("top_k", -1, "expected top_k to be a whole number >= 0 (0 keeps all), got -1"),
    ("top_k", 2.0, "expected top_k to be a whole number >= 0 (0 keeps all), got 2.0"),
    ("top_k", False, "expected top_k to be a whole number >= 0 (0 keeps all), got False"),
    ("top_p", 1.01, "expected top_p to be a number from 0 to 1, got 1.01"),
    ("top_p", -0.01, "expected top_p to be a number from 0 to 1, got -0.01"),
    ("min_p", 2, "expected min_p to be a number from 0 to 1, got 2"),
    ("min_p", -1, "expected min_p to be a number from 0 to 1, got -1"),
    ("repetition_penalty", 0, "expected repetition_penalty to be a number > 0, got 0"),
    ("presence_penalty", math.inf, "expected presence_penalty to be a finite number, got inf"),
    ("frequency_penalty", "0", "expected frequency_penalty to be a finite number, got '0'"),
    ("frequency_penalty", 10**400, f"expected frequency_penalty to be a finite number, got {10**400}"),
    ("logit_bias", [1], "expected logit_bias to be a mapping from token ids to numbers, got [1]"),
    ("logit_bias", {"5": 1.0}, "expected each token id in logit_bias to be a whole number >= 0, got '5'"),
    ("logit_bias", {-1: 1.0}, "expected each token id in logit_bias to be a whole number >= 0, got -1"),
    ("logit_bias", {5: math.inf}, "expected logit_bias of token 5 to be a finite number or -inf, got inf"),
    ("logit_bias", {5: None}, "expected logit_bias of token 5 to be a finite number or -inf, got None"),
    ("seed", 1.5, "expected seed to be None or a whole number from -2**63 to 2**63 - 1, got 1.5"),
    ("seed", 2**63, f"expected seed to be None or a whole number from -2**63 to 2**63 - 1, got {2**63}"),
    ("lenience", 0, "expected lenience to be a number > 0 and <= 1 (1 is exact), got 0"),
    ("lenience", 1.1, "expected lenience to be a number > 0 and <= 1 (1 is exact), got 1.1"),
    ("logits_processors", 3, "expected logits_processors to be a list or tuple, got 3"),
    ("logits_processors", [3], "expected each of logits_processors to be callable, got 3"),
    ("max_tokens", 0, "expected max_tokens to be None or a whole number >= 1, got 0"),
    ("stop", 5, "expected stop to be a list or tuple, got 5"),
    ("stop", "", "expected each of stop to be a text of at least one character, got ''"),
    ("stop", ["a", 1], "expected each of stop to be a text of at least one character, got 1"),
    ("stop_token_ids", 5, "expected stop_token_ids to be a list or tuple, got 5"),
    ("stop_token_ids", [-5], "expected each of stop_token_ids to be a whole number >= 0, got -5"),
    ("logprobs", -1, "expected logprobs to be None or a whole number >= 0, got -1"),
    ("logprobs", True, "expected logprobs to be None or a whole number >= 0, got True"),
    ("n", 0, "expected n to be a whole number >= 1, got 0"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD, ids=[f"{n}={str(v)[:12]}" for n, v, _ in BAD])
def test_bad_parameters_say_what_was_expected(name, value, message):
    """Each parameter out of its range is an error that names it, its range and the value."""
    with pytest.raises(ValueError, match="expected") as raised:
        SamplingParams(**{name: value})
    assert str(raised.value) == message


def test_parameters_become_plain_values():
    """NumPy numbers, lists and a single stop text are taken; what was given cannot change the value later."""
    bias, stop_ids = {np.int64(3): np.float32(1.5), 4: -math.inf}, [np.int32(5)]
    params = SamplingParams(
        temperature=np.float32(0.5), top_k=np.int64(3), seed=np.int64(-1), logit_bias=bias, stop="END",
        stop_token_ids=stop_ids,
    )  # fmt: skip
    bias.clear(), stop_ids.clear()
    assert params.logit_bias == {3: 1.5, 4: -math.inf}
    assert params.stop == ("END",)
    assert params.stop_token_ids == (5,)
    assert (type(params.temperature), type(params.top_k), type(params.seed)) == (float, int, int)
    with pytest.raises(AttributeError):
        params.temperature = 1.0


def test_the_default_is_exact_greedy():
    """Without arguments: temperature 0, exact, and the argmax of the raw logits."""
    assert SamplingParams().keeps_argmax
    assert SamplingParams(top_p=0.5, seed=1, max_tokens=3, logprobs=2).keeps_argmax
    for other in (
        {"temperature": 0.5}, {"lenience": 0.9}, {"repetition_penalty": 1.1}, {"presence_penalty": 0.1},
        {"frequency_penalty": 0.1}, {"logit_bias": {1: 1.0}}, {"logits_processors": [lambda _ids, s: s]},
    ):  # fmt: skip
        assert not SamplingParams(**other).keeps_argmax, other


class Stateful:
    """A processor that counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, _ids, scores):
        """Changes nothing."""
        self.calls += 1
        return scores


class Uncopyable(Stateful):
    """One that refuses to be copied."""

    def __deepcopy__(self, memo):
        raise TypeError("one of a kind")


def test_each_output_has_its_own_seed_and_processors():
    """Of n outputs each has the seed + its index and processors in the state in which they were given."""
    given = Stateful()
    given.calls = 7
    params = SamplingParams(n=3, seed=2**63 - 2, temperature=1.0, logits_processors=[given], max_tokens=4)
    outputs = [params.output(i) for i in range(3)]
    assert [output.seed for output in outputs] == [2**63 - 2, 2**63 - 1, -(2**63)]
    assert all(output.n == 1 and output.max_tokens == 4 for output in outputs)
    outputs[0].logits_processors[0](None, None)
    assert [output.logits_processors[0].calls for output in outputs] == [8, 7, 7]
    assert given.calls == 7
    assert SamplingParams(n=2).output(1).seed is None
    single = SamplingParams(logits_processors=[given])
    assert single.output(0) is single
    with pytest.raises(ValueError, match="expected an output from 0 to 2, got 3"):
        params.output(3)
    with pytest.raises(
        ValueError, match=r"expected logits_processors that copy\.deepcopy can copy for n = 2"
    ):
        SamplingParams(n=2, logits_processors=[Uncopyable()]).output(0)
