"""Tokens of texts that come again."""

import random

from suffixspec.engine.encodings import Encodings
from suffixspec.text import load_tokenizer

from .tiny import TOKENIZER, CountingTarget

PIECES = (
    "the abc",
    " 12 ",
    "\n\n",
    "<|im_start|>",
    "<|im_end|>",
    "user\n",
    "é😀",
    "\x04",
    "<|im",
    "\ud800",
    "x" * 40,
)


def test_they_are_what_the_tokenizer_gives():
    """Random texts over special tokens, growing at their end, of two tokenizers: the same ids each time."""
    seed = random.randrange(10**6)
    print("seed", seed)
    rng = random.Random(seed)
    for tokenizer in (TOKENIZER, load_tokenizer()):
        encodings = Encodings(tokenizer, most_bytes=4000)
        for _ in range(30):
            text = ""
            for _ in range(8):
                text += "".join(rng.choices(PIECES, k=rng.randint(0, 5)))
                namespace = rng.choice("ab")
                assert encodings.encode(namespace, text) == tokenizer.encode(text), f"seed {seed}: {text!r}"
                assert encodings.nbytes <= 4000


def test_what_is_known_is_not_encoded_again(monkeypatch):
    """Of a longer text only what is new; and in another namespace all of it, whatever the first one has sent."""
    tokenizer = load_tokenizer()
    asked: list[str] = []
    encode = tokenizer.encode
    monkeypatch.setattr(tokenizer, "encode", lambda text, **more: asked.append(text) or encode(text, **more))
    encodings = Encodings(tokenizer)
    first = "<|im_start|>user\nhello<|im_end|>\n"
    encodings.encode("a", first)
    del asked[:]
    encodings.encode("a", first + "<|im_start|>assistant\nyes")
    assert asked == ["assistant\nyes"]
    del asked[:]
    encodings.encode("b", first)
    assert "user\nhello" in asked


def test_a_session_encodes_only_what_is_new(tiny_target: CountingTarget, monkeypatch):
    """Turn by turn, also beside other sessions of its namespace that have the same beginning."""
    from suffixspec.engine import Engine

    engine = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26)
    asked: list[str] = []
    encode = TOKENIZER.encode
    monkeypatch.setattr(TOKENIZER, "encode", lambda text, **more: asked.append(text) or encode(text, **more))
    messages = [{"role": "user", "content": "the abc " * 20}]
    for name in ("one", "two"):
        engine.session(name).chat(messages, max_tokens=2)
    assert sum("the abc" in text for text in asked) == 1
