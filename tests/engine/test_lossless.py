"""The output is plain decoding's, token for token, whatever is drafted."""

import random

import numpy as np
import pytest
import torch

from suffixspec.draft import IndexDrafter, NoDrafter
from suffixspec.engine import Engine

from .tiny import EOS, TOKENIZER, VOCAB, garbage, oracle, prompt

SAMPLING = {
    "greedy": {},
    "sampled": {"temperature": 1.0},
    "cool": {"temperature": 0.7, "top_k": 20, "top_p": 0.9},
    "min_p": {"temperature": 1.3, "min_p": 0.05},
    "penalties": {"repetition_penalty": 1.2, "presence_penalty": 0.3, "frequency_penalty": 0.1},
    "sampled penalties": {"temperature": 0.9, "frequency_penalty": 0.4, "logit_bias": {5: 2.0, EOS: -3.0}},
}


def reference(model, prompt_ids, count: int) -> list[int]:
    """What transformers writes."""
    ids = torch.tensor([list(prompt_ids)])
    mask = torch.ones_like(ids)
    out = model.generate(ids, attention_mask=mask, max_new_tokens=count, do_sample=False, pad_token_id=0)
    return out[0, len(prompt_ids) :].tolist()


def engine_with(target, drafter, **more) -> Engine:
    return Engine(target, TOKENIZER, drafter=drafter, kv_bytes=1 << 26, **more)


@pytest.mark.parametrize("seed", range(8))
def test_greedy_output_is_transformers_own(tiny_target, seed):
    """The same tokens as ``model.generate``: drafted, plainly, and with garbage drafts."""
    ids = prompt(seed, random.Random(seed).randint(1, 60))
    wanted = reference(tiny_target.model, ids, 40)
    for drafter in (IndexDrafter(max_nodes=16), garbage(seed, ids + wanted), oracle(ids + wanted)):
        reply = engine_with(tiny_target, drafter).session("s").generate(ids, max_tokens=40)
        assert reply.token_ids == wanted, f"seed {seed}"
    assert engine_with(tiny_target, None).plain(ids, max_tokens=40).token_ids == wanted


@pytest.mark.parametrize("name", SAMPLING)
def test_every_drafter_yields_plain_decodings_tokens(tiny_target, name):
    """Over random prompts, budgets and drafters, greedy and seeded: plain decoding's tokens."""
    options = SAMPLING[name]
    for case in range(4):
        rng = random.Random(f"{name} {case}")
        ids = prompt(rng.randrange(10**6), rng.randint(1, 80))
        more = {"max_tokens": rng.randint(1, 40), "seed": rng.randrange(10**6), **options}
        plain = engine_with(tiny_target, None).plain(ids, **more)
        nodes = rng.choice((1, 2, 5, 13, 40))
        drafters = {
            "suffix": IndexDrafter(max_nodes=nodes),
            "combined": IndexDrafter(max_nodes=nodes, ngram=True, ngram_slots=1 << 8),
            "garbage": garbage(case, nodes=nodes),
            "mixed": garbage(case, ids + plain.token_ids, nodes=nodes),
            "right": oracle(ids + plain.token_ids, width=nodes),
        }
        for kind, drafter in drafters.items():
            engine = engine_with(tiny_target, drafter, max_nodes=nodes, prefill_chunk=rng.choice((1, 7, 64)))
            reply = engine.session("s").generate(ids, **more)
            assert reply.token_ids == plain.token_ids, f"{kind}, {name}, case {case}"
            assert reply.text == plain.text
            assert reply.finish_reason == plain.finish_reason
            engine.branches.check()


def test_plain_decoding_is_one_forward_a_token(tiny_target):
    """The reference itself: a prefill, then steps of width 1."""
    ids = prompt(3, 20)
    reply = engine_with(tiny_target, None).plain(ids, max_tokens=10, logit_bias={EOS: -100.0})
    assert tiny_target.prefills == [19]
    assert tiny_target.steps == [1] * 10
    assert reply.counts.steps == len(reply.token_ids) == 10
    assert reply.counts.accepted_lengths == [10]


def test_right_drafts_are_accepted_whole(tiny_target):
    """An always-right drafter of 7 nodes yields 8 tokens a step."""
    ids = prompt(4, 20)
    options = {"max_tokens": 40, "logit_bias": {EOS: -100.0}}
    plain = engine_with(tiny_target, None).plain(ids, **options)
    reply = (
        engine_with(tiny_target, oracle(ids + plain.token_ids, width=7)).session("s").generate(ids, **options)
    )
    assert reply.token_ids == plain.token_ids
    assert reply.counts.steps == 5
    assert reply.counts.accepted_lengths == [0] * 7 + [5]
    assert reply.counts.drafted == reply.counts.accepted == 35
    assert reply.accepted_flags == ([True] * 7 + [False]) * 5
    assert reply.tokens_per_step == 8.0


def test_no_draft_reaches_beyond_the_last_token(tiny_target):
    """A draft is no wider than what may still be written."""
    ids = prompt(4, 20)
    options = {"max_tokens": 5, "logit_bias": {EOS: -100.0}}
    plain = engine_with(tiny_target, None).plain(ids, **options)
    tiny_target.steps.clear()
    engine_with(tiny_target, oracle(ids + plain.token_ids + [1] * 20)).session("s").generate(ids, **options)
    assert tiny_target.steps == [5]


@pytest.mark.parametrize("count", range(1, 12))
def test_max_tokens_within_a_draft_ends_the_output_there(tiny_target, count):
    """The limit holds to the token, wherever in a draft it falls."""
    ids = prompt(6, 20)
    options = {"logit_bias": {EOS: -100.0}}
    plain = engine_with(tiny_target, None).plain(ids, max_tokens=12, **options).token_ids
    drafter = garbage(count, ids + plain)
    reply = engine_with(tiny_target, drafter).session("s").generate(ids, max_tokens=count, **options)
    assert reply.token_ids == plain[:count]
    assert reply.finish_reason == "length"


@pytest.mark.parametrize("at", [0, 1, 3, 6])
def test_an_end_token_within_a_draft_ends_the_output(tiny_target, at):
    """Nothing is emitted behind an end token, though the draft goes on; the next call is none the worse."""
    ids = prompt(7, 20)
    options = {"max_tokens": 12, "logit_bias": {EOS: -100.0}}
    text = engine_with(tiny_target, None).plain(ids, **options).token_ids
    end = text[at]
    first = text.index(end)
    session = engine_with(tiny_target, oracle(ids + text)).session("s")
    reply = session.generate(ids, stop_token_ids=[end], **options)
    assert reply.token_ids == text[: first + 1]
    assert reply.finish_reason == "stop"
    assert session.generate(ids, **options).token_ids == text


def test_stop_strings_across_tokens_end_the_output_and_are_never_shown(tiny_target):
    """The text ends before the stop string, in a stream as in one piece, drafted or not."""
    ids = prompt(8, 30)
    options = {"max_tokens": 30, "logit_bias": {EOS: -100.0}}
    plain = engine_with(tiny_target, None).plain(ids, **options)
    whole = plain.text
    for start in range(0, len(whole) - 3, 2):
        stop = whole[start : start + 3]
        cut = whole[: whole.index(stop)]
        for drafter in (NoDrafter(), oracle(ids + plain.token_ids), garbage(start, ids + plain.token_ids)):
            session = engine_with(tiny_target, drafter).session("s")
            with session.generate(ids, stop=[stop], stream=True, **options) as stream:
                pieces = list(stream)
            assert "".join(pieces) == stream.reply.text == cut
            assert stream.reply.finish_reason == "stop"


def test_a_stream_never_shows_half_a_character(tiny_target):
    """A character of several tokens comes with its last; the pieces are the text."""
    text = "é ∑ 🙂 x"
    ids = TOKENIZER.encode(text)
    assert len(ids) > len(text)

    written = [*ids, EOS]

    def processor(context, scores):
        scores[:] = -1.0
        scores[0, written[context.shape[1] - 3]] = 1.0
        return scores

    engine = engine_with(tiny_target, oracle([1, 2, 3, *written], width=2))
    stream = engine.session("s").generate([1, 2, 3], stream=True, logits_processors=[processor])
    pieces = list(stream)
    assert "".join(pieces) == text == stream.reply.text
    assert not any("\ufffd" in piece for piece in pieces)
    assert len(pieces) >= 4


def test_processors_see_each_emitted_token_once_in_order(tiny_target):
    """A stateful processor is called once per emitted token, with that token's context, drafted or not."""
    ids = prompt(9, 12)
    options = {"max_tokens": 15, "logit_bias": {EOS: -100.0}}

    def run(drafter):
        seen = []

        def processor(context, scores):
            seen.append(context[0].tolist())
            scores[0, len(seen) % VOCAB] += 1.0
            return scores

        engine = engine_with(tiny_target, drafter)
        reply = engine.session("s").generate(ids, logits_processors=[processor], **options)
        return seen, reply.token_ids

    plain = run(NoDrafter())
    assert [len(context) for context in plain[0]] == list(range(12, 27))
    assert run(oracle(ids + plain[1])) == plain
    assert run(garbage(1, ids + plain[1])) == plain


def test_logprobs_are_plain_decodings(tiny_target):
    """Log-probabilities of drafted output are plain decoding's, one for each token, whatever was drafted."""
    for seed, chosen in enumerate(({}, {"temperature": 0.8, "seed": 4}, {"repetition_penalty": 1.3})):
        ids = prompt(10 + seed, 25)
        options = {"max_tokens": 20, "logprobs": 3, **chosen}
        plain = engine_with(tiny_target, None).plain(ids, **options)
        text = ids + plain.token_ids
        for drafter in (oracle(text), garbage(seed, text), IndexDrafter(max_nodes=16)):
            drafted = engine_with(tiny_target, drafter).session("s").generate(ids, **options)
            assert [entry.token_id for entry in drafted.logprobs] == drafted.token_ids
            for a, b in zip(plain.logprobs, drafted.logprobs, strict=True):
                assert a.token_id == b.token_id
                assert abs(a.logprob - b.logprob) < 1e-5
                assert [token for token, _ in a.top] == [token for token, _ in b.top]
                assert max(abs(x - y) for (_, x), (_, y) in zip(a.top, b.top, strict=True)) < 1e-5


def test_several_outputs_of_one_prompt_share_its_prefill(tiny_target):
    """Several outputs: the prompt is prefilled once, and output i is that of seed + i alone."""
    ids = prompt(11, 40)
    options = {"max_tokens": 15, "temperature": 1.0}
    engine = engine_with(tiny_target, None)
    alone = [engine.plain(ids, seed=5 + i, **options).token_ids for i in range(4)]
    tiny_target.prefills.clear()
    replies = engine.session("s").generate_n(ids, 4, seed=5, **options)
    assert [reply.token_ids for reply in replies] == alone
    assert len({tuple(tokens) for tokens in alone}) > 1
    assert tiny_target.prefills == [39]
    assert [reply.cached_tokens for reply in replies] == [0, 39, 39, 39]


def test_history_of_other_sessions_changes_no_token(tiny_target):
    """Drafting from what earlier sessions wrote: other steps, the same tokens."""
    engine = engine_with(tiny_target, None)
    ids = prompt(12, 30)
    options = {"max_tokens": 40, "logit_bias": {EOS: -100.0}}
    first = engine.session("a")
    wanted = first.generate(ids, **options)
    first.close()
    again = engine.session("b").generate(ids, **options)
    assert again.token_ids == wanted.token_ids
    assert again.counts.steps < wanted.counts.steps


def test_the_drafter_is_never_shown_what_was_not_emitted(tiny_target):
    """What the drafter indexes is the prompt and the output, nothing of a rejected draft."""
    ids = prompt(13, 20)
    drafter = garbage(3)
    reply = engine_with(tiny_target, drafter).session("s").generate(ids, max_tokens=20)
    assert drafter.sessions[0].context == ids + reply.token_ids
    assert reply.counts.drafted > reply.counts.accepted
    assert np.array(reply.counts.accepted_lengths).sum() == reply.counts.steps
