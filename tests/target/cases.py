"""Random decoding of tiny models, with every kind of drafter: what the tests and ``bench.lossless`` run."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from suffixspec.draft import DraftTree, IndexDrafter
from suffixspec.engine import Engine, Reply
from suffixspec.target.model import Target

from .families import VOCAB, WINDOW

LENGTHS = (WINDOW - 1, WINDOW, WINDOW + 1, 5 * WINDOW)
"""Of prompts: on both sides of a window's edge, and far behind it."""
KINDS = ("garbage", "mixed", "right", "suffix", "combined")
EOS = 2


class Letters:
    """A tokenizer for which every token is a character."""

    eos_ids = ()

    def decode(self, token_ids, continues: bool = False) -> str:  # noqa: ARG002
        """One character per token."""
        return "".join(chr(33 + token) for token in token_ids)


@dataclass(frozen=True)
class Case:
    """One prompt, and how it is decoded."""

    prompt: list[int]
    max_tokens: int
    nodes: int
    kind: str
    seed: int

    @property
    def options(self) -> dict[str, Any]:
        """Of seeded sampling."""
        rng = random.Random(self.seed)
        some = {"top_k": 20}, {"top_p": 0.9}, {"min_p": 0.02}, {"repetition_penalty": 1.2}, {}
        return {"temperature": rng.choice((0.5, 1.0, 1.4)), "seed": self.seed, **rng.choice(some)}


def random_cases(family: str, count: int, *, most_tokens: int) -> Iterator[Case]:
    """``count`` cases, the same in every run; all lengths, kinds and budgets are among any 60 of them."""
    for index in range(count):
        rng = random.Random(f"{family} {index}")
        prompt = [rng.randrange(3, VOCAB) for _ in range(LENGTHS[index % 4])]
        for _ in range(2):  # repeats, for the drafters that look for them
            length = rng.randrange(1, len(prompt) // 2)
            a, b = rng.randrange(len(prompt) - length), rng.randrange(len(prompt) - length)
            prompt[a : a + length] = prompt[b : b + length]
        nodes = (1, 3, 8, 20)[index // 4 % 4]
        limit = rng.choice((1, 3, most_tokens, most_tokens))
        yield Case(prompt, limit, nodes, KINDS[index % 5], rng.randrange(2**31))


@dataclass
class Tally:
    """What the drafts of some cases came to."""

    tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    stopped: int = 0
    """Outputs that an end token ended."""
    crossings: int = 0
    """Drafts that reached over the edge of the window and of which something was rejected."""

    def note(self, reply: Reply) -> None:
        """Count a reply."""
        self.tokens += len(reply.token_ids)
        self.drafted += reply.counts.drafted
        self.accepted += reply.counts.accepted
        self.stopped += reply.finish_reason == "stop"


@dataclass
class Guesser:
    """A drafter that knows the text to come, and drafts its next token where the right path goes on, by chance.

    Both sides of the protocol in one: a case has one session.
    """

    text: list[int]
    """Prompt and output."""
    right: float
    """The chance of a right node: 1 drafts the text itself, as one path; 0 garbage."""
    nodes: int
    rng: random.Random
    tally: Tally
    name: str = "guesser"
    nbytes: int = 0
    indexed_tokens: int = 0
    context: list[int] = field(default_factory=list)
    last: DraftTree | None = None

    def session(self, namespace: str = "default") -> "Guesser":  # noqa: ARG002
        """Begin."""
        return self

    def sync(self, prompt_ids, **_options: Any) -> int:
        """Take the prompt."""
        self.context = [int(token) for token in prompt_ids]
        return 0

    def draft(self, max_nodes: int | None = None) -> DraftTree:
        """Random nodes, some of them right."""
        most = self.nodes if max_nodes is None else min(self.nodes, max_nodes)
        rest = self.text[len(self.context) :]
        count = min(most, len(rest)) if self.right == 1.0 else self.rng.randint(0, most)
        children: dict[tuple[int, int], None] = {}
        path = [-1]
        for _ in range(count):
            right = len(path) <= len(rest) and self.rng.random() < self.right
            child = path[-1], rest[len(path) - 1] if right else -1
            if not right:
                child = self.rng.randrange(-1, len(children)), self.rng.randrange(VOCAB)
            if child not in children:
                if right:
                    path.append(len(children))
                children[child] = None
        parents, tokens = (np.array([child[i] for child in children], np.int32) for i in (0, 1))
        self.last = DraftTree(tokens, parents, np.full(len(children), 0.5, np.float32))
        return self.last

    def accept(self, emitted) -> None:
        """Take the tokens."""
        draft, start = self.last, len(self.context)
        if draft is not None and len(draft) >= len(emitted):  # something was rejected
            self.tally.crossings += start <= WINDOW <= start + int(draft.depth.max()) - 1
        self.context += [int(token) for token in emitted]

    def sources(self, nodes: int):
        """All of one kind."""
        return np.zeros(nodes, np.int32)

    def end_turn(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def engine_of(target: Target, drafter: Any = None, nodes: int = 8, **more: Any) -> Engine:
    """An engine whose tokens are letters."""
    return Engine(target, Letters(), drafter=drafter, max_nodes=nodes, kv_bytes=1 << 26, **more)


def decode(target: Target, case: Case, text: list[int], tally: Tally, **options: Any) -> Reply:
    """Decode a case with its drafter; ``text`` is what comes out of it, prompt included, as far as it knows."""
    rng = random.Random(case.seed)
    right = {"garbage": 0.0, "mixed": 0.6, "right": 1.0}.get(case.kind)
    if right is None:
        drafter: Any = IndexDrafter(
            max_nodes=case.nodes, ngram=case.kind == "combined", ngram_slots=1 << 8, history="session"
        )
    else:
        drafter = Guesser(text, right, case.nodes, rng, tally)
    engine = engine_of(target, drafter, case.nodes, prefill_chunk=rng.choice((3, 64, 64)))
    reply = engine.session("s").generate(case.prompt, max_tokens=case.max_tokens, **options)
    engine.branches.check()
    tally.note(reply)
    return reply


def generated(model: Any, prompts: list[list[int]], count: int) -> list[list[int]]:
    """What ``model.generate`` writes greedily to prompts of any lengths, end token included."""
    outputs: list[list[int]] = [[] for _ in prompts]
    for length in {len(prompt) for prompt in prompts}:
        group = [index for index, prompt in enumerate(prompts) if len(prompt) == length]
        ids = torch.tensor([prompts[index] for index in group], device=model.device)
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False, pad_token_id=0
        )[:, length:].tolist()
        for index, tokens in zip(group, out, strict=True):
            outputs[index] = tokens[: tokens.index(EOS) + 1] if EOS in tokens else tokens
    return outputs


def sampled(model: Any, prompt: list[int], count: int, seed: int) -> list[int]:
    """What ``model.generate`` draws at temperature 1 after ``torch.manual_seed``."""
    ids = torch.tensor([prompt], device=model.device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, pad_token_id=0,
            do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
        )  # fmt: skip
    tokens: list[int] = out[0, len(prompt) :].tolist()
    return tokens
