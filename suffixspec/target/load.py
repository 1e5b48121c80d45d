"""Loading a target and its tokenizer: the default model, a folder, a GGUF file or a hub id."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from suffixspec.errors import InputError, MissingExtraError
from suffixspec.target.attention import register
from suffixspec.target.model import Target
from suffixspec.target.packed import pack_linears
from suffixspec.text.cache import build_once, cache_root, is_complete
from suffixspec.text.gguf_tokenizer import cached_conversion, find_smollm2
from suffixspec.text.tokenizer import SMOLLM2, Tokenizer, load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CONVERTER_VERSION = 1
"""Part of the cache key: raise it when the converted files would change."""


def load_target(
    spec: str | None = None,
    *,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    attn: str | None = None,
    packed: bool | None = None,
) -> tuple[Target, Tokenizer]:
    """Load a model that verifies drafts, and its tokenizer.

    Args:
        spec: one of

            - None: SmolLM2-135M-Instruct, from the optional extra ``local``. Converted once (half a minute),
              then loaded from the user's cache in seconds; no network.
            - a folder with a model of transformers and its tokenizer, or a GGUF file or a folder with one
              (converted to float32 once and cached: four bytes per parameter on disk);
            - the ID of a repository on the Hugging Face hub: from its local cache when it is there, else over
              the network. No code of the repository is run.
        device: None: an accelerator where there is one, else the CPU.
        dtype: of the weights; None: float32 on a CPU, else the checkpoint's own.
        attn: "eager" or "sdpa"; None: transformers' choice, without repeated key-value heads where that is
            sdpa (see ``suffixspec.target.attention``).
        packed: packed linear layers (see ``suffixspec.target.packed``); None: on a CPU, where it has them.

    Raises:
        InputError: nothing of that name, or not a causal LM; says what was tried.
        MissingExtraError: the default model, or a GGUF file, without the extra ``local``.
        UnsupportedModelError: drafts cannot be verified on this model.
    """
    place = _default_device() if device is None else torch.device(device)
    wanted = _dtype(dtype, place)
    tokenizer = load_tokenizer(spec)
    model: Any = _load_model(spec, wanted, attn)  # not PreTrainedModel, whose annotation of to() is lost
    if attn is None and model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(register())
    model.to(place)
    if packed or (packed is None and place.type == "cpu"):
        pack_linears(model)
    return Target(model, name=tokenizer.name), tokenizer


def _default_device() -> torch.device:
    return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")


def _dtype(dtype: str | torch.dtype | None, device: torch.device) -> Any:
    """What transformers takes: a dtype or "auto"."""
    if dtype is None:
        return torch.float32 if device.type == "cpu" else "auto"
    if isinstance(dtype, torch.dtype):
        return dtype
    named = getattr(torch, dtype, None)
    if not (isinstance(named, torch.dtype) and named.is_floating_point):
        raise InputError(f"expected a dtype like float32 or bfloat16, got {dtype!r}")
    return named


def _load_model(spec: str | None, dtype: Any, attn: str | None) -> "PreTrainedModel":
    if spec is None:
        return _from_gguf(find_smollm2(), SMOLLM2, dtype, attn)
    path = Path(spec).expanduser()
    if path.is_file():
        return _from_gguf(path, path.stem, dtype, attn)
    if path.is_dir():
        ggufs = sorted(path.glob("*.gguf"))
        if not (path / "config.json").is_file() and len(ggufs) == 1:
            return _from_gguf(ggufs[0], ggufs[0].stem, dtype, attn)
        return _from_pretrained(str(path), dtype, attn, local=True)
    try:
        return _from_pretrained(spec, dtype, attn, local=True)
    except InputError:
        return _from_pretrained(spec, dtype, attn, local=False)


def _from_pretrained(name: str, dtype: Any, attn: str | None, *, local: bool) -> "PreTrainedModel":
    from transformers import AutoModelForCausalLM

    options = {} if attn is None else {"attn_implementation": attn}
    try:
        with _quiet():
            return AutoModelForCausalLM.from_pretrained(
                name, dtype=dtype, local_files_only=local, trust_remote_code=False, **options
            )
    except Exception as error:  # OSError, ValueError, ImportError, and what damaged files raise
        raise InputError(
            f"expected a causal language model that transformers can load, got {type(error).__name__}: "
            f"{str(error).strip()}",
            path=name,
        ) from error


# -- GGUF ---------------------------------------------------------------------------------------------------


def _from_gguf(gguf: Path, label: str, dtype: Any, attn: str | None) -> "PreTrainedModel":
    """By way of a folder in the cache, since reading a GGUF file takes half a minute for a small model."""
    tokenizer, temporary = cached_conversion(gguf, label)
    if temporary is not None:  # the cache cannot be written, as was said on stderr
        _convert(gguf, tokenizer)
        return _from_pretrained(str(tokenizer), dtype, attn, local=True)
    folder = cache_root() / "models" / f"{tokenizer.name}-w{CONVERTER_VERSION}"
    if not is_complete(folder):
        sys.stderr.write(
            f"suffixspec: converting the weights of {label}; takes half a minute or more, happens once, "
            f"cached in {folder}\n"
        )
        build_once(folder, lambda scratch: _convert(gguf, scratch))
    return _from_pretrained(str(folder), dtype, attn, local=True)


def _convert(gguf: Path, out: Path) -> None:
    """Write the weights in float32 and the configuration, as transformers' ``from_pretrained`` reads them.

    Not by way of ``from_pretrained(gguf_file=…)``: that needs accelerate.
    """
    try:
        import gguf as _  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            f"expected the package gguf to read {gguf.name}, got none; pip install 'suffixspec[local]'"
        ) from None
    from safetensors.torch import save_file
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    try:
        with _quiet():
            config = AutoConfig.from_pretrained(
                str(gguf.parent), gguf_file=gguf.name, local_files_only=True, trust_remote_code=False
            )
            with torch.device("meta"):
                names = AutoModelForCausalLM.from_config(config)
            tensors = load_gguf_checkpoint(str(gguf), return_tensors=True, model_to_load=names)["tensors"]
    except Exception as error:  # the reader raises many kinds on malformed files
        raise InputError(
            f"expected a GGUF file with a causal language model that transformers can convert, got "
            f"{type(error).__name__}: {error}",
            path=str(gguf),
        ) from error
    config.dtype = torch.float32
    config.save_pretrained(str(out))
    GenerationConfig.from_model_config(config).save_pretrained(str(out))
    save_file(
        {name: tensor.to(torch.float32).contiguous() for name, tensor in tensors.items()},
        str(out / "model.safetensors"),
        metadata={"format": "pt"},
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars and no warnings of transformers."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
