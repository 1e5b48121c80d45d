"""The prior: a folder of sources, indexed once per tokenizer and drafted from."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from suffixspec.draft import IndexDrafter
from suffixspec.draft.prior import find_prior, load_prior
from suffixspec.errors import SuffixspecWarning
from suffixspec.text.token_class import LOWER_PART, UNKNOWN


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

    vocab_size = 256
    special_tokens: ClassVar[dict[str, int]] = {"<|end|>": 0}

    def decode(self, ids: list[int], *, continues: bool = False) -> str:
        """The text of bytes, and of a part of a character what stands for it."""
        assert continues, "a token stands in the middle of a text"
        return bytes(ids).decode(errors="replace")


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
    """The index holds each source, ended by a separator; a second load encodes nothing; another tokenizer does."""
    tokenizer = Bytes()
    prior = load_prior(tokenizer, folders=[library])
    index = prior.index
    assert index.tokens.tolist() == [*b"import sys\n", -1, *b"def one():\n    return 1\n", -1]
    assert index.resident
    assert tokenizer.calls == 2
    assert (prior.classes[ord("d")], prior.classes[0], prior.classes[200]) == (LOWER_PART, UNKNOWN, UNKNOWN)
    again = load_prior(tokenizer, folders=[library])
    assert again.classes.tolist() == prior.classes.tolist()
    assert again.index.tokens.tolist() == index.tokens.tolist()
    assert tokenizer.calls == 2
    load_prior(Bytes("other"), folders=[library])
    other = Bytes("other")
    load_prior(other, folders=[library])
    assert other.calls == 0


def test_what_nobody_opens_any_more_leaves_when_another_is_made(library, tmp_path):
    """Of those last opened over 30 days ago none is left; one that is opened is used, however old; a map stays good."""
    priors = tmp_path / "cache" / "priors"
    made = {}
    for name in ("old", "reopened", "young"):
        before = set(priors.glob("[!.]*"))
        index = load_prior(Bytes(name), folders=[library]).index
        made[name] = (set(priors.glob("[!.]*")) - before).pop()
        if name == "old":
            mapped, text = index, index.tokens.tolist()
    for name, days in (("old", 31), ("reopened", 31), ("young", 29)):
        os.utime(made[name], (time.time() - days * 86400,) * 2)
    load_prior(Bytes("reopened"), folders=[library])
    assert all(path.is_dir() for path in made.values()), "nothing leaves where nothing is made"
    load_prior(Bytes("new"), folders=[library])
    assert {name for name, path in made.items() if path.exists()} == {"reopened", "young"}
    assert len(list(priors.glob("[!.]*"))) == 3
    assert mapped.tokens.tolist() == text
    again = Bytes("old")
    assert load_prior(again, folders=[library]).index.tokens.tolist() == text
    assert again.calls == 2


def test_a_damaged_index_is_made_again(library, tmp_path):
    """Neither a cut file nor a changed byte is drafted from: the sources are indexed once more."""
    tokenizer = Bytes()
    whole = load_prior(tokenizer, folders=[library]).index.tokens.tolist()
    (file,) = (tmp_path / "cache").rglob("*.index")
    for damaged in (file.read_bytes()[:-100], file.read_bytes()[:4100] + b"\xff" + file.read_bytes()[4101:]):
        file.write_bytes(damaged)
        before = tokenizer.calls
        assert load_prior(tokenizer, folders=[library]).index.tokens.tolist() == whole
        assert tokenizer.calls == before + 2


@pytest.mark.parametrize("damage", [b"", b"no numbers", None])
def test_damaged_classes_are_made_again(library, tmp_path, damage):
    """So are the classes of tokens, where their file is cut, something else, or gone."""
    whole = load_prior(Bytes(), folders=[library])
    (file,) = (tmp_path / "cache").rglob("classes.npy")
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage)
    again = load_prior(Bytes(), folders=[library])
    assert again.classes.tolist() == whole.classes.tolist()
    assert again.index.tokens.tolist() == whole.index.tokens.tolist()


def test_without_a_cache_folder_there_is_a_warning_and_no_prior(tmp_path, monkeypatch):
    """A cache that is a file cannot hold an index; drafting goes on without one."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SUFFIXSPEC_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(SuffixspecWarning, match="drafting without a prior"):
        assert find_prior(Bytes("unwritable")) is None


def test_a_fresh_session_drafts_from_it(library):
    """Without history and without a repeat in the prompt, the text of the prior is proposed."""
    prior = load_prior(Bytes(), folders=[library])
    session = IndexDrafter(prior=prior, max_nodes=8).session()
    session.sync(np.array([*b"de"], np.int32))
    draft = session.draft()
    assert bytes(draft.token_ids[draft.best_chain()].tolist()).startswith(b"f on")
    assert IndexDrafter(max_nodes=8).session().draft().token_ids.size == 0


def test_without_sources_there_is_none(tmp_path):
    """A Python that came without its sources has no prior."""
    assert load_prior(Bytes(), folders=[tmp_path]) is None


def test_a_prior_that_comes_later_is_drafted_from_in_the_next_turn(library):
    """From the end of what the session has, as by one that had the prior from the start."""
    drafter = IndexDrafter()
    session = drafter.session()
    session.sync([*b"xyz de"])
    assert len(session.draft()) == 0
    drafter.prior = load_prior(Bytes(), folders=[library])
    session.sync([*b"xyz de"])
    late = session.draft()
    early = drafter.session()
    early.sync([*b"xyz de"])
    assert bytes(late.token_ids[late.best_chain()].tolist()).startswith(b"f on")
    assert early.draft().token_ids.tolist() == late.token_ids.tolist()
