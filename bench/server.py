"""The server, measured: ``python -m bench.server [TRACE] [-o FILE.json]``.

Against one process that serves one target twice, drafting on and off (``bench.serving``), in alternating order:

* **prompts**: 8 clients at once with prompts that have nothing in common, outputs sampled at temperature 1, so that
  little repeats. Tokens/s with drafting against without.
* **loops**: 8 agent loops at once on the recorded tasks and tool results of the trace, each cut to some hundred
  characters; the model writes greedily, and is told the next result whatever it wrote.
* **own time**: what is left of a step without the target's forwards, drafting and indexing: the scheduler,
  rendering, tokens to text, events; and, though it runs beside the forwards, the event loop's and the preparing
  threads' time on a CPU.
* **first token**: one loop, turn by turn, on a prefix that is cached: from sending the request to the first text,
  without the forwards in between. Those are the prefill of the new tokens and the first step.

About twelve minutes on two CPU cores; ``--parts``, ``--pairs`` and ``--tokens`` make it shorter.
"""

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench import environment, sessions
from bench.client import Answer, Client
from bench.pairs import Pairs
from suffixspec.trace.reader import read_sessions

PARTS = ("prompts", "loops", "first")
CLIENTS = 8
ARMS = ("drafting", "plain")
BARS = {"prompts": 0.97, "loops": 1.0, "own": 0.05, "first_ms": 10.0}
TOPICS = (
    "Explain how tides come about.",
    "Write a short story about a lighthouse keeper who collects stamps.",
    "What should I consider before I buy a used bicycle?",
    "Describe the taste of a ripe mango to someone who never ate one.",
    "Why did the Roman Republic fall?",
    "Give me ideas for a birthday party in a small flat.",
    "How does a refrigerator move heat?",
    "Compare tea and coffee as drinks for a long night.",
    "Invent a board game about migrating birds.",
    "What makes a good apology?",
    "Tell me about the deepest parts of the ocean.",
    "How would you teach a child to whistle?",
    "Which tools does a carpenter use most, and what for?",
    "Describe an autumn morning in a mountain village.",
    "What is the difference between weather and climate?",
    "Write a letter from a cat to its owner.",
    "How do vaccines work?",
    "Suggest a three day walk for beginners.",
    "Why do languages change?",
    "What could a museum of everyday smells look like?",
    "How is paper made?",
    "Describe a train journey at night.",
    "What are good habits for someone who works from home?",
    "Tell a joke about astronomers and explain it.",
)


class Server:
    """The process that is measured."""

    def __init__(self, model: str | None) -> None:
        command = [sys.executable, "-m", "bench.serving", *(["--model", model] if model else [])]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.hello = self._read()
        self.ports = {arm: self.hello[arm] for arm in ARMS}

    def clocks(self) -> dict[str, Any]:
        """See ``bench.serving.Clocks``."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._read()

    def counters(self, arm: str) -> dict[str, float]:
        """What ``/metrics`` says, without labels."""
        url = f"http://127.0.0.1:{self.ports[arm]}/metrics"
        with urllib.request.urlopen(url, timeout=60) as response:
            lines = response.read().decode().splitlines()
        pairs = (line.split() for line in lines if line[:1] not in {"#", ""} and "{" not in line)
        return {name: float(value) for name, value in pairs}

    def close(self) -> None:
        """Stop it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(120)

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the server ended")
        read: dict[str, Any] = json.loads(line)
        return read


@dataclass
class Own:
    """The server's own time in a stretch of work, in seconds."""

    busy: float
    """Scheduler at work, less forwards, drafting and indexing."""
    text: float
    """Tokens to text, and stop strings: inside what the engine counts as a forward."""
    loop: float
    """CPU time of the event loop, beside the forwards."""
    readers: float
    """CPU time of the threads that prepare requests, beside the forwards."""
    forwards: int
    forward_seconds: float

    @property
    def per_step_ms(self) -> float:
        """All of it."""
        return 1e3 * (self.busy + self.text + self.loop + self.readers) / max(self.forwards, 1)

    def to_json(self) -> dict[str, Any]:
        """Per step, in ms, and its parts."""
        each = 1e3 / max(self.forwards, 1)
        return {
            "own_ms": self.per_step_ms,
            "scheduler_ms": self.busy * each,
            "text_ms": self.text * each,
            "event_loop_ms": self.loop * each,
            "readers_ms": self.readers * each,
            "forwards": self.forwards,
            "forward_ms": self.forward_seconds * each,
        }


@contextmanager
def own_time(server: Server, arm: str, into: list[Own]) -> Iterator[None]:
    """Measure the server's own time while this is open."""
    clocks, counters = server.clocks(), server.counters(arm)
    yield
    after, now = server.counters(arm), server.clocks()

    def grown(name: str) -> float:
        return after[f"suffixspec_{name}"] - counters[f"suffixspec_{name}"]

    engine = sum(grown(f"{name}_seconds_total") for name in ("draft", "forward", "prefill", "index"))

    def used(name: str) -> float:
        return float(now["cpu_seconds"].get(name, 0.0) - clocks["cpu_seconds"].get(name, 0.0))

    forwards = now["forwards"]
    into.append(
        Own(
            busy=grown("busy_seconds_total") - engine,
            text=now["text_seconds"] - clocks["text_seconds"],
            loop=used(f"serve {server.ports[arm]}"),
            readers=used("readers"),
            forwards=len(forwards),
            forward_seconds=sum(end - begin for begin, end in forwards),
        )
    )


def main() -> None:
    """Measure, print, and save the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.server",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("trace", nargs="?", default=sessions.DEFAULT_TRACE, metavar="TRACE")
    parser.add_argument("--model", metavar="MODEL", help="folder or hub id (default: SmolLM2-135M-Instruct)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--pairs", type=int, default=3, help="rounds of each arm (default: 3)")
    parser.add_argument("--tokens", type=int, default=32, help="new tokens a turn (default: 32)")
    parser.add_argument("--turns", type=int, default=3, help="turns of an agent loop (default: 3)")
    parser.add_argument("--first-turns", type=int, default=12, help="turns for the first token (default: 12)")
    parser.add_argument("-o", "--output", metavar="FILE.json")
    args = parser.parse_args()
    server = Server(args.model)
    document: dict[str, Any] = {
        "environment": environment.describe("bench.server", traces=[args.trace], seed=0),
        "settings": {name: getattr(args, name) for name in ("pairs", "tokens", "turns", "first_turns")}
        | {"clients": CLIENTS, "server": server.hello},
    }
    given = document["environment"]
    print(f"{given['hardware']['cpu']}, {given['hardware']['cores']} cores; commit {given['commit']}")
    t1 = min(server.hello["t1_ms"].items(), key=lambda pair: int(pair[0]))[1]
    print(f"{server.hello['model']}, {server.hello['dtype']}; t(1) {t1:.1f} ms\n")
    loops = recorded(args.trace)
    try:
        for arm in ARMS:  # what is done once
            Client(server.ports[arm], "warm").chat([{"role": "user", "content": "Hello"}], max_tokens=4)
        if "prompts" in args.parts:
            rounds = [prompts(number, args.tokens) for number in range(args.pairs)]
            document["prompts"] = throughput("prompts", server, rounds, t1)
        if "loops" in args.parts:
            rounds = [
                agents(loops[(CLIENTS * number) % len(loops) :] + loops, args.turns, args.tokens)
                for number in range(args.pairs)
            ]
            document["loops"] = throughput("loops", server, rounds, t1)
        if "first" in args.parts:
            document["first"] = first_token(server, loops[0], args.first_turns)
    finally:
        server.close()
    environment.save(args.output, document)


Work = Callable[[Client], list[Answer]]
"""All that one client asks, one after the other."""


def prompts(number: int, tokens: int) -> list[Work]:
    """One prompt for each client, another one in each round."""

    def work(index: int) -> Work:
        topic = TOPICS[(CLIENTS * number + index) % len(TOPICS)]
        options = {"temperature": 1.0, "seed": CLIENTS * number + index, "max_tokens": 5 * tokens // 2}
        return lambda client: [client.chat([{"role": "user", "content": topic}], **options)]

    return [work(index) for index in range(CLIENTS)]


def agents(loops: list[list[list[dict[str, Any]]]], turns: int, tokens: int) -> list[Work]:
    """One agent loop for each client."""

    def work(told: list[list[dict[str, Any]]]) -> Work:
        def run(client: Client) -> list[Answer]:
            messages: list[dict[str, Any]] = []
            answers = []
            for new in told[:turns]:
                messages += new
                answers.append(client.chat(messages, max_tokens=tokens))
                messages.append({"role": "assistant", "content": answers[-1].text})
            return answers

        return run

    return [work(told) for told in loops[:CLIENTS]]


def recorded(trace: str, characters: int = 700) -> list[list[list[dict[str, Any]]]]:
    """For each session what the model is told before each turn; long texts are cut in their middle."""
    loops = []
    for session in read_sessions([trace]):
        told: list[list[dict[str, Any]]] = [[]]
        for message in session.messages:
            if message.is_output:
                told.append([])
                continue
            text = message.content if isinstance(message.content, str) else json.dumps(message.content)
            if len(text) > characters:
                text = f"{text[: characters // 2]}\n[...]\n{text[-characters // 2 :]}"
            told[-1].append({"role": message.role, "content": text})
        loops.append([new for new in told if new])
    return loops


def throughput(name: str, server: Server, rounds: list[list[Work]], t1: float) -> dict[str, Any]:
    """Each round with drafting and without, in alternating order."""
    seconds: dict[str, list[float]] = {arm: [] for arm in ARMS}
    own: dict[str, list[Own]] = {arm: [] for arm in ARMS}
    tokens = equal = outputs = cached = prompted = steps = 0
    for number, works in enumerate(rounds):
        texts: dict[str, list[str]] = {}
        for arm in ARMS if number % 2 else ARMS[::-1]:
            before = server.counters(arm)
            with own_time(server, arm, own[arm]):
                taken, answers = at_once(server.ports[arm], f"{name}-{number}", works)
            # The same tokens in both arms, so that the ratio of times is that of speeds.
            seconds[arm].append(taken / sum(answer.tokens for answer in answers))
            texts[arm] = [answer.text for answer in answers]
            if arm == "drafting":
                tokens += sum(answer.tokens for answer in answers)
                cached += sum(answer.cached for answer in answers)
                prompted += sum(answer.usage["prompt_tokens"] for answer in answers)
                steps += int(
                    server.counters(arm)["suffixspec_steps_total"] - before["suffixspec_steps_total"]
                )
            print(
                f"  {name}, round {number + 1} of {len(rounds)}, {arm}: {1 / seconds[arm][-1]:.1f} tokens/s",
                file=sys.stderr,
            )
        outputs += len(texts["plain"])
        equal += sum(a == b for a, b in zip(texts["drafting"], texts["plain"], strict=True))
    pairs = Pairs(seconds["plain"], seconds["drafting"])
    label = {"prompts": "unrepetitive prompts", "loops": "agent loops"}[name]
    print(pairs.line(f"{label}, {CLIENTS} clients: drafting against plain", BARS[name]))
    speeds = {arm: statistics.median(1 / each for each in seconds[arm]) for arm in ARMS}
    print(
        f"  {speeds['drafting']:.1f} against {speeds['plain']:.1f} tokens/s; {tokens:,} tokens, {tokens / steps:.2f} "
        f"a step; {cached / prompted:.0%} of prompts cached; {equal} of {outputs} outputs equal"
    )
    for arm in ARMS:
        share = statistics.median(one.per_step_ms for one in own[arm]) / t1
        parts = own[arm][len(own[arm]) // 2].to_json()
        verdict = "met" if share <= BARS["own"] else "MISSED"
        print(
            f"  own time per step, {arm}: {share:.1%} of t(1)   bar 5 %: {verdict}   (scheduler "
            f"{parts['scheduler_ms']:.2f}, text {parts['text_ms']:.2f}; beside the forwards: event loop "
            f"{parts['event_loop_ms']:.2f}, preparing {parts['readers_ms']:.2f} ms)"
        )
    return {
        "pairs": pairs.to_json(),
        "tokens_per_second": speeds,
        "tokens": tokens,
        "tokens_per_step": tokens / steps,
        "cached": cached,
        "prompted": prompted,
        "outputs": outputs,
        "outputs_equal": equal,
        "own": {arm: [one.to_json() for one in own[arm]] for arm in ARMS},
        "t1_ms": t1,
    }


def at_once(port: int, namespace: str, works: list[Work]) -> tuple[float, list[Answer]]:
    """All clients at once; seconds until the last one is done, and all answers."""
    results: list[list[Answer] | BaseException] = [[] for _ in works]

    def run(index: int, client: Client) -> None:
        try:
            results[index] = works[index](client)
        except BaseException as error:  # noqa: BLE001 - raised below, in the main thread
            results[index] = error
        finally:
            client.close()

    threads = [
        threading.Thread(target=run, args=(index, Client(port, namespace))) for index in range(len(works))
    ]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = time.monotonic() - started
    answers: list[Answer] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        answers += result
    return taken, answers


def first_token(server: Server, told: list[list[dict[str, Any]]], turns: int) -> dict[str, Any]:
    """One loop alone: what passes until its first text, besides the forwards."""
    result: dict[str, Any] = {}
    for arm in ARMS:
        client = Client(server.ports[arm], "first")
        messages: list[dict[str, Any]] = []
        rows = []
        for number, new in enumerate(told[:turns]):
            messages += new
            server.clocks()
            answer = client.chat(messages, max_tokens=8)
            forwards = server.clocks()["forwards"]
            messages.append({"role": "assistant", "content": answer.text})
            if number and answer.first:  # the first turn has no prefix
                before = [end - begin for begin, end in forwards if end <= answer.first]
                rows.append(
                    {
                        "prompt": answer.usage["prompt_tokens"],
                        "cached": answer.cached,
                        "first_ms": 1e3 * (answer.first - answer.sent),
                        "forwards": len(before),
                        "besides_forwards_ms": 1e3 * (answer.first - answer.sent - sum(before)),
                        "until_first_forward_ms": 1e3 * (forwards[0][0] - answer.sent),
                    }
                )
        client.close()
        besides = [row["besides_forwards_ms"] for row in rows]
        median, most = statistics.median(besides), max(besides)
        verdict = "met" if median <= BARS["first_ms"] else "MISSED"
        print(
            f"first text of {len(rows)} turns on a cached prefix, {arm}: {median:.1f} ms besides the forwards, at "
            f"most {most:.1f}   bar {BARS['first_ms']:g} ms: {verdict}   ({rows[-1]['cached']:,} of "
            f"{rows[-1]['prompt']:,} tokens cached in the last)"
        )
        result[arm] = {"median_ms": median, "most_ms": most, "turns": rows}
    return result


if __name__ == "__main__":
    main()
