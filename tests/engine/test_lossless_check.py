"""The comparison with plain decoding: it finds what differs, and tells near-ties from errors."""

import pytest
import torch

from suffixspec.engine import Engine
from suffixspec.engine.lossless import check_lossless
from suffixspec.verify.sampling import SamplingParams

from .tiny import EOS, TOKENIZER, CountingTarget, garbage, model, prompt

PARAMS = SamplingParams(max_tokens=20, logit_bias={EOS: -100.0})
ARGMAX = SamplingParams(max_tokens=20)


@pytest.fixture
def plain_output(engine):
    """A prompt whose greedy output has no end token, and that output."""
    for seed in range(50):
        ids = prompt(seed, 30)
        output = engine.plain(ids, max_tokens=20).token_ids
        if len(output) == 20 and EOS not in output:
            return ids, output
    raise AssertionError("no such prompt")


def test_plain_decodings_own_output_has_no_differences(engine, plain_output):
    """All tokens compared, none different."""
    ids, output = plain_output
    report = check_lossless(engine, ids, output, ARGMAX)
    assert (report.compared, report.differences, report.complete) == (20, [], True)
    assert report.sentences(engine) == [
        "lossless: 20 tokens compared with plain decoding, 0 near-ties, 0 other differences"
    ]


def test_every_wrong_token_is_found_with_its_gap(engine, plain_output):
    """A wrong token is an error unless its gap is tiny; what follows is compared behind the drafted token."""
    ids, output = plain_output
    wrong = [*list(output[:5]), (output[5] + 1) % 200]
    rest = engine.plain([*ids, *wrong], max_tokens=14).token_ids
    report = check_lossless(engine, ids, [*wrong, *rest], ARGMAX)
    (difference,) = report.differences
    assert (difference.index, difference.drafted, difference.plain) == (5, wrong[5], output[5])
    assert not difference.near_tie
    logits = engine.target.model(torch.tensor([[*ids, *output[:5]]])).logits[0, -1]
    first, second = torch.topk(logits, 2).values.tolist()
    assert abs(difference.gap - (first - second)) < 1e-4
    assert report.errors == 1
    assert report.compared == 6 + len(rest)
    assert "DIFFERENCE at token 5" in report.sentences(engine)[0]


def test_a_difference_at_a_near_tie_is_told_apart(engine, plain_output):
    """Where plain decoding's two best tokens are as good as equal, a flip is a near-tie, not an error."""
    ids, output = plain_output
    logits = engine.target.model(torch.tensor([[*ids, *output[:3]]])).logits[0, -1]
    second = int(torch.topk(logits, 2).indices[1])
    head = engine.target.model.lm_head.weight
    before = head[second].clone()
    with torch.no_grad():
        head[second] = head[output[3]]  # both now have the same logit, but for the last bit
    try:
        plain = engine.plain(ids, max_tokens=4).token_ids
        place = next((i for i in range(4) if plain[i] in (second, output[3])), None)
        assert place is not None
        flipped = [*plain[:place], second if plain[place] != second else output[3]]
        report = check_lossless(engine, ids, flipped, SamplingParams(max_tokens=len(flipped)))
    finally:
        with torch.no_grad():
            head[second] = before
    assert report.near_ties == 1
    assert report.errors == 0


def test_an_output_that_ends_too_early_or_too_late_differs(engine, plain_output):
    """The end is compared as well."""
    ids, output = plain_output
    early = check_lossless(engine, ids, output[:7], ARGMAX)
    assert [(d.index, d.drafted, d.plain) for d in early.differences] == [(7, None, output[7])]
    params = SamplingParams(max_tokens=20, stop_token_ids=[output[6]])
    end = output.index(output[6])
    late = check_lossless(engine, ids, output[: end + 2], params)
    assert (late.differences[0].index, late.differences[0].plain) == (end + 1, None)


def test_a_sampled_output_is_compared_up_to_its_first_difference(engine):
    """With a seed, the same draws; behind a difference the random states have parted, and that is said."""
    ids = prompt(3, 30)
    params = SamplingParams(max_tokens=20, temperature=1.0, seed=5, logit_bias={EOS: -100.0})
    output = engine.plain(ids, max_tokens=20, temperature=1.0, seed=5, logit_bias={EOS: -100.0}).token_ids
    assert check_lossless(engine, ids, output, params).differences == []
    wrong = [*output[:4], (output[4] + 1) % 200, *output[5:]]
    report = check_lossless(engine, ids, wrong, params)
    assert [d.index for d in report.differences] == [4]
    assert not report.complete
    assert "nothing behind the first difference" in report.sentences(engine)[-1]


def test_what_cannot_be_compared_is_refused(engine):
    """Sampling without a seed, and lenience."""
    with pytest.raises(ValueError, match="expected a seed"):
        check_lossless(engine, [1, 2], [3], SamplingParams(temperature=1.0))
    with pytest.raises(ValueError, match="expected lenience 1"):
        check_lossless(engine, [1, 2], [3], SamplingParams(lenience=0.5))


def test_flips_in_bfloat16_are_counted_and_told_apart():
    """Where forwards of several tokens round otherwise, every flip is found, counted as a near-tie, and said."""
    half = CountingTarget(model(0).to(torch.bfloat16), name="half")
    forward = half.forward_tree
    noise = torch.Generator().manual_seed(0)

    def rounds_otherwise(cache, token_ids, parents):
        logits = forward(cache, token_ids, parents)
        wide = torch.randn(logits.shape, generator=noise) * 2**-5 if len(token_ids) > 1 else 0.0
        return logits + wide

    half.forward_tree = rounds_otherwise
    compared = flips = 0
    for seed in range(6):
        ids = prompt(seed, 30)
        engine = Engine(half, TOKENIZER, kv_bytes=1 << 26, drafter=garbage(seed))
        reply = engine.session("s").generate(ids, max_tokens=20)
        report = check_lossless(engine, ids, reply.token_ids, ARGMAX)
        assert report.errors == 0, report.sentences(engine)
        assert report.compared == len(reply.token_ids)
        assert len(report.sentences(engine)) == report.near_ties + 1
        assert f"{report.near_ties} near-ties, 0 other differences" in report.sentences(engine)[-1]
        for sentence in report.sentences(engine)[:-1]:
            assert sentence.startswith("near-tie at token ")
        compared, flips = compared + report.compared, flips + report.near_ties
    assert 0 < flips < compared / 4


def test_a_drafted_session_passes(tiny_target):
    """What a session writes with drafts has no differences."""
    engine = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26)
    ids = prompt(8, 40)
    reply = engine.session("s").generate(ids, max_tokens=20, logit_bias={EOS: -100.0})
    assert check_lossless(engine, ids, reply.token_ids, PARAMS).differences == []
