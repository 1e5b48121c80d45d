"""The prior inside vLLM: built by another process, opened in the background, and nothing depends on it."""

import json
import logging
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from suffixspec.draft.prior import Prior
from suffixspec.index.sealed import SealedIndex
from suffixspec.integrations.vllm import Proposer
from suffixspec.shared_prior import SharedPrior, TokenizerSource

from .rig import END, Engine, vllm_config

LOGGER = logging.getLogger("vllm.suffixspec")
KNOWN = [5, 9, 7, 11, 6, 13, 8, 12, 10, 4]


@pytest.fixture
def made(tmp_path):
    """A prior's folder, and the command that says so."""
    index = SealedIndex.build(np.array([*KNOWN, -1] * 3, np.int32))
    Prior(index, np.arange(14, dtype=np.uint8)).save(tmp_path)
    return tmp_path, says(tmp_path)


def says(folder: Path, largest: int = max(KNOWN), before: str = "") -> list[str]:
    return [
        sys.executable,
        "-c",
        f"{before}\nprint({json.dumps({'folder': str(folder), 'largest': largest})!r})",
    ]


def opened_by(command, *, vocabulary=None):
    found = []
    SharedPrior(
        TokenizerSource("toy"), vocabulary=vocabulary, opened=found.append, logger=LOGGER, command=command
    ).wait(30)
    return found


def builder(monkeypatch, command):
    """What proposers build by, in the place of the module's own command; gives what they asked for."""
    asked = []

    def made_by(tokenizer, **given):
        asked.append((tokenizer, given["vocabulary"]))
        return SharedPrior(tokenizer, **given, command=command)

    monkeypatch.setattr("suffixspec.integrations.hosted.draft_sources.SharedPrior", made_by)
    return asked


def test_what_was_built_is_opened_and_read_ahead(made):
    folder, command = made
    (prior,) = opened_by(command)
    assert prior.folder == folder
    assert prior.index.resident
    assert prior.classes.tolist() == list(range(14))


def test_a_prior_with_tokens_that_the_model_does_not_know_is_not_used(made, caplog):
    """A draft of one would be looked up beyond the end of the embeddings."""
    with caplog.at_level(logging.WARNING, logger="vllm.suffixspec"):
        assert opened_by(made[1], vocabulary=max(KNOWN)) == []
    assert "tokens below 13" in caplog.text
    assert len(opened_by(made[1], vocabulary=max(KNOWN) + 1)) == 1


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ([sys.executable, "-c", "import sys; sys.exit('no such tokenizer')"], "no such tokenizer"),
        ([sys.executable, "-c", "print('nonsense')"], "Expecting value"),
        (["/nowhere/python"], "nowhere"),
    ],
)
def test_a_prior_that_cannot_be_made_is_said_once_and_drafting_goes_on(command, said, monkeypatch, caplog):
    builder(monkeypatch, command)
    with caplog.at_level(logging.WARNING, logger="vllm.suffixspec"):
        proposer = Proposer(vllm_config(settings={"prior": True}))
        assert proposer.wait_for_prior(30) is None
        engine = Engine(proposer)
        engine.add("r", [5, 6, 7] * 6, max_tokens=60, eos_token_id=None)
        engine.run()
        proposer.close()
    (record,) = caplog.records
    assert said in record.message
    assert engine.longest > 0


def test_a_first_turn_is_drafted_from_the_prior(made, monkeypatch):
    asked = builder(monkeypatch, made[1])
    config = vllm_config(settings={"prior": True})
    config.model_config.tokenizer, config.model_config.get_vocab_size = "served/tokenizer", lambda: 23
    proposer = Proposer(config)
    assert proposer.wait_for_prior(30) is not None
    assert asked == [(TokenizerSource("served/tokenizer"), 23)]
    session = proposer.drafter.session()
    session.sync([3, END, *KNOWN[:5]])
    draft = session.draft()
    assert draft.token_ids[draft.best_chain()].tolist()[:3] == KNOWN[5:8]
    proposer.close()


def test_starting_does_not_wait_for_it_and_the_end_does_not_either(made, tmp_path, monkeypatch):
    """The builder waits for a file that never comes: the engine runs, and closing ends the builder."""
    marker = tmp_path / "pid"
    wait = f"import os, time, pathlib; pathlib.Path({str(marker)!r}).write_text(str(os.getpid())); time.sleep(600)"
    builder(monkeypatch, says(made[0], before=wait))
    proposer = Proposer(vllm_config(settings={"prior": True}))
    engine = Engine(proposer)
    engine.add("r", [5, 6, 7] * 6, max_tokens=60, eos_token_id=None)
    engine.run()
    assert engine.longest > 0
    assert proposer.wait_for_prior(0.01) is None
    for _ in range(600):
        if marker.exists():
            break
        time.sleep(0.05)
    proposer.close()
    assert proposer._sources._prior.wait(30)
    assert proposer._sources._prior._builder.poll() is not None
    assert proposer.drafter.prior is None


def test_where_it_is_not_wanted_or_not_used_nothing_is_built(monkeypatch):
    """By the setting, on a rank that does not draft, and where each rank decides on its own."""
    asked = builder(monkeypatch, ["/nowhere/python"])
    for given in (
        {"settings": {"prior": False}},
        {"settings": {"prior": True}, "tensor_parallel": 2, "rank": 1},
        {"settings": {"prior": True}, "backend": "external_launcher"},
    ):
        proposer = Proposer(vllm_config(**given))
        assert proposer.wait_for_prior() is None
        proposer.close()
    assert asked == []
    proposer = Proposer(vllm_config(settings={"prior": True}))
    proposer.wait_for_prior(30)
    proposer.close()
    assert asked == [(TokenizerSource("toy"), None)]


BUILD = """
import sys, pathlib
from suffixspec import shared_prior
from suffixspec.draft import prior

folder, calls = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
prior._folders = lambda: [folder]
save = prior._save
def counted(*args):
    with calls.open("a") as file:
        file.write("built\\n")
    save(*args)
prior._save = counted
sys.argv[1:] = [sys.argv[3]]
shared_prior._main()
"""


def test_servers_that_are_started_together_build_it_once(tmp_path, monkeypatch):
    from tokenizers import Tokenizer, models, pre_tokenizers

    monkeypatch.setenv("SUFFIXSPEC_CACHE", str(tmp_path / "cache"))
    words = Tokenizer(models.WordLevel({"?": 0, "import": 1, "sys": 2}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "source").mkdir()
    for number in range(20):
        (tmp_path / "source" / f"{number:02}.py").write_text("import sys\n" * 2000)
    calls = tmp_path / "calls"
    command = [
        sys.executable,
        "-c",
        BUILD,
        str(tmp_path / "source"),
        str(calls),
        str(tmp_path / "tokenizer.json"),
    ]
    servers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    told = {server.communicate(timeout=120)[0] for server in servers}
    (one,) = told
    assert json.loads(one)["largest"] == 2
    assert Prior.open(Path(json.loads(one)["folder"])).index.tokens.tolist().count(2) == 20 * 2000
    assert calls.read_text() == "built\n"


def test_the_builder_says_in_one_line_what_is_wrong(tmp_path):
    command = [sys.executable, "-m", "suffixspec.shared_prior", str(tmp_path / "none.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "none.json" in done.stderr
    assert len(done.stderr.splitlines()) == 1
