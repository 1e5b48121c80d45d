"""``model.generate`` with drafts is ``model.generate``, faster."""

import copy
import random
import subprocess
import sys
import threading
import warnings

import pytest
import torch
from engine.tiny import EOS, TOKENIZER, garbage, model, oracle, prompt
from target.families import CONFIGS, new_model
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
    TextIteratorStreamer,
)
from transformers.generation.streamers import BaseStreamer

import suffixspec.hf
from suffixspec.errors import InputError, SuffixspecWarning
from suffixspec.target.support import UnsupportedModelError

FAMILIES = ("llama", "qwen3_sliding", "gemma3", "gpt_neox", "qwen3_moe")


@pytest.fixture(autouse=True)
def _one_thread(one_thread):
    pass


@pytest.fixture(scope="module")
def tiny():
    return model()


@pytest.fixture
def fast(tiny):
    with suffixspec.hf.accelerate(tiny, measure=False, kv_bytes=1 << 26) as handle:
        yield handle


def ids(seed: int, length: int = 40) -> torch.Tensor:
    return torch.tensor([prompt(seed, length)])


def plain(net, *args, **kwargs):
    """The model's own ``generate``."""
    return type(net).generate(net, *args, **kwargs)


class Notes(BaseStreamer):
    """Notes what it is given."""

    def __init__(self) -> None:
        self.put_in: list[list[int]] = []
        self.ended = 0

    def put(self, value) -> None:
        """Take tokens."""
        self.put_in.append(value.reshape(-1).tolist())

    def end(self) -> None:
        """Take the end."""
        self.ended += 1


class Counting(LogitsProcessor):
    """Depends on how often it was called: state that a draft must not disturb."""

    def __init__(self) -> None:
        self.lengths: list[int] = []

    def __call__(self, input_ids, scores):
        """Favour a token."""
        self.lengths.append(input_ids.shape[1])
        scores[0, (7 * len(self.lengths)) % scores.shape[1]] += 3.0
        return scores


class AfterToken(StoppingCriteria):
    """Stops when a token has come so often."""

    def __init__(self, token: int, times: int) -> None:
        self.token, self.times = token, times
        self.lengths: list[int] = []

    def __call__(self, input_ids, scores, **kwargs):  # noqa: ARG002
        """Look for the token."""
        self.lengths.append(input_ids.shape[1])
        return (input_ids == self.token).sum(dim=1) >= self.times


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_output_is_the_models_own(family):
    """On every family, drafts right and wrong alike, the tokens are those of ``generate``, turn after turn."""
    net = new_model(CONFIGS[family]())
    rng = random.Random(1)
    text = [rng.randrange(3, 64) for _ in range(30)]
    options = {"max_new_tokens": 24, "do_sample": False, "eos_token_id": None, "pad_token_id": None}
    for turn in range(3):
        inputs = {
            "input_ids": torch.tensor([text]),
            "attention_mask": torch.ones(1, len(text), dtype=torch.long),
        }
        expected = plain(net, **inputs, **options)
        right = expected[0].tolist()
        wrong = [*right[: len(text) + 3], 5, *right[len(text) + 4 :]]
        drafter = [oracle(right), oracle(wrong), None][turn]
        with suffixspec.hf.accelerate(net, measure=False, kv_bytes=1 << 26, drafter=drafter) as handle:
            assert torch.equal(net.generate(**inputs, **options), expected), f"{family}, turn {turn}"
            if turn == 0:
                assert handle.calls[0].steps < handle.calls[0].new_tokens
        text = [*right, *text[:5]]


def test_a_loop_prefills_only_what_is_new(fast, tiny):
    """Turns that go on from each other reuse the KV and draft from what was written; so does the plain hook."""
    text = ids(3)
    for turn in range(4):
        expected = plain(tiny, text, max_new_tokens=20, do_sample=False)
        hook = {"custom_generate": suffixspec.hf.generate} if turn % 2 else {}
        got = tiny.generate(text, max_new_tokens=20, do_sample=False, **hook)
        assert torch.equal(got, expected)
        call = suffixspec.hf.last_call(tiny)
        assert call == fast.calls[-1]
        assert call.cached_tokens >= (text.shape[1] - 8 if turn else 0)
        text = torch.cat([got, ids(50 + turn, 7)], dim=1)
    assert sum(call.accepted for call in fast.calls) > 0
    assert [call.new_tokens for call in fast.calls] == [20] * 4


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.8},
        {"temperature": 1.3, "top_k": 20, "top_p": 0.9},
        {"min_p": 0.05, "repetition_penalty": 1.2},
        {"typical_p": 0.9, "no_repeat_ngram_size": 4},
    ],
)
def test_a_seed_gives_the_tokens_of_generate(tiny, options):
    """Sampling takes one draw of torch's random numbers per token, whatever was drafted."""
    for seed in range(3):
        text = ids(seed)
        torch.manual_seed(seed)
        expected = plain(tiny, text, max_new_tokens=24, do_sample=True, **options)
        after = torch.rand(1)
        for drafter in (oracle(expected[0].tolist()), garbage(seed, expected[0].tolist())):
            with suffixspec.hf.accelerate(tiny, measure=False, kv_bytes=1 << 26, drafter=drafter):
                torch.manual_seed(seed)
                got = tiny.generate(text, max_new_tokens=24, do_sample=True, **options)
            assert torch.equal(got, expected), f"seed {seed}, {options}"
            assert torch.equal(torch.rand(1), after), f"seed {seed}: as many draws"


def test_processors_and_criteria_see_what_generate_shows_them(tiny):
    """Each is called once per token with that token's context, also when it has state."""
    text = ids(5)
    runs = []
    expected = plain(
        tiny, text, max_new_tokens=30, do_sample=False, logits_processor=LogitsProcessorList([Counting()])
    )
    for drafted in (False, True):
        processor, criterion = Counting(), AfterToken(int(expected[0, 52]), 1)
        more = {
            "logits_processor": LogitsProcessorList([processor]),
            "stopping_criteria": StoppingCriteriaList([criterion]),
            "max_new_tokens": 30,
            "do_sample": False,
        }
        if drafted:
            drafter = oracle(expected[0].tolist())
            with suffixspec.hf.accelerate(tiny, measure=False, kv_bytes=1 << 26, drafter=drafter) as handle:
                out = tiny.generate(text, **more)
            assert handle.calls[0].accepted > 0
        else:
            out = plain(tiny, text, **more)
        runs.append((out.tolist(), processor.lengths, criterion.lengths))
    assert runs[0] == runs[1]


def test_left_padding_of_one_row_is_left_alone(fast, tiny):
    """Padding is no part of the context, and stays in the result."""
    text = ids(6, 20)
    padded = torch.cat([torch.full((1, 5), 9), text], dim=1)
    mask = torch.cat([torch.zeros(1, 5, dtype=torch.long), torch.ones_like(text)], dim=1)
    expected = plain(tiny, padded, attention_mask=mask, max_new_tokens=16, do_sample=False)
    assert torch.equal(
        tiny.generate(padded, attention_mask=mask, max_new_tokens=16, do_sample=False), expected
    )
    assert fast.calls[0].prompt_tokens == 20


def test_end_tokens_and_limits_end_the_output(fast, tiny):
    """An end token given to the call ends it, and so do all kinds of limits."""
    text = ids(7)
    whole = plain(tiny, text, max_new_tokens=20, do_sample=False)
    for options in (
        {"max_new_tokens": 20, "eos_token_id": int(whole[0, 48])},
        {"max_new_tokens": 20, "eos_token_id": [EOS, int(whole[0, 45])]},
        {"max_length": 47},
        {"max_new_tokens": 1},
    ):
        expected = plain(tiny, text, do_sample=False, **options)
        assert torch.equal(tiny.generate(text, do_sample=False, **options), expected), str(options)


def test_the_output_object_has_scores_and_logits(fast, tiny):
    """``return_dict_in_generate`` gives what ``generate`` gives, but for the cache."""
    options = {"max_new_tokens": 12, "do_sample": False, "repetition_penalty": 1.3} | {
        "return_dict_in_generate": True, "output_scores": True, "output_logits": True
    }  # fmt: skip
    expected, got = plain(tiny, ids(8), **options), tiny.generate(ids(8), **options)
    assert type(got) is type(expected)
    assert torch.equal(got.sequences, expected.sequences)
    assert got.cache is None
    for name in ("scores", "logits"):
        torch.testing.assert_close(torch.cat(getattr(got, name)), torch.cat(getattr(expected, name)))


def test_streamers_get_every_token(fast, tiny):
    """A streamer gets the prompt, each token by itself, and the end, as from ``generate``; iterators end."""
    noted = []
    for run in (lambda **more: plain(tiny, ids(9), **more), lambda **more: tiny.generate(ids(9), **more)):
        streamer = Notes()
        run(max_new_tokens=15, do_sample=False, streamer=streamer)
        noted.append((streamer.put_in, streamer.ended))
    assert noted[0] == noted[1]

    streamer = TextIteratorStreamer(_Chars(), skip_prompt=True)
    thread = threading.Thread(
        target=tiny.generate,
        kwargs={"inputs": ids(9), "max_new_tokens": 15, "do_sample": False, "streamer": streamer},
    )
    thread.start()
    assert "".join(streamer) == "".join(chr(400 + x[0]) for x in noted[0][0][1:])
    thread.join()


def test_stop_strings_work_through_accelerate(fast, tiny):
    """``stop_strings`` with a tokenizer ends where ``generate`` ends."""
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=TOKENIZER._backend, eos_token="<|im_end|>"
    )
    whole = plain(tiny, ids(10), max_new_tokens=25, do_sample=False)
    stop = tokenizer.decode(whole[0, 50:51])
    options = {"max_new_tokens": 25, "do_sample": False, "stop_strings": [stop], "tokenizer": tokenizer}
    expected = plain(tiny, ids(10), **options)
    assert expected.shape[1] < whole.shape[1]
    assert torch.equal(tiny.generate(ids(10), **options), expected)


def test_what_is_not_drafted_is_the_models_own(fast, tiny):
    """Several rows, beams, attentions, masks with holes: a warning that says why, and the model's own output."""
    rows = torch.cat([ids(11), ids(12)])
    hole = torch.ones_like(ids(11))
    hole[0, 3] = 0
    for inputs, given, why in (
        (rows, {}, "expected one row, got 2"),
        (ids(11), {"num_beams": 2}, "num_beams=2"),
        (ids(11), {"return_dict_in_generate": True, "output_attentions": True}, "attentions"),
        (ids(11), {"attention_mask": hole}, "padding on the left"),
    ):
        options = given | {"max_new_tokens": 5, "do_sample": False}
        expected = plain(tiny, inputs, **options)
        with pytest.warns(SuffixspecWarning, match=why):
            got = tiny.generate(inputs, **options)
        assert torch.equal(getattr(got, "sequences", got), getattr(expected, "sequences", expected))
    assert fast.calls == []
    with pytest.warns(SuffixspecWarning, match="assistant_model is not used"):
        got = tiny.generate(ids(11), assistant_model=tiny, max_new_tokens=5, do_sample=False)
    assert torch.equal(got, plain(tiny, ids(11), max_new_tokens=5, do_sample=False))
    assert len(fast.calls) == 1


def test_new_weights_forget_the_kv(tiny):
    """After a change of the weights nothing of the old KV is used; the output is the new model's."""
    net = copy.deepcopy(tiny)
    with suffixspec.hf.accelerate(net, measure=False, kv_bytes=1 << 26) as handle:
        net.generate(ids(13), max_new_tokens=8, do_sample=False)
        with torch.no_grad():
            net.model.embed_tokens.weight.mul_(1.5)
        got = net.generate(ids(13), max_new_tokens=8, do_sample=False)
        assert handle.calls[-1].cached_tokens == 0
        assert torch.equal(got, plain(net, ids(13), max_new_tokens=8, do_sample=False))
        handle.reset()
        net.generate(ids(13), max_new_tokens=8, do_sample=False)
        assert handle.calls[-1].cached_tokens == 0


def test_a_model_is_given_back(tiny):
    """Undone, copied and twice accelerated models: each has the ``generate`` that it should have."""
    net = copy.deepcopy(tiny)
    handle = suffixspec.hf.accelerate(net, measure=False, kv_bytes=1 << 26)
    with pytest.raises(InputError, match="not accelerated yet"):
        suffixspec.hf.accelerate(net)
    other = copy.deepcopy(net)
    other.generate(ids(14), max_new_tokens=3)
    assert handle.calls == []
    handle.undo()
    handle.undo()
    assert "generate" not in net.__dict__
    net.generate(ids(14), max_new_tokens=3)
    assert handle.calls == []
    assert suffixspec.hf.last_call(net) is None
    with pytest.raises(InputError, match="expected a model of transformers with generate, got Linear"):
        suffixspec.hf.accelerate(torch.nn.Linear(2, 2))


def test_models_that_cannot_be_verified_decode_plainly():
    """A recurrent model refuses to be accelerated, and with the hook decodes by itself, with a warning."""
    import transformers

    net = transformers.MambaForCausalLM(
        transformers.MambaConfig(vocab_size=64, hidden_size=16, num_hidden_layers=1, state_size=4)
    ).eval()
    with pytest.raises(UnsupportedModelError):
        suffixspec.hf.accelerate(net, measure=False)
    text = torch.tensor([[5, 6, 7]])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = net.generate(text, max_new_tokens=4, do_sample=False, custom_generate=suffixspec.hf.generate)
    assert any("generate runs without drafts" in str(each.message) for each in caught)
    assert torch.equal(got, net.generate(text, max_new_tokens=4, do_sample=False))


class _Chars:
    """A tokenizer for streamers: a character for every token."""

    def decode(self, token_ids, **kwargs) -> str:  # noqa: ARG002
        """The tokens' characters."""
        return "".join(chr(400 + int(token)) for token in token_ids)


def test_it_is_there_without_an_import_of_its_own():
    """``import suffixspec`` is enough for ``suffixspec.hf``, and imports nothing heavy by itself."""
    code = (
        "import sys, suffixspec; assert 'torch' not in sys.modules; print(suffixspec.hf.accelerate.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "accelerate\n", done.stderr
