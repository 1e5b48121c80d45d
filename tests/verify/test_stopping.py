"""Where a generation ends, and what of its text may be shown before."""

import random

import pytest

from suffixspec.verify.stopping import Stopping, StopStrings

from .test_detokenizer import ALL_BYTES, Bytes


def shown(stop, text_pieces):
    """What is shown after each piece, and the stop string that was found."""
    strings = StopStrings(stop)
    parts = [strings.push(piece) for piece in text_pieces]
    return parts, strings.matched


def test_text_before_a_stop_string_is_shown_and_nothing_after_it():
    """The output ends before the stop string, wherever it stands in a piece."""
    assert shown(["END"], ["xxENDyy", "zz"]) == (["xx", ""], "END")
    assert shown(["END"], ["ENDyy"]) == ([""], "END")
    assert shown([], ["a", "END"]) == (["a", "END"], None)


def test_a_stop_string_across_pieces():
    """What might begin a stop string is held back until it is one, or is none."""
    assert shown(["</s>"], ["a<", "/", "s>", "b"]) == (["a", "", "", ""], "</s>")
    assert shown(["</s>"], ["a<", "/", "b</", "s"]) == (["a", "", "</b", ""], None)


def test_a_beginning_within_a_failed_one():
    """After a false start, a stop string that begins inside it is still found."""
    assert shown(["aab"], ["a", "a", "a", "b", "c"]) == (["", "", "a", "", ""], "aab")
    assert shown(["abcabd"], ["abcabcab", "d"]) == (["abc", ""], "abcabd")


def test_the_stop_string_that_is_complete_first():
    """Of several the one that ends first counts, of those that end together the longest."""
    assert shown(["abcd", "bc"], ["xabcd"]) == (["xa"], "bc")
    assert shown(["bc", "abc"], ["xabcd"]) == (["x"], "abc")
    assert shown(["bc", "b"], ["abc"]) == (["a"], "b")


def reference(stop, text):
    """Character by character: the text before the stop string that is complete first."""
    for end in range(1, len(text) + 1):
        ending = [s for s in stop if text[:end].endswith(s)]
        if ending:
            longest = max(ending, key=len)
            return text[: end - len(longest)], longest
    return text, None


def test_the_result_does_not_depend_on_the_borders():
    """Over 2,000 random texts, stop strings and splits: as character by character, and nothing is taken back."""
    matches = 0
    for seed in range(2000):
        rng = random.Random(seed)
        letters = "ab" if rng.random() < 0.5 else "abé"
        text = "".join(rng.choices(letters, k=rng.randint(0, 30)))
        stop = ["".join(rng.choices(letters, k=rng.randint(1, 6))) for _ in range(rng.randint(0, 3))]
        strings, out, at = StopStrings(stop), "", 0
        expected, match = reference(stop, text)
        while at < len(text):
            size = rng.randint(1, 5)
            out += strings.push(text[at : at + size])
            at += size
            assert expected.startswith(out), f"seed {seed}"  # never part of a stop string
            held = text[:at][len(out) :] if strings.matched is None else ""
            # No more is held than the longest beginning of a stop string.
            assert held == "" or any(s.startswith(held) and s != held for s in stop), f"seed {seed}"
        out += strings.flush()
        assert (out, strings.matched) == (expected, match), f"seed {seed}: {text!r} {stop}"
        matches += match is not None
    assert 500 < matches < 1500


def feed(stopping, ids):
    """The reason after each token, up to the first."""
    reasons = []
    for i in ids:
        reasons.append(stopping(i))
        if reasons[-1]:
            break
    return reasons


def test_an_end_token_ends_without_its_text():
    """An end or stop token is counted as a token, not shown as text."""
    stopping = Stopping(end_ids=[0], decode=Bytes(b"<eos>", b"hi"))
    assert feed(stopping, [1, 0]) == [None, "stop"]
    assert (stopping.text, stopping.tokens, stopping.stop) == ("hi", 2, 0)


def test_the_token_limit():
    """The generation ends with its last allowed token, for "length"."""
    stopping = Stopping(max_tokens=2)
    assert feed(stopping, [1, 1, 1]) == [None, "length"]
    assert stopping.stop is None


@pytest.mark.parametrize("settings", [{"end_ids": [1]}, {"stop": ["hi"]}])
def test_stop_goes_before_length(settings):
    """Where the last allowed token is an end token or completes a stop string, the reason is "stop"."""
    stopping = Stopping(max_tokens=2, decode=Bytes(b"h", b"i"), **settings)
    assert feed(stopping, [0, 1]) == [None, "stop"]


def test_a_stop_string_across_tokens_and_inside_one():
    """The generation ends with the token that completes a stop string; its text ends before it."""
    stopping = Stopping(stop=["\n\n"], decode=Bytes(b"a\n", b"\nb", b"c"))
    assert feed(stopping, [2, 0, 1, 2]) == [None, None, "stop"]
    assert (stopping.text, stopping.stop, stopping.tokens) == ("ca", "\n\n", 3)


def test_a_stop_string_of_many_bytes():
    """A stop string whose characters lie in several tokens each is found when its last byte comes."""
    stopping = Stopping(stop=["é😀"], decode=ALL_BYTES)
    data = "aé😁é😀b".encode()
    reasons = feed(stopping, data)
    assert reasons == [None] * (len(data) - 2) + ["stop"]
    assert stopping.text == "aé😁"


def test_a_stream_is_the_text_in_pieces():
    """``take`` gives each piece once, held-back text at the latest when the generation ends."""
    stopping = Stopping(stop=["<|"], decode=ALL_BYTES, max_tokens=5)
    taken = []
    for i in b"ab<cd":
        stopping(i)
        taken.append(stopping.take())
    assert taken == ["a", "b", "", "<c", "d"]
    stopping = Stopping(stop=["<|"], decode=ALL_BYTES, max_tokens=2)
    feed(stopping, b"a<")
    assert (stopping.take(), stopping.take(), stopping.text) == ("a<", "", "a<")


@pytest.mark.parametrize("settings", [{"end_ids": [0]}, {"max_tokens": 3}])
def test_bytes_left_at_the_end(settings):
    """A character that stays incomplete is shown as U+FFFD when the generation ends."""
    stopping = Stopping(decode=ALL_BYTES, **settings)
    feed(stopping, [ord("a"), 0xE2, 0x82, 0])
    assert stopping.text == "a\ufffd"


def test_bytes_left_at_the_end_may_complete_a_stop_string():
    """A stop string of U+FFFD is found at the end of the output too."""
    stopping = Stopping(stop=["\ufffd"], decode=ALL_BYTES, max_tokens=2)
    assert feed(stopping, [ord("a"), 0xE2]) == [None, "stop"]
    assert (stopping.text, stopping.stop) == ("a", "\ufffd")


def test_an_end_from_outside_releases_the_rest():
    """A cancelled generation shows what was held back, and has no reason of its own."""
    stopping = Stopping(stop=["abc"], decode=ALL_BYTES)
    feed(stopping, b"xab")
    assert stopping.text == "x"
    stopping.end()
    assert (stopping.text, stopping.take(), stopping.reason) == ("xab", "xab", None)


def test_without_decode_there_is_no_text():
    """Without ``decode`` there is no text and no stop string; a token after the end is an error."""
    stopping = Stopping(end_ids=[5])
    assert feed(stopping, [1, 5]) == [None, "stop"]
    assert (stopping.text, stopping.take()) == ("", "")
    with pytest.raises(RuntimeError, match=r"expected no token after the end \(stop\), got 1"):
        stopping(1)
    with pytest.raises(ValueError, match="expected decode"):
        Stopping(stop=["a"])
