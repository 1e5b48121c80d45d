"""The figures as people read them: which ones, in which order, under which name, with how many digits."""

from collections.abc import Callable
from dataclasses import dataclass

from suffixspec.replay.metrics import LONG_OUTPUT, DrafterMetrics

NO_VALUE = "–"


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the comparison of drafters."""

    label: str
    form: str
    """How the value is written: a format of ``str.format``."""
    value: Callable[[DrafterMetrics], float | None]
    detail: bool = False
    """Belongs to the row above it that is no detail."""

    def text(self, drafter: DrafterMetrics) -> str:
        """The value as text, ``NO_VALUE`` where there is none."""
        value = self.value(drafter)
        return NO_VALUE if value is None else self.form.format(value)


def figures(drafters: tuple[DrafterMetrics, ...]) -> list[Figure]:
    """The rows that say something about these drafters: those that at least one of them has a value for."""
    return [figure for figure in _FIGURES if any(figure.value(drafter) is not None for drafter in drafters)]


def share_of_output(source: str) -> Callable[[DrafterMetrics], float | None]:
    """A function that gives the share of a drafter's output that came from ``source``."""
    return lambda drafter: next(s.share_of_output for s in drafter.sources if s.name == source)


def _first_tries(drafter: DrafterMetrics) -> float | None:
    return drafter.retries.contrast.first.tokens_per_step if drafter.retries else None


def _later_tries(drafter: DrafterMetrics) -> float | None:
    return drafter.retries.contrast.later.tokens_per_step if drafter.retries else None


_FIGURES = (
    Figure("modelled speed-up", "{:.2f}x", lambda d: d.modelled_speedup),
    Figure("tokens per step (τ)", "{:.2f}", lambda d: d.tokens_per_step),
    Figure("mean over sessions", "{:.2f}", lambda d: d.tokens_per_step_session_mean, detail=True),
    Figure(
        f"without outputs over {LONG_OUTPUT:,} tokens",
        "{:.2f}",
        lambda d: d.tokens_per_step_capped,
        detail=True,
    ),
    Figure("first tries of repeated tasks", "{:.2f}", _first_tries, detail=True),
    Figure("later tries", "{:.2f}", _later_tries, detail=True),
    Figure("drafted per step", "{:.1f}", lambda d: d.drafted_per_step),
    Figure("accepted of drafted", "{:.1%}", lambda d: d.acceptance_rate, detail=True),
    Figure("accepted along a chain (alpha)", "{:.2f}", lambda d: d.alpha_chain, detail=True),
    Figure("output copied from the session", "{:.1%}", share_of_output("session")),
    Figure("copied from history", "{:.1%}", share_of_output("history"), detail=True),
    Figure("from short n-grams", "{:.1%}", share_of_output("ngram"), detail=True),
    Figure("by the target itself", "{:.1%}", share_of_output("target"), detail=True),
    Figure("draft time per step, median", "{:.1f} µs", lambda d: d.draft_us_p50),
    Figure("99th percentile", "{:.1f} µs", lambda d: d.draft_us_p99, detail=True),
    Figure("mean as a share of a plain step (c)", "{:.4f}", lambda d: d.c, detail=True),
    Figure("indexing per token", "{:.2f} µs", lambda d: d.append_us_per_token),
    Figure("drafting and indexing per output token", "{:.1f} µs", lambda d: d.overhead_us_per_token),
    Figure("index memory per token", "{:.1f} B", lambda d: d.index_bytes_per_token),
    Figure("target's work per token (operations)", "{:.2f}x", lambda d: d.ops_growth),
)
