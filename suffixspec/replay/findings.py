"""What the figures of a replay mean, in plain sentences: the answer first, then the reasons."""

from suffixspec.replay.metrics import LONG_OUTPUT, DrafterMetrics, RunMetrics
from suffixspec.text.visible import visible

_EQUAL_SPEED = 0.005
"""Speed-ups closer to 1 than this read 1.00 and count as no change."""
_NOTEWORTHY = 0.05
"""A relative difference below this is not worth a sentence."""


def headline(metrics: RunMetrics) -> str:
    """How much faster the loop would run, in one sentence."""
    best = metrics.best
    if best is None or best.modelled_speedup is None or best.tokens_per_step is None:
        if any(drafter.steps for drafter in metrics.drafters):
            return (
                "Plain decoding: one token per forward. Replay with '--drafter all' to see what drafts gain."
            )
        return "Nothing was measured."
    speed, tau = best.modelled_speedup, best.tokens_per_step
    if speed >= 1 + _EQUAL_SPEED:
        return (
            f"With {best.name} this loop would run {speed:.2f} times as fast as plain decoding: "
            f"a forward of the target yields {tau:.2f} tokens instead of one."
        )
    if speed > 1 - _EQUAL_SPEED:
        return f"With {best.name} this loop would run as fast as plain decoding, and no faster."
    return f"With {best.name} this loop would run slower than plain decoding: {speed:.2f} times as fast."


def findings(metrics: RunMetrics) -> list[str]:
    """The reasons behind the headline: other drafters, what was copied, how it develops; may be empty."""
    best = metrics.best
    if best is None:
        return []
    sentences = [
        _no_gain(metrics, best),
        _other_drafters(metrics, best),
        _copied(best),
        _over_the_loop(best),
        _retries(best),
        _long_outputs(best),
        *_silent_drafters(metrics),
    ]
    return [sentence for sentence in sentences if sentence]


def notices(metrics: RunMetrics) -> list[str]:
    """What to know before trusting the figures: an interrupted run, sessions that were left out."""
    sentences = []
    if metrics.interrupted:
        turns = [(drafter.name, len(drafter.per_turn)) for drafter in metrics.drafters]
        uneven = len({count for _, count in turns}) > 1
        covered = ", ".join(f"{name} {_number(count, 'turn')}" for name, count in turns) if uneven else ""
        sentences.append(
            "Interrupted: the figures cover what was measured until then"
            + (f", and not the same turns for all drafters ({covered})." if uneven else ".")
        )
    if metrics.trace.skipped:
        sentences.append(f"{_number(metrics.trace.skipped, 'malformed session')} skipped (--skip-bad).")
    return sentences


def scope(metrics: RunMetrics) -> str:
    """What was replayed and what its steps were taken to cost, in one line."""
    trace = metrics.trace
    return (
        f"{_number(trace.sessions, 'session')}, {_number(trace.turns, 'turn')}, "
        f"{trace.output_tokens:,} output and {trace.context_tokens:,} context tokens; "
        f"cost curve {_curve(metrics)}, {metrics.curve.t1_ms:.4g} ms per plain step"
    )


def _curve(metrics: RunMetrics) -> str:
    return visible(metrics.curve.name)


def _no_gain(metrics: RunMetrics, best: DrafterMetrics) -> str:
    """Why drafting does not pay, where it was tried and does not."""
    speed, tau = best.modelled_speedup, best.tokens_per_step
    if speed is None or tau is None or speed >= 1 + _EQUAL_SPEED or not best.drafted_any:
        return ""
    if not best.accepted_any:
        return "No drafted token was accepted."
    return (
        f"A forward of the target yields {tau:.2f} tokens instead of one, but at the cost curve "
        f"{_curve(metrics)} drafting and checking take the time that this saves: leave speculation off for "
        "such a target."
    )


def _other_drafters(metrics: RunMetrics, best: DrafterMetrics) -> str:
    ranked = sorted(metrics.drafters, key=lambda drafter: -(drafter.modelled_speedup or 0.0))
    others = [
        f"{other.name} ({other.modelled_speedup:.2f}x)"
        for other in ranked
        if other is not best and other.name != "none" and other.modelled_speedup is not None
    ]
    if not others or best.modelled_speedup is None:
        return ""
    return f"{best.name} ({best.modelled_speedup:.2f}x) comes first, before {_list(others)}."


def _copied(drafter: DrafterMetrics) -> str:
    shares = {source.name: source.share_of_output or 0.0 for source in drafter.sources}
    own = shares.pop("target")
    words = {"session": "from the session itself", "history": "from history", "ngram": "from short n-grams"}
    parts = [f"{share:.0%} {words[name]}" for name, share in shares.items() if share >= 0.005]
    if not parts:
        return ""
    where = _list(parts) if len(parts) > 1 else parts[0].partition(" ")[2]
    drafted = f"{drafter.name} drafted {sum(shares.values()):.0%} of the output correctly, {where}"
    return f"{drafted}; the target itself wrote {own:.0%}."


def _over_the_loop(drafter: DrafterMetrics) -> str:
    if drafter.halves is None:
        return ""
    first, later = drafter.halves.first.tokens_per_step, drafter.halves.later.tokens_per_step
    if not first or not later:
        return ""
    if abs(later / first - 1) < _NOTEWORTHY:
        trend = "stays the same"
    else:
        trend = "gets better" if later > first else "gets worse"
    return (
        f"It {trend} as the loop goes on: {first:.2f} tokens per step in the first half of a session, "
        f"{later:.2f} in the second."
    )


def _retries(drafter: DrafterMetrics) -> str:
    if drafter.retries is None:
        return ""
    retries = drafter.retries
    first, later = retries.contrast.first.tokens_per_step, retries.contrast.later.tokens_per_step
    if not first or not later:
        return ""
    tasks = "One task was" if retries.tasks == 1 else f"{retries.tasks} tasks were"
    return f"{tasks} tried again: {later:.2f} tokens per step on later tries, {first:.2f} on the first."


def _long_outputs(drafter: DrafterMetrics) -> str:
    tau, capped = drafter.tokens_per_step, drafter.tokens_per_step_capped
    if not tau or not capped or abs(capped / tau - 1) < _NOTEWORTHY:
        return ""
    return (
        f"A few outputs of over {LONG_OUTPUT:,} tokens weigh heavily in that: without them it is "
        f"{capped:.2f} tokens per step."
    )


def _silent_drafters(metrics: RunMetrics) -> list[str]:
    peers = metrics.settings.get("compare") or ()
    return [
        f"{drafter.name} drafted nothing: "
        + (
            "it found nothing that repeats."
            if drafter.name in peers  # type: ignore[operator]
            else f"at the cost curve {_curve(metrics)} no draft was expected to pay."
        )
        for drafter in metrics.drafters
        if drafter.name != "none" and drafter.steps and not drafter.drafted_any
    ]


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _list(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
