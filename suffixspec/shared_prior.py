"""The prior of the served tokenizer, built and opened beside somebody else's engine: ``python -m`` this builds it.

Building takes half a minute of a core and loads a tokenizer. Neither belongs into the process that runs forwards, so
another one does it, at the lowest priority, and says in which folder it is; here its file is mapped, and its pages are
shared with all servers of this machine. Of several that are started together one builds, the others wait for it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from suffixspec.draft.prior import Prior, load_prior
from suffixspec.errors import SuffixspecError

if TYPE_CHECKING:
    from suffixspec.text.tokenizer import Tokenizer

_LONGEST_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class TokenizerSource:
    """Where the tokenizer of a served model is from, as its server was told.

    Args:
        name: what ``load_tokenizer`` takes: a folder, a file, or a hub ID.
        revision: branch, tag or commit on the hub; None: the main one.
        trust_remote_code: whether code of the repository may be run.
    """

    name: str
    revision: str | None = None
    trust_remote_code: bool = False

    def load(self) -> Tokenizer:
        """The tokenizer.

        Raises:
            InputError: none there.
        """
        from suffixspec.text.tokenizer import load_tokenizer

        return load_tokenizer(self.name, revision=self.revision, trust_remote_code=self.trust_remote_code)

    @property
    def arguments(self) -> list[str]:
        """It, on the command line of this module."""
        given = ["--trust-remote-code"] if self.trust_remote_code else []
        if self.revision is not None:
            given.append(f"--revision={self.revision}")
        return [*given, "--", self.name]


class SharedPrior:
    """Opens the prior of a tokenizer in the background; where that fails, it is logged once and there is none.

    Args:
        tokenizer: of the served model.
        vocabulary: tokens that the target knows; a prior with others is not used. None: not known.
        opened: called with it, on another thread, once it is there.
        logger: of the server.
        command: builds it; None: this module, in a process of its own.
    """

    def __init__(
        self,
        tokenizer: TokenizerSource,
        *,
        vocabulary: int | None,
        opened: Callable[[Prior], None],
        logger: logging.Logger,
        command: Sequence[str] | None = None,
    ) -> None:
        self._command = list(command or (sys.executable, "-m", __name__, *tokenizer.arguments))
        self._logger = logger
        self._vocabulary = vocabulary
        self._opened = opened
        self._closed = threading.Event()
        self._begun = threading.Lock()
        self._builder: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._run, name="suffixspec-prior", daemon=True)
        self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is opened or has failed; False where that takes longer than ``timeout`` seconds."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def close(self) -> None:
        """Give up what is not done yet, and end the process that builds."""
        self._closed.set()
        with self._begun:
            if self._builder is not None and self._builder.poll() is None:
                self._builder.terminate()
        self._thread.join(10.0)

    def _run(self) -> None:
        try:
            prior = self._open(self._build())
        except Exception as error:  # noqa: BLE001  # nothing depends on a prior
            if not self._closed.is_set():
                self._logger.warning(
                    "suffixspec: drafting without the sources of Python and packages: %s", error
                )
            return
        if not self._closed.is_set():
            self._opened(prior)
            self._logger.info("suffixspec: drafting from the sources of Python and packages, too")

    def _build(self) -> Path:
        with self._begun:
            if self._closed.is_set():
                raise SuffixspecError("closed")
            builder = self._builder = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        try:
            said, errors = builder.communicate(timeout=_LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            builder.kill()
            builder.communicate()
            raise SuffixspecError(f"expected them within {_LONGEST_SECONDS:g} s") from None
        if builder.returncode:
            raise SuffixspecError((errors.strip().splitlines() or [f"exit {builder.returncode}"])[-1])
        told = json.loads(said.strip().splitlines()[-1])
        if self._vocabulary is not None and told["largest"] >= self._vocabulary:
            raise SuffixspecError(
                f"expected tokens below {self._vocabulary}, which the model knows, got {told['largest']} of the"
                " tokenizer"
            )
        return Path(told["folder"])

    def _open(self, folder: Path) -> Prior:
        prior = Prior.open(folder)
        prior.index.prefault(stop=self._closed.is_set)
        return prior


def build(tokenizer: TokenizerSource) -> dict[str, object]:
    """Build a tokenizer's prior unless it is there: its folder, and the largest token in it.

    Raises:
        SuffixspecError: no such tokenizer, or no sources.
        OSError: the cache cannot be written.
    """
    prior = load_prior(tokenizer.load())
    if prior is None or prior.folder is None:
        raise SuffixspecError("expected sources of Python, got none")
    return {"folder": str(prior.folder.absolute()), "largest": int(prior.index.tokens.max(initial=0))}


def _main() -> None:
    with contextlib.suppress(AttributeError, OSError):
        os.nice(19)
    parser = argparse.ArgumentParser(description="Build the prior of a tokenizer; says where it is, as JSON.")
    parser.add_argument("tokenizer", help="a folder, a file, or a hub ID")
    parser.add_argument("--revision", help="branch, tag or commit on the hub")
    parser.add_argument("--trust-remote-code", action="store_true", help="code of the repository may be run")
    args = parser.parse_args()
    try:
        told = build(TokenizerSource(args.tokenizer, args.revision, args.trust_remote_code))
    except (SuffixspecError, OSError) as error:
        sys.exit(str(error).replace("\n", " "))
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    _main()
