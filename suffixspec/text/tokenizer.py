"""Tokenizers: text to token ids and back, and the chat template that comes with them."""

import hashlib
import json
import os
import re
import socket
import urllib.parse
import urllib.request
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from suffixspec.errors import InputError
from suffixspec.text.gguf_tokenizer import cached_conversion, find_smollm2
from suffixspec.text.pieces import PIECE, encode_in_pieces
from suffixspec.text.template import PLAIN_TEMPLATE, ChatTemplate
from suffixspec.text.traits import TemplateTraits, probe_template

if TYPE_CHECKING:
    import tokenizers
    from transformers import PreTrainedTokenizerFast

SMOLLM2 = "SmolLM2-135M-Instruct"
"""Name of the default tokenizer."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
_TRANSFORMERS_FILES = ("tokenizer.model", "vocab.json", "vocab.txt", "tekken.json", "tiktoken.model")


def load_tokenizer(
    spec: str | None = None, *, revision: str | None = None, trust_remote_code: bool = False
) -> "Tokenizer":
    """Load a tokenizer and its chat template.

    Args:
        spec: one of

            - None: SmolLM2-135M-Instruct's, from the optional extra ``local``. Converted once (seconds), then
              loaded from the user's cache in about 0.2 s without torch or transformers; no network.
            - a folder with ``tokenizer.json`` (and ``tokenizer_config.json``, ``chat_template.jinja``),
              such a ``tokenizer.json`` itself, or a GGUF file or a folder with one (converted once and
              cached);
            - the ID of a repository on the Hugging Face hub (``owner/name``), loaded by transformers: from
              its local cache when it is there, else over the network.

        revision: branch, tag or commit of a repository on the hub; None: its main one. Not of files here.
        trust_remote_code: whether code of the repository may be run, where its tokenizer needs it.

    Raises:
        InputError: nothing of that name, or not a tokenizer; says what was tried.
        MissingExtraError: the default tokenizer, or a GGUF file, without the extra ``local``.
    """
    if spec is None:
        return _from_gguf(find_smollm2(), SMOLLM2)
    path = Path(spec).expanduser()
    if path.is_file():
        return _from_gguf(path, path.stem) if _is_gguf(path) else _from_json(path, path.parent)
    if path.is_dir():
        return _from_folder(path, spec, trust_remote_code)
    if _HUB_ID.fullmatch(spec) and not spec.lower().endswith((".json", ".gguf")):
        return _from_hub(spec, revision, trust_remote_code)
    raise InputError(
        "expected a folder with tokenizer.json, a tokenizer.json, a GGUF file or a Hugging Face ID "
        "(owner/name), got a path that does not exist",
        path=spec,
    )


class Tokenizer:
    """A tokenizer of the ``tokenizers`` library with its chat template.

    Args:
        backend: the ``tokenizers.Tokenizer``; treated as read-only.
        name: for people: the folder's name or hub ID.
        template: the chat template, or several by name; None gives a plain "role: text" layout.
        special: names of special tokens to their text, as templates use them (``bos_token``, ``eos_token``,
            …).
        eos_ids: ids that end a generation, as the model's configuration lists them, besides ``eos_token``.
        response_template: how transformers reads what the model writes, where the tokenizer says so.
    """

    def __init__(
        self,
        backend: "tokenizers.Tokenizer",
        *,
        name: str,
        template: str | dict[str, str] | None = None,
        special: dict[str, str] | None = None,
        eos_ids: Sequence[int] = (),
        response_template: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.response_template = response_template
        self.has_template = template is not None
        self.template = ChatTemplate(PLAIN_TEMPLATE if template is None else template, special)
        self._backend = backend
        self._special = dict(special or {})
        self._configured_eos = tuple(eos_ids)
        self._keep_alive: TemporaryDirectory[str] | None = None

    def __repr__(self) -> str:
        return f"Tokenizer({self.name!r}, vocab_size={self.vocab_size})"

    # -- text and ids ---------------------------------------------------------------------------------------

    def encode(self, text: str, *, special: bool = True, continues: bool = False) -> list[int]:
        """Token ids of ``text``; nothing is added in front or behind. About 2 MB of text a second.

        Long texts are encoded in pieces (see ``pieces``): memory is that of a piece, besides the ids.

        The text of a special token becomes that token wherever it stands, in what a chat template wrote and
        in what a message says alike: a message that quotes a literal ``<|im_end|>`` is encoded with the
        real end-of-turn token. That is what ``apply_chat_template(tokenize=True)`` and the servers built on
        it do, so a replay sees the ids that the recorded loop would have seen.

        Args:
            text: any text; lone surrogates are read as U+FFFD. Bytes that the vocabulary cannot express are
                dropped by the tokenizer (SmolLM2's has no token for the control characters 04, 06, 13, 14, 16
                and 1D).
            special: False encodes the text of special tokens as ordinary text.
            continues: the text goes on after other text: no token for the start of a text, and no space put
                in front, by tokenizers that do so.
        """
        text = clean(text)
        backend = self._backend if special else self._plain_backend
        if len(text) <= PIECE:
            return self._encode(backend, text, continues)
        return encode_in_pieces(text, partial(self._encode, backend), continues=continues)

    def _encode(self, backend: "tokenizers.Tokenizer", text: str, continues: bool) -> list[int]:
        anchor = self._anchor if continues else None
        if anchor is not None:
            ids = backend.encode(anchor[0] + text, add_special_tokens=False).ids
            if ids[: len(anchor[1])] == anchor[1]:
                return list(ids[len(anchor[1]) :])
        return list(backend.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int], *, continues: bool = False) -> str:
        """The text of token ids, special tokens included.

        Args:
            ids: int [n], each in 0 … ``vocab_size`` - 1.
            continues: they go on after other tokens: a leading space is kept.
        """
        anchor = self._anchor if continues else None
        if anchor is None:
            return str(self._backend.decode(list(ids), skip_special_tokens=False))
        text = str(self._backend.decode([*anchor[1], *ids], skip_special_tokens=False))
        return text[len(self._backend.decode(anchor[1], skip_special_tokens=False)) :]

    def render(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None = None,
        add_generation_prompt: bool = False,
    ) -> str:
        """The chat template's text of a conversation.

        Args:
            messages: dicts with ``role``, ``content`` and so on, as OpenAI-style servers take them.
            tools: JSON schemas of the tools.
            add_generation_prompt: end with the header of the model's next message.

        Raises:
            RenderError: the template refused the conversation or failed on it.
        """
        return self.template.render(messages, tools, add_generation_prompt)

    def for_transformers(self) -> "PreTrainedTokenizerFast":
        """The same vocabulary as a tokenizer of transformers, for libraries that take one.

        Cost: imports transformers, and copies the vocabulary.
        """
        from transformers import PreTrainedTokenizerFast

        return PreTrainedTokenizerFast(tokenizer_object=self._backend)

    # -- what it is -----------------------------------------------------------------------------------------

    @cached_property
    def vocab_size(self) -> int:
        """One more than the largest token id, added tokens included."""
        return max(self._backend.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over vocabulary, merges, added tokens and templates; the same in every process."""
        return self._digest(template=sorted(self.template.sources.items()))

    @cached_property
    def vocabulary_fingerprint(self) -> str:
        """As ``fingerprint``, without the templates: what decides which text a list of token ids stands for."""
        return self._digest()

    def _digest(self, **more: object) -> str:
        state = json.loads(self._backend.to_str())
        model = state["model"]
        vocab = model.get("vocab", {})
        merges = [pair.split(" ", 1) if isinstance(pair, str) else pair for pair in model.get("merges", [])]
        canonical = json.dumps(
            {
                "vocab": sorted(vocab.items(), key=lambda item: item[1])
                if isinstance(vocab, dict)
                else vocab,
                "merges": merges,
                "added": sorted([token["id"], token["content"]] for token in state["added_tokens"]),
                **more,
            },
            separators=(",", ":"),
        )
        return hashlib.sha256(canonical.encode()).hexdigest()

    @cached_property
    def special_tokens(self) -> dict[str, int]:
        """Text and id of every special token."""
        return {
            token.content: index
            for index, token in self._backend.get_added_tokens_decoder().items()
            if token.special
        }

    @cached_property
    def special_pattern(self) -> re.Pattern[str]:
        """Matches a special token, the longest where several start; one group, for ``split``."""
        texts = sorted(self.special_tokens, key=lambda text: (-len(text), text))
        return re.compile(f"({'|'.join(map(re.escape, texts)) or '(?!)'})")

    @cached_property
    def eos_token(self) -> str:
        """Text of the tokenizer's own end token, or ``""``."""
        return self._special.get("eos_token", "")

    @cached_property
    def eos_ids(self) -> tuple[int, ...]:
        """Ids that end a turn, sorted.

        The tokenizer's end token, those of the model's configuration, and the one that the chat template
        closes an assistant message with. Renders the template's probes when first used.
        """
        ids = set(self._configured_eos)
        for token in (self.eos_token, self.traits.closing_token):
            index = self._backend.token_to_id(token) if token else None
            if index is not None:
                ids.add(int(index))
        return tuple(sorted(ids))

    @cached_property
    def eos_texts(self) -> tuple[str, ...]:
        """Texts of ``eos_ids``."""
        texts = (self._backend.id_to_token(index) for index in self.eos_ids)
        return tuple(text for text in texts if text)

    @cached_property
    def traits(self) -> TemplateTraits:
        """What the chat template does with each kind of message, found out by rendering (some 20 ms)."""
        return probe_template(self)

    @cached_property
    def splits_at_special(self) -> bool:
        """Whether a text can be cut at special tokens and encoded piece by piece with the same result."""
        return self._anchor is None and not any(
            token.lstrip or token.rstrip or token.single_word or token.normalized
            for token in self._backend.get_added_tokens_decoder().values()
            if token.special
        )

    @cached_property
    def _plain_backend(self) -> "tokenizers.Tokenizer":
        """A copy that reads the text of special tokens as ordinary text."""
        copy = type(self._backend).from_str(self._backend.to_str())
        copy.encode_special_tokens = True
        return copy

    @cached_property
    def _anchor(self) -> tuple[str, list[int]] | None:
        """What to put before a text that continues another, and its ids; None where that makes no difference.

        Tokenizers of the SentencePiece kind mark the start of a text with a space, and drop one there when
        decoding. Behind an anchor, whose ids are cut off again, they do neither.
        """

        def encode(text: str) -> list[int]:
            return list(self._backend.encode(text, add_special_tokens=False).ids)

        def decode(ids: list[int]) -> str:
            return str(self._backend.decode(ids, skip_special_tokens=False))

        probes = ("x", " x", "  x y", "\nx")
        alike = encode("\nx") == encode("\n") + encode("x")
        if alike and all(decode(encode(text)) == text for text in probes):
            return None
        for anchor in (*self.special_tokens, "\n", "x\n"):
            ids = encode(anchor)
            start = len(decode(ids))
            if ids and all(
                encode(anchor + text)[: len(ids)] == ids and decode(encode(anchor + text))[start:] == text
                for text in probes
            ):
                return anchor, ids
        return None


def clean(text: str) -> str:
    """``text`` with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


# -- loading ------------------------------------------------------------------------------------------------


def _is_gguf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"GGUF"


def _from_gguf(path: Path, label: str) -> Tokenizer:
    folder, keep_alive = cached_conversion(path, label)
    try:
        tokenizer = _from_json(folder / "tokenizer.json", folder, name=label)
    except FileNotFoundError:  # another process replaced a damaged cache at this moment: look again
        folder, keep_alive = cached_conversion(path, label)
        tokenizer = _from_json(folder / "tokenizer.json", folder, name=label)
    tokenizer._keep_alive = keep_alive
    return tokenizer


def _from_folder(folder: Path, spec: str, trust_remote_code: bool) -> Tokenizer:
    if (folder / "tokenizer.json").is_file():
        return _from_json(folder / "tokenizer.json", folder)
    ggufs = sorted(path for path in folder.glob("*.gguf") if path.is_file())
    if len(ggufs) == 1:
        return _from_gguf(ggufs[0], ggufs[0].stem)
    if ggufs:
        names = ", ".join(path.name for path in ggufs)
        raise InputError(f"expected one GGUF file, got {len(ggufs)} ({names}); name one of them", path=spec)
    if any((folder / name).is_file() for name in _TRANSFORMERS_FILES):
        return _from_transformers(
            str(folder), name=folder.resolve().name, local=True, trust_remote_code=trust_remote_code
        )
    raise InputError("expected a folder with tokenizer.json or a GGUF file, got one with neither", path=spec)


def _from_json(path: Path, folder: Path, name: str | None = None) -> Tokenizer:
    """From a tokenizer.json and the files that lie beside it."""
    from tokenizers import Tokenizer as Backend

    text = _read(path)
    try:
        backend = Backend.from_str(text)
    except Exception as error:  # tokenizers raises plain Exception
        raise InputError(f"expected a tokenizer.json, got {error}", path=str(path)) from error
    backend.no_truncation()
    backend.no_padding()
    config = _read_json(folder / "tokenizer_config.json")
    special = _special_texts(_read_json(folder / "special_tokens_map.json")) | _special_texts(config)
    return Tokenizer(
        backend,
        name=name or folder.resolve().name,
        template=_find_template(folder, config),
        special=special,
        eos_ids=_configured_eos(folder),
        response_template=_object(config.get("response_template")),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"expected UTF-8 text, got {error}", path=str(path)) from error


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(_read(path))
    except ValueError as error:
        raise InputError(f"expected JSON, got {error}", path=str(path)) from error
    if not isinstance(value, dict):
        raise InputError(f"expected a JSON object, got {type(value).__name__}", path=str(path))
    return value


def _special_texts(config: dict[str, Any]) -> dict[str, str]:
    """``bos_token`` and its like: text, or an object with the text under "content"."""
    texts = {}
    for key, value in config.items():
        text = value.get("content") if isinstance(value, dict) else value
        if key.endswith("_token") and isinstance(text, str):
            texts[key] = text
    return texts


def _find_template(folder: Path, config: dict[str, Any]) -> str | dict[str, str] | None:
    """The chat template as transformers finds it: files first, then the configuration."""
    files = {path.stem: path for path in sorted(folder.glob("additional_chat_templates/*.jinja"))}
    if (folder / "chat_template.jinja").is_file():
        files["default"] = folder / "chat_template.jinja"
    if files:
        return {name: _read(path) for name, path in files.items()}
    template = config.get("chat_template") or _read_json(folder / "chat_template.json").get("chat_template")
    if isinstance(template, list):
        template = {str(entry["name"]): str(entry["template"]) for entry in template}
    return template if isinstance(template, (str, dict)) else None


def _object(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _configured_eos(folder: Path) -> list[int]:
    for name in ("generation_config.json", "config.json"):
        value = _read_json(folder / name).get("eos_token_id")
        if value is not None:
            return [int(index) for index in (value if isinstance(value, list) else [value])]
    return []


def _from_hub(identifier: str, revision: str | None, trust_remote_code: bool) -> Tokenizer:
    load = partial(
        _from_transformers,
        identifier,
        name=identifier,
        revision=revision,
        trust_remote_code=trust_remote_code,
    )
    try:
        return load(local=True)
    except InputError as in_cache:
        host = _unreachable_host()
        if host is None:
            return load(local=False)
        named = repr(identifier) if revision is None else f"{identifier!r} at {revision!r}"
        raise InputError(
            "expected a tokenizer: a folder, a tokenizer.json, a GGUF file or the ID of a repository on the "
            f"Hugging Face hub; got {named}: no such file here, not in the local hub cache, and "
            f"{host} cannot be reached. Check the spelling, connect once so that it is cached, or leave "
            "--tokenizer out to use SmolLM2's, which needs no network"
        ) from in_cache


def _unreachable_host() -> str | None:
    """The hub's host when its name does not resolve: asking it would retry for a minute before it fails."""
    endpoint = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    host = urllib.parse.urlsplit(endpoint).hostname or "huggingface.co"
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        return f"{host} (HF_HUB_OFFLINE is set)"
    if urllib.request.getproxies():
        return None  # the proxy resolves names
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        return host
    return None


def _from_transformers(
    identifier: str, *, name: str, local: bool, revision: str | None = None, trust_remote_code: bool = False
) -> Tokenizer:
    from transformers import AutoTokenizer
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        loaded = AutoTokenizer.from_pretrained(
            identifier,
            revision=revision or "main",
            local_files_only=local,
            trust_remote_code=trust_remote_code,
        )
    except Exception as error:  # OSError, ValueError, ImportError, and what the converters raise
        raise InputError(
            f"expected a tokenizer that transformers can load, got {type(error).__name__} for "
            f"{identifier!r}: {str(error).strip()}"
        ) from error
    finally:
        logging.set_verbosity(verbosity)
    backend = getattr(loaded, "backend_tokenizer", None)
    if backend is None:
        raise InputError(
            f"expected a tokenizer with a tokenizer.json form, got {type(loaded).__name__} for "
            f"{identifier!r}; choose a repository that has tokenizer.json"
        )
    backend.no_truncation()
    backend.no_padding()
    special = {key: value for key, value in loaded.special_tokens_map.items() if isinstance(value, str)}
    return Tokenizer(
        backend,
        name=name,
        template=loaded.chat_template or None,
        special=special,
        response_template=_object(getattr(loaded, "response_template", None)),
    )
