"""The bars of the comparison with the peers: which are met, which are missed, and by how much."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from suffixspec.cost import NAMES

LONG_LOOPS = "swebench_permissive"
CHAT = "chat_mtbench101"
_HALF = "reporting"


@dataclass(frozen=True, slots=True)
class Bar:
    """One figure held against its bar."""

    name: str
    trace: str
    value: float
    bar: float
    at_most: bool = False
    """The value may not exceed the bar; else it may not fall below."""

    @property
    def met(self) -> bool:
        """Whether it is."""
        return self.value <= self.bar if self.at_most else self.value >= self.bar


def judge(traces: dict[str, Any]) -> list[dict[str, Any]]:
    """All bars of all traces, on the reporting half.

    Args:
        traces: by name, what ``bench.compare`` has measured: ``choices`` and ``rows``.
    """
    bars: list[Bar] = []
    for trace, part in traces.items():
        rows = {label: halved[_HALF] for label, halved in part["rows"].items()}
        bars += _speeds(trace, part["choices"], rows)
        if "arctic" in part["choices"]:
            bars += _against_arctic(trace, part["choices"]["arctic"], rows)
        ours = rows["suffixspec at 32 nodes"]
        bars.append(Bar("draft call at 32 nodes, median, µs", trace, ours["draft_us_p50"], 15.0, True))
        bars.append(Bar("index bytes per token", trace, ours["index_bytes_per_token"], 64.0, True))
    return [asdict(bar) | {"met": bar.met} for bar in bars]


def _speeds(trace: str, choices: dict[str, dict[str, str]], rows: dict[str, Any]) -> Iterator[Bar]:
    for curve in NAMES:
        ours = rows[f"suffixspec under {curve}"]["speed"][curve]
        if trace == CHAT and curve in {"mid", "cpu"}:
            yield Bar(f"speed under {curve} over plain decoding", trace, ours, 0.995)
        if choices:
            peer, best = max(
                ((peer, rows[labels[curve]]["speed"][curve]) for peer, labels in choices.items()),
                key=lambda pair: pair[1],
            )
            bar = 1.0 if trace == CHAT else 1.10
            yield Bar(f"speed under {curve} over the best peer, {peer}", trace, ours / best, bar)


def _against_arctic(trace: str, labels: dict[str, str], rows: dict[str, Any]) -> Iterator[Bar]:
    ours, best, loosest = rows["suffixspec at 32 nodes"], rows[labels["tau32"]], rows[labels["loosest"]]
    if trace == LONG_LOOPS:
        yield Bar("τ at 32 nodes over arctic's best", trace, ours["tau"] / best["tau"], 1.25)
        yield Bar("τ at 32 nodes over arctic's best, stretch", trace, ours["tau"] / best["tau"], 1.35)
    most = 0.1 if trace == LONG_LOOPS else 0.25
    overhead = ours["overhead_us"] / best["overhead_us"]
    yield Bar("drafting and indexing per output token over arctic's", trace, overhead, most, True)
    drafting = ours["draft_us_p50"] / loosest["draft_us_p50"]
    yield Bar("draft call, median, over arctic's loosest", trace, drafting, 0.25, True)
    memory = ours["index_bytes_per_token"] / best["index_bytes_per_token"]
    yield Bar("index bytes per token over arctic's", trace, memory, 1.0, True)


def show(judged: list[dict[str, Any]]) -> None:
    """A line per bar, those that are missed last."""
    print("\n## Bars, on the reporting half\n")
    for bar in sorted(judged, key=lambda bar: not bar["met"]):
        sign = "≤" if bar["at_most"] else "≥"
        verdict = "met   " if bar["met"] else "MISSED"
        print(f"{verdict}  {bar['trace']}: {bar['name']}: {bar['value']:.3f} ({sign} {bar['bar']:g})")
    missed = sum(not bar["met"] for bar in judged)
    print(f"\n{len(judged) - missed} bars met, {missed} missed")
