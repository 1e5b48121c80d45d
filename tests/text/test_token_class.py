"""Classes of tokens by their text."""

from __future__ import annotations

import numpy as np
import pytest

from suffixspec.native.evidence import CLASSES
from suffixspec.text import token_class
from suffixspec.text.token_class import class_of_text, token_classes
from suffixspec.text.tokenizer import load_tokenizer

EXAMPLES = {
    "UNKNOWN": ["", "\ufffd", "a\ufffd"],
    "NEWLINES": ["\n", "\n\n", "\r\n"],
    "SPACES": [" ", "    ", "\t"],
    "LINE_STARTS": ["\n    ", " \n"],
    "DIGITS": ["7", " 42", "2024"],
    "LOWER": [" word", " a", " größe"],
    "LOWER_PART": ["word", "ing"],
    "TITLE": [" Word", " A"],
    "TITLE_PART": ["Word", "I"],
    "UPPER": [" SELECT", "ID"],
    "MIXED": ["camelCase", " 3rd", ".py", "_id", "語", " it's"],
    "BRACKET": ["(", " {", "]", ")\n"],
    "QUOTE": ['"', " `", "'"],
    "MARK": [",", " =", "/"],
    "MARKS": [" ==", ' "/'],
    "MARKS_PART": ["();", "->"],
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_class_is_what_its_name_says(name):
    """Each example is of its class, whatever white space is around it."""
    expected = [getattr(token_class, name)] * len(EXAMPLES[name])
    found = [class_of_text(text) for text in EXAMPLES[name]]
    assert found == expected, dict(zip(EXAMPLES[name], found, strict=True))


def test_there_is_an_example_of_every_class():
    """No number is used twice, none is left out."""
    assert sorted(getattr(token_class, name) for name in EXAMPLES) == list(range(CLASSES))


def test_every_token_of_a_vocabulary_has_one():
    """By its text in the middle of a text; special tokens are of none."""
    tokenizer = load_tokenizer()
    classes = token_classes(tokenizer)
    assert classes.dtype == np.uint8
    assert len(classes) == tokenizer.vocab_size
    (word,) = tokenizer.encode(" the")
    assert classes[word] == token_class.LOWER
    assert all(classes[token] == token_class.UNKNOWN for token in tokenizer.special_tokens.values())
    assert len(set(classes.tolist())) == CLASSES
