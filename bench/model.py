"""Decoding with a real model, measured: ``python -m bench.model [TRACE] [--control TRACE] [-o FILE.json]``.

Three parts, on the first sessions of the trace that have enough turns inside the model's context:

* **forced**: the recorded text decides what is accepted, the model pays for every forward. Drafted against plain
  decoding of the same engine, turn by turn in alternating order; measured beside modelled speed-up.
* **loops**: the model writes 64 tokens a turn, the recorded tool results answer it. A session of the engine
  against ``model.generate`` on the whole prompt of each turn, with and without prompt lookup; prefill and
  decoding apart, outputs compared.
* **control**: forced, on a trace that hardly repeats itself (``--control``).

A pair is a session: its times are summed over turns that were measured alternately. Ratios are medians over
sessions, with their spread. Half an hour to an hour on two CPU cores; ``--parts``, ``--sessions`` and
``--turns`` make it shorter.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench import environment, sessions
from bench.pairs import Pairs
from bench.stateless import Stateless
from suffixspec.context_cost import ContextCost
from suffixspec.draft import IndexDrafter
from suffixspec.engine import ContextLengthError, Engine
from suffixspec.engine.lossless import check_lossless
from suffixspec.engine.prompt import Messages
from suffixspec.native.warm_up import warm_up
from suffixspec.replay.metrics import measure
from suffixspec.replay.result import ReplayResult
from suffixspec.replay.simulate import RenderedSession, Simulation
from suffixspec.replay.with_model import ModelReplay, ModelTurn
from suffixspec.target.load import load_target
from suffixspec.target.model import Target
from suffixspec.text.tokenizer import Tokenizer
from suffixspec.trace.reader import read_sessions
from suffixspec.trace.session import TraceSession
from suffixspec.verify.sampling import SamplingParams

PARTS = ("forced", "loops", "control")
MODELLED_WITHIN = 0.15
LOOKUP_TOKENS = 10
"""``prompt_lookup_num_tokens``, as the documentation of transformers has it."""


def main() -> None:
    """Measure, print, and save the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.model",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("trace", nargs="?", default=sessions.DEFAULT_TRACE, metavar="TRACE")
    parser.add_argument("--control", metavar="TRACE", help="a trace that hardly repeats itself")
    parser.add_argument("--model", metavar="MODEL", help="folder or hub id (default: SmolLM2-135M-Instruct)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sessions", type=int, default=10, help="sessions of the trace (default: 10)")
    parser.add_argument("--turns", type=int, default=8, help="turns of each (default: 8)")
    parser.add_argument("--control-sessions", type=int, default=14)
    parser.add_argument(
        "--max-tokens", type=int, default=64, help="new tokens a turn, in loops (default: 64)"
    )
    parser.add_argument("-o", "--output", metavar="FILE.json")
    args = parser.parse_args()
    if "control" in args.parts and args.control is None:
        args.parts.remove("control")
        print("no --control TRACE: that part is left out", file=sys.stderr)

    warm_up()
    target, tokenizer = load_target(args.model)
    cost = target.measure_cost(fresh=True)
    document: dict[str, Any] = {
        "environment": environment.describe(
            "bench.model", traces=[args.trace, *([args.control] if args.control else [])], seed=0
        ),
        "settings": {
            "model": target.name,
            "dtype": str(target.dtype).removeprefix("torch."),
            "attention": target.attention,
            "packed": target.is_packed,
            "max_nodes": 32,
            "turns": args.turns,
            "max_tokens": args.max_tokens,
            "cost_points": {length: curve.points for length, curve in cost.curves},
        },
    }
    given = document["environment"]
    print(f"{given['hardware']['cpu']}, {given['hardware']['cores']} cores; commit {given['commit']}")
    for length, curve in cost.curves:
        times = ", ".join(f"{n}: {curve.ms(n) / curve.t1_ms:.2f}" for n, _ in curve.points)
        print(f"t(n) / t(1) behind {length:,} tokens: {times}; t(1) {curve.t1_ms:.1f} ms")

    chosen = []
    if {"forced", "loops"} & set(args.parts):
        chosen = choose(args.trace, target, tokenizer, args.sessions, args.turns)
    if "forced" in args.parts:
        print(f"\nforced: {len(chosen)} sessions, the record decides, the model pays")
        rendered = [session for _, session in chosen]
        document["forced"] = forced(rendered, target, tokenizer, cost, turns=args.turns, bars=(1.3, 1.5))
    if "control" in args.parts:
        control = sessions.load([args.control], limit=args.control_sessions)
        print(f"\ncontrol: {len(control)} sessions that hardly repeat themselves, forced")
        document["control"] = forced(control, target, tokenizer, cost, turns=args.turns, bars=(0.97,))
    if "loops" in args.parts:
        print(f"\nloops: {len(chosen)} sessions, the model writes up to {args.max_tokens} tokens a turn")
        traces = [session for session, _ in chosen]
        document["loops"] = loops(traces, target, tokenizer, cost, args.model, args.turns, args.max_tokens)
    environment.save(args.output, document)


def choose(
    trace: str, target: Target, tokenizer: Tokenizer, most: int, turns: int
) -> list[tuple[TraceSession, RenderedSession]]:
    """The first sessions with so many turns whose prompt and output fit into the model's context."""
    chosen: list[tuple[TraceSession, RenderedSession]] = []
    for session in read_sessions([trace]):
        rendered = sessions.render(session, tokenizer)
        fits = [len(t.prompt_ids) + len(t.output_ids) <= target.max_positions for t in rendered.turns]
        if sum(fits) >= turns:
            chosen.append((session, rendered))
        if len(chosen) == most:
            break
    return chosen


# -- the record decides ---------------------------------------------------------------------------------------


def forced(
    recorded: list[RenderedSession],
    target: Target,
    tokenizer: Tokenizer,
    cost: ContextCost,
    *,
    turns: int,
    bars: tuple[float, ...],
) -> dict[str, Any]:
    """Drafted against plain decoding, and measured against modelled time."""
    engine = Engine(target, tokenizer, cost=cost)
    replay = ModelReplay(engine, forced=True, cost=cost, max_turns=turns)
    ends = []
    for session in progress(recorded):
        replay.run(session)
        ends.append(len(replay.turns))
    per_session = [replay.turns[a:b] for a, b in zip([0, *ends], ends, strict=False) if b > a]
    pairs = Pairs(
        [seconds(of, "plain_s") for of in per_session], [seconds(of, "drafted_s") for of in per_session]
    )
    figures = replay.figures()
    print(
        f"{figures['turns']} turns, {figures['dropped_turns']} dropped past the context, "
        f"{figures['tokens']:,} tokens, {figures['tokens_per_step']:.2f} a step"
    )
    for bar in bars:
        print(pairs.line("drafted against plain decoding", bar))
    measured, modelled = figures["measured_speedup"], figures["modelled_speedup"]
    simulated = simulate(recorded, cost, turns)
    for name, speedup in (("modelled from its steps", modelled), ("modelled by a replay", simulated)):
        off = measured / speedup - 1
        verdict = "met" if abs(off) <= MODELLED_WITHIN else "MISSED"
        print(f"{name:<58}{speedup:6.2f}x   measured {measured:.2f}x, {off:+.1%}   bar ±15 %: {verdict}")
    return {
        "figures": figures,
        "modelled_by_replay": simulated,
        "pairs": pairs.to_json(),
        "sessions": [session.session_id for session in recorded],
    }


def simulate(recorded: list[RenderedSession], cost: ContextCost, turns: int) -> float:
    """The speed-up that ``suffixspec replay`` models for these turns, under the curve at their mean context."""
    kept = [
        RenderedSession(session.session_id, session.task_key, session.namespace, list(session.turns)[:turns])
        for session in recorded
    ]
    lengths = [len(turn.prompt_ids) for session in kept for turn in session.turns]
    curve = cost.at(sum(lengths) // len(lengths))
    simulation = Simulation(IndexDrafter(cost=curve), curve)
    for session in kept:
        simulation.run(session)
    (metrics,) = measure(ReplayResult([], len(kept), {}, [simulation.result]), curve).drafters
    return metrics.modelled_speedup or 1.0


def seconds(turns: list[ModelTurn], name: str) -> float:
    """Sum of a time over turns."""
    return float(sum(getattr(turn, name) for turn in turns))


# -- the model decides ----------------------------------------------------------------------------------------


def loops(
    recorded: list[TraceSession],
    target: Target,
    tokenizer: Tokenizer,
    cost: ContextCost,
    model: str | None,
    turns: int,
    max_tokens: int,
) -> dict[str, Any]:
    """A session of the engine against ``generate`` on each turn's whole prompt."""
    engine = Engine(target, tokenizer, cost=cost)
    stateless = Stateless(model, engine.eos_ids)
    arms: dict[str, dict[str, Any]] = {
        "generate": {},
        "prompt lookup": {"prompt_lookup_num_tokens": LOOKUP_TOKENS},
    }
    warm = np.asarray(tokenizer.encode("def add(a, b):\n    return a + b\n" * 4), np.int32)
    for options in arms.values():
        stateless.generate(warm, 8, **options)
    kinds = ("total", "prefill", "decode")
    times: dict[str, dict[str, list[float]]] = {
        arm: {kind: [] for kind in kinds} for arm in ("suffixspec", *arms)
    }
    outputs = {"turns": 0, "tokens": 0, "steps": 0, "dropped": 0, "equal": 0, "near_ties": 0, "errors": 0}
    cached = prompted = 0
    for number, recorded_session in enumerate(progress(recorded)):
        sums = {arm: dict.fromkeys(kinds, 0.0) for arm in times}
        session = engine.session(f"loop {number}")
        messages: Messages = []
        for told in asked(recorded_session, turns):
            messages += told
            started = time.perf_counter()
            try:
                reply = session.chat(messages, max_tokens=max_tokens)
            except ContextLengthError:
                outputs["dropped"] += 1
                break
            add(sums["suffixspec"], time.perf_counter() - started, reply.timings.decode)
            prompt = session.prompt_ids
            wanted: list[int] = []
            for arm in list(arms) if number % 2 else list(reversed(arms)):
                made = stateless.generate(prompt, max_tokens, **arms[arm])
                add(sums[arm], made.seconds, made.decode_s)
                wanted = made.token_ids if arm == "generate" else wanted
            outputs["turns"] += 1
            outputs["tokens"] += len(reply.token_ids)
            outputs["steps"] += reply.counts.steps
            prompted += reply.prompt_tokens
            cached += reply.cached_tokens
            if wanted == reply.token_ids:
                outputs["equal"] += 1
            else:  # other kernels: each difference has to be a near-tie
                check = check_lossless(engine, prompt, wanted, SamplingParams(max_tokens=max_tokens))
                outputs["near_ties"] += check.near_ties
                outputs["errors"] += check.errors
            messages.append(reply.message)
        session.close()
        for arm, of in sums.items():
            for kind in kinds:
                times[arm][kind].append(of[kind])
    print(
        f"{outputs['turns']} turns, {outputs['dropped']} sessions cut at the context, {outputs['tokens']:,} tokens, "
        f"{outputs['tokens'] / outputs['steps']:.2f} a step; {cached / prompted:.0%} of {prompted:,} prompt tokens "
        f"had their KV"
    )
    print(
        f"outputs equal to generate's in {outputs['equal']} turns; in the others {outputs['near_ties']} near-ties "
        f"and {outputs['errors']} other differences"
    )
    result: dict[str, Any] = {"outputs": outputs, "prompt_tokens": prompted, "cached_tokens": cached}
    bars = {("generate", "total"): 3.0, ("generate", "decode"): 1.0, ("prompt lookup", "decode"): 1.0}
    for arm in arms:
        for kind in kinds:
            pairs = Pairs(times[arm][kind], times["suffixspec"][kind])
            print(pairs.line(f"against {arm}: {kind}", bars.get((arm, kind))))
            result[f"{arm}, {kind}"] = pairs.to_json()
    return result


def asked(session: TraceSession, turns: int) -> Iterator[Messages]:
    """What the model is told before each of its first turns: recorded messages without its own."""
    told: Messages = []
    done = 0
    for message in session.messages:
        if not message.is_output:
            told.append({"role": message.role, "content": message.content})
            continue
        yield told
        told = []
        done += 1
        if done == turns:
            return


def add(sums: dict[str, float], total: float, decode: float) -> None:
    """Count a call: what is not decoding is prefill, rendering and indexing the prompt."""
    sums["total"] += total
    sums["decode"] += decode
    sums["prefill"] += total - decode


def progress(items: list[Any]) -> Iterator[Any]:
    """Each item, and a line on stderr after it."""
    started = time.perf_counter()
    for number, item in enumerate(items, start=1):
        yield item
        print(f"  session {number} of {len(items)}, {time.perf_counter() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
