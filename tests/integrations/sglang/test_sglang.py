"""The registration and the worker, on stand-ins of SGLang's modules and classes: no SGLang, no GPU.

The stand-ins have what 0.5.23 has; ``test_contract`` asks SGLang itself.
"""

import copy
import json
import subprocess
import sys
from array import array
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from suffixspec.errors import InputError
from suffixspec.integrations.hosted.live_request import end_ids, stop_ids
from suffixspec.integrations.hosted.settings import Settings
from suffixspec.integrations.sglang import plugin
from suffixspec.integrations.sglang.algorithm import NAME, algorithm_class, fill_in
from suffixspec.integrations.sglang.batch_drafter import BatchDrafter
from suffixspec.integrations.sglang.request_view import RequestView, accepted_lately
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

    def __init__(self, overlap, topk=2):
        self.draft_token_num = NODES
        self.enable_overlap = overlap
        self.topk = topk
        self.cleared = 0
        self.finished = []

    def clear_cache_pool(self):
        """Counts."""
        self.cleared += 1

    def note_request_finished(self, *, rid, natural_stop):
        """Notes."""
        self.finished.append((rid, natural_stop))


def request(rid, prompt, output=(), *, padded=None, **given):
    # Greedy, as SGLang says it.
    parameters = {
        "temperature": 1.0,
        "top_k": 1,
        "max_new_tokens": 100,
        "min_new_tokens": 0,
        "stop_token_ids": None,
        "ignore_eos": False,
        "custom_params": None,
    } | given
    return SimpleNamespace(
        rid=rid,
        origin_input_ids=array("q", prompt if padded is None else padded),
        origin_input_ids_unpadded=array("q", prompt),
        output_ids=array("q", output),
        tokenizer=None,
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

    class Builtin:
        _value_ = 7  # it is a member of an enumeration

        def is_ngram(self):
            return True

        def create_future_map(self, *given):
            return ("n-gram's", *given)

    class SpeculativeAlgorithm:
        NGRAM = Builtin()

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
    assert registered.create_future_map(1) == ("n-gram's", 1), "what the base class has not"
    assert not hasattr(registered, "is_unheard_of")
    assert not hasattr(registered, "_value_"), "no member of SGLang's enumeration"
    assert copy.copy(registered).name == registered.name
    worker = registered.factory(SimpleNamespace())
    assert issubclass(worker, Base)


def test_without_sglang_the_plug_in_says_what_is_missing(caplog, monkeypatch):
    monkeypatch.setitem(sys.modules, "sglang.srt.speculative.spec_info", None)
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


def arguments(**given):
    """Those that are read, with SGLang's defaults on a GPU."""
    return SimpleNamespace(
        **{
            "device": "cuda",
            "disable_overlap_schedule": False,
            "max_running_requests": None,
            "enable_mixed_chunk": True,
            "page_size": 1,
            "attention_backend": "fa3",
            "attn_dp_size": 1,
            "disaggregation_mode": "null",
            "speculative_num_draft_tokens": None,
            "speculative_eagle_topk": None,
            "speculative_num_steps": None,
            "speculative_ngram_capacity": 10_000_000,
            "speculative_ngram_external_corpus_path": None,
        }
        | given
    )


def test_what_the_user_left_open_is_filled_in():
    args = arguments()
    algorithm_class(object)().handle_server_args(args)
    assert args.speculative_num_draft_tokens == 16
    assert not args.enable_mixed_chunk
    assert args.max_running_requests == 48
    assert args.speculative_ngram_capacity <= 10_000, "SGLang's corpus is made, and not asked"
    assert not args.disable_overlap_schedule
    args = arguments(max_running_requests=7, speculative_num_draft_tokens=5)
    fill_in(args)
    assert (args.max_running_requests, args.speculative_num_draft_tokens) == (7, 5)


@pytest.mark.parametrize(("nodes", "topk"), [(2, 1), (3, 2), (16, 2)])
def test_no_more_kv_is_set_aside_than_the_tree_has_nodes(nodes, topk):
    """SGLang sets steps x topk tokens aside for each request; a topk of 1 says that all trees are chains."""
    args = arguments(speculative_num_draft_tokens=nodes)
    fill_in(args)
    assert args.speculative_eagle_topk == topk
    assert 1 <= args.speculative_num_steps * topk <= nodes


def test_what_the_user_said_of_the_tree_stays():
    args = arguments(speculative_eagle_topk=4, speculative_num_steps=3)
    fill_in(args)
    assert (args.speculative_eagle_topk, args.speculative_num_steps) == (4, 3)


def test_a_cpu_has_no_overlap_and_other_devices_keep_theirs():
    for device, without in (("cpu", True), ("cuda", False), ("xpu", False)):
        args = arguments(device=device)
        fill_in(args)
        assert args.disable_overlap_schedule == without


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"device": "npu"}, "cuda, cpu, xpu"),
        ({"speculative_num_draft_tokens": 1}, "at least 2"),
        ({"speculative_eagle_topk": 0}, "1 for chains"),
        ({"page_size": 16}, "--page-size 1, --attention-backend flashinfer, or --speculative-eagle-topk 1"),
        ({"attn_dp_size": 2}, "data-parallel attention"),
        ({"disaggregation_mode": "decode"}, "--disaggregation-mode"),
        ({"speculative_ngram_external_corpus_path": "a.jsonl"}, "external-corpus-path"),
    ],
)
def test_what_cannot_work_is_refused_with_what_to_do(wrong, says):
    with pytest.raises(ValueError, match=f"expected .*{says}"):
        fill_in(arguments(**wrong))


@pytest.mark.parametrize("other", [{"attention_backend": "flashinfer"}, {"speculative_eagle_topk": 1}])
def test_larger_pages_go_with_flashinfer_or_with_chains(other):
    fill_in(arguments(page_size=16, **other))


def test_a_batch_gets_a_tree_of_the_fixed_size_each():
    worker = worker_class(Base)(False)
    tokens, mask = worker._prepare_draft_tokens(batch([request("a", LOOPING), request("b", [50, 51, 52])]))
    assert tokens.shape == (2 * NODES,)
    assert mask.shape == (2 * NODES * NODES,)
    first, second = tokens.reshape(2, NODES).tolist()
    assert first == [10, 5, 6, 7, 8, 9, 10, 5]
    assert second[0] == 52


def test_chains_where_the_kernels_verify_chains_only():
    """With a topk of 1 they take each node for the child of the one before it."""
    parents = {}
    for topk in (1, 2):
        worker = worker_class(Base)(False, topk)
        # Behind 5, 6 both 7 and 20 have come.
        _, mask = worker._prepare_draft_tokens(batch([request("a", [5, 6, 7, 8, 5, 6, 20, 21, 5, 6])]))
        tree = mask.reshape(NODES, NODES)
        parents[topk] = [int(np.flatnonzero(tree[i, :i])[-1]) for i in range(1, NODES)]
    assert parents[1] == list(range(NODES - 1))
    assert parents[2] != parents[1]


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
    one = request("a", range(1, 9), [9, 10])
    assert accepted_lately(one, 13, [1, 2, 3]) == [1, 2, 3]
    assert accepted_lately(one, 10, [1, 2, 3]) == []
    assert accepted_lately(one, 11, [1, 2, 3]) == [3]
    assert accepted_lately(one, 14, [1, 2, 3]) == [], "more than is known: the next step reads it"


def test_the_pending_token_is_the_last_one_accepted_whatever_the_scheduler_knows():
    """A forward that did not follow it would change the output. Tokens that are missing cost drafts only."""
    worker = worker_class(Base)(True)
    one = request("a", LOOPING)
    tokens, _ = worker._prepare_draft_tokens(batch([one], [[5, 6, 40]], [len(LOOPING) + 9]))
    assert tokens.tolist() == [40] + [0] * (NODES - 1)
    one.output_ids = array("q", range(5, 14))
    tokens, _ = worker._prepare_draft_tokens(batch([one], [[12, 13]], [len(LOOPING) + 9]))
    assert tokens[0] == 13


def test_images_count_in_lengths_and_are_no_tokens():
    """Their places in the padded prompt hold identities, more or fewer than the prompt has tokens for them."""
    worker = worker_class(Base)(True)
    padded = [LOOPING[0], *[10**12] * 50, *LOOPING[1:]]
    one = request("a", LOOPING, padded=padded)
    tokens, _ = worker._prepare_draft_tokens(batch([one], [[5, 6]], [len(padded) + 2]))
    assert tokens[:4].tolist() == [6, 7, 8, 9]
    assert worker.suffixspec._live["a"][1].lane.session.context.tolist() == [*LOOPING, 5, 6]


def test_a_temperature_and_what_ends_an_output_are_read_as_sglang_means_them():
    greedy = RequestView(request("a", [1])).sampling_params
    assert greedy.temperature == 0.0
    sampled = request("a", [1], top_k=1 << 30, temperature=0.7, stop_token_ids={9})
    sampled.tokenizer = SimpleNamespace(eos_token_id=3, additional_stop_token_ids={4})
    params = RequestView(sampled).sampling_params
    assert params.temperature == 0.7
    assert stop_ids(params) == end_ids(params) == {2, 3, 4, 9}
    ignoring = RequestView(request("a", [1], ignore_eos=True, stop_token_ids={9})).sampling_params
    assert stop_ids(ignoring) == set(), "SGLang then looks at no token"
    assert end_ids(ignoring) == {2, 9}


def test_what_a_stop_string_cut_off_is_no_part_of_the_loop():
    drafter = BatchDrafter(Settings(), NODES)
    one = request("a", LOOPING)
    drafter.trees([one])
    one.output_ids = array("q", [5, 6, 7, 8])
    one.output_ids_through_stop = one.output_ids[:2]
    drafter.finish("a")
    (lane,) = drafter.table
    assert lane.session.context.tolist() == [*LOOPING, 5, 6]


def test_a_finished_request_is_released_at_once_and_others_are_not():
    worker = worker_class(Base)(False)
    one, other = request("a", LOOPING), request("b", [9, 8, 7])
    worker._prepare_draft_tokens(batch([one, other]))
    one.output_ids = array("q", [5, 6, 2])
    worker.note_request_finished(rid="a", natural_stop=True)
    worker.note_request_finished(rid="never seen", natural_stop=False)
    assert worker.finished == [("a", True), ("never seen", False)], "SGLang's own is called, too"
    assert list(worker.suffixspec._live) == ["b"]
    busy = {tuple(lane.session.context.tolist()): lane.busy for lane in worker.suffixspec.table}
    assert busy == {(*LOOPING, 5, 6, 2): False, (9, 8, 7): True}


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


def test_a_rank_without_memory_stops_rather_than_draft_otherwise_than_the_rest(monkeypatch):
    def full():
        raise MemoryError

    for ranks in (1, 2):
        drafter = BatchDrafter(Settings(), NODES, ranks=ranks)
        one = request("a", LOOPING)
        drafter.trees([one])
        monkeypatch.setattr(drafter._live["a"][1], "draft", full)
        if ranks == 1:
            assert len(drafter.trees([one])[1][0]) == 0
        else:
            with pytest.raises(MemoryError):
                drafter.trees([one])


def test_two_ranks_come_to_the_same_drafts():
    ranks = [BatchDrafter(Settings(), NODES, ranks=2) for _ in range(2)]
    given = [request("a", LOOPING), request("b", [*LOOPING, 5, 6])]
    for step in range(10):
        trees = [rank.trees(given)[1] for rank in ranks]
        for ours, theirs in zip(*trees, strict=True):
            assert ours.token_ids.tolist() == theirs.token_ids.tolist()
        for one in given:
            one.output_ids.append(5 + step % 3)


def test_the_session_used_last_is_the_same_on_all_ranks_though_their_clocks_stand(monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 7.0)
    drafter = BatchDrafter(Settings(), NODES, ranks=2)
    prompt = [50, 51, 52]
    for rid in ("a", "b"):  # two loops that begin alike
        drafter.trees([request(rid, prompt), request("other", [9, 8])])
        drafter._live[rid][1].lane.key = rid
        drafter.trees([request("a", prompt), request("b", prompt)])
    lanes = {rid: live.lane for rid, (_, live) in drafter._live.items()}
    drafter.finish("a")
    drafter.finish("b")
    drafter.trees([request("c", [*prompt, 53])])
    assert drafter._live["c"][1].lane is lanes["b"]


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
