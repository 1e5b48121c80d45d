"""The sealed index answers as its definition says, and its file is whole or refused."""

import itertools
import struct
import threading
import zlib

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffixspec.errors import InputError
from suffixspec.index.sealed import SealedIndex, StoppedError
from suffixspec.index.suffix_order import shared_prefixes, suffix_array
from suffixspec.native import sealed as native

from .other_mode import assert_other_mode_agrees
from .sealed_oracle import ListText

LARGEST = 2**31 - 1
INTERPRETED = bool(numba.config.DISABLE_JIT)


def random_text(n: int, size: int, seed: int, *, ends: int = 0) -> list[int]:
    """Tokens 0 to size - 1, about one position in ``ends`` negative."""
    rng = np.random.default_rng(seed)
    text = rng.integers(0, size, n)
    if ends:
        text[rng.random(n) < 1 / ends] = -1
    return text.tolist()


def skewed_text(n: int, size: int, seed: int) -> list[int]:
    """Tokens with very different frequencies, so that a context has many successors of different counts."""
    rng = np.random.default_rng(seed)
    return np.minimum(rng.geometric(4 / size, n), size).tolist()


def fibonacci(steps: int) -> list[int]:
    """The Fibonacci word, which repeats itself as much as a text without a period can."""
    before, word = [1], [0]
    for _ in range(steps):
        before, word = word, word + before
    return word[:170]


TEXTS = {
    "empty": [],
    "one token": [5],
    "one end": [-1],
    "two equal": [3, 3],
    "two tokens": [3, LARGEST],
    "a token and an end": [0, -7],
    "only ends": [-1, -2, -3],
    "all equal": [7] * 150,
    "all equal, with ends": ([7] * 60 + [-1]) * 3,
    "alternating": [0, 1] * 70,
    "period of 5 with a fault": [0, 0, 1, 0, 2] * 15 + [9] + [0, 0, 1, 0, 2] * 15,
    "the same text nine times": ([4, 1, 4, 2, 8] * 3 + [-1]) * 9,
    "fibonacci": fibonacci(11),
    "two tokens, random": random_text(160, 2, 1),
    "three tokens, with ends": random_text(160, 3, 2, ends=6),
    "extremes": [token * LARGEST if token > 0 else token for token in random_text(120, 2, 3, ends=9)],
    "sparse ids": [token * 10_007_123 for token in random_text(120, 5, 4, ends=20)],
    "many successors": [
        token for pair in zip([1] * 120, skewed_text(120, 40, 5), strict=True) for token in pair
    ],
}


def assert_same(index: SealedIndex, twin: ListText, string: tuple[int, ...]) -> None:
    """Count and successors of a string are those of the twin, and the most frequent ones of the successors."""
    context = index.find(string)
    expected = twin.count(string)
    if not expected:
        assert context is None, f"expected None for {string}, got {context}"
        return
    assert context is not None, f"expected {expected} occurrences of {string}, got None"
    assert (context.length, context.count) == (len(string), expected), f"of {string}"
    tokens, counts = index.successors(context)
    assert_most_frequent(tokens.tolist(), counts.tolist(), twin.successors(string), f"after {string}")


def assert_most_frequent(tokens: list[int], counts: list[int], true, shown: str) -> None:
    """These are the most frequent of all successors, by descending count, and all of them if there are few."""
    assert counts == sorted(counts, reverse=True), f"expected descending counts {shown}, got {counts}"
    assert len(set(tokens)) == len(tokens), f"expected different tokens {shown}, got {tokens}"
    got = dict(zip(tokens, counts, strict=True))
    assert got == {token: true[token] for token in tokens}, f"expected counts of {true} {shown}, got {got}"
    assert len(tokens) >= min(len(true), native.TOP), f"expected more of {true} {shown}, got {got}"
    if len(tokens) < len(true):
        left = max(count for token, count in true.items() if token not in got)
        assert left <= counts[-1], f"expected the most frequent of {true} {shown}, got {got}"


def assert_exact(text: list[int], *, longest: int = 6, **options) -> SealedIndex:
    """All strings of the text up to a length, and absent ones next to them, answer as the twin does."""
    index, twin = SealedIndex.build(np.array(text, np.int64), **options), ListText(text)
    assert len(index) == len(text)
    assert index.tokens.tolist() == twin.text
    strings = twin.strings(longest)
    for string in strings:
        assert_same(index, twin, string)
    tokens = {token for token in twin.text if token >= 0} | {6}
    for string in sorted(strings)[::7]:
        for token in tokens:
            assert_same(index, twin, (*string, token))
            assert_same(index, twin, (token, *string))
    return index


class TestOrder:
    """The suffix array, and what neighbours share."""

    @pytest.mark.kernels
    @pytest.mark.parametrize("name", TEXTS)
    def test_suffixes_are_sorted(self, name):
        """The array holds the positions in the order of their suffixes, and what neighbours share."""
        twin = ListText(TEXTS[name])
        text = np.array(twin.text, np.int32)
        order = suffix_array(text)
        assert order.dtype == np.int32
        assert order.tolist() == twin.order()
        for most in (3, 129):
            got = shared_prefixes(text, order, most).tolist()
            expected = [0] + [min(most, twin.shared(i, j)) for i, j in itertools.pairwise(order)]
            assert got == expected[: len(got)]

    @settings(max_examples=150, deadline=None, print_blob=True)
    @given(st.lists(st.integers(-1, 3), max_size=40), st.sampled_from([1, 700_000_000]))
    def test_any_small_text_is_sorted(self, tokens, factor):
        """As above, for texts that hypothesis thinks of, with small token ids and large ones."""
        text = [token * factor if token > 0 else token for token in tokens]
        assert suffix_array(np.array(text, np.int32)).tolist() == ListText(text).order()

    def test_a_text_of_many_slices_is_sorted(self, monkeypatch):
        """Wherever the passes are cut into slices, the order is the same."""
        text = np.array(random_text(3000, 4, 11, ends=50), np.int32)
        whole = suffix_array(text)
        shared = shared_prefixes(text, whole, 129)
        for size in (1, 7, 1000):
            monkeypatch.setattr("suffixspec.index.suffix_order.slices.__kwdefaults__", {"size": size})
            assert suffix_array(text).tolist() == whole.tolist(), f"in slices of {size}"
            assert shared_prefixes(text, whole, 129).tolist() == shared.tolist(), f"in slices of {size}"
            built = SealedIndex.build(text, least=3)
            monkeypatch.undo()
            for ours, theirs in zip(built.arrays, SealedIndex.build(text, least=3).arrays, strict=True):
                assert ours.tolist() == theirs.tolist(), f"in slices of {size}"


class TestStrings:
    """Counts and successors."""

    @pytest.mark.kernels
    @pytest.mark.parametrize("least", [2, 5, 1000])
    @pytest.mark.parametrize("name", TEXTS)
    def test_counts_and_successors_are_exact(self, name, least):
        """Every short string has its exact count and successors, with records for many strings, some, or none."""
        index = assert_exact(TEXTS[name], longest=3 if INTERPRETED else 6, least=least)
        assert index.least >= least

    @pytest.mark.parametrize("seed", range(6))
    def test_random_texts(self, seed):
        """Random texts of many sizes of alphabet are exact; the seed is the test's parameter."""
        rng = np.random.default_rng(seed)
        for _ in range(6):
            text = random_text(
                int(rng.integers(1, 200)), int(rng.integers(1, 9)), int(rng.integers(1 << 30)), ends=25
            )
            assert_exact(text, longest=4, least=int(rng.integers(2, 9)))

    @settings(max_examples=60, deadline=None, print_blob=True)
    @given(st.lists(st.integers(-1, 2), max_size=60), st.integers(2, 6))
    def test_texts_that_hypothesis_thinks_of(self, text, least):
        """Any small text is exact."""
        assert_exact(text, longest=5, least=least)

    def test_long_strings_and_many_occurrences_are_exact(self):
        """Beyond the depth of records, and among more occurrences than are looked at one by one, too."""
        text = ([3] * 300 + [-1] + [3] * 260 + [5] + [3] * 10 + [6]) * 2
        index, twin = SealedIndex.build(text), ListText(text)
        for length in (1, 63, 64, 127, 128, 129, 130, 200, 259, 260, 299, 300, 301):
            for tail in ((), (5,), (6,)):
                assert_same(index, twin, (3,) * (length - len(tail)) + tail)
        # One deep string with a hundred different successors, every one of them followed once.
        wide = [token for i in range(100) for token in [*range(1000, 1140), i, -1]]
        index, twin = SealedIndex.build(wide), ListText(wide)
        deep = tuple(range(1000, 1140))
        for i in (0, 1, 50, 98, 99, 100):
            assert_same(index, twin, (*deep, i))
        context = index.find(deep)
        assert context.count == 100
        tokens, counts = index.successors(context)
        assert len(tokens) == native.MOST_BRANCHES
        assert set(counts.tolist()) == {1}

    @pytest.mark.kernels
    @pytest.mark.parametrize("name", ["all equal, with ends", "three tokens, with ends", "many successors"])
    def test_strings_that_occur_often_enough_have_records(self, name):
        """A context has a record exactly where it occurs ``least`` times, and one occurrence is where it starts."""
        twin = ListText(TEXTS[name])
        strings = twin.strings(3)
        for least in (2, 4, 7):
            index = SealedIndex.build(TEXTS[name], least=least)
            starts = set()
            for string in strings:
                (row,) = index.find(string).row.tolist()
                code, length, at, end, seen = row[native.CODE :]
                assert (code > 0) == (seen >= least), f"{string}, seen {seen} times, has the code {code}"
                assert twin.text[at - length : at] == list(string)
                if seen == 1:
                    assert twin.occurrences(string) == [~code]
                    assert end == len(TEXTS[name]) + 1
                if code > 0:
                    starts.add(code)
            assert len(starts) < index.records

    def test_fewer_bytes_change_no_count(self):
        """Where the bytes do not suffice for all records, fewer are kept and every count stays."""
        text = skewed_text(30_000, 12, 6)
        rich, poor = SealedIndex.build(text), SealedIndex.build(text, bytes_per_token=8.5)
        assert rich.nbytes <= 20 * len(text) + 20_000
        assert poor.nbytes <= 8.5 * len(text) + 20_000
        assert poor.least > rich.least == 8
        assert poor.records < rich.records
        rng = np.random.default_rng(7)
        for start in rng.integers(0, len(text) - 8, 300).tolist():
            for length in (1, 2, 3, 5):
                string = text[start : start + length]
                ours, theirs = rich.find(string), poor.find(string)
                assert ours.count == theirs.count, f"of {string}"
                assert rich.successors(ours)[1][:4].tolist() == poor.successors(theirs)[1][:4].tolist()

    @pytest.mark.kernels
    def test_wrong_tokens_are_refused(self):
        """What is not a token is refused with a sentence, and a negative one is nobody's text."""
        index = SealedIndex.build([1, -1, 2])
        assert index.find([-1]) is None
        assert index.count([1, -1]) == 0
        assert index.count([]) == 4  # three positions, and the end
        with pytest.raises(TypeError, match="expected integer token ids"):
            SealedIndex.build([1.5])
        with pytest.raises(ValueError, match="expected token ids from 0 to"):
            SealedIndex.build([2**31])
        with pytest.raises(ValueError, match="one dimension"):
            SealedIndex.build([[1]])


class TestCursor:
    """Matching another text."""

    FEEDS = {  # noqa: RUF012
        "equal": [7] * 90,
        "alternating": [0, 1] * 40,
        "period of 5": [0, 0, 1, 0, 2] * 8 + [3] + [0, 0, 1, 0, 2] * 16,
        "random": random_text(120, 3, 8),
        "with ends": random_text(120, 3, 9, ends=8),
        "pairs": [1, 2, 1, 3, 1, 1, 4, 99, 1, 2],
        "extremes": [LARGEST * token for token in random_text(60, 2, 10)],
    }

    @pytest.mark.parametrize("least", [2, 6])
    @pytest.mark.parametrize("name", TEXTS)
    def test_all_suffixes_are_known_after_every_token(self, name, least):
        """After each token the contexts are the suffixes that occur, one per count, exactly up to 64 tokens."""
        index, twin = SealedIndex.build(TEXTS[name], least=least), ListText(TEXTS[name])
        feeds = dict(self.FEEDS)
        if len(TEXTS[name]) > 20:
            feeds["itself"] = [*TEXTS[name][3:90], 1, *TEXTS[name][5:30]]
        for feed, tokens in feeds.items():
            cursor = index.cursor()
            for i, token in enumerate(tokens):
                cursor.advance(token)
                if i % 3 == 0 or i < 12:
                    self.assert_knows(cursor, twin, tokens[: i + 1], feed)

    @staticmethod
    def assert_knows(cursor, twin, fed, shown) -> None:
        """The cursor's contexts are the suffixes of what was fed, as the twin counts them."""
        true = twin.suffix_counts(fed[-100:])
        got = [(context.length, context.count) for context in cursor.contexts]
        assert [pair for pair in got if pair[0] < 64] == [pair for pair in true if pair[0] < 64], shown
        long = [pair for pair in true if pair[0] >= 64]
        # Of the long ones: the shortest, and one more where a longer one goes on since it was the longest.
        far = [pair for pair in got if pair[0] >= 64]
        assert len(far) <= 2, shown
        assert far[-1:] == long[-1:], shown
        assert set(far) <= set(long), shown
        assert min(cursor.match_length, 64) == min(true[0][0] if true else 0, 64), shown

    @pytest.mark.kernels
    def test_contexts_have_the_successors_of_their_strings(self):
        """What followed a cursor's context is what followed the suffix that it stands for."""
        text = TEXTS["three tokens, with ends"]
        index, twin = SealedIndex.build(text, least=3), ListText(text)
        cursor, fed = index.cursor(), random_text(60, 3, 12)
        for i, token in enumerate(fed):
            cursor.advance(token)
            assert cursor.contexts
            for context in cursor.contexts:
                string = fed[i + 1 - context.length : i + 1]
                tokens, counts = index.successors(context)
                assert_most_frequent(
                    tokens.tolist(), counts.tolist(), twin.successors(string), f"after {string}"
                )

    @pytest.mark.kernels
    def test_blocks_and_single_tokens_lead_to_the_same_contexts(self):
        """``extend`` is ``advance`` for each token; of a block over 256 tokens, the end is what counts."""
        text = random_text(400, 3, 13, ends=60)
        index = SealedIndex.build(text, least=4)
        fed = random_text(500, 3, 14)
        single, block = index.cursor(), index.cursor()
        for token in fed:
            single.advance(token)
        block.extend([0, 1])
        block.extend(fed)
        assert [c.row.tolist() for c in single.contexts] == [c.row.tolist() for c in block.contexts]
        assert single.match_length > 0
        block.extend([])
        assert block.match_length == single.match_length
        block.reset()
        assert block.match_length == 0
        assert block.contexts == []
        block.extend([0, 1, -1])
        assert block.contexts == []

    @pytest.mark.kernels
    def test_what_stands_before_the_end_of_a_long_block_is_not_matched_across_it(self):
        """What is passed over in a long block separates what came before from what is looked at."""
        cursor = SealedIndex.build([1, 2] * 200).cursor()
        cursor.extend([1, 2, 1, 2])
        cursor.extend([3] * 100 + [1, 2] * 128)
        assert cursor.match_length == 256

    @settings(max_examples=80, deadline=None, print_blob=True)
    @given(
        st.lists(st.integers(-1, 2), max_size=50),
        st.lists(st.integers(-1, 3), max_size=40),
        st.integers(2, 5),
    )
    def test_texts_that_hypothesis_thinks_of(self, text, fed, least):
        """Any small text is matched exactly."""
        index, twin = SealedIndex.build(text, least=least), ListText(text)
        cursor = index.cursor()
        for i, token in enumerate(fed):
            cursor.advance(token)
            self.assert_knows(cursor, twin, fed[: i + 1], "hypothesis")


@pytest.fixture
def saved(tmp_path):
    """An index, and its file."""
    index = SealedIndex.build([*skewed_text(400, 30, 15), -1, *random_text(300, 3, 16, ends=40)])
    index.save(tmp_path / "text.index")
    return index, tmp_path / "text.index"


class TestFile:
    """Saving and opening."""

    @pytest.mark.kernels
    @pytest.mark.parametrize(
        "name", ["empty", "one token", "only ends", "three tokens, with ends", "all equal"]
    )
    def test_what_is_opened_is_what_was_saved(self, name, tmp_path):
        """Arrays, sizes and answers survive; the folder holds the file and nothing else."""
        index = SealedIndex.build(TEXTS[name], least=3)
        path = tmp_path / "a.index"
        index.save(path)
        index.save(path)  # over itself
        assert [entry.name for entry in tmp_path.iterdir()] == ["a.index"]
        opened = SealedIndex.open(path)
        assert (len(opened), opened.nbytes, opened.records, opened.least) == (
            len(index), index.nbytes, index.records, index.least,
        )  # fmt: skip
        for ours, theirs in zip(index.arrays, opened.arrays, strict=True):
            assert ours.tolist() == theirs.tolist()
            assert numba.typeof(ours) == numba.typeof(theirs)  # one compiled kernel for both
            assert not theirs.flags.writeable
            assert theirs.ctypes.data % 64 == 0
        opened.verify()
        twin = ListText(TEXTS[name])
        for string in twin.strings(3):
            assert_same(opened, twin, string)
        opened.save(tmp_path / "b.index")
        assert (tmp_path / "b.index").read_bytes() == path.read_bytes()

    def test_an_opened_index_is_resident_after_it_was_read(self, saved):
        """A built index is resident; an opened one when ``prefault`` has been through, which a stop prevents."""
        index, path = saved
        assert index.resident
        opened = SealedIndex.open(path)
        assert not opened.resident
        opened.prefault(lambda: True)
        assert not opened.resident
        asked = []
        opened.prefault(lambda: bool(asked.append(0)) or len(asked) > 2)
        assert not opened.resident, "stopped in the middle"
        assert len(asked) == 3
        with pytest.raises(StoppedError):
            opened.verify(lambda: True)
        opened.prefault()
        assert opened.resident
        opened.prefault(lambda: True)
        assert opened.resident

    def test_every_truncation_is_refused(self, saved):
        """A file that lacks its end, or has something behind it, is refused when it is opened."""
        _, path = saved
        data = path.read_bytes()
        for size in [*range(0, 520), *range(520, len(data), 97), len(data) - 1]:
            path.write_bytes(data[:size])
            with pytest.raises(InputError, match=r"text\.index: expected .*, got .*; .*again"):
                SealedIndex.open(path)
        path.write_bytes(data + b"\0")
        with pytest.raises(InputError, match=f"expected a file of {len(data)} bytes, got {len(data) + 1}"):
            SealedIndex.open(path)

    def test_every_changed_byte_of_the_header_is_refused(self, saved):
        """Whatever byte of the header differs, the file is refused when it is opened."""
        _, path = saved
        data = path.read_bytes()
        for at in range(512):
            for flip in (0x01, 0x80) if at < 130 else (0x10,):
                damaged = bytearray(data)
                damaged[at] ^= flip
                path.write_bytes(damaged)
                with pytest.raises(InputError, match=r"text\.index: expected .*, got "):
                    SealedIndex.open(path)

    def test_every_damaged_array_is_found_by_reading_it(self, saved):
        """A changed byte anywhere in the arrays is found by ``prefault`` and ``verify``, which name the array."""
        index, path = saved
        data = path.read_bytes()
        parts = [struct.unpack_from("<QQI", data, 44 + 20 * i) for i in range(3)]
        for name, (start, items, checksum), array in zip(
            ("text", "sa", "nodes"), parts, index.arrays, strict=True
        ):
            assert items == array.size
            assert checksum == zlib.crc32(array.tobytes())
            for at in (start, start + 2 * items, start + 4 * items - 1):
                damaged = bytearray(data)
                damaged[at] ^= 4
                path.write_bytes(damaged)
                opened = SealedIndex.open(path)
                with pytest.raises(
                    InputError, match=rf"text\.index: expected the checksum .* of its array '{name}'"
                ):
                    opened.prefault()
                assert not opened.resident
                with pytest.raises(InputError, match=name):
                    opened.verify()

    def test_foreign_files_and_later_versions_are_refused(self, saved, tmp_path):
        """A file of another kind, an empty one, and one of a later version are told apart."""
        _, path = saved
        data = bytearray(path.read_bytes())
        struct.pack_into("<I", data, 8, 2)
        struct.pack_into("<I", data, 508, zlib.crc32(bytes(data[:508])))
        path.write_bytes(data)
        with pytest.raises(
            InputError, match="expected a sealed index of version 1 or less, got version 2; update"
        ):
            SealedIndex.open(path)
        path.write_bytes(b"PK\3\4" + bytes(10_000))
        with pytest.raises(InputError, match="expected the file of a sealed index, got one that begins with"):
            SealedIndex.open(path)
        path.write_bytes(b"")
        with pytest.raises(InputError, match="got an empty one"):
            SealedIndex.open(path)
        with pytest.raises(FileNotFoundError):
            SealedIndex.open(tmp_path / "none")

    def test_a_failed_save_leaves_the_old_file(self, saved, monkeypatch):
        """When the disk is full, the file that was there stays, and nothing else is left."""
        _, path = saved
        before = path.read_bytes()

        def full(_descriptor):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("suffixspec.index.sealed.os.fsync", full)
        with pytest.raises(OSError, match="No space"):
            SealedIndex.build([1, 2, 3]).save(path)
        assert path.read_bytes() == before
        assert list(path.parent.iterdir()) == [path]


class TestStop:
    """Giving up."""

    def test_building_stops_wherever_it_is_asked_to(self):
        """At whichever look ``stop`` says so, building ends there; unless it says so, it is built."""
        text, asked = random_text(2000, 3, 17, ends=50), []

        def build(most):
            asked.clear()
            return SealedIndex.build(text, stop=lambda: bool(asked.append(0)) or len(asked) > most)

        whole = build(10_000)
        looks = len(asked)
        assert looks > 20
        assert whole.count(text[:3]) == ListText(text).count(text[:3])
        for most in range(looks):
            with pytest.raises(StoppedError):
                build(most)
            assert len(asked) == most + 1

    def test_many_threads_read_one_index(self, saved):
        """Threads that draft from one index at once get what one thread alone gets."""
        _, path = saved
        index = SealedIndex.open(path)
        feeds = [random_text(400, 3, seed) for seed in range(4)]

        def rows(feed):
            cursor, seen = index.cursor(), []
            for token in feed:
                cursor.advance(token)
                seen.append(cursor.state[: 1 + int(cursor.state[0, 0])].tolist())
            return seen

        alone = [rows(feed) for feed in feeds]
        together: dict[int, list] = {}
        threads = [
            threading.Thread(target=lambda i=i: together.update({i: rows(feeds[i])}))
            for i in range(len(feeds))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [together[i] for i in range(len(feeds))] == alone


def transcript(seed: int) -> list:
    """Arrays and answers of a seeded index, as plain values."""
    text = [token * (LARGEST // 3) if token > 0 else token for token in random_text(300, 4, seed, ends=40)]
    index = SealedIndex.build(text, least=2 + seed)
    cursor, out = index.cursor(), [[array.tolist() for array in index.arrays]]
    for token in text[20:80] + random_text(40, 2, seed):
        cursor.advance(token)
        out += [
            [context.row.tolist(), *(part.tolist() for part in index.successors(context))]
            for context in cursor.contexts
        ]
    return out


def test_compiled_and_interpreted_kernels_agree():
    """The other mode, in a process of its own, gives the same arrays and contexts for the same seeds."""
    assert_other_mode_agrees(transcript, "test_sealed", 3)
