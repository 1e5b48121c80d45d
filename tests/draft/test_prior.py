"""The prior: a folder of sources, indexed once per tokenizer and drafted from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from suffixspec.draft import IndexDrafter
from suffixspec.draft.prior import load_prior


class Bytes:
    """A tokenizer of bytes that counts its calls."""

    def __init__(self, fingerprint: str = "bytes") -> None:
        self.fingerprint = fingerprint
        self.calls = 0

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """One token a byte."""
        assert not special, "sources are text: no special tokens in them"
        self.calls += 1
        return list(text.encode())


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sources and what is to be passed over."""
    monkeypatch.setenv("SUFFIXSPEC_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "library"
    for name, text in {
        "b.py": "import sys\n",
        "a/one.py": "def one():\n    return 1\n",
        "test/two.py": "two\n",
        "c.txt": "three\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "broken.py").write_bytes(b"\xff\xfe")
    return folder


def test_sources_are_indexed_once_per_tokenizer(library):
    """The tree holds each source, ended by a sentinel; a second load encodes nothing; another tokenizer does."""
    tokenizer = Bytes()
    tree = load_prior(tokenizer, folder=library)
    tree.check()
    assert tree.tokens.tolist() == [*b"import sys\n", -1, *b"def one():\n    return 1\n", -2]
    assert tokenizer.calls == 2
    again = load_prior(tokenizer, folder=library)
    again.check()
    assert again.tokens.tolist() == tree.tokens.tolist()
    assert tokenizer.calls == 2
    load_prior(Bytes("other"), folder=library)
    other = Bytes("other")
    load_prior(other, folder=library)
    assert other.calls == 0


def test_a_fresh_session_drafts_from_it(library):
    """Without history and without a repeat in the prompt, the text of the prior is proposed."""
    prior = load_prior(Bytes(), folder=library)
    session = IndexDrafter(prior=prior, max_nodes=8).session()
    session.sync(np.array([*b"de"], np.int32))
    draft = session.draft()
    assert bytes(draft.token_ids[draft.best_chain()].tolist()).startswith(b"f one")
    assert IndexDrafter(max_nodes=8).session().draft().token_ids.size == 0


def test_without_sources_there_is_none(tmp_path):
    """A Python that came without its sources has no prior."""
    assert load_prior(Bytes(), folder=tmp_path) is None
