"""A whole output equals plain decoding's: by seed, by parameter, by processor call, by end."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from suffixspec.draft import EMPTY
from suffixspec.errors import SuffixspecError
from suffixspec.verify.generation import Generation
from suffixspec.verify.rejection import without_replacement
from suffixspec.verify.sampling import SamplingParams

from .test_sampling import random_params, theirs
from .toys import ToyTarget, chain, random_tree


class Counting:
    """A processor with state: forbids what its own call count says, and remembers the ids of every call."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Writes into its argument, as processors may."""
        self.seen.append(input_ids[0].tolist())
        scores[0, len(self.seen) % scores.shape[-1]] -= 3.0
        return scores


def plain(logits_of, params, prompt, length):
    """Plain decoding with transformers' processors and torch's own generator: an independent reference.

    The penalties that transformers does not have are added in the place that ``process_logits`` names.
    """
    ids = list(prompt)
    steps = theirs(params)
    before = [s for s in steps if type(s).__name__ in {"SequenceBiasLogitsProcessor", *REPETITION}]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(params.seed)
        for _ in range(length):
            context = torch.tensor([ids])
            scores = logits_of(ids).to(copy=True, dtype=torch.float32)[None]
            for step in before:
                scores = step(context, scores)
            for token in set(ids[len(prompt) :]):
                count = ids[len(prompt) :].count(token)
                scores[0, token] -= params.frequency_penalty * count
                scores[0, token] -= params.presence_penalty
            for step in steps[len(before) :]:
                scores = step(context, scores)
            if params.temperature > 0:
                ids.append(int(torch.multinomial(torch.softmax(scores, -1), 1)))
            else:
                ids.append(int(scores.argmax()))
    return ids[len(prompt) :]


REPETITION = {"RepetitionPenaltyLogitsProcessor"}


def generate(logits_of, params, prompt, drafter, *, vocab, lazily=False, **settings):
    """The output and the steps it took; ``drafter(output so far)`` proposes anything."""
    generation = Generation(params, prompt, vocab_size=vocab, **settings)
    steps = 0
    while generation.finish_reason is None:
        draft = drafter(generation.token_ids)
        context = [*prompt, *generation.token_ids]
        if lazily:

            def logits(node, context=context, draft=draft):
                path = [int(draft.token_ids[i]) for i in draft.path(node)]
                return logits_of([*context, *path])
        else:
            paths = [[int(draft.token_ids[i]) for i in draft.path(n)] for n in range(-1, len(draft))]
            logits = torch.stack([logits_of([*context, *path]) for path in paths])
        accepted = generation.accept(draft, logits)
        assert len(accepted.token_ids) - len(accepted.path) in (0, 1)
        steps += 1
    return generation, steps


def test_a_seed_gives_the_tokens_of_plain_decoding():
    """Over 500 random trees, targets and settings, greedy and seeded: token for token plain decoding's.

    The stateful processor is called once per emitted token, in order, with the ids of just that path.
    """
    trees = saved = 0
    case = 0
    while trees < 500:
        rng = random.Random(case)
        vocab, length = rng.choice([4, 9, 40]), rng.randint(1, 14)
        target = ToyTarget(vocab, case)
        prompt = [rng.randrange(vocab) for _ in range(rng.randint(2, 6))]
        counting = rng.random() < 0.5
        more = {
            "seed": rng.randrange(2**40),
            "presence_penalty": rng.choice([0.0, 0.8]),
            "frequency_penalty": rng.choice([0.0, 0.4, -0.2]),
        }
        params = random_params(rng, vocab, **more, logits_processors=[Counting()] if counting else [])
        expected = plain(target.logits, params, prompt, length)
        ours = Counting()
        params = replace(params, max_tokens=length, logits_processors=[ours] if counting else [])

        def drafter(output, rng=rng, expected=expected, vocab=vocab):
            nonlocal trees
            trees += 1
            return random_tree(rng, rng.randint(0, 20), vocab, expected[len(output) :])

        generation, steps = generate(
            target.logits, params, prompt, drafter, vocab=vocab, lazily=rng.random() < 0.5
        )
        assert generation.token_ids == expected, f"case {case}: {params}"
        assert generation.finish_reason == "length"
        if counting:
            assert ours.seen == [[*prompt, *expected[:t]] for t in range(length)], f"case {case}"
        saved += length - steps
        case += 1
    assert saved > 300, saved  # drafts were accepted, not only rejected


@pytest.fixture(scope="module")
def tiny_llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=96, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=64, bos_token_id=None, eos_token_id=None, pad_token_id=0,
        initializer_range=0.6,
    )  # fmt: skip
    return LlamaForCausalLM(config).double().eval()


GENERATE = [
    {},
    {"repetition_penalty": 1.3},
    {"logit_bias": {3: 2.0, 70: -1.0}},
    {"temperature": 1.0, "seed": 1},
    {"temperature": 0.7, "top_k": 7, "seed": 2},
    {"temperature": 1.3, "top_p": 0.8, "seed": 3},
    {"temperature": 1.0, "min_p": 0.2, "seed": 4},
    {"temperature": 1.5, "top_k": 30, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.2, "seed": 5},
]


@pytest.mark.parametrize("settings", GENERATE, ids=str)
def test_a_seed_gives_the_tokens_of_generate(tiny_llama, settings):
    """A tiny Llama in float64 writes, with drafts of all kinds, exactly what ``model.generate`` writes."""
    prompt, length = [5, 17, 40, 17], 24
    counting = Counting()
    params = SamplingParams(**settings, max_tokens=length, logits_processors=[counting])
    keys = {"top_k": 0, "top_p": 1.0, "min_p": None, "repetition_penalty": 1.0, "temperature": 1.0}
    asked = {key: settings.get(key, default) for key, default in keys.items()}
    if params.temperature == 0:
        asked = {"repetition_penalty": params.repetition_penalty}
    if params.logit_bias:
        asked["sequence_bias"] = {(token,): bias for token, bias in params.logit_bias.items()}
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(params.seed or 0)
        expected = tiny_llama.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, 4), max_new_tokens=length,
            do_sample=params.temperature > 0, logits_processor=[Counting()], **asked,
        )[0, len(prompt) :].tolist()  # fmt: skip

        rng = random.Random(1)
        generation, steps = generate(
            lambda ids: tiny_llama(torch.tensor([ids])).logits[0, -1],
            params,
            prompt,
            lambda output: random_tree(rng, rng.randint(0, 10), 96, expected[len(output) :]),
            vocab=96,
            lazily=True,
        )
    assert generation.token_ids == expected
    assert len(counting.seen) == length
    assert steps < length
    assert len(set(expected)) > 5  # not one token over and over


def ones_then(*tokens):
    """A target that writes 1 but at given places: ``ones_then((3, 0))`` writes 0 as its fourth token."""
    special = dict(tokens)

    def logits_of(ids):
        scores = torch.zeros(5)
        scores[special.get(len(ids) - 2, 1)] = 9.0
        return scores

    return logits_of


WORDS = {0: "<eos>", 1: "one ", 2: "two ", 3: "st", 4: "op"}


def words(ids):
    return "".join(WORDS[i] for i in ids)


@pytest.mark.parametrize("depth", [0, 1, 3, 4, 5, 9])
@pytest.mark.parametrize(
    ("settings", "eos", "tokens", "text", "reason"),
    [
        ({}, [0], [1, 1, 1, 1, 0], "one one one one ", "stop"),
        ({"stop_token_ids": [0]}, [], [1, 1, 1, 1, 0], "one one one one ", "stop"),
        ({"max_tokens": 5}, [], [1, 1, 1, 1, 0], "one one one one <eos>", "length"),
        ({"max_tokens": 5}, [0], [1, 1, 1, 1, 0], "one one one one ", "stop"),
        ({"max_tokens": 2}, [0], [1, 1], "one one ", "length"),
        ({"stop": "e one o"}, [0], [1, 1, 1], "on", "stop"),
        ({"stop": ["s<", "e <e"]}, [], [1, 1, 1, 1, 0], "one one one on", "stop"),
    ],
)
@pytest.mark.parametrize("temperature", [0.0, 1e-3])
def test_an_end_inside_a_draft(depth, settings, eos, tokens, text, reason, temperature):
    """An end token, stop string or token limit inside a draft cuts the output there, as without drafts."""
    params = SamplingParams(**settings, temperature=temperature, seed=0)
    full = [1, 1, 1, 1, 0, 1, 1, 1, 1]
    drafted = [*full[:depth], 2]  # right for so many tokens, then wrong
    generation, _ = generate(
        ones_then((4, 0)),
        params,
        [2, 2],
        lambda output: chain(drafted) if not output else EMPTY,
        vocab=5,
        eos_ids=eos,
        decode=words,
    )
    assert generation.token_ids == tokens
    assert generation.stopping.text == text
    assert generation.finish_reason == reason
    with pytest.raises(RuntimeError, match="expected no step after the end"):
        generation.accept(EMPTY, torch.zeros(1, 5))


def test_no_random_number_is_drawn_after_the_end():
    """A draft that goes on after the end token costs no draw and no call of a processor."""
    counting = Counting()
    params = SamplingParams(temperature=1e-3, seed=0, logits_processors=[counting])
    generation, steps = generate(
        ones_then((1, 0)), params, [2, 2], lambda _: chain([1, 0, 1, 1]), vocab=5, eos_ids=[0]
    )
    assert (generation.token_ids, steps, len(counting.seen)) == ([1, 0], 1, 2)


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_logprobs_equal_those_of_plain_decoding(temperature):
    """With drafts the log-probabilities are those of plain decoding: the model's, whatever the settings."""
    target = ToyTarget(9, 3)
    params = SamplingParams(
        temperature=temperature, top_k=4, presence_penalty=0.5, seed=5, logprobs=3, max_tokens=20,
        logits_processors=[Counting()],
    )  # fmt: skip
    alone, _ = generate(target.logits, params.output(0), [1, 2], lambda _: EMPTY, vocab=9)
    params = replace(params, logits_processors=[Counting()])
    rng = random.Random(0)
    drafted, steps = generate(
        target.logits,
        params,
        [1, 2],
        lambda out: random_tree(rng, 8, 9, alone.token_ids[len(out) :]),
        vocab=9,
    )
    assert steps < 20
    assert drafted.token_ids == alone.token_ids
    assert drafted.logprobs == alone.logprobs
    for t, entry in enumerate(drafted.logprobs):
        expected = torch.log_softmax(target.logits([1, 2, *drafted.token_ids[:t]]), -1)
        assert entry.token_id == drafted.token_ids[t]
        assert entry.logprob == pytest.approx(float(expected[entry.token_id]), abs=1e-6)
        assert [token for token, _ in entry.top] == expected.topk(3).indices.tolist()


def test_the_rule_follows_the_parameters():
    """Lenience below 1 accepts more of the draft; a drafter's distribution is used where there is chance."""
    likely, logits = torch.tensor([0.6, 0.4]).log(), torch.zeros(2, 2)
    logits[0], logits[1] = likely, torch.tensor([9.0, 0.0])

    def first(proposals_at=None, **settings):
        generation = Generation(SamplingParams(**settings), [0], vocab_size=2)
        return generation.accept(chain([1]), logits, proposals_at).token_ids[0]

    def count(proposals_at=None, **settings):
        return sum(first(proposals_at, seed=seed, temperature=1.0, **settings) for seed in range(300))

    assert first() == 0
    assert first(lenience=0.5) == 1
    assert 85 < count() < 155  # 300 · 0.4 = 120, σ = 8.5
    assert count(lenience=0.4) == 300
    assert 195 < count(lenience=0.5) < 272  # 300 · 0.8 = 240, σ = 6.9

    def from_q(_node, children):
        return list(children), without_replacement(torch.tensor([0.6, 0.4]), list(children))

    assert first(from_q) == 0  # greedy: what q says is of no matter
    assert count(from_q) == 300  # p = q: what was drawn is always accepted
    with pytest.raises(ValueError, match="expected lenience 1 for drafts with a distribution of their own"):
        first(from_q, lenience=0.5)


def test_n_outputs_of_one_prompt():
    """The outputs of n = 3 differ, and each is the one that its seed gives alone."""
    target = ToyTarget(30, 0)
    params = SamplingParams(temperature=1.0, seed=11, n=3, max_tokens=8)
    outputs = [
        generate(target.logits, params.output(i), [1, 2], lambda _: chain([4, 5]), vocab=30)[0].token_ids
        for i in range(3)
    ]
    alone = [
        generate(target.logits, replace(params, n=1, seed=11 + i), [1, 2], lambda _: EMPTY, vocab=30)[
            0
        ].token_ids
        for i in range(3)
    ]
    assert outputs == alone
    assert len({tuple(output) for output in outputs}) == 3
    with pytest.raises(ValueError, match=r"expected parameters of one output \(n = 1\), got n = 3"):
        Generation(params, [1, 2], vocab_size=30)


@pytest.mark.filterwarnings("error")
def test_a_processor_may_keep_the_ids_it_was_given():
    """The ids of one call do not change later, however long the output grows."""
    kept = []

    def keep(input_ids, scores):
        kept.append(input_ids)
        return scores

    params = SamplingParams(logits_processors=[keep], max_tokens=600)
    prompt = np.arange(2)
    prompt.flags.writeable = False
    generate(ones_then(), params, prompt, lambda _: chain([1, 1, 2]), vocab=5)
    assert [ids.shape[1] for ids in kept] == list(range(2, 602))
    assert all(ids[0].tolist() == [0, 1, *[1] * (ids.shape[1] - 2)] for ids in kept)


def test_an_error_in_a_processor_leaves_complete_steps():
    """What a processor raises comes out as it is, and the output holds the steps before."""

    class Fails(Counting):
        def __call__(self, input_ids, scores):
            if len(self.seen) == 3:
                raise KeyError("no such state")
            return super().__call__(input_ids, scores)

    generation = Generation(SamplingParams(logits_processors=[Fails()]), [2, 2], vocab_size=5)
    generation.accept(chain([1]), torch.eye(5)[[1, 1]] * 9)
    with pytest.raises(KeyError, match="no such state"):
        generation.accept(chain([1]), torch.eye(5)[[1, 1]] * 9)
    assert generation.token_ids == [1, 1]


def test_misuse_is_an_error():
    """Logits that do not fit the draft, and a grammar without a way on, say what was expected."""
    generation = Generation(SamplingParams(), [1], vocab_size=4)
    with pytest.raises(ValueError, match=r"expected logits of shape \(2, V\), got \(3, 4\)"):
        generation.accept(chain([1]), torch.zeros(3, 4))
    with pytest.raises(ValueError, match="expected decode"):
        Generation(SamplingParams(stop="x"), [1], vocab_size=4)
    dead_end = SamplingParams(logits_processors=[lambda _ids, scores: scores.fill_(-torch.inf)])
    with pytest.raises(SuffixspecError, match="forbids every token"):
        Generation(dead_end, [1], vocab_size=4).accept(EMPTY, torch.zeros(1, 4))


def test_reading_all_argmaxima_at_once_changes_nothing(monkeypatch):
    """The way that a GPU takes through greedy decoding gives the same tokens, ends and log-probabilities."""
    target = ToyTarget(9, 1)
    params = SamplingParams(max_tokens=25, logprobs=2)
    alone, _ = generate(target.logits, params, [1, 2], lambda _: EMPTY, vocab=9)
    read = []

    def reads_slowly(device):
        read.append(device.type)
        return True

    monkeypatch.setattr("suffixspec.verify.generation._reads_slowly", reads_slowly)
    monkeypatch.setattr("suffixspec.verify.generation.accept_greedy", None)
    rng = random.Random(0)
    drafted, steps = generate(
        target.logits,
        params,
        [1, 2],
        lambda out: random_tree(rng, 8, 9, alone.token_ids[len(out) :]),
        vocab=9,
    )
    assert (drafted.token_ids, drafted.logprobs) == (alone.token_ids, alone.logprobs)
    assert steps == len(read) < 25


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_on_a_gpu_a_seed_gives_the_tokens_of_plain_decoding(temperature):
    """On a GPU, greedy (at once over all nodes) and sampled outputs with drafts equal those without."""
    target = ToyTarget(40, 7)
    table = target.table.cuda()
    params = SamplingParams(temperature=temperature, seed=3, max_tokens=40, logprobs=0)
    processed = replace(params, repetition_penalty=1.2, presence_penalty=0.3, logit_bias={4: 1.0}, top_p=0.9)
    rng = random.Random(0)
    for settings in (params, processed):

        def run(drafter, settings=settings):
            return generate(
                lambda ids: table[ids[-2], ids[-1]], settings, [1, 2], drafter, vocab=40, device="cuda"
            )

        alone, _ = run(lambda _: EMPTY)
        drafted, steps = run(lambda out, alone=alone: random_tree(rng, 12, 40, alone.token_ids[len(out) :]))
        assert drafted.token_ids == alone.token_ids
        values = [[entry.logprob for entry in output.logprobs] for output in (drafted, alone)]
        assert values[0] == pytest.approx(values[1], abs=1e-5)
        assert steps < 40
