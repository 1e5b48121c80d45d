"""Every family, through the whole engine: with any drafts the output is generate()'s and plain decoding's."""

import random

import pytest
import torch

from suffixspec.target.model import Target

from .cases import Case, Tally, decode, engine_of, generated, random_cases, sampled
from .families import EAGER_ONLY, VOCAB, tiny_model

FAMILIES = (
    "llama", "qwen2_sliding", "qwen3_sliding", "mistral", "gemma2", "gemma3", "phi3", "gpt_neox", "mixtral",
)  # fmt: skip
"""One of each kind; of two variants the one with a window."""
PROMPTS = 200
MOST_TOKENS = 6


def target_of(family: str, *, padded: bool) -> Target:
    """Under eager attention where nothing else is exact, else under sdpa; every other time padded."""
    model = tiny_model(family, "eager" if family in EAGER_ONLY else "sdpa")
    return Target(model, buckets=(1, 4, 8, 16) if padded else ())


def about(family: str, case: Case) -> str:
    return f"{family}, {case}"


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_outputs_are_those_of_generate_and_of_plain_decoding(family: str) -> None:
    """200 prompts over random budgets and drafters: token for token the same; rejections across the window."""
    targets = [target_of(family, padded=padded) for padded in (False, True)]
    cases = list(random_cases(family, PROMPTS, most_tokens=MOST_TOKENS))
    outputs = generated(targets[0].model, [case.prompt for case in cases], MOST_TOKENS)
    tally = Tally()
    for index, (case, output) in enumerate(zip(cases, outputs, strict=True)):
        wanted = output[: case.max_tokens]
        target = targets[index // 2 % 2]
        reply = decode(target, case, case.prompt + output, tally)
        assert reply.token_ids == wanted, about(family, case)
        if index % 4 == index // 4 % 4:  # a quarter, of every length
            plain = engine_of(target).plain(case.prompt, max_tokens=case.max_tokens)
            assert plain.token_ids == wanted, about(family, case)
            assert plain.finish_reason == reply.finish_reason
    # The test would show nothing if little was drafted, all accepted, all rejected, or never at the edge.
    assert tally.accepted > 60, tally
    assert tally.drafted - tally.accepted > 120, tally
    assert tally.crossings > 10, tally


@pytest.mark.parametrize("family", FAMILIES)
def test_seeded_outputs_are_those_of_plain_decoding_and_of_generate(family: str) -> None:
    """Of the same 200 prompts half, drawn with temperatures, cut-offs and penalties: the seed decides alone."""
    targets = [target_of(family, padded=padded) for padded in (False, True)]
    tally = Tally()
    for index, case in enumerate(random_cases(family, PROMPTS, most_tokens=MOST_TOKENS)):
        if index % 2 == index // 4 % 2:
            continue
        target = targets[index // 2 % 2]
        plain = engine_of(target).plain(case.prompt, max_tokens=case.max_tokens, **case.options)
        reply = decode(target, case, case.prompt + plain.token_ids, tally, **case.options)
        assert reply.token_ids == plain.token_ids, about(family, case)
        if index % 20 == 1:
            wanted = sampled(target.model, case.prompt, case.max_tokens, case.seed)
            reply = decode(target, case, case.prompt + wanted, tally, temperature=1.0, seed=case.seed)
            assert reply.token_ids == wanted, about(family, case)
    assert tally.accepted > 20, tally
    assert tally.drafted - tally.accepted > 50, tally


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("padded", [False, True])
def test_side_requests_are_plain_decodings(family: str, padded: bool) -> None:
    """A prompt that departs early takes over the KV of what is common, also within and behind a window."""
    target = target_of(family, padded=padded)
    rng = random.Random(family)
    main = [rng.randrange(3, VOCAB) for _ in range(150)]
    engine = engine_of(target)
    session = engine.session("s")
    session.generate(main, max_tokens=3, logit_bias={2: -100.0})
    (branch,) = engine.branches.of(("default", "s"))
    held = [layer.keys[:, :, : len(branch)].clone() for layer in branch.cache.layers]
    for common in (5, 8, 40):
        ids = main[:common] + [(main[common] + 1) % VOCAB] + [rng.randrange(3, VOCAB) for _ in range(4)]
        reply = session.generate(ids, max_tokens=5, logit_bias={2: -100.0})
        assert reply.cached_tokens == common
        assert reply.counts.prefilled == 4
        assert reply.token_ids == engine.plain(ids, max_tokens=5, logit_bias={2: -100.0}).token_ids
        assert (common, len(engine.branches)) in ((5, 2), (8, 2), (8, 3), (40, 3), (40, 4))
    for layer, before in zip(branch.cache.layers, held, strict=True):
        assert torch.equal(layer.keys[:, :, : len(branch)], before)
    again = session.generate([*branch.token_ids.tolist(), 5], max_tokens=3, logit_bias={2: -100.0})
    assert again.counts.prefilled == 0
