"""The three ways to have suffixspec: installed, installed editable, and a checkout on the path.

Each is made from a copy of the tree in a virtual environment of its own, without network: third-party packages
come from the environment that runs the tests.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "suffixspec", "native")
APPEND = """\
import suffixspec.index, suffixspec.native.tree
tree = suffixspec.index.SuffixTree()
tree.extend([5, 6, 7, 5, 6])
assert tree.pending == 2, tree.pending
print(suffixspec.native.tree.__file__)
"""
FIND = """\
import suffixspec.index, suffixspec.native.tree
assert suffixspec.index.SuffixTree().find([5]) is None  # a kernel that compiles in half a second
print(suffixspec.native.tree.__file__)
"""


def copy_tree(folder: Path) -> Path:
    """What a fresh checkout holds of the project; no leftover build folder can leak into an installation."""
    folder.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            skip = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
            shutil.copytree(ROOT / name, folder / name, ignore=skip)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


class Environment:
    """A virtual environment that sees the third-party packages of this one, but not this one's suffixspec."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False, symlinks=os.name != "nt")
        self.bin = folder / ("Scripts" if os.name == "nt" else "bin")
        paths = {"base": str(folder), "platbase": str(folder)}
        self.packages = Path(sysconfig.get_path("purelib", "venv", paths))
        # A folder that a .pth file names is searched for modules; .pth files within it (such as the one of an
        # editable installation of suffixspec) are not read.
        own = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
        (self.packages / "parent.pth").write_text("\n".join(own), encoding="utf-8")
        self.environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PIP_", "NUMBA_"))},
            "SUFFIXSPEC_CACHE": str(folder / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, *command: str, cwd: Path, **environ: str) -> str:
        """Run a program of this environment; return its stdout."""
        command = (str(self.bin / command[0]), *command[1:])
        done = subprocess.run(
            command, cwd=cwd, env=self.environ | environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def install(self, *arguments: str, cwd: Path) -> None:
        """``pip install`` with nothing but what is here."""
        command = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install"]
        command += ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
        command += ["--no-build-isolation", "--ignore-installed", *arguments]
        done = subprocess.run(command, cwd=cwd, env=self.environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module", autouse=True)
def _build_tools():
    try:
        setuptools = int(version("setuptools").split(".")[0])
    except PackageNotFoundError:
        setuptools = 0
    assert setuptools >= 77, (
        f"expected setuptools 77 or later beside the tests (pip install -e '.[test]'), got {setuptools}"
    )
    assert importlib.util.find_spec("pip"), "expected pip in the environment of the tests, got none"


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Environment:
    """``pip install .``."""
    folder = tmp_path_factory.mktemp("installed")
    environment = Environment(folder / "venv")
    environment.install(".", cwd=copy_tree(folder / "checkout"))
    shutil.rmtree(folder / "checkout")
    return environment


def test_an_installation_has_working_kernels_without_the_checkout(installed, tmp_path):
    """After ``pip install .`` the kernels run, from the installed package, with the checkout deleted."""
    file = installed.run("python", "-c", APPEND, cwd=tmp_path).strip()
    assert Path(file) == installed.packages / "suffixspec" / "native" / "tree.py"
    assert installed.run("suffixspec", "--version", cwd=tmp_path).startswith("suffixspec ")


def test_an_installation_holds_every_file_of_the_package(installed):
    """Modules, ``py.typed``, templates: all that stands in suffixspec/ and native/ is installed, and no more."""
    wanted = {
        Path("suffixspec", path.relative_to(ROOT / "suffixspec")) for path in package_files("suffixspec")
    } | {Path("suffixspec", path.relative_to(ROOT)) for path in package_files("native")}
    home = installed.packages / "suffixspec"
    got = {
        path.relative_to(installed.packages)
        for path in home.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert got == wanted
    assert Path("suffixspec", "py.typed") in got
    assert Path("suffixspec", "replay", "report.html.j2") in got


@pytest.fixture(scope="module")
def editable(tmp_path_factory) -> tuple[Environment, Path]:
    """``pip install -e .``, and the checkout."""
    folder = tmp_path_factory.mktemp("editable")
    environment, checkout = Environment(folder / "venv"), copy_tree(folder / "checkout")
    environment.install("--editable", ".", cwd=checkout)
    return environment, checkout


def test_an_editable_installation_has_working_kernels(editable, tmp_path):
    """After ``pip install -e .`` the kernels run from the checkout, from whatever folder."""
    environment, checkout = editable
    file = environment.run("python", "-c", FIND, cwd=tmp_path).strip()
    assert Path(file) == checkout / "native" / "tree.py"
    assert environment.run("suffixspec", "--version", cwd=tmp_path).startswith("suffixspec ")


def test_a_checkout_on_the_path_brings_its_own_kernels(editable, tmp_path):
    """A second checkout on PYTHONPATH is used whole: its package does not run the installed one's kernels."""
    environment, _ = editable
    checkout = copy_tree(tmp_path / "second")
    code = "import suffixspec, suffixspec.native as n; print(suffixspec.__file__, n.__file__, sep='\\n')"
    files = environment.run("python", "-c", code, cwd=tmp_path, PYTHONPATH=str(checkout)).splitlines()
    assert [Path(file) for file in files] == [
        checkout / "suffixspec" / "__init__.py",
        checkout / "native" / "__init__.py",
    ]


def test_a_checkout_on_the_path_has_working_kernels(tmp_path):
    """Without any installation, a checkout on PYTHONPATH is enough."""
    checkout = copy_tree(tmp_path / "checkout")
    environment = Environment(tmp_path / "venv")
    file = environment.run("python", "-c", FIND, cwd=tmp_path, PYTHONPATH=str(checkout)).strip()
    assert Path(file) == checkout / "native" / "tree.py"
    text = environment.run(
        "python", "-m", "suffixspec.cli", "--version", cwd=tmp_path, PYTHONPATH=str(checkout)
    )
    assert text.startswith("suffixspec ")


def test_every_package_is_declared():
    """pyproject.toml names its packages one by one: each folder with modules is among them."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {path.parent for path in package_files("suffixspec") if path.suffix == ".py"}
    assert all((folder / "__init__.py").is_file() for folder in folders)
    found = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    assert sorted(declared["packages"]) == sorted(found | {"suffixspec.native"})
    assert declared["package-dir"]["suffixspec.native"] == "native"


def package_files(name: str) -> list[Path]:
    """Files of a source folder, without what Python and its tools leave there."""
    return [path for path in (ROOT / name).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
