"""The same run with compiled and with interpreted kernels."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numba

ROOT = Path(__file__).resolve().parents[2]


def assert_other_mode_agrees(transcript: Callable[[int], list], module: str, seeds: int) -> None:
    """A process of its own, in the other mode, gets the same transcript for the seeds 0 to ``seeds`` - 1.

    Args:
        transcript: plain values that JSON holds, from a seed; a function of that name in the test module.
        module: the test module's name.
        seeds: how many.
    """
    code = (
        "import json, sys; sys.path[:0] = sys.argv[1:]\n"
        "import numba\n"
        f"from index.{module} import transcript\n"
        f"print(json.dumps([bool(numba.config.DISABLE_JIT), [transcript(seed) for seed in range({seeds})]]))"
    )
    interpreted = bool(numba.config.DISABLE_JIT)
    done = subprocess.run(
        [sys.executable, "-c", code, str(ROOT), str(ROOT / "tests")],
        env={**os.environ, "NUMBA_DISABLE_JIT": "0" if interpreted else "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    their_mode, theirs = json.loads(done.stdout)
    assert their_mode != interpreted
    for seed in range(seeds):
        for step, (mine, other) in enumerate(zip(transcript(seed), theirs[seed], strict=True)):
            assert mine == other, f"seed {seed}, entry {step}"
