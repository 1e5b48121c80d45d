"""Made-up inputs of the command: traces, and a tokenizer so small that tokens can be counted by hand."""

import json
import random
from collections.abc import Iterable
from pathlib import Path

TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""
_WORDS = (
    "open",
    "file",
    "read",
    "line",
    "write",
    "return",
    "value",
    "index",
    "token",
    "parse",
    "error",
    "list",
)


def write_tokenizer(folder: Path) -> Path:
    """A tokenizer with one token per byte, and two special ones."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {symbol: i for i, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    marks = ("<|im_start|>", "<|im_end|>")
    tokenizer.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in marks])
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = json.dumps({"eos_token": "<|im_end|>"})
    (folder / "tokenizer_config.json").write_text(settings, encoding="utf-8")
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    return folder


def session(name: str, *exchanges: tuple[str, str], **more: object) -> dict[str, object]:
    """A session of the native format: what the user said and what the model wrote, in turn."""
    messages = []
    for asked, wrote in exchanges:
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": wrote}]
    return {"version": 1, "session_id": name, "messages": messages, **more}


def lines(records: Iterable[object]) -> bytes:
    """The records as JSON Lines."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def words(rng: random.Random, count: int) -> str:
    """Text that repeats itself here and there."""
    return " ".join(rng.choice(_WORDS) for _ in range(count))


def loop_like(seed: int, sessions: int = 3, turns: int = 3, length: int = 12) -> list[dict[str, object]]:
    """Sessions in which the model quotes what it read and what it wrote before."""
    rng = random.Random(seed)
    records = []
    for number in range(sessions):
        exchanges: list[tuple[str, str]] = []
        for _ in range(turns):
            asked = words(rng, length)
            quoted = rng.choice([asked, *(text for pair in exchanges for text in pair)])
            exchanges.append((asked, f"{words(rng, 3)}: {quoted}"))
        records.append(session(f"s{number}", *exchanges))
    return records
