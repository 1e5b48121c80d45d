"""The default model is converted once and then loads from the cache; what cannot be loaded is said so."""

from pathlib import Path

import pytest
import torch

from suffixspec.errors import InputError, MissingExtraError
from suffixspec.target import load
from suffixspec.target.attention import GROUPED
from suffixspec.target.load import load_target
from suffixspec.target.packed import can_pack
from suffixspec.text.gguf_tokenizer import find_smollm2
from suffixspec.text.tokenizer import load_tokenizer

from .families import CONFIGS, new_model


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A folder as a hub repository has it: a tiny model in bfloat16 and SmolLM2's tokenizer."""
    try:
        find_smollm2()
    except MissingExtraError as error:
        pytest.skip(str(error))
    new_model(CONFIGS["llama"]()).bfloat16().save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text(load_tokenizer()._backend.to_str())
    return tmp_path


def test_a_folder_is_loaded_as_asked(saved: Path) -> None:
    """Float32, grouped and packed on a CPU by default; every default can be overridden."""
    target, tokenizer = load_target(str(saved))
    assert target.device.type == "cuda" or (target.dtype, target.attention) == (torch.float32, GROUPED)
    assert tokenizer.name == target.name == saved.name
    target, _ = load_target(str(saved), device="cpu")
    assert target.is_packed == can_pack(torch.float32)
    assert target.dtype == torch.float32
    target, _ = load_target(str(saved), device="cpu", packed=False)
    assert not target.is_packed
    target, _ = load_target(str(saved), device="cpu", dtype="float64", attn="eager")
    assert (target.dtype, target.attention, target.is_packed) == (torch.float64, "eager", False)
    target, _ = load_target(str(saved), device="cpu", dtype=torch.bfloat16)
    assert (target.dtype, target.is_packed) == (torch.bfloat16, can_pack(torch.bfloat16))


def test_what_cannot_be_loaded_is_named(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A folder with no weights, one that is no causal LM, a dtype that is none."""
    with pytest.raises(InputError, match="a dtype like float32 or bfloat16, got 'int8'"):
        load_target(str(saved), dtype="int8")
    (saved / "model.safetensors").write_bytes(b"no")
    with pytest.raises(InputError, match="a causal language model that transformers can load"):
        load_target(str(saved))
    (saved / "config.json").write_text('{"model_type": "vit"}')
    with pytest.raises(InputError, match="a causal language model"):
        load_target(str(saved))
    with pytest.raises(InputError, match="a path that does not exist"):
        load_target(str(tmp_path_factory.mktemp("none") / "none"))


def test_smollm2_is_converted_once_and_writes_what_generate_writes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second load converts nothing; packed and grouped it writes the 20 tokens of plain ``generate``."""
    try:
        load_target()
    except MissingExtraError as error:
        pytest.skip(str(error))
    capsys.readouterr()

    def convert(gguf: Path, out: Path) -> None:
        raise AssertionError("converted again")

    monkeypatch.setattr(load, "_convert", convert)
    plain, _ = load_target(device="cpu", attn="sdpa", packed=False)
    target, tokenizer = load_target(device="cpu")
    assert capsys.readouterr().err == ""
    assert (target.dtype, target.max_positions, target.vocab_size) == (torch.float32, 8192, 49152)
    assert target.eos_ids == tokenizer.eos_ids
    messages = [{"role": "user", "content": "Write a haiku about trees."}]
    ids = tokenizer.encode(tokenizer.render(messages, add_generation_prompt=True))
    prompt = torch.tensor([ids])
    expected = plain.model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=20, do_sample=False
    )[0, len(ids) :].tolist()
    cache = target.new_cache(128)
    logits = target.prefill(cache, ids)
    written = [int(logits.argmax())]
    while len(written) < 20:
        logits = target.forward_tree(cache, written[-1:], [-1])[0]
        cache.keep([0])
        written.append(int(logits.argmax()))
    assert written == expected
    rows = target.forward_tree(cache, written[:8], [-1, 0, 1, 1, 0, 4, 4, 2])
    plain_cache = plain.new_cache(128)
    plain.prefill(plain_cache, ids + written[:-1])
    other = plain.forward_tree(plain_cache, written[:8], [-1, 0, 1, 1, 0, 4, 4, 2])
    assert (rows - other).abs().max() < 1e-3
