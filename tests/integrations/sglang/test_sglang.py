"""The registration and the worker, on stand-ins of SGLang's modules and classes: no SGLang, no GPU.

What needs them, SGLang's own verification with these drafts, is not run here.
"""

import json
import subprocess
import sys
from array import array
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from suffixspec.errors import InputError
from suffixspec.integrations.hosted.settings import Settings
from suffixspec.integrations.sglang import plugin
from suffixspec.integrations.sglang.algorithm import NAME, algorithm_class, fill_in
from suffixspec.integrations.sglang.batch_drafter import BatchDrafter
from suffixspec.integrations.sglang.request_view import accepted_lately
from suffixspec.integrations.sglang.worker import VARIABLE, settings, worker_class

NODES = 8


class Tensor:
    """What is used of a tensor."""

    def __init__(self, values):
        self._values = np.asarray(values)

    def cpu(self):
        """Here."""
        return self

    def reshape(self, *shape):
        """Another shape."""
        return Tensor(self._values.reshape(*shape))

    def tolist(self):
        """As lists."""
        return self._values.tolist()


class Base:
    """In the place of SGLang's n-gram worker."""

    def __init__(self, overlap):
        self.draft_token_num = NODES
        self.enable_overlap = overlap
        self.cleared = 0

    def clear_cache_pool(self):
        """Counts."""
        self.cleared += 1


def request(rid, prompt, output=(), **given):
    parameters = {"temperature": 0.0, "max_new_tokens": 100, "custom_params": None} | given
    return SimpleNamespace(
        rid=rid,
        origin_input_ids=array("q", prompt),
        origin_input_ids_unpadded=array("q", prompt),
        output_ids=array("q", output),
        sampling_params=SimpleNamespace(**parameters),
        eos_token_ids={2},
        lora_id=None,
    )


def batch(requests, accepted=None, known=None):
    lengths = [len(row) for row in accepted or [[]] * len(requests)]
    rows = [list(row) + [0] * (NODES - len(row)) for row in accepted or [[]] * len(requests)]
    totals = known or [len(one.origin_input_ids) + len(one.output_ids) for one in requests]
    return SimpleNamespace(
        reqs=requests,
        seq_lens_cpu=[total - 1 for total in totals],
        spec_info=SimpleNamespace(accept_tokens=Tensor(np.ravel(rows)), accept_lens=Tensor(lengths)),
        grammar_needs_sync=lambda: False,
    )


LOOPING = [5, 6, 7, 8, 9, 10] * 4


@pytest.fixture
def sglang(monkeypatch):
    """SGLang's modules, as far as registration and the worker's choice go."""
    registry = {}

    class CustomSpecAlgo:
        def __init__(self, name, factory, **options):
            self.name, self.factory, self.options = name, factory, options

    class SpeculativeAlgorithm:
        @classmethod
        def register(cls, name, *, supports_overlap, spec_class):
            def decorate(factory):
                registry[name] = spec_class(name, factory, supports_overlap=supports_overlap)
                return factory

            return decorate

    modules = {
        "sglang": {},
        "sglang.srt": {},
        "sglang.srt.speculative": {},
        "sglang.srt.speculative.spec_info": {"SpeculativeAlgorithm": SpeculativeAlgorithm},
        "sglang.srt.speculative.spec_registry": {
            "CustomSpecAlgo": CustomSpecAlgo,
            "get_spec": registry.get,
        },
        "sglang.srt.speculative.ngram_worker": {"NGRAMWorker": Base},
    }
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    return registry


def test_the_algorithm_is_registered_once_and_treated_as_n_gram_drafts_are(sglang):
    plugin.register()
    registered = sglang[NAME]
    plugin.register()
    assert sglang == {NAME: registered}
    assert registered.is_ngram()
    assert not registered.has_draft_kv()
    assert registered.options == {"supports_overlap": True}
    worker = registered.factory(SimpleNamespace())
    assert issubclass(worker, Base)


def test_without_sglang_the_plug_in_says_what_is_missing(caplog):
    plugin.register()
    assert "takes no algorithm SUFFIXSPEC" in caplog.text


def test_the_plug_in_imports_nothing_heavy():
    code = (
        "import sys; import suffixspec.integrations.sglang.plugin; "
        "heavy = {'numba', 'numpy', 'torch', 'sglang'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_entry_point_is_declared():
    import tomllib
    from pathlib import Path

    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    entry = project["entry-points"]["sglang.srt.plugins"]["suffixspec"]
    assert entry == f"{plugin.__name__}:{plugin.register.__name__}"


def test_what_the_user_left_open_is_filled_in():
    args = SimpleNamespace(
        device="cuda:0", max_running_requests=None, enable_mixed_chunk=True, speculative_num_draft_tokens=None
    )
    algorithm_class(object)().handle_server_args(args)
    assert args.speculative_num_draft_tokens == 16
    assert not args.enable_mixed_chunk
    assert args.max_running_requests == 48
    args = SimpleNamespace(device="cuda", max_running_requests=7, speculative_num_draft_tokens=5)
    fill_in(args)
    assert (args.max_running_requests, args.speculative_num_draft_tokens) == (7, 5)


@pytest.mark.parametrize("wrong", [{"device": "cpu"}, {"speculative_num_draft_tokens": 1}])
def test_what_cannot_work_is_refused(wrong):
    args = SimpleNamespace(**({"device": "cuda", "speculative_num_draft_tokens": 8} | wrong))
    with pytest.raises(ValueError, match="expected"):
        fill_in(args)


def test_a_batch_gets_a_tree_of_the_fixed_size_each():
    worker = worker_class(Base)(False)
    tokens, mask = worker._prepare_draft_tokens(batch([request("a", LOOPING), request("b", [50, 51, 52])]))
    assert tokens.shape == (2 * NODES,)
    assert mask.shape == (2 * NODES * NODES,)
    first, second = tokens.reshape(2, NODES).tolist()
    assert first == [10, 5, 6, 7, 8, 9, 10, 5]
    assert second[0] == 52


def test_the_text_grows_by_what_was_accepted_with_and_without_overlap():
    """With overlap, what was accepted may be in the output already, or not yet: never twice, never left out."""
    accepted = [5, 6, 40]
    plain, overlapping = worker_class(Base)(False), worker_class(Base)(True)
    for worker, output, known in (
        (plain, accepted, None),
        (overlapping, [], [len(LOOPING) + 3]),
        (overlapping, accepted, [len(LOOPING) + 3]),
    ):
        one = request("a", LOOPING)
        worker._prepare_draft_tokens(batch([one], [[]]))
        one.output_ids = array("q", output)
        tokens, _ = worker._prepare_draft_tokens(batch([one], [accepted], known))
        assert tokens[0] == 40
        live = worker.suffixspec._live["a"][1]
        assert live.lane.session.context.tolist() == [*LOOPING, *accepted]
        worker.clear_cache_pool()
    assert overlapping.cleared == 2


def test_how_much_was_accepted_lately_follows_from_the_lengths():
    assert accepted_lately(10, 13, [1, 2, 3]) == [1, 2, 3]
    assert accepted_lately(13, 13, [1, 2, 3]) == []
    assert accepted_lately(12, 13, [1, 2, 3]) == [3]
    assert accepted_lately(10, 14, [1, 2, 3]) == [], "more than is known: the next step reads it"


def test_a_request_that_leaves_is_released_and_goes_on_where_it_was_when_it_returns():
    drafter = BatchDrafter(Settings(), NODES)
    one, other = request("a", LOOPING), request("b", [9, 8, 7])
    drafter.trees([one, other])
    lane = drafter._live["a"][1].lane
    drafter.trees([other])
    assert "a" not in drafter._live
    assert not lane.busy
    one.output_ids = array("q", [5, 6, 7])
    drafter.trees([one, other])
    assert drafter._live["a"][1].lane is lane
    assert lane.session.context.tolist() == [*LOOPING, 5, 6, 7]


def test_the_next_turn_of_a_named_loop_goes_on_with_its_session():
    drafter = BatchDrafter(Settings(), NODES)
    named = {"custom_params": {"suffixspec_session": "loop"}}
    drafter.trees([request("a", LOOPING, [5, 6, 2], **named)])
    drafter.trees([])
    drafter.trees([request("b", [*LOOPING, 5, 6, 2, 30], **named)])
    assert [lane.key for lane in drafter.table] == ["loop"]


def test_a_failure_ends_drafting_for_that_request_and_nothing_else(monkeypatch, caplog):
    drafter = BatchDrafter(Settings(), NODES)
    good, bad = request("good", LOOPING), request("bad", [*LOOPING, 11])
    drafter.trees([good, bad])
    monkeypatch.setattr(drafter._live["bad"][1], "draft", lambda: 1 / 0)
    for _ in range(3):
        pending, trees = drafter.trees([good, bad])
        assert pending == [10, 11]
        assert len(trees[0]) > 0
        assert len(trees[1]) == 0
    assert len([one for one in caplog.records if one.exc_info]) == 1


def test_two_ranks_come_to_the_same_drafts():
    ranks = [BatchDrafter(Settings(), NODES, ranks=2) for _ in range(2)]
    given = [request("a", LOOPING), request("b", [*LOOPING, 5, 6])]
    for step in range(10):
        trees = [rank.trees(given)[1] for rank in ranks]
        for ours, theirs in zip(*trees, strict=True):
            assert ours.token_ids.tolist() == theirs.token_ids.tolist()
        for one in given:
            one.output_ids.append(5 + step % 3)


def test_settings_come_from_the_environment(monkeypatch):
    monkeypatch.setenv(VARIABLE, json.dumps({"namespace": "team"}))
    assert settings().namespace == "team"
    monkeypatch.setenv(VARIABLE, '{"max_node": 3}')
    with pytest.raises(InputError, match="max_node"):
        settings()
    monkeypatch.setenv(VARIABLE, "{")
    with pytest.raises(InputError, match="JSON"):
        settings()
    monkeypatch.delenv(VARIABLE)
    assert settings() == Settings()
