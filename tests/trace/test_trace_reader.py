"""Files: compression, damage, encodings, limits, and going on after bad records."""

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zstandard

from suffixspec.errors import InputError
from suffixspec.trace import read_sessions, source
from suffixspec.trace.importers import IMPORTERS


def _line(name: str, text: str = "Done.") -> bytes:
    messages = [{"role": "user", "content": "Fix it."}, {"role": "assistant", "content": text}]
    return json.dumps({"session_id": name, "messages": messages}).encode() + b"\n"


def _ids(path: Path, **options: Any) -> list[str]:
    return [session.session_id for session in read_sessions(path, **options)]


def _zst(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


_THREE = _line("a") + _line("b") + _line("c")
# Text that hardly compresses, so that a cut or a flipped byte falls between sessions of many blocks.
_LONG = b"".join(
    _line(f"s{number}", "".join(Random(number).choices("abcdefghijklmnopqrstuvwxyz_()=", k=200_000)))
    for number in range(8)
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "trace.bin"


class TestCompression:
    """Packed files."""

    @pytest.mark.parametrize("pack", [bytes, gzip.compress, _zst])
    def test_is_told_by_the_first_bytes(self, pack: Any, trace: Path) -> None:
        """The name says nothing: what is compressed is decompressed."""
        trace.write_bytes(pack(_THREE))

        assert _ids(trace) == ["a", "b", "c"]

    @pytest.mark.parametrize("pack", [gzip.compress, _zst])
    def test_may_have_members(self, pack: Any, trace: Path) -> None:
        """Files that were put together with cat read as one."""
        trace.write_bytes(pack(_line("a")) + pack(_line("b")) + pack(b"") + pack(_line("c")))

        assert _ids(trace) == ["a", "b", "c"]

    @pytest.mark.parametrize("pack", [gzip.compress, _zst])
    def test_may_be_far_smaller_than_the_text(self, pack: Any, trace: Path) -> None:
        """Nothing is lost where a few bytes stand for megabytes."""
        trace.write_bytes(pack(b"".join(_line(str(number), "x" * (1 << 20)) for number in range(5))))

        assert [(str(number), 1 << 20) for number in range(5)] == [
            (session.session_id, len(session.messages[1].content)) for session in read_sessions(trace)
        ]

    def test_gzip_may_be_padded(self, trace: Path) -> None:
        """Zero bytes after the end of gzip data are padding."""
        trace.write_bytes(gzip.compress(_THREE) + bytes(100))

        assert _ids(trace) == ["a", "b", "c"]

    @pytest.mark.parametrize(("pack", "name"), [(gzip.compress, "gzip"), (_zst, "zstandard")])
    def test_truncation_is_an_error(self, pack: Any, name: str, trace: Path) -> None:
        """A file that ends early says so, with the line that was being read."""
        packed = pack(_LONG)
        trace.write_bytes(packed[: len(packed) * 3 // 4])
        seen = []
        with pytest.raises(InputError, match=f"expected more {name} data, got the end of the file") as caught:
            seen += (session.session_id for session in read_sessions(trace))

        assert caught.value.line is not None
        assert caught.value.line > 1

    @pytest.mark.parametrize("pack", [gzip.compress, _zst])
    def test_truncation_keeps_what_came_before(self, pack: Any, trace: Path) -> None:
        """With skip_bad the sessions before the damage are read, and the damage counts once."""
        packed = pack(_LONG)
        bad: list[InputError] = []
        trace.write_bytes(packed[: len(packed) * 3 // 4])
        ids = _ids(trace, skip_bad=True, on_bad=bad.append)

        assert len(bad) == 1
        assert [f"s{number}" for number in range(len(ids))] == ids
        assert 0 < len(ids) < 8

    def test_a_truncated_document_counts_once(self, trace: Path) -> None:
        """That the JSON is cut too is no second error."""
        bad: list[InputError] = []
        text = json.dumps([json.loads(line) for line in _LONG.splitlines()], indent=1)
        trace.write_bytes(gzip.compress(text.encode())[:-1000])

        assert _ids(trace, skip_bad=True, on_bad=bad.append) == []
        assert [error.message.partition(",")[0] for error in bad] == ["expected more gzip data"]

    @pytest.mark.parametrize(("pack", "name"), [(gzip.compress, "gzip"), (_zst, "zstandard")])
    def test_damage_is_an_error(self, pack: Any, name: str, trace: Path) -> None:
        """A flipped byte is found."""
        packed = bytearray(pack(_LONG))
        packed[len(packed) // 2] ^= 0xFF
        trace.write_bytes(packed)

        with pytest.raises(
            InputError, match=rf"trace\.bin:\d+: expected (valid {name} data|UTF-8|valid JSON)"
        ):
            _ids(trace)


class TestText:
    """Encodings and JSON."""

    def test_line_ends_and_blank_lines(self, trace: Path) -> None:
        """Windows line ends, blank lines, a byte order mark and a missing last line end are all fine."""
        trace.write_bytes(
            b"\xef\xbb\xbf\r\n" + _line("a").replace(b"\n", b"\r\n") + b" \n\n" + _line("b").strip()
        )

        assert [(session.session_id, session.line) for session in read_sessions(trace)] == [
            ("a", 2),
            ("b", 5),
        ]

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b"\xff", "expected UTF-8 text, got the byte 0xff (invalid start byte) at byte {} of the line"),
            (b"\xed\xa0\x80", "expected UTF-8 text, got the byte 0xed"),
            (b"\0", "expected UTF-8 text, got a NUL byte at byte {} of the line"),
        ],
    )
    def test_bad_bytes_are_placed(self, data: bytes, message: str, trace: Path) -> None:
        """What is not UTF-8, and a NUL byte, is told by line and byte."""
        line = _line("b", "X")
        place = line.index(b'"X"') + 1
        trace.write_bytes(_line("a") + line[:place] + data + line[place:])
        with pytest.raises(InputError) as caught:
            _ids(trace)

        expected = message.format(place + 1)
        assert str(caught.value).startswith(f"{trace}:2: {expected}")

    def test_utf_16_is_named(self, trace: Path) -> None:
        """A file in UTF-16 is recognised as such."""
        trace.write_bytes(_THREE.decode().encode("utf-16"))

        with pytest.raises(InputError, match=r"trace\.bin:1: expected UTF-8 text, got UTF-16"):
            _ids(trace)

    def test_broken_json_is_placed(self, trace: Path) -> None:
        """A malformed line is told by line and column, wherever it is."""
        for bad, place in ((b'{"session_id": "x", }\n', "column 21"), (_line("x")[:50] + b"\n", "column")):
            for lines, number in (([bad, _line("a")], 1), ([_line("a"), bad, _line("b")], 2)):
                trace.write_bytes(b"".join(lines))
                with pytest.raises(
                    InputError, match=rf"trace\.bin:{number}: expected valid JSON, got .* at {place}"
                ):
                    _ids(trace)

    def test_documents_are_placed_by_line(self, trace: Path) -> None:
        """An error in a document over several lines names the line inside it."""
        text = json.dumps([{"task_id": 1, "traj": [{"role": "assistant", "content": "x"}]}], indent=1)
        lines = text.splitlines()
        lines[5] = lines[5].replace(":", "")
        trace.write_text("\n\n" + "\n".join(lines))

        with pytest.raises(InputError, match=r"trace\.bin:8: expected valid JSON, got .* at column"):
            _ids(trace)

    def test_cut_documents_say_so(self, trace: Path) -> None:
        """A document that ends early is told apart from one that is wrong."""
        trace.write_text('{"simulations": [{"messages": [')

        with pytest.raises(
            InputError, match=r"trace\.bin:1: expected valid JSON, got the end of the text too early"
        ):
            _ids(trace)

    @pytest.mark.parametrize(
        "text", ["[" * 100_000, '{"a":' * 100_000, f'{{"session_id": {"[" * 5000}{"]" * 5000}}}']
    )
    def test_deep_nesting_is_an_error(self, text: str, trace: Path) -> None:
        """JSON that is nested beyond what can be parsed is refused, without a crash."""
        trace.write_text(text)

        with pytest.raises(
            InputError, match=r"trace\.bin:1: expected .*, got (too many nested|the end|.* nested)"
        ):
            _ids(trace)

    def test_huge_numbers_are_an_error(self, trace: Path) -> None:
        """A number of thousands of digits is refused, without a crash."""
        trace.write_text('{"session_id": ' + "9" * 5000 + "}")

        with pytest.raises(InputError, match=r"trace\.bin:1: expected valid JSON, got a bad number"):
            _ids(trace)


class TestSizes:
    """Long lines."""

    def test_a_line_of_50_mb_is_read(self, trace: Path) -> None:
        """Length alone is no error."""
        text = "0123456789" * 5_000_000
        trace.write_bytes(_line("long", text) + _line("short"))
        first, second = read_sessions(trace)

        assert text == first.messages[1].content
        assert second.session_id == "short"

    @pytest.mark.parametrize("pack", [bytes, gzip.compress, _zst])
    def test_lines_over_the_limit_are_refused(
        self, pack: Any, trace: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A line that would fill the memory stops the reading, packed or not."""
        monkeypatch.setattr(source, "MAX_LINE_BYTES", 1 << 20)
        trace.write_bytes(pack(_line("a") + _line("b", "x" * (3 << 20))))

        with pytest.raises(
            InputError, match=r"trace\.bin:2: expected a line of at most 1 MiB, got a longer one"
        ):
            _ids(trace)

    def test_the_limit_counts_a_line_not_the_file(self, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Many lines may be longer together than one may be."""
        monkeypatch.setattr(source, "MAX_LINE_BYTES", 1 << 20)
        trace.write_bytes(b"".join(_line(str(number), "x" * 500_000) for number in range(5)))

        assert _ids(trace) == ["0", "1", "2", "3", "4"]


class TestFiles:
    """Files as a whole."""

    def test_missing(self, trace: Path) -> None:
        """A missing file is named."""
        with pytest.raises(InputError, match=r"trace\.bin: expected a trace file, got no file of this name"):
            _ids(trace)

    def test_directory(self, tmp_path: Path) -> None:
        """A directory is no file, and the message says what to do."""
        with pytest.raises(InputError, match="expected a trace file, got a directory; name the files in it"):
            _ids(tmp_path)

    @pytest.mark.parametrize("data", [b"", b"\n \r\n", gzip.compress(b"", mtime=0), _zst(b"")])
    def test_empty(self, data: bytes, trace: Path) -> None:
        """A file without a record is an error, packed or not."""
        trace.write_bytes(data)

        with pytest.raises(InputError, match=r"trace\.bin: expected at least one session, got an empty file"):
            _ids(trace)

    @pytest.mark.parametrize(
        ("text", "got"),
        [
            ("# Notes\n\ntext\n", "text that starts with '# Notes'"),
            ('{"id": 1, "rows": []}', "an object with the keys id, rows"),
            ("{}\n{}\n", "an object without keys"),
            ('[{"x": 1}]', "an array of an object with the keys x"),
            ("[1, 2]", "an array of the number 1"),
            ("17\n", "the number 17"),
        ],
    )
    def test_unknown(self, text: str, got: str, trace: Path) -> None:
        """A file of no known format lists the known ones, and what it looks like."""
        trace.write_text(text)
        with pytest.raises(InputError, match=r"trace\.bin:1: expected one of the known formats") as caught:
            _ids(trace)

        assert str(caught.value).endswith(f", got {got}")
        assert [importer.title for importer in IMPORTERS if importer.title not in str(caught.value)] == []


class TestSkipping:
    """Bad records, gone past."""

    def test_bad_records_are_counted(self, trace: Path) -> None:
        """Every bad record is reported by line, and the others are read."""
        bad: list[InputError] = []
        broken = [b"{\n", b"[]\n", _line("x").replace(b"assistant", b"robot"), b'"\xff"\n', b"nonsense\n"]
        trace.write_bytes(_line("a") + broken[0] + broken[1] + _line("b") + broken[2] + broken[3] + broken[4])

        assert _ids(trace, skip_bad=True, on_bad=bad.append) == ["a", "b"]
        assert [error.line for error in bad] == [2, 3, 5, 6, 7]
        assert {str(trace)} == {error.path for error in bad}

    @pytest.mark.parametrize("first", [b"nonsense\n", b'{"session_id": \n', b"{}\n", b"\xff\n", b"{\n"])
    def test_the_first_record_may_be_bad(self, first: bytes, trace: Path) -> None:
        """The format is told by the first good record."""
        bad: list[InputError] = []
        trace.write_bytes(first + _line("a") + _line("b"))

        assert _ids(trace, skip_bad=True, on_bad=bad.append) == ["a", "b"]
        assert [error.line for error in bad] == [1]

    def test_the_first_bad_record_stops(self, trace: Path) -> None:
        """Without skip_bad the sessions before the bad record are given, then the error."""
        trace.write_bytes(_line("a") + b"{\n" + _line("b"))
        sessions = read_sessions(trace)

        assert next(sessions).session_id == "a"
        with pytest.raises(InputError, match=r"trace\.bin:2: "):
            next(sessions)

    def test_bad_files_are_counted(self, trace: Path, tmp_path: Path) -> None:
        """A file that cannot be read at all is one bad record, and the next file is read."""
        bad: list[InputError] = []
        trace.write_bytes(_line("a"))
        (tmp_path / "empty").touch()
        paths = [tmp_path / "none", tmp_path / "empty", tmp_path, trace]

        assert [s.session_id for s in read_sessions(paths, skip_bad=True, on_bad=bad.append)] == ["a"]
        assert [str(path) for path in paths[:3]] == [error.path for error in bad]

    def test_good_items_of_a_list_are_read(self, trace: Path) -> None:
        """A bad run in a list of runs does not take the others with it."""
        bad: list[InputError] = []
        runs = [
            {"task_id": n, "traj": [{"role": role, "content": "x"}]}
            for n, role in enumerate(["assistant", "bot"])
        ]
        trace.write_text(json.dumps([*runs, runs[0]]))

        assert len(_ids(trace, skip_bad=True, on_bad=bad.append)) == 2
        assert len(bad) == 1


class TestReading:
    """The way of reading."""

    def test_limit_stops(self, trace: Path) -> None:
        """A limit counts sessions over all files, and what comes after it is not read."""
        trace.write_bytes(_THREE)

        assert [s.session_id for s in read_sessions([trace, trace, trace / "no"], limit=4)] == [
            "a",
            "b",
            "c",
            "a",
        ]
        assert _ids(trace / "no", limit=0) == []
        with pytest.raises(ValueError, match="expected limit to be at least 0, got -1"):
            _ids(trace, limit=-1)

    @pytest.mark.parametrize("pack", [bytes, gzip.compress, _zst])
    def test_progress_ends_at_the_total(self, pack: Any, trace: Path) -> None:
        """Progress counts the bytes of the files as they are stored, and never goes back."""
        trace.write_bytes(pack(_LONG))
        steps: list[tuple[int, int]] = []
        list(read_sessions([trace, trace], on_progress=lambda done, total: steps.append((done, total))))

        total = 2 * trace.stat().st_size
        assert (total, total) == steps[-1]
        assert {total} == {whole for _, whole in steps}
        assert sorted(steps) == steps

    def test_sessions_come_one_at_a_time(self, trace: Path) -> None:
        """A session is given before the rest of the file is looked at."""
        trace.write_bytes(_line("a") + _line("b") + b"nonsense\n")

        assert next(read_sessions(trace)).session_id == "a"

    def test_a_path_may_be_text(self, trace: Path) -> None:
        """One path, as text or as a Path, needs no list."""
        trace.write_bytes(_line("a"))

        assert [session.session_id for session in read_sessions(str(trace))] == ["a"]
