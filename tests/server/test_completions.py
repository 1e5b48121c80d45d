"""``/v1/completions`` through OpenAI's client."""

import pytest
from engine.tiny import EOS, TOKENIZER
from openai.types import completion_create_params

from suffixspec.server import completions_wire

from .harness import LONG

MODEL = "tiny"


def plain(server, prompt, **options):
    ids = TOKENIZER.encode(prompt) if isinstance(prompt, str) else prompt
    return server.plain(ids, logit_bias={EOS: -100.0}, **options)


def create(server, prompt, **options):
    return server.openai().completions.create(
        **{"model": MODEL, "prompt": prompt, "temperature": 0, "extra_body": LONG, **options}
    )


@pytest.mark.parametrize("prompt", ["the abc the", [72, 101, 3, 4]], ids=["text", "tokens"])
def test_a_completion_goes_on_from_its_prompt(server, prompt):
    """Text or token ids: what plain decoding writes behind them, sixteen tokens by default, whole and streamed."""
    got = create(server, prompt)
    wanted = plain(server, prompt, max_tokens=16)
    assert got.choices[0].text == wanted.text
    assert got.object == "text_completion"
    assert got.usage.prompt_tokens == wanted.prompt_tokens
    assert got.usage.completion_tokens == 16
    chunks = list(create(server, prompt, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == wanted.text
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].usage.completion_tokens == 16


def test_several_prompts_have_their_choices_in_order(server):
    """Output i of prompt p is choice p·n + i; usage counts each prompt once."""
    prompts = ["the a", "12 12", "x"]
    got = create(server, prompts, n=2, temperature=1, seed=1, max_tokens=6)
    wanted = [
        plain(server, prompt, temperature=1.0, seed=1 + i, max_tokens=6).text
        for prompt in prompts
        for i in range(2)
    ]
    assert [choice.text for choice in got.choices] == wanted
    assert [choice.index for choice in got.choices] == list(range(6))
    assert got.usage.prompt_tokens == sum(len(TOKENIZER.encode(prompt)) for prompt in prompts)
    texts = [""] * 6
    for chunk in create(server, prompts, n=2, temperature=1, seed=1, max_tokens=6, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == wanted


def test_log_probabilities_in_the_older_form(server):
    """Tokens, their log-probabilities, the top ones and where they begin; streamed pieces add up to the same."""
    got = create(server, "logs", logprobs=2, max_tokens=5).choices[0]
    wanted = plain(server, "logs", logprobs=2, max_tokens=5)
    assert got.logprobs.token_logprobs == [token.logprob for token in wanted.logprobs]
    assert got.logprobs.tokens == [TOKENIZER.decode([token], continues=True) for token in wanted.token_ids]
    assert all(len(top) in {1, 2} for top in got.logprobs.top_logprobs)
    offsets, tokens = [], []
    for chunk in create(server, "logs", logprobs=2, max_tokens=5, stream=True):
        if chunk.choices[0].logprobs is not None:
            offsets += chunk.choices[0].logprobs.text_offset
            tokens += chunk.choices[0].logprobs.tokens
    assert offsets == got.logprobs.text_offset
    assert tokens == got.logprobs.tokens


def test_echo_repeats_the_prompt(server):
    """``echo``: the prompt stands before the text."""
    wanted = "echo me" + plain(server, "echo me", max_tokens=3).text
    assert create(server, "echo me", echo=True, max_tokens=3).choices[0].text == wanted
    chunks = create(server, "echo me", echo=True, max_tokens=3, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == wanted


def test_every_field_of_openais_is_known():
    """No field of OpenAI's API is refused as unknown."""
    theirs = set(completion_create_params.CompletionCreateParamsBase.__annotations__) | {"stream"}
    assert theirs <= completions_wire.FIELDS


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": [1, "x"]}, "prompt"),
        ({"prompt": [10**6]}, "prompt"),
        ({"prompt": ["a"] * 129}, "prompt"),
        ({"prompt": "a", "best_of": 2}, "best_of"),
        ({"prompt": "a", "suffix": "b"}, "suffix"),
        ({"prompt": "a", "logprobs": 6}, "logprobs"),
        ({"prompt": "a", "echo": True, "logprobs": 1}, "echo"),
    ],
    ids=str,
)
def test_what_cannot_be_completed_is_refused(server, body, param):
    """400 with the name of the field."""
    status, _, answer = server.ask("/v1/completions", {"model": MODEL, **body})
    assert status == 400
    assert answer["error"]["param"] == param
    assert answer["error"]["message"]


def test_texts_become_tokens_and_back(server):
    """``/tokenize`` and ``/detokenize``: a text, a conversation, and what they take on vLLM's and llama.cpp's."""
    text = "the abc <|im_end|> ü"
    ids = TOKENIZER.encode(text)
    for field in ("prompt", "content"):
        _, _, got = server.ask("/tokenize", {field: text, "return_token_strs": True})
        assert (got["tokens"], got["count"], got["max_model_len"]) == (ids, len(ids), 1024)
        assert len(got["token_strs"]) == len(ids)
    assert server.ask("/detokenize", {"tokens": ids})[2] == {"prompt": text, "content": text}
    messages = [{"role": "user", "content": "hi"}]
    _, _, got = server.ask("/tokenize", {"messages": messages})
    assert TOKENIZER.decode(got["tokens"]).endswith("<|im_start|>assistant\n")
    for path, body in (
        ("/tokenize", {}),
        ("/tokenize", {"prompt": "a", "content": "b"}),
        ("/tokenize", {"prompt": 3}),
        ("/detokenize", {"tokens": [-1]}),
        ("/detokenize", {"tokens": "x"}),
        ("/detokenize", {}),
    ):
        assert server.ask(path, body)[0] == 400
