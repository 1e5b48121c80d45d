"""What is drawn on besides sessions: of which tokenizer, and how much of it is kept."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from suffixspec.integrations.vllm import Proposer
from suffixspec.shared_prior import TokenizerSource

from .rig import vllm_config


@pytest.fixture
def loads(monkeypatch):
    """The tokenizers that are asked for; SmolLM2's is given instead."""
    from suffixspec.text.tokenizer import load_tokenizer

    asked = []

    def load(spec, **given):
        asked.append((spec, given))
        return load_tokenizer()

    monkeypatch.setattr("suffixspec.text.tokenizer.load_tokenizer", load)
    return asked


@pytest.fixture
def priors(monkeypatch):
    """The tokenizers whose priors are asked for."""
    asked = []

    def made(tokenizer, **_):
        asked.append(tokenizer)
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr("suffixspec.integrations.hosted.draft_sources.SharedPrior", made)
    return asked


def proposer(settings, **model):
    config = vllm_config(settings=settings)
    vars(config.model_config).update(model)
    return Proposer(config)


def test_history_and_prior_are_of_the_revision_that_vllm_serves(tmp_path, loads, priors):
    """Another revision may have other tokens: neither may be of them."""
    settings = {"history": str(tmp_path), "prior": True}
    served = {"tokenizer": "owner/tokens", "tokenizer_revision": "4f2a", "revision": "77aa"}
    proposer(settings, **served, trust_remote_code=True).close()
    proposer(settings, tokenizer=None, model="owner/model").close()
    assert loads == [
        ("owner/tokens", {"revision": "4f2a", "trust_remote_code": True}),
        ("owner/model", {"revision": None, "trust_remote_code": False}),
    ]
    assert priors == [TokenizerSource("owner/tokens", "4f2a", True), TokenizerSource("owner/model")]


def test_the_builder_of_a_prior_is_told_the_revision(tmp_path):
    """Through its command line: of a repository in the hub's cache, the revision that is asked for is loaded."""
    from tokenizers import Tokenizer, models

    repository = tmp_path / "hub" / "models--owner--tokens"
    commits = {"main": "1" * 40, "old": "2" * 40}
    for count, (name, commit) in enumerate(commits.items(), start=2):
        folder = repository / "snapshots" / commit
        folder.mkdir(parents=True)
        words = {f"w{i}": i for i in range(count)}
        Tokenizer(models.WordLevel(words, unk_token="w0")).save(str(folder / "tokenizer.json"))
        (folder / "config.json").write_text("{}")
        (folder / "tokenizer_config.json").write_text(
            json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"})
        )
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / name).write_text(commit)
    code = (
        "import sys; from suffixspec import shared_prior; "
        "shared_prior.build = lambda source: {'size': source.load().vocab_size}; shared_prior._main()"
    )
    sizes = {}
    for revision in (None, "old", "2" * 40, "none"):
        done = subprocess.run(
            [sys.executable, "-c", code, *TokenizerSource("owner/tokens", revision).arguments],
            env={**os.environ, "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        sizes[revision] = json.loads(done.stdout)["size"] if done.returncode == 0 else done.stderr
    assert (sizes[None], sizes["old"], sizes["2" * 40]) == (2, 3, 3)
    assert "'owner/tokens' at 'none'" in sizes["none"]


def test_code_of_a_repository_is_run_only_where_vllm_was_told_so(monkeypatch):
    import transformers

    asked = []

    def load(_, **given):
        asked.append((given["revision"], given["trust_remote_code"]))
        raise OSError("not here")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", load)
    for source in (TokenizerSource("owner/tokens", "4f2a", True), TokenizerSource("owner/tokens")):
        with pytest.raises(Exception, match="owner/tokens"):
            source.load()
    assert asked == [("4f2a", True), ("main", False)]
    assert "--trust-remote-code" in TokenizerSource("owner/tokens", None, True).arguments
    assert TokenizerSource("owner/tokens").arguments == ["--", "owner/tokens"]


def test_the_folder_drops_first_what_the_settings_say(tmp_path, loads):
    for chosen, kept in (("least-useful", "least-useful"), ("oldest", "oldest"), (None, "oldest")):
        folder = tmp_path / str(chosen)
        made = proposer({"history": str(folder), "history_eviction": chosen})
        assert made._sources.saved.store.budget.eviction == kept
        made.close()
    assert len(loads) == 3
