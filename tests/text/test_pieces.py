"""A text that is encoded in pieces has the ids that it has in one."""

import random

import pytest
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Regex as Pattern
from tokenizers import Tokenizer as Backend

from suffixspec.text import Tokenizer, pieces
from suffixspec.text.pieces import encode_in_pieces

from .test_tokenizer import _metaspace

# What pre-tokenizers, merges and added tokens look at; among the last ones, spaces to one of Python and the
# tokenizers and not to the other.
_PARTS = [
    *(
        "\n",
        "\n\n",
        " ",
        "  ",
        "\r\n",
        "\t",
        "a",
        "aa",
        "b",
        "ab",
        "word",
        "'s",
        "12",
        ".",
        "...",
        "\N{SNOWMAN}",
    ),
    *("<|im_end|>", "<|im_", "end|>", "\u3000", "\x85", "\x1c", "\u200b", "é", "e\u0301", "\U0001f600"),
]
# The words by which the models of 2024 on split: punctuation takes in the newlines that follow it.
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def _byte_level(
    *merges: tuple[str, str], words: str | None = None, added: AddedToken | None = None
) -> Backend:
    """A byte-level tokenizer; without ``words``, the merges know no bounds."""
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {symbol: index for index, symbol in enumerate([*symbols, *("".join(pair) for pair in merges)])}
    backend = Backend(models.BPE(vocab, list(merges)))
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    split = [] if words is None else [pre_tokenizers.Split(Pattern(words), "isolated")]
    backend.pre_tokenizer = pre_tokenizers.Sequence([*split, whole])
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([added or "<|im_end|>"])
    return backend


def _stripping() -> Backend:
    backend = _byte_level(("a", "a"))
    backend.normalizer = normalizers.Strip()
    return backend


_NEWLINE, _SPACE = "Ċ", "Ġ"  # as the byte-level alphabet writes them
BACKENDS = {
    "words": lambda: _byte_level((_NEWLINE, _NEWLINE), (".", _NEWLINE), ("a", "b"), words=_WORDS),
    "merges over newlines": lambda: _byte_level(("a", _NEWLINE), (_NEWLINE, "b"), ("a", "a"), (_SPACE, "b")),
    "runs": lambda: _byte_level(("a", "a"), ("aa", "aa"), (_SPACE, _SPACE), (_NEWLINE, _NEWLINE)),
    "greedy token": lambda: _byte_level(added=AddedToken("<|im_end|>", lstrip=True, rstrip=True)),
    "token with a newline": lambda: _byte_level(added=AddedToken("word\na", special=True)),
    "strips": _stripping,
    "first": lambda: _metaspace("first"),
    "always": lambda: _metaspace("always"),
    "legacy": lambda: _metaspace("legacy"),
}


def _text(rng: random.Random) -> str:
    """Random parts, a few of them in long runs; mostly with a newline or a space now and then."""
    parts = rng.sample(_PARTS, rng.randint(2, len(_PARTS)))
    some = [part * (rng.randint(20, 90) if rng.random() < 0.02 else 1) for part in rng.choices(parts, k=300)]
    return rng.choice(["", "\n", " "]).join(some)


def _check(tokenizer: Tokenizer, text: str, **sizes: int) -> int:
    """Compare both ways to encode a text; return the number of pieces."""
    lengths = []

    def encode(part: str, continues: bool) -> list[int]:
        lengths.append(len(part))
        return tokenizer.encode(part, continues=continues)

    for continues in (False, True):
        expected = tokenizer.encode(text, continues=continues)
        lengths.clear()
        assert encode_in_pieces(text, encode, continues=continues, **sizes) == expected
    return sum(length > 2 * sizes["overlap"] for length in lengths)


@pytest.mark.parametrize("kind", BACKENDS)
def test_random_texts(kind):
    """For every kind of tokenizer and text, pieces give the ids of the whole; most texts are cut at all."""
    tokenizer = Tokenizer(BACKENDS[kind](), name=kind)
    cut = 0
    for seed in range(25):
        print(f"{seed=}")
        cut += _check(tokenizer, _text(random.Random(seed)), piece=200, overlap=50) > 1
    assert cut > 10 or kind == "strips"  # whose texts can be cut in front of a special token only


def test_random_texts_of_the_default_tokenizer(smollm2):
    """For SmolLM2's tokenizer too, and every text with a newline or a space in reach is cut."""
    for seed in range(60):
        print(f"{seed=}")
        text = _text(random.Random(seed))
        assert _check(smollm2, text + " and so on\n" * 60, piece=300, overlap=60) > 1


@pytest.mark.parametrize("text", ["a" * 3000, "\n" * 3000, " " * 3000, " \n" * 1500, "\r\n" * 1500])
def test_without_a_place_to_cut(smollm2, text):
    """Where nothing can be cut, the text stays whole."""
    assert _check(smollm2, text, piece=300, overlap=60) == 1


def test_long_texts_are_encoded_in_pieces(smollm2, monkeypatch):
    """``Tokenizer.encode`` never hands much more than a piece of a long text to the backend."""
    text = "".join(f"{number} lines of text,\n" for number in range(30_000))
    whole = smollm2._backend.encode(text, add_special_tokens=False).ids
    seen = []
    encode = Tokenizer._encode

    def watched(self, backend, part, continues):
        seen.append(len(part))
        return encode(self, backend, part, continues)

    monkeypatch.setattr(Tokenizer, "_encode", watched)
    assert smollm2.encode(text) == whole
    assert len(text) > 2 * pieces.PIECE
    assert max(seen) < pieces.PIECE + 100
