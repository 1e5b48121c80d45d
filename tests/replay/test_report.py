"""The HTML page: self-contained, well-formed, escaped, and showing what the figures say."""

import os
import re
from html.parser import HTMLParser
from threading import Thread

import numpy as np
import pytest

from suffixspec.cost import CostCurve
from suffixspec.errors import InputError
from suffixspec.replay import report
from suffixspec.replay.metrics import measure
from suffixspec.replay.report import render_report, write_report
from suffixspec.replay.result import DrafterResult, OutputSpan, ReplayResult, TurnResult

from .samples import hand_drafter, hand_result, plain_drafter, run_like_result

MID = CostCurve.named("mid")
VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """A parsed page: its tags with attributes, its text per section, and an error where tags do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.section = ""
        self.text: dict[str, str] = {}
        self.spans: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        """An element opens."""
        attributes = dict(attrs)
        assert len(attributes) == len(attrs), f"an attribute twice in <{tag}>"
        self.tags.append((tag, attributes))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "section":
            self.section = attributes.get("id") or attributes.get("class") or "findings"
        if tag == "span" and "pre" in self.open:
            self.spans.append((attributes["class"], ""))

    def handle_startendtag(self, tag, attrs):
        """An element without content."""
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        """An element closes: it must be the last one opened."""
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()
        if tag == "section":
            self.section = ""

    def handle_data(self, data):
        """Text within the elements that are open."""
        if "style" not in self.open:
            self.text[self.section] = self.text.get(self.section, "") + data
        if "pre" in self.open and "span" in self.open:
            self.spans[-1] = (self.spans[-1][0], self.spans[-1][1] + data)


def page(result: ReplayResult, curve: CostCurve = MID) -> Page:
    return Page(render_report(result, measure(result, curve)))


def values(result: ReplayResult, section: str, css: str) -> list[float]:
    """The widths, or for columns the heights, of the SVG rectangles of a class within a section."""
    html = render_report(result, measure(result, MID))
    part = html[html.index(f'<section id="{section}">') :]
    part = part[: part.index("</section>")]
    side = "height" if section == "lengths" else "width"
    return [float(v) for v in re.findall(rf'<rect [^>]*{side}="([0-9.]+)"[^>]*class="{css}"', part)]


def test_the_page_needs_no_network_and_no_script():
    """No script, no link, no image, no source, no URL anywhere, and a policy that forbids them."""
    html = render_report(run_like_result(), measure(run_like_result(), CostCurve.named("gpu")))
    assert re.search(r"https?://|url\(|@import", html) is None
    parsed = Page(html)
    assert not {"script", "link", "img", "iframe", "object", "image", "use"} & {tag for tag, _ in parsed.tags}
    names = {name for _, attributes in parsed.tags for name in attributes}
    assert not {"src", "href", "xlink:href", "srcset", "action"} & names
    assert not [name for name in names if name.startswith("on")]
    policies = [a["content"] for tag, a in parsed.tags if tag == "meta" and "http-equiv" in a]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_the_page_holds_every_promised_part():
    """Speed-up, loop, retries, accepted lengths, sources, sessions, output and settings have a section."""
    parsed = page(run_like_result(), CostCurve.named("gpu"))
    sections = [a["id"] for tag, a in parsed.tags if tag == "section" and "id" in a]
    assert sections == ["speedup", "loop", "retries", "lengths", "sources", "sessions", "output", "settings"]
    assert "With combined this loop would run" in parsed.text[""]
    assert "It gets better as the loop goes on" in parsed.text["findings"]
    assert (
        "suffixspec replay traces/swebench.jsonl --drafter all --report out.html" in parsed.text["settings"]
    )
    assert "max_nodes" in parsed.text["settings"]
    for drafter in ("combined", "suffix", "ngram", "none"):
        assert drafter in parsed.text["speedup"]


def test_text_from_a_trace_is_shown_and_never_acted_on():
    """Markup, quotes and control characters in output, ids, names and settings stay text."""
    evil = "</script><b>x</b><img src=x onerror=alert(1)>&amp;\"'{{ 7*7 }}\x1b[31m\x00"
    drafter = hand_drafter()
    drafter.sample = [OutputSpan(evil, "session"), OutputSpan(evil, "bonus")]
    drafter.sample_title = evil
    drafter.turns.insert(0, TurnResult(evil, 0, evil, 1, 10, 50, 10, 100, 40, 200.0))
    result = hand_result(drafter, plain_drafter())
    result.paths = [evil]
    result.settings = {evil: evil, "command": evil}
    html = render_report(result, measure(result, MID))
    assert "</script" not in html
    assert "\x1b" not in html
    assert "\x00" not in html
    parsed = Page(html)
    assert not {"script", "img"} & {tag for tag, _ in parsed.tags}
    tiles = sum(tag == "b" for tag, _ in parsed.tags)
    assert tiles == 5, "only the tiles are bold"
    shown = evil.replace("\x1b", "␛").replace("\x00", "␀")
    assert parsed.spans == [("session", shown), ("target", shown)]
    assert shown in parsed.text["sessions"]
    assert parsed.text["settings"].count(shown) == 3


def test_the_output_is_coloured_by_source_and_complete():
    """The coloured pieces put together are the output; neighbours of one kind are one piece."""
    drafter = hand_drafter()
    drafter.sample = [
        OutputSpan("def f", "session"),
        OutputSpan("(x):", "session"),
        OutputSpan("\n", "bonus"),
        OutputSpan("    return", "history"),
        OutputSpan(" x", "ngram"),
        OutputSpan("\n\n", "bonus"),
    ]
    parsed = page(hand_result(drafter))
    assert parsed.spans == [
        ("session", "def f(x):"),
        ("target", "\n"),
        ("history", "    return"),
        ("ngram", " x"),
        ("target", "\n\n"),
    ]
    assert "88% of the characters drafted correctly" in parsed.text["output"]


def test_each_drafter_shows_its_own_output_the_best_one_first():
    """The best drafter's output stands open, others fold, and plain decoding, all bonus tokens, shows none."""
    slow, plain = hand_drafter("ngram"), plain_drafter()
    for turn in slow.turns:
        turn.target_ms *= 2
    plain.sample = [OutputSpan("never shown", "bonus")]
    parsed = page(hand_result(slow, hand_drafter("suffix"), plain))
    text = parsed.text["output"]
    assert text.index("with suffix: 75% of the characters") < text.index("With ngram: 75% drafted correctly")
    assert "never shown" not in text


def test_a_very_long_output_is_cut_and_says_so():
    """More than 20,000 characters are not put into the page, and their number is given."""
    drafter = hand_drafter()
    drafter.sample = [
        OutputSpan("x" * 15_000, "session"),
        OutputSpan("y" * 9_000, "bonus"),
        OutputSpan("z", "ngram"),
    ]
    parsed = page(hand_result(drafter))
    assert [(kind, len(text)) for kind, text in parsed.spans] == [("session", 15_000), ("target", 5_000)]
    assert "4,001 more characters are not shown." in parsed.text["output"]


def test_the_bars_are_as_long_as_the_speedups():
    """Bar lengths are in the ratio of the speed-ups, from zero."""
    fast, plain = hand_drafter(), plain_drafter()
    speedup = measure(hand_result(), MID).drafters[0].modelled_speedup
    (strong,), (weak,) = (values(hand_result(fast, plain), "speedup", css) for css in ("bar strong", "bar"))
    assert strong / weak == pytest.approx(speedup, rel=1e-3)


def test_the_columns_are_the_shares_of_steps_and_of_tokens():
    """A step that accepted i nodes yielded i + 1 tokens: both shares follow from the histogram."""
    drafter = hand_drafter()
    drafter.accepted_length_histogram = np.array([60, 30, 0, 10, 0, 0])
    steps = values(hand_result(drafter), "lengths", "bar")
    tokens = values(hand_result(drafter), "lengths", "bar strong")
    assert len(steps) == 4, "lengths that never occurred at the end are left out"
    assert np.array(steps) / sum(steps) == pytest.approx(np.array([0.6, 0.3, 0.0, 0.1]), abs=1e-3)
    assert np.array(tokens) / sum(tokens) == pytest.approx(np.array([0.375, 0.375, 0.0, 0.25]), abs=1e-3)


def test_the_stacks_are_the_shares_of_the_output():
    """Each source's part of the bar is its share of the output."""
    for css, share in [("session", 6000 / 9080), ("history", 2000 / 9080), ("target", 1014 / 9080)]:
        (width,) = values(hand_result(hand_drafter()), "sources", css)
        assert width == pytest.approx(share * 728, abs=2.0)


def test_the_loop_chart_pools_turns_and_bins_long_loops():
    """One point per turn number up to 40, several turns to a point beyond, pooled as tokens over steps."""
    turns = [TurnResult("A", n, "T", 1, 10, 10 * (n + 1), 10, 5, 5, 250.0) for n in range(90)]
    html = render_report(result := hand_result(DrafterResult("suffix", turns)), measure(result, MID))
    titles = re.findall(r"<title>suffix, (turns? [0-9 to]+): ([0-9.]+) over (\d+) turns</title>", html)
    assert len(titles) == 30
    assert titles[0] == ("turns 1 to 3", "2.00", "3")
    assert titles[-1] == ("turns 88 to 90", "89.00", "3")
    html = render_report(result := hand_result(DrafterResult("suffix", turns[:40])), measure(result, MID))
    titles = re.findall(r"<title>suffix, (turns? [0-9 to]+): ([0-9.]+) over (\d+) turn</title>", html)
    assert (len(titles), titles[4]) == (40, ("turn 5", "5.00", "1"))


def test_turns_that_hardly_any_session_reaches_are_left_out_of_the_loop():
    """With twelve sessions of three turns, a fourth turn of a single session is no point of the chart."""
    turns = [
        TurnResult(f"s{s}", n, f"t{s}", 1, 10, 20, 10, 5, 5, 250.0)
        for s in range(12)
        for n in range(4 if s == 0 else 3)
    ]
    html = render_report(result := hand_result(DrafterResult("suffix", turns)), measure(result, MID))
    assert re.findall(r"<title>suffix, (turn \d+): 2.00 over 12 turns</title>", html) == [
        "turn 1",
        "turn 2",
        "turn 3",
    ]
    assert "suffix, turn 4" not in html


def test_slowest_and_fastest_sessions_are_ranked():
    """Of more than ten sessions the five fastest and the five slowest are shown, the extremes first."""
    turns = [TurnResult(f"s{n:02d}", 0, f"t{n}", 1, 10, 100 + n, 50, 60, 50 + n, 1500.0) for n in range(12)]
    text = page(hand_result(DrafterResult("suffix", turns))).text["sessions"]
    assert re.findall(r"s\d\d", text) == [f"s{n:02d}" for n in (11, 10, 9, 8, 7, 0, 1, 2, 3, 4)]
    assert "All sessions, fastest first" in page(hand_result()).text["sessions"]


def test_interrupted_and_skipped_runs_say_so_on_the_page():
    """The warning stands at the top, and is absent from a complete run."""
    result = hand_result()
    assert "warning" not in page(result).text
    result.interrupted, result.skipped = True, 1
    text = page(result).text["warning"]
    assert "Interrupted: the figures cover what was measured until then." in text
    assert "1 malformed session skipped (--skip-bad)." in text


@pytest.mark.parametrize(
    "drafters",
    [
        [],
        [DrafterResult("suffix")],
        [plain_drafter()],
        [DrafterResult("suffix", [TurnResult("A", 0, "T", 1, 1, 1, 1)])],
        [DrafterResult("suffix", [TurnResult("A", 0, "T", 1, 1, 0, 0)])],
    ],
    ids=["nothing", "no turn", "plain decoding only", "one token", "an empty output"],
)
def test_a_run_with_next_to_nothing_in_it_still_gives_a_page(drafters):
    """Without drafts or turns the parts that have no data are left out, and no NaN is shown."""
    result = ReplayResult(["x.jsonl"], 0, {}, drafters, interrupted=True)
    parsed = page(result)
    assert "settings" in parsed.text
    assert not re.search(r"\bnan\b|\binf\b|None", " ".join(parsed.text.values()))


def test_the_file_is_written_whole_and_replaces_an_older_one(tmp_path):
    """The page replaces an older one and nothing else is left in the folder."""
    path = tmp_path / "out.html"
    path.write_text("old", encoding="utf-8")
    result = hand_result()
    write_report(str(path), result, measure(result, MID))
    assert path.read_text(encoding="utf-8") == render_report(result, measure(result, MID))
    assert [file.name for file in tmp_path.iterdir()] == ["out.html"]


def test_an_interrupted_write_leaves_the_older_page(tmp_path, monkeypatch):
    """Ctrl-C or a full disk during the write changes nothing and leaves no partial file."""
    path = tmp_path / "out.html"
    path.write_text("old", encoding="utf-8")
    result = hand_result()
    for failure, raised in (
        (KeyboardInterrupt(), KeyboardInterrupt),
        (OSError(28, "No space left"), InputError),
    ):

        def fail(*_, failure=failure):
            raise failure

        monkeypatch.setattr(report.Path, "replace", fail)
        with pytest.raises(raised):
            write_report(path, result, measure(result, MID))
        assert path.read_text(encoding="utf-8") == "old"
        assert [file.name for file in tmp_path.iterdir()] == ["out.html"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    """A missing folder, or a folder in the file's place, is an input error with the path."""
    result = hand_result()
    for path in (tmp_path / "missing" / "out.html", tmp_path):
        with pytest.raises(InputError, match=re.escape(f"{path}: expected a file that can be written")):
            write_report(path, result, measure(result, MID))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    """A path that is no regular file (a device, a pipe) receives the page and stays what it is."""
    path, received = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = Thread(target=lambda: received.append(path.read_text(encoding="utf-8")), daemon=True)
    reader.start()
    result = hand_result()
    write_report(path, result, measure(result, MID))
    reader.join(timeout=10)
    assert received == [render_report(result, measure(result, MID))]
    assert path.is_fifo()
