"""History's folder and the prior inside SGLang: the same ones as inside vLLM, where one rank drafts."""

import json
import logging
import time
from array import array
from types import SimpleNamespace

import numpy as np
import pytest

from suffixspec.errors import InputError
from suffixspec.integrations.hosted.draft_sources import ServedModel
from suffixspec.integrations.hosted.settings import Settings
from suffixspec.integrations.sglang.batch_drafter import BatchDrafter
from suffixspec.integrations.sglang.worker import VARIABLE, served, settings, worker_class
from suffixspec.shared_prior import TokenizerSource

from ..vllm import test_shared_prior as priors
from .test_sglang import LOOPING, NODES, Base, request

KNOWN = priors.KNOWN
made = priors.made
TOY = ServedModel("toy", TokenizerSource("toy"), 100)


@pytest.fixture
def make(monkeypatch):
    """Drafters that are closed when the test ends; SmolLM2's tokenizer is in the place of each."""
    from suffixspec.text.tokenizer import load_tokenizer

    monkeypatch.setattr("suffixspec.text.tokenizer.load_tokenizer", lambda *_, **__: load_tokenizer())
    drafters = []

    def build(*, model=TOY, ranks=1, **given) -> BatchDrafter:
        drafters.append(BatchDrafter(Settings(**{"prior": False} | given), NODES, model=model, ranks=ranks))
        return drafters[-1]

    yield build
    for drafter in drafters:
        drafter.close()


@pytest.fixture
def prior(made, monkeypatch):
    """A prior that is there at once; gives what was asked for."""
    return priors.builder(monkeypatch, made[1])


def test_a_first_turn_is_drafted_from_the_prior(make, prior):
    drafter = make(prior=True)
    assert drafter.wait_for_prior(30) is not None
    _, (tree,) = drafter.trees([request("a", [3, 2, *KNOWN[:5]])])
    assert tree.token_ids[tree.best_chain()].tolist()[:3] == KNOWN[5:8]
    assert prior == [(TokenizerSource("toy"), 100)]


def test_several_ranks_draft_without_what_depends_on_the_time_and_say_so(make, prior, tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="suffixspec.sglang"):
        drafter = make(prior=True, history=str(tmp_path / "history"), ranks=2)
    assert drafter.wait_for_prior(1) is None
    assert prior == []
    assert not (tmp_path / "history").exists()
    assert "2 ranks have to come to the same drafts" in caplog.text
    assert drafter.table._idle_seconds == float("inf")
    assert make(idle_seconds=7.0).table._idle_seconds == 7.0


def test_another_server_drafts_from_what_one_wrote(make, tmp_path):
    given = {"history": str(tmp_path), "history_eviction": "least-useful"}
    first = make(**given)
    assert first._sources.saved.store.budget.eviction == "least-useful"
    text = [int(token) for token in np.random.default_rng(0).integers(20, 90, 60)]
    one = request("a", [3, 4, 5])
    for done in range(0, 60, 6):
        one.output_ids = array("q", text[:done])
        first.trees([one])
    one.output_ids = array("q", text)
    first.close()
    second = make(**given)
    second._sources.saved.session("default", "look").close()
    second._sources.saved.load("default")
    # Its last tokens too, behind which nobody asked for a draft.
    _, (tree,) = second.trees([request("b", [3, *text[40:56]])])
    assert tree.token_ids[tree.best_chain()].tolist()[:4] == text[56:]


def test_a_finished_request_is_on_disk_though_nobody_asks_for_a_draft_any_more(make, tmp_path):
    """A server without work may be killed."""
    drafter = make(history=str(tmp_path))
    one = request("a", LOOPING)
    drafter.trees([one])
    one.output_ids = array("q", [5, 6, 7])
    drafter.finish("a")
    assert not drafter._live
    (lane,) = drafter.table
    assert lane.session.context.tolist() == [*LOOPING, 5, 6, 7]
    for _ in range(200):  # a thread writes
        if any(path.stat().st_size for path in tmp_path.glob("namespaces/*/*")):
            break
        time.sleep(0.05)
    assert any(path.stat().st_size for path in tmp_path.glob("namespaces/*/*"))


def test_a_disk_that_is_full_when_an_idle_loop_ends_is_said_and_breaks_nothing(make, monkeypatch, caplog):
    drafter = make(idle_seconds=1e-9)
    drafter.trees([request("a", LOOPING)])
    with monkeypatch.context() as full:
        full.setattr(drafter.table, "drop", lambda _: 1 / 0)
        drafter.trees([])
        pending, (tree,) = drafter.trees([request("b", [*LOOPING, 5])])
        assert pending == [5]
        assert len(tree) > 0
    assert len([one for one in caplog.records if one.exc_info]) == 1


def test_a_cleared_cache_keeps_what_is_in_the_folder(make, tmp_path):
    for folder, kept in ((tmp_path / "history", True), (None, False)):
        drafter = make(history=None if folder is None else str(folder))
        one = request("a", LOOPING)
        drafter.trees([one])
        one.output_ids = array("q", [5, 6, 7])
        drafter.trees([one])
        drafter.trees([])
        drafter.table.close()  # as after a while
        assert len(drafter.drafter.history) > 0
        drafter.trees([request("b", LOOPING)])
        drafter.clear()
        assert len(drafter.table) == 0
        assert (len(drafter.drafter.history) > 0) == kept


def test_prompts_of_all_requests_together_are_indexed_in_slices(make):
    drafter = make(index_tokens=30)
    drafter.trees([request("a", LOOPING), request("b", LOOPING[:20] + [40] * 4)])
    assert [len(live.lane.session.context) for _, live in drafter._live.values()] == [24, 6]


def test_a_failure_at_the_end_of_a_request_costs_its_session_only(make, monkeypatch, caplog):
    drafter = make()
    good, bad = request("good", LOOPING), request("bad", [*LOOPING, 11])
    drafter.trees([good, bad])
    monkeypatch.setattr(drafter._live["bad"][1], "read", lambda *_: 1 / 0)
    drafter.trees([good])
    drafter.trees([])
    assert [lane.session.context.tolist() for lane in drafter.table] == [LOOPING]
    assert len([one for one in caplog.records if one.exc_info]) == 1


def test_after_its_end_a_drafter_gives_empty_trees(make):
    drafter = make()
    drafter.trees([request("a", LOOPING)])
    drafter.close()
    drafter.close()
    assert [len(tree) for tree in drafter.trees([request("b", LOOPING)])[1]] == [0]
    assert len(drafter.table) == 0


def test_the_served_tokenizer_is_read_from_sglangs_arguments():
    args = SimpleNamespace(
        model_path="owner/model", tokenizer_path="owner/tokens", revision="4f2a", trust_remote_code=True
    )
    worker = SimpleNamespace(model_config=SimpleNamespace(vocab_size=23))
    assert served(args, worker) == ServedModel(
        "owner/model", TokenizerSource("owner/tokens", "4f2a", True), 23
    )
    assert served(SimpleNamespace(model_path="m")) == ServedModel("m", TokenizerSource("m"))
    assert served(None) is None


def test_the_worker_hands_on_its_arguments_however_they_are_given(prior):
    class Worker(Base):
        def __init__(self, server_args, gpu_id):  # noqa: ARG002  # as SGLang's
            super().__init__(False)
            self.target_worker = SimpleNamespace(model_config=SimpleNamespace(vocab_size=23))

    for ranks, has_prior in ((1, True), (2, False)):
        args = SimpleNamespace(model_path="owner/model", tp_size=ranks)
        for worker in (worker_class(Worker)(args, 0), worker_class(Worker)(server_args=args, gpu_id=0)):
            assert (worker.suffixspec.wait_for_prior(30) is not None) == has_prior
            worker.suffixspec.close()
    assert prior == [(TokenizerSource("owner/model"), 23)] * 2


@pytest.mark.parametrize("name", ["cost", "max_nodes", "draft_seeded", "draft_tokens", "draft_ms"])
def test_a_setting_that_decides_nothing_in_sglang_is_refused(name, monkeypatch):
    monkeypatch.setenv(VARIABLE, json.dumps({name: 1, "namespace": "team"}))
    with pytest.raises(InputError, match=rf"inside SGLang \(namespace, prior, .*\), got {name};"):
        settings()
