"""What is imported when: a command that only explains itself starts at once."""

import json
import subprocess
import sys
from argparse import _SubParsersAction

from suffixspec.cli import build_parser

HEAVY = ("numba", "llvmlite", "torch", "transformers", "tokenizers", "suffixspec.native.tree")
RUN = """\
import json, sys
from suffixspec.cli import main
try:
    main(sys.argv[1:])
except SystemExit as ending:
    assert not ending.code, ending.code
print(json.dumps(sorted(sys.modules)))
"""


def modules_after(code: str, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_package_is_light():
    """``import suffixspec`` loads no compiler, no torch, no transformers."""
    loaded = modules_after("import json, sys, suffixspec; print(json.dumps(sorted(sys.modules)))")
    assert "suffixspec" in loaded
    assert not loaded & {*HEAVY, "numpy"}


def test_importing_the_kernel_package_compiles_nothing():
    """``import suffixspec.native`` alone does not load numba."""
    loaded = modules_after("import json, sys, suffixspec.native; print(json.dumps(sorted(sys.modules)))")
    assert "suffixspec.native" in loaded
    assert not loaded & set(HEAVY)


def test_help_is_light():
    """The help of suffixspec and of every command loads no compiler, no torch, no transformers."""
    (commands,) = (action for action in build_parser()._actions if isinstance(action, _SubParsersAction))
    assert {"replay", "convert", "estimate"} <= commands.choices.keys()
    for command in ([], *([name] for name in commands.choices)):
        loaded = modules_after(RUN, *command, "--help")
        assert "suffixspec.cli" in loaded
        assert not loaded & set(HEAVY), f"suffixspec {' '.join(command)} --help"


def test_estimating_is_light():
    """``suffixspec estimate`` computes without a compiler, torch or transformers."""
    loaded = modules_after(RUN, "estimate", "--alpha", "0.8", "--gamma", "5", "--c", "0")
    assert not loaded & set(HEAVY)


def test_replaying_loads_neither_torch_nor_transformers(tmp_path):
    """A replay with the tokenizer of a folder needs numba, and neither torch nor transformers."""
    loaded = modules_after(
        "import json, sys, suffixspec.replay.simulate, suffixspec.replay.report, suffixspec.draft\n"
        "import suffixspec.text.render, suffixspec.text.tokenizer\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    assert "numba" in loaded
    assert not loaded & {"torch", "transformers"}
