"""A tiny model in float64, a byte-level tokenizer, and drafters of every kind, to decode by hand."""

import random
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from suffixspec.draft import DraftTree
from suffixspec.target.model import Target
from suffixspec.text import Tokenizer

CHATML = """
{%- if tools -%}<|im_start|>tools
{{ tools | tojson }}<|im_end|>
{% endif -%}
{%- for m in messages -%}
<|im_start|>{{ m['role'] }}
{{ m['content'] }}
{%- for c in m['tool_calls'] %}<call>{{ c['function']['name'] }} {{ c['function']['arguments'] }}</call>{% endfor -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""
CONTEXT = 1024
MERGES = ("a b", "ab c", "Ġ t", "h e", "Ġt he", "Ġ a", "1 2")


def tokenizer(template: str = CHATML) -> Tokenizer:
    """Bytes, a few merged tokens, and the two tokens of ChatML."""
    vocab = {char: index for index, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = [tuple(merge.split()) for merge in MERGES]
    for pair in merges:
        vocab["".join(pair)] = len(vocab)
    backend = tokenizers.Tokenizer(models.BPE(vocab, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    special = {"eos_token": "<|im_end|>"}
    return Tokenizer(backend, name="tiny", template=template, special=special)


TOKENIZER = tokenizer()
VOCAB = TOKENIZER.vocab_size
EOS = TOKENIZER.special_tokens["<|im_end|>"]


def model(seed: int = 0, *, scale: float = 1.0, context: int = CONTEXT) -> LlamaForCausalLM:
    """A random Llama of two layers; a larger scale makes its choices more decided."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        initializer_range=0.25 * scale,
        bos_token_id=None,
        eos_token_id=EOS,
        tie_word_embeddings=False,
    )
    return LlamaForCausalLM(config).to(torch.float64).eval()


class CountingTarget(Target):
    """Notes what every forward was given."""

    def __init__(self, *arguments, **more) -> None:
        super().__init__(*arguments, **more)
        self.prefills: list[int] = []
        """Tokens of each prefill forward."""
        self.steps: list[int] = []
        """Tokens of each tree forward."""

    def prefill(self, cache, token_ids, **more):
        """As the target, noted."""
        self.prefills.append(token_ids.shape[0])
        return super().prefill(cache, token_ids, **more)

    def forward_tree(self, cache, token_ids, parents):
        """As the target, noted."""
        self.steps.append(token_ids.shape[0])
        return super().forward_tree(cache, token_ids, parents)


def target(seed: int = 0, **more) -> CountingTarget:
    """A target over a tiny model."""
    return CountingTarget(model(seed, **more), name="tiny")


def tree(nodes: Iterable[tuple[int, int]]) -> DraftTree:
    """A draft from (parent, token) pairs."""
    pairs = list(nodes)
    parents = np.array([parent for parent, _ in pairs], np.int32)
    tokens = np.array([token for _, token in pairs], np.int32)
    return DraftTree(tokens, parents, np.linspace(0.9, 0.1, len(pairs), dtype=np.float32))


class ScriptedDrafter:
    """Drafts what ``script(context, most)`` says: (parent, token) pairs."""

    name = "scripted"
    nbytes = 0
    indexed_tokens = 0

    def __init__(self, script: Callable[[list[int], int], Iterable[tuple[int, int]]]) -> None:
        self.script = script
        self.sessions: list[ScriptedSession] = []

    def session(self, namespace: str = "default") -> "ScriptedSession":  # noqa: ARG002
        """Begin a session."""
        self.sessions.append(ScriptedSession(self.script))
        return self.sessions[-1]


class ScriptedSession:
    """The scripted drafter's side of a session."""

    nbytes = 0
    indexed_tokens = 0

    def __init__(self, script) -> None:
        self.script = script
        self.context: list[int] = []

    def sync(self, prompt_ids, *, temperature: float = 0.0, learn: bool = True) -> int:  # noqa: ARG002
        """Take the prompt."""
        self.context = [int(token) for token in prompt_ids]
        return 0

    def draft(self, max_nodes: int | None = None) -> DraftTree:
        """What the script says, cut to ``max_nodes``."""
        most = 32 if max_nodes is None else min(32, max_nodes)
        return tree(list(self.script(self.context, most))[:most])

    def accept(self, emitted) -> None:
        """Take the tokens."""
        self.context += [int(token) for token in emitted]

    def sources(self, nodes: int):
        """All of one kind."""
        return np.zeros(nodes, np.int32)

    def end_turn(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def oracle(*texts: Sequence[int], width: int = 8) -> ScriptedDrafter:
    """Always right: drafts the text that goes on from the context, as one path of ``width``."""

    def script(context, most):
        for text in texts:
            if list(text[: len(context)]) == context:
                return [(i - 1, int(x)) for i, x in enumerate(text[len(context) :][: min(width, most)])]
        return []

    return ScriptedDrafter(script)


def garbage(seed: int, *hints: Sequence[int], nodes: int = 12) -> ScriptedDrafter:
    """Random trees; now and then a right token, in any place of the tree and among wrong siblings."""
    rng = random.Random(seed)

    def script(context, most):
        right: list[int] = []
        for hint in hints:
            if list(hint[: len(context)]) == context:
                right = [int(x) for x in hint[len(context) :]]
        pairs: list[tuple[int, int]] = []
        depth: list[tuple[int, bool]] = []  # (depth, on the right path)
        taken: set[tuple[int, int]] = set()
        for _ in range(rng.randint(0, min(nodes, most))):
            parent = rng.randrange(-1, len(pairs))
            level, good = (0, True) if parent < 0 else depth[parent]
            token = rng.randrange(VOCAB)
            if good and level < len(right) and rng.random() < 0.6:
                token = right[level]
            if (parent, token) in taken:
                continue
            taken.add((parent, token))
            depth.append((level + 1, good and level < len(right) and token == right[level]))
            pairs.append((parent, token))
        return pairs

    return ScriptedDrafter(script)


def prompt(seed: int, length: int) -> list[int]:
    """Random tokens with repeats in them; no special ones."""
    rng = random.Random(seed)
    text: list[int] = []
    while len(text) < length:
        if text and rng.random() < 0.5:
            start = rng.randrange(len(text))
            text += text[start : start + rng.randint(1, 9)]
        else:
            text.append(rng.randrange(VOCAB - 2))
    return text[:length]
