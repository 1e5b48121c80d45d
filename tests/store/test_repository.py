"""A repository's files: what git ignores is left out, with git and without; changes are read in, and no more."""

import os
import shutil
import subprocess
import time

import pytest

from suffixspec.errors import InputError
from suffixspec.store import HistoryStore
from suffixspec.store.ignore import IgnoreRules
from suffixspec.store.index_command import index
from suffixspec.store.repository import Repository

TREE = {
    ".gitignore": "*.log\n!keep.log\n/build/\n# comment\ndocs/**/draft.txt\n\\#odd\nnode_modules/\n",
    "a.py": "print(1)\n",
    "keep.log": "kept\n",
    "x.log": "no\n",
    "build/out.txt": "no\n",
    "src/build/in.txt": "yes\n",
    "src/.gitignore": "secret*\n!secret-not.txt\n/only-here.txt\n",
    "src/secret.txt": "no\n",
    "src/secret-not.txt": "yes\n",
    "src/only-here.txt": "no\n",
    "src/deep/only-here.txt": "yes\n",
    "docs/draft.txt": "no\n",
    "docs/a/b/draft.txt": "no\n",
    "node_modules/m/index.js": "no\n",
    "#odd": "no\n",
    "ü.txt": "yes\n",
}
INCLUDED = [
    ".gitignore", "a.py", "keep.log", "src/.gitignore", "src/build/in.txt", "src/deep/only-here.txt",
    "src/secret-not.txt", "ü.txt",
]  # fmt: skip


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "repo"
    for name, text in TREE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize("with_git", [False, True], ids=["own rules", "git"])
def test_what_git_ignores_is_left_out(tree, with_git):
    """Both ways list the same files: patterns, negation, anchors, folders, files further down."""
    if with_git:
        if shutil.which("git") is None:
            pytest.skip("needs git")
        subprocess.run(
            ["git", "init", "-q", str(tree)], check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
        )
    assert sorted(Repository(tree).paths()) == INCLUDED


def test_binary_large_secret_and_linked_files_are_left_out(tree):
    """They are counted by reason; an empty file is nothing."""
    (tree / "binary.py").write_bytes(b"a\0b")
    (tree / "latin.py").write_bytes(b"caf\xe9")
    (tree / "large.py").write_text("x" * 2000, encoding="utf-8")
    (tree / ".env").write_text("KEY=1", encoding="utf-8")
    (tree / "empty.py").touch()
    (tree / "link.py").symlink_to(tree / "a.py")
    repository = Repository(tree, most_bytes=1999)
    assert [file.path for file in repository.files()] == INCLUDED
    skipped = repository.skipped
    assert (skipped.binary, skipped.large, skipped.secret) == (
        ["binary.py", "latin.py"],
        ["large.py"],
        [".env"],
    )
    with pytest.raises(InputError, match="expected a folder, got a file"):
        Repository(tree / "a.py")


@pytest.mark.parametrize(
    ("pattern", "path", "ignored"),
    [
        ("*.py", "a/b.py", True),
        ("a/*.py", "a/b/c.py", False),
        ("a?c", "a/c", False),
        ("**/x", "x", True),
        ("a/**", "a/b/c", True),
        ("a/**/c", "a/c", True),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("a**b", "a/b", False),
        ("\\!x", "!x", True),
        ("x ", "x", True),
        ("x\\ ", "x ", True),
        ("[x", "[x", True),
    ],
)
def test_patterns_mean_what_git_says(pattern, path, ignored):
    """Stars stop at slashes, double stars between slashes do not, brackets, escapes, spaces at the end."""
    assert IgnoreRules().within("", pattern).ignores(path, is_folder=False) is ignored


class Letters:
    """A tokenizer of code points, which counts what it encodes."""

    vocabulary_fingerprint, name = "c" * 64, "letters"

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def encode(self, text: str, *, continues: bool = False) -> list[int]:  # noqa: ARG002 (the real one's)
        """Code points."""
        self.encoded.append(text)
        return [ord(char) for char in text]


def test_only_what_changed_is_read_in(tree, tmp_path):
    """A second run encodes nothing; a changed file replaces its old text on disk, a removed one leaves."""
    letters = Letters()
    with HistoryStore(tmp_path / "h", tokenizer=letters) as store:
        first = index(store, "n", Repository(tree))
        assert (first.added, first.changed, first.removed, first.unchanged) == (len(INCLUDED), 0, 0, 0)
        letters.encoded.clear()
        again = index(store, "n", Repository(tree))
        assert (again.added, again.unchanged, again.tokens, letters.encoded) == (0, len(INCLUDED), 0, [])
        (tree / "a.py").write_text("print(2)\n", encoding="utf-8")
        (tree / "keep.log").unlink()
        (tree / "new.py").write_text("new\n", encoding="utf-8")
        third = index(store, "n", Repository(tree))
        assert (third.added, third.changed, third.removed) == (1, 1, 1)
        assert sorted(letters.encoded) == ["new\n", "print(2)\n"]
        texts = [one.text for one in store.records("n")]
        assert "print(1)\n" not in texts
        assert "kept\n" not in texts
        assert len(texts) == len(INCLUDED)
        assert all(one.kind == "file" and one.time <= time.time() for one in store.records("n"))
        assert store.verify() == []
