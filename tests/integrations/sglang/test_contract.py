"""The contract with SGLang itself. Skipped where SGLang is not installed; its kernels are stand-ins."""

import importlib.util
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from suffixspec.integrations.hosted.live_request import end_ids, stop_ids
from suffixspec.integrations.sglang.algorithm import NAME
from suffixspec.integrations.sglang.request_view import RequestView
from suffixspec.integrations.sglang.worker import served

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("sglang") is None,
    reason="NOT RUN: SGLang is not installed here; bench/sglang/contract makes an environment with it and runs this",
)

PROMPT = [5, 6, 7, 8, 9, 10] * 5
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 64,
    "max_position_embeddings": 2048,
    "eos_token_id": 1,
}


@pytest.fixture(scope="module")
def registered():
    """The algorithm, as SGLang's own loader of plug-ins has it registered."""
    from . import kernels

    kernels.install()
    from sglang.srt.plugins import load_plugins
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    load_plugins()
    return SpeculativeAlgorithm.from_string(NAME.lower())


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder with what is read of a model before its weights."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


@pytest.fixture
def arguments(registered, model):  # registered first
    """Arguments of the command line, resolved and checked by SGLang; and what is in force."""
    from sglang.srt.arg_groups.overrides import resolving_view
    from sglang.srt.server_args import prepare_server_args

    def build(*more):
        given = prepare_server_args(
            ["--model-path", str(model), "--device", "cpu", "--speculative-algorithm", NAME, *more]
        )
        given.resolve_once()
        given.check_server_args()
        return given, resolving_view(given)

    return build


class Corpus:
    """In the place of SGLang's n-gram corpus, which is compiled when it is made: nothing may ask it for drafts."""

    def __init__(self, **given):
        self.given = given
        self.resets = 0

    def reset(self):
        """Counts."""
        self.resets += 1

    def erase_match_state(self, rids):
        """Of requests that are done; there is none."""


@pytest.fixture
def start(registered, arguments, monkeypatch):
    """An engine around a worker that SGLang's scheduler would make."""
    import sglang.srt.speculative.ngram_worker as theirs
    from sglang.srt.configs.model_config import ModelConfig
    from sglang.srt.runtime_context import SpawnRanks, publish

    from .engine import Engine, Target

    monkeypatch.setattr(theirs, "NgramCorpus", Corpus)
    monkeypatch.setenv("SUFFIXSPEC_SGLANG", '{"prior": false}')
    workers = []

    def build(*more, overlap=False):
        given, _ = arguments(*more)
        publish(given, role="scheduler", ranks=SpawnRanks(world_rank=0))
        target = Target(registered, ModelConfig.from_server_args(given))
        worker = registered.create_worker(given)(
            server_args=given, gpu_id=0, nccl_port=0, target_worker=target
        )
        workers.append(worker)
        worker.alloc_memory_pool()
        assert not worker.enable_overlap, "a CPU has none"
        worker.enable_overlap = overlap
        return Engine(worker, registered)

    yield build
    for worker in workers:
        worker.suffixspec.close()


def outputs(*requests):
    return [request.output_ids_through_stop.tolist() for request in requests]


def expected(*requests):
    from .engine import plain

    return [
        plain(list(request.origin_input_ids), request.sampling_params.max_new_tokens) for request in requests
    ]


def test_the_loader_registers_the_algorithm_and_again_changes_nothing(registered):
    from sglang.srt.speculative.spec_registry import CustomSpecAlgo, get_spec

    from suffixspec.integrations.sglang import plugin

    assert isinstance(registered, CustomSpecAlgo)
    plugin.register()
    assert get_spec(NAME) is registered


def test_the_algorithm_answers_all_that_sglang_asks_of_one(registered):
    """``CustomSpecAlgo`` has not all that the scheduler asks for; in 0.5.23 not ``create_future_map``."""
    import sglang

    asked = set()
    for file in (Path(sglang.__file__).parent / "srt").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        asked |= set(re.findall(r"\bspec(?:ulative)?_algo(?:rithm)?\.([a-z]\w*)\(", text))
    asked -= {"upper", "lower", "startswith", "strip"}  # where it is still a name
    assert {"is_ngram", "create_future_map", "carries_draft_hidden_states"} <= asked
    assert [name for name in sorted(asked) if not callable(getattr(registered, name, None))] == []


def test_it_is_treated_as_n_gram_drafts_are(registered):
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    like = SpeculativeAlgorithm.NGRAM
    for name in vars(SpeculativeAlgorithm):
        if name.startswith(("is_", "supports_", "has_", "need_", "carries_")):
            assert getattr(registered, name)() == getattr(like, name)(), name


def test_the_command_line_is_resolved(arguments):
    given, in_force = arguments()
    assert given.speculative_num_draft_tokens is None, "the record keeps what the user gave"
    assert in_force.speculative_algorithm == NAME
    assert in_force.speculative_num_draft_tokens == 16
    assert in_force.max_running_requests == 48
    assert in_force.disable_overlap_schedule
    assert not in_force.enable_mixed_chunk
    assert in_force.speculative_ngram_capacity < 10_000
    _, in_force = arguments("--speculative-num-draft-tokens", "6", "--max-running-requests", "3")
    assert (in_force.speculative_num_draft_tokens, in_force.max_running_requests) == (6, 3)


def test_no_more_kv_is_set_aside_than_for_sglangs_own_drafts(arguments):
    from sglang.srt.mem_cache.allocation_sizing import get_alloc_len_per_decode
    from sglang.srt.runtime_context import SpawnRanks, publish

    for nodes in (2, 3, 16):
        given, _ = arguments("--speculative-num-draft-tokens", str(nodes))
        publish(given, role="scheduler", ranks=SpawnRanks(world_rank=0))
        assert get_alloc_len_per_decode() == nodes


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--page-size", "16"], "--page-size 1"),
        (["--speculative-num-draft-tokens", "1"], "at least 2"),
        (["--tp-size", "2", "--attn-dp-size", "2"], "data-parallel attention"),
        (["--disaggregation-mode", "decode"], "--disaggregation-mode"),
        (["--speculative-ngram-external-corpus-path", "x"], "external-corpus-path"),
    ],
)
def test_what_cannot_work_is_refused_at_start(arguments, more, says):
    with pytest.raises(ValueError, match=f"expected .*{says}"):
        arguments(*more)


@pytest.mark.parametrize("more", [["--enable-lora", "--lora-paths", "x"], ["--pp-size", "2"]])
def test_what_sglang_itself_refuses_for_a_registered_algorithm(arguments, more):
    """As the README says; the day it does not, the README may say so."""
    with pytest.raises((ValueError, AssertionError), match="only"):
        arguments(*more)


def test_chains_may_have_larger_pages(arguments):
    _, in_force = arguments("--page-size", "16", "--speculative-eagle-topk", "1")
    assert (in_force.page_size, in_force.speculative_eagle_topk) == (16, 1)


def test_model_tokenizer_and_ranks_are_read_from_resolved_arguments(arguments, model):
    given, _ = arguments("--revision", "4f2a", "--trust-remote-code")
    worker = SimpleNamespace(model_config=SimpleNamespace(vocab_size=64))
    found = served(given, worker)
    assert (found.name, found.vocabulary) == (str(model), 64)
    assert (found.tokenizer.name, found.tokenizer.revision) == (str(model), "4f2a")
    assert found.tokenizer.trust_remote_code


def test_the_worker_drafts_and_greedy_output_is_the_models(start):
    engine = start()
    ours = engine.worker.suffixspec
    assert ours.nodes == 16
    assert ours._alone
    assert engine.worker.ngram_corpus.given["capacity"] < 10_000
    requests = [engine.request(str(i), PROMPT[i:], max_new_tokens=60) for i in range(3)]
    engine.prefill(requests)
    engine.run()
    assert outputs(*requests) == expected(*requests)
    assert engine.verified < 40, "drafts were accepted"
    assert engine.target.branched > 0, "trees, not chains alone"
    assert engine.target.moves
    assert ours._live == {}, "SGLang's end of a request reached the drafts"


@pytest.mark.parametrize("nodes", ["2", "5", "16"])
@pytest.mark.parametrize("topk", ["1", "2"])
def test_sizes_and_chains(start, nodes, topk):
    engine = start("--speculative-num-draft-tokens", nodes, "--speculative-eagle-topk", topk)
    requests = [engine.request(str(i), PROMPT[i:]) for i in range(2)]
    engine.prefill(requests)
    engine.run()
    assert outputs(*requests) == expected(*requests)
    if topk == "1":
        assert engine.target.branched == 0


def test_with_overlap_results_come_late_and_output_is_the_models(start):
    """Prompts come in between, so that some results are late and some are not."""
    engine = start(overlap=True)
    requests = [engine.request(str(i), PROMPT[i:], max_new_tokens=50) for i in range(4)]
    engine.prefill(requests[:1])
    for later in requests[1:]:
        for _ in range(3):
            engine.decode()
        engine.prefill([later])
    engine.run()
    assert outputs(*requests) == expected(*requests)
    assert engine.verified < 60
    assert engine.worker.suffixspec._live == {}
    texts = [lane.session.context.tolist() for lane in engine.worker.suffixspec.table]
    for request in requests:
        whole = [*request.origin_input_ids, *request.output_ids_through_stop]
        assert any(text[: len(whole)] == whole for text in texts)


@pytest.mark.parametrize("overlap", [False, True])
def test_a_retracted_request_comes_back(start, overlap):
    engine = start("--speculative-num-draft-tokens", "3", overlap=overlap)
    first, second = (engine.request(str(i), PROMPT[i:], max_new_tokens=60) for i in range(2))
    engine.prefill([first, second])
    for _ in range(3):
        engine.decode()
    engine.retract(first)
    for _ in range(2):
        engine.decode()
    assert list(engine.worker.suffixspec._live) == ["1"]
    engine.flush()
    engine.prefill([first])
    engine.run()
    assert outputs(first, second) == expected(first, second)


@pytest.mark.parametrize("overlap", [False, True])
def test_the_next_turn_of_a_loop_goes_on_with_its_session(start, overlap):
    engine = start(overlap=overlap)
    named = {"custom_params": {"suffixspec_session": "loop"}}
    first = engine.request("1", PROMPT, **named)
    engine.prefill([first])
    engine.run()
    engine.running = None
    second = engine.request("2", [*PROMPT, *first.output_ids_through_stop, 60, 61], **named)
    engine.prefill([second])
    engine.run()
    assert outputs(second) == expected(second)
    (lane,) = engine.worker.suffixspec.table
    assert lane.key == "loop"


def test_a_failure_in_drafting_leaves_the_output_as_it_is(start, monkeypatch):
    engine = start("--speculative-num-draft-tokens", "3")
    requests = [engine.request(str(i), PROMPT[i:]) for i in range(2)]
    engine.prefill(requests)
    engine.decode()
    failures = []

    def fail():
        failures.append("0")
        raise ZeroDivisionError

    monkeypatch.setattr(engine.worker.suffixspec._live["0"][1], "draft", fail)
    engine.run()
    assert outputs(*requests) == expected(*requests)
    assert failures == ["0"], "no drafts for that request any more"


def test_a_flushed_cache_forgets_the_sessions(start):
    engine = start()
    one = engine.request("1", PROMPT)
    engine.prefill([one])
    engine.run()
    engine.worker.clear_cache_pool()
    assert len(engine.worker.suffixspec.table) == 0
    assert engine.worker.ngram_corpus.resets == 1


def test_sglangs_sampling_parameters_are_understood(start):
    engine = start()
    greedy = RequestView(engine.request("1", PROMPT, temperature=0.0))
    assert greedy.sampling_params.temperature == 0.0
    params = RequestView(
        engine.request(
            "2", PROMPT, temperature=0.7, stop_token_ids=[9], custom_params={"suffixspec_namespace": "team"}
        )
    ).sampling_params
    assert params.temperature == 0.7
    assert stop_ids(params) == {1, 9}
    assert params.extra_args == {"suffixspec_namespace": "team"}
    ignoring = RequestView(engine.request("3", PROMPT, ignore_eos=True, stop_token_ids=[9])).sampling_params
    assert stop_ids(ignoring) == set()
    assert end_ids(ignoring) == {1, 9}
    one = engine.request("4", PROMPT, ignore_eos=True, stop_token_ids=[9], max_new_tokens=3)
    one.output_ids.extend([9, 1])
    one.update_finish_state(2)
    assert not one.finished(), "SGLang itself looks at no token then"
