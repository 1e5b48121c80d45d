"""The contract with vLLM, on stand-ins of its runner: no vLLM needed."""

import logging
import random
from types import SimpleNamespace

import numpy as np
import pytest

from suffixspec.errors import InputError
from suffixspec.integrations.vllm import Proposer

from .rig import END, Engine, Request, Runner, vllm_config

TASK = [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, END, 3]


@pytest.fixture
def make():
    """Proposers that are closed when the test ends."""
    made = []

    def build(**given) -> Proposer:
        made.append(Proposer(vllm_config(**given)))
        return made[-1]

    yield build
    for proposer in made:
        proposer.close()


def outputs_without_drafts(requests, **given):
    engine = Engine(None, **given)
    for req_id, prompt, options in requests:
        engine.add(req_id, prompt, **options)
    engine.run()
    return engine.outputs


def test_a_repeating_text_is_drafted_and_the_output_is_the_same(make):
    requests = [("r", TASK, {"max_tokens": 120, "eos_token_id": None})]
    engine = Engine(make())
    engine.add("r", TASK, max_tokens=120, eos_token_id=None)
    engine.run()
    assert engine.outputs == outputs_without_drafts(requests)
    assert 1 < engine.longest <= 6
    assert engine.steps < 100, "the toy target's text is periodic: drafts save most steps"


def test_a_finished_request_is_released_and_its_session_waits_for_the_next_turn(make):
    proposer = make()
    engine = Engine(proposer)
    engine.add("one", TASK, max_tokens=10)
    engine.run()
    assert not proposer._live
    (lane,) = proposer.table
    assert not lane.busy
    context = [*TASK, *engine.outputs["one"]]
    assert lane.session.context.tolist()[: len(context)] == context
    before = lane.session.indexed_tokens
    engine.add("two", [*context, 4, 5, END, 3], max_tokens=5)
    engine.run()
    assert len(proposer.table) == 1
    assert lane.session.indexed_tokens - before <= 4 + 5 + 64 + 6 + 2, "only what is new is indexed"


def test_a_named_session_is_taken_up_whatever_its_requests_are_called(make):
    proposer = make()
    engine = Engine(proposer)
    named = {"extra_args": {"suffixspec_session": "loop-7"}, "max_tokens": 8}
    engine.add("one", TASK, **named)
    engine.run()
    engine.add("two-with-a-random-suffix", [*TASK, *engine.outputs["one"], 4], **named)
    engine.run()
    assert [lane.key for lane in proposer.table] == ["loop-7"]


def test_requests_of_one_session_at_the_same_time_get_an_index_each(make):
    proposer = make()
    engine = Engine(proposer)
    for number in range(3):
        engine.add(f"{number}_parent", TASK, max_tokens=12)
    engine.step()
    assert len(proposer.table) == 3
    engine.run()
    engine.add("next", [*TASK, *engine.outputs["1_parent"], 4], max_tokens=4)
    engine.run()
    assert len(proposer.table) == 3


def test_an_id_that_is_given_to_another_request_at_once_is_another_request(make):
    proposer = make()
    engine = Engine(proposer)
    engine.add("same", TASK, max_tokens=30, eos_token_id=None)
    engine.step()
    engine.step()
    engine.abort("same")
    other = [9] * len(TASK)  # as long: nothing but the runner's state of it tells them apart
    engine.add("same", other, max_tokens=30, eos_token_id=None)
    engine.step()
    assert [lane.session.context.tolist()[: len(TASK)] for lane in proposer.table] == [TASK, other]
    engine.run()
    assert engine.outputs == outputs_without_drafts(
        [("same", other, {"max_tokens": 30, "eos_token_id": None})]
    )
    assert not proposer._live


def test_what_was_sampled_behind_an_end_token_does_not_become_history(make):
    proposer = make()
    runner = Runner(proposer)
    engine = Engine(proposer)
    request = engine.add("r", TASK, max_tokens=30)
    runner.requests["r"] = engine.waiting.pop()
    request.output_token_ids = [7, END, 8, 9]
    runner.place(["r"])
    proposer.introduce(runner)
    assert runner.propose_draft_token_ids(None, [[7, END, 8, 9]]) == [[]]
    del runner.requests["r"]
    runner.place([])
    runner.propose_draft_token_ids(None, [])
    (lane,) = proposer.table
    assert lane.session.context.tolist() == [*TASK, 7, END]


def test_a_request_that_has_ended_is_released_though_no_step_asks_for_drafts_any_more(make):
    proposer = make()
    engine = Engine(proposer)
    engine.add("r", TASK, max_tokens=30, eos_token_id=None)
    engine.step()
    (lane,) = proposer.table
    assert lane.busy
    proposer.ended({"another"})
    assert lane.busy
    proposer.ended({"r", "another"})
    assert not lane.busy
    assert not proposer._live


def test_tokens_that_vllm_takes_back_are_taken_back(make):
    """As after a failed KV transfer: the row is shorter than it was, then goes on differently."""
    proposer = make()
    runner = Runner(proposer)
    engine = Engine(proposer)
    request = engine.add("r", TASK, max_tokens=50)
    runner.requests["r"] = engine.waiting.pop()
    proposer.introduce(runner)
    for output in ([7, 8, 9, 10], [7, 8], [7, 8, 11, 12, 13]):
        request.output_token_ids = output
        runner.place(["r"])
        runner.propose_draft_token_ids(None, [[1]])
        (lane,) = proposer.table
        assert lane.session.context.tolist() == [*TASK, *output]


def test_a_prompt_that_a_client_extends_while_it_streams_is_followed(make):
    proposer = make()
    engine = Engine(proposer)
    request = engine.add("r", TASK, max_tokens=50)
    engine.step()
    engine.step()
    assert END not in request.output_token_ids
    request.prompt_token_ids = [*request.tokens, END, 4, 4, 4]  # as prompt, that ends no output
    request.output_token_ids = []
    request.draft = []
    engine.step()
    assert not proposer._failures
    (lane,) = proposer.table
    assert lane.session.context.tolist()[: len(request.prompt_token_ids)] == request.prompt_token_ids


def test_no_draft_reaches_beyond_the_models_length_or_the_requests(make):
    for limits in ({"max_model_len": 40}, {"max_model_len": 256, "max_tokens": 9}):
        length = limits["max_model_len"]
        engine = Engine(make(max_model_len=length), max_model_len=length)
        asked = {"max_tokens": limits.get("max_tokens", 200), "eos_token_id": None}
        engine.add("r", [5, 6] * 12, **asked)
        engine.run()
        assert engine.outputs == outputs_without_drafts([("r", [5, 6] * 12, asked)], max_model_len=length)
        assert len(engine.outputs["r"]) == min(asked["max_tokens"], length - 24)


def test_a_long_prompt_is_indexed_in_slices(make):
    proposer = make(settings={"index_tokens": 10})
    engine = Engine(proposer, chunk=64)
    engine.add("r", TASK * 4, max_tokens=30, eos_token_id=None)
    engine.step()
    (lane,) = proposer.table
    assert len(lane.session.context) == 10
    engine.step()
    assert len(lane.session.context) == 20
    engine.run()
    assert engine.longest > 0


def test_a_prompt_in_chunks_is_read_while_it_is_prefilled(make):
    proposer = make()
    engine = Engine(proposer, chunk=8)
    engine.add("r", TASK * 2, max_tokens=4)
    engine.step()
    (lane,) = proposer.table
    assert lane.session.context.tolist() == TASK * 2


def test_adapters_draft_from_their_own_outputs_unless_told_otherwise(make):
    for shared in (False, True):
        proposer = make(settings={"share_adapters": shared})
        engine = Engine(proposer)
        for number, adapter in enumerate((None, "sql", "chat")):
            request = engine.add(f"r{number}", TASK, max_tokens=4)
            request.lora_request = adapter and SimpleNamespace(lora_name=adapter)
        engine.run()
        namespaces = {lane.namespace for lane in proposer.table}
        assert namespaces == ({"default"} if shared else {"default", "default/lora:sql", "default/lora:chat"})


def test_a_seed_gives_the_text_that_it_gives_without_drafts(make):
    """By vLLM's way to verify sampled tokens, only without a draft: none is made, unless that is asked for."""
    for asked, drafted in ((False, False), (True, True)):
        engine = Engine(make(settings={"draft_seeded": asked}))
        engine.add("r", TASK, max_tokens=60, eos_token_id=None, temperature=0.7, seed=3)
        engine.run()
        assert (engine.longest > 0) == drafted
    engine = Engine(make())
    engine.add("r", TASK, max_tokens=60, eos_token_id=None, temperature=0.0, seed=3)
    engine.run()
    assert engine.longest > 0, "greedy decoding draws no numbers"


def test_a_request_may_name_its_namespace(make):
    proposer = make(settings={"namespace": "team"})
    engine = Engine(proposer)
    engine.add("a", TASK, max_tokens=4)
    engine.add("b", TASK, max_tokens=4, extra_args={"suffixspec_namespace": "mine"})
    engine.run()
    assert {lane.namespace for lane in proposer.table} == {"team", "mine"}


def test_a_failure_in_one_requests_drafting_is_logged_once_and_ends_it_there(make, caplog, monkeypatch):
    proposer = make()
    engine = Engine(proposer)
    for req_id in ("good", "bad", "worse"):
        engine.add(req_id, TASK if req_id == "good" else [9, *TASK], max_tokens=60, eos_token_id=None)
    engine.step()
    bad = {id(proposer._live[req_id][1]) for req_id in ("bad", "worse")}
    monkeypatch.setattr(
        "suffixspec.integrations.hosted.live_request.LiveRequest.draft",
        lambda live, draft=proposer._live["good"][1].__class__.draft: (
            1 / 0 if id(live) in bad else draft(live)
        ),
    )
    with caplog.at_level(logging.WARNING, logger="vllm.suffixspec"):
        engine.run()
    assert len([one for one in caplog.records if one.exc_info]) == 1
    options = {"max_tokens": 60, "eos_token_id": None}
    assert engine.outputs == outputs_without_drafts(
        [("good", TASK, options), ("bad", [9, *TASK], options), ("worse", [9, *TASK], options)]
    )
    assert engine.longest > 0
    assert proposer._failures == 0
    assert not proposer._live
    assert [lane.session.context.tolist()[: len(TASK)] for lane in proposer.table] == [TASK]


def test_a_failure_when_a_request_begins_costs_only_its_own_drafts(make, caplog, monkeypatch):
    proposer = make()
    adopt = proposer.table.adopt
    monkeypatch.setattr(proposer.table, "adopt", lambda *given: 1 / 0 if given[2][0] == 9 else adopt(*given))
    engine = Engine(proposer)
    options = {"max_tokens": 60, "eos_token_id": None}
    engine.add("bad", [9, *TASK], **options)
    engine.add("good", TASK, **options)
    with caplog.at_level(logging.WARNING, logger="vllm.suffixspec"):
        engine.run()
    assert engine.outputs == outputs_without_drafts([("bad", [9, *TASK], options), ("good", TASK, options)])
    assert proposer._failures == 0
    assert engine.longest > 0
    assert len(caplog.records) == 1


def test_an_end_token_before_the_least_output_does_not_end_it(make):
    for least, ended in ((0, True), (4, False)):
        proposer = make()
        runner = Runner(proposer)
        request = Engine(proposer).add("r", TASK, max_tokens=30, min_tokens=least)
        runner.requests["r"] = request
        request.output_token_ids = [7, END, 8]
        runner.place(["r"])
        proposer.introduce(runner)
        runner.propose_draft_token_ids(None, [[7, END, 8]])
        (lane,) = proposer.table
        assert lane.session.context.tolist() == [*TASK, 7, END, *([] if ended else [8])]


def test_a_row_that_moved_is_compared_from_its_beginning(make):
    """Where the row is the same one, only its end is: what was read before cannot have changed."""
    proposer = make()
    runner = Runner(proposer)
    request = Engine(proposer).add("r", TASK * 3, max_tokens=90)
    runner.requests["r"] = request
    proposer.introduce(runner)
    runner.place(["r"])
    runner.propose_draft_token_ids(None, [[]])
    request.prompt_token_ids = [4, *request.prompt_token_ids[1:]]
    runner.input_batch.req_ids = [None, "r"]
    length = len(request.tokens)
    runner.token_ids_cpu[1, :length] = request.tokens
    runner.num_tokens_no_spec[1] = length
    runner.propose_draft_token_ids(None, [[], []])
    (lane,) = proposer.table
    assert lane.session.context.tolist() == request.tokens


def test_a_prefill_in_the_same_step_makes_drafts_shorter(make):
    """As wide as it was, the next forward is expected to be: a token more costs what it costs there."""
    lengths = []
    for chunk in (1, 60):
        proposer = make(settings={"cost": {"points": [[1, 10.0], [62, 11.0], [63, 200.0], [80, 900.0]]}})
        runner = Runner(proposer)
        begun = Engine(proposer)
        for req_id, prompt in (("writes", [5, 6] * 10), ("reads", [8] * 100)):
            runner.requests[req_id] = begun.add(req_id, prompt, max_tokens=90)
        runner.place(["writes", "reads"])
        proposer.introduce(runner, SimpleNamespace(num_scheduled_tokens={"writes": 1, "reads": chunk}))
        lengths.append(len(runner.propose_draft_token_ids(None, [[6], []])[0]))
    assert lengths == [6, 1]


def test_drafts_are_as_long_as_they_pay_on_the_machine_at_hand(make):
    """Nobody named a cost: what steps took says it, whatever is expected where this runs."""
    longest = []
    for slope in (0.0, 3.0):
        proposer = make(settings={"cost": None}, k=12, max_model_len=600)
        engine = Engine(
            proposer, max_model_len=600, takes=lambda n, *_, slope=slope: 0.01 * (1 + slope * (n - 1))
        )
        engine.add("r", TASK, max_tokens=500, eos_token_id=None)
        engine.run()
        assert proposer.forward_time.steps > 50
        longest.append(max(engine.widths[-30:]))
    assert longest[0] > 8
    assert longest[1] <= 2


def test_a_plain_step_is_taken_now_and_then_where_it_costs_little(make, monkeypatch):
    """Else nothing would say what a plain step takes, which each draft is compared with."""
    for prob, plain in ((0.1, True), (0.9, False)):
        monkeypatch.setattr(
            "suffixspec.integrations.vllm.proposer.best_chain", lambda *_, p=prob, **__: ([1], [p])
        )
        proposer = make(settings={"cost": None, "draft_ms": 1e6})
        engine = Engine(proposer, takes=lambda *_: 0.01)
        engine.add("r", TASK, max_tokens=80, eos_token_id=None)
        engine.run()
        middle = engine.widths[4:54]
        assert (1 in middle) == plain
        assert middle.count(2) >= 46


def test_a_named_cost_is_kept_and_so_is_one_that_ranks_have_to_agree_on(make):
    for options in (
        {"settings": {"cost": "mid"}},
        {"settings": {"cost": None}, "backend": "external_launcher"},
    ):
        proposer = make(**options)
        before = proposer.forward_time.times(1, 8)
        engine = Engine(proposer, takes=lambda n, *_: 0.01 * n)
        engine.add("r", TASK, max_tokens=40, eos_token_id=None)
        engine.run()
        assert proposer.forward_time.steps == 0
        assert np.array_equal(proposer.forward_time.times(1, 8), before)


def test_time_without_work_is_no_forward(make):
    proposer = make(settings={"cost": None})
    engine = Engine(proposer, takes=lambda *_: 0.01)
    for turn in range(12):
        engine.add(f"r{turn}", TASK, max_tokens=8, eos_token_id=None)
        engine.run()
        engine.now += 1000.0
    assert proposer.forward_time.steps > 12
    assert proposer.forward_time.times(1, 0)[0] == pytest.approx(10.0, rel=0.2)


def test_steps_are_counted_with_the_context_that_their_tokens_attend_to(make, monkeypatch):
    """As the engine's own stand-in of a machine is told of them."""
    proposer = make(settings={"cost": None})
    seen, true = [], []
    monkeypatch.setattr(proposer.forward_time, "observe", lambda *forward: seen.append(forward[:3]))

    def takes(*forward):
        true.append(forward)
        return 0.01

    engine = Engine(proposer, takes=takes)
    engine.add("long", TASK * 3, max_tokens=30, eos_token_id=None)
    engine.add("short", TASK, max_tokens=30, eos_token_id=None)
    engine.run()
    assert len(seen) > 8
    assert set(seen) <= set(true)
    assert any(n > 3 and pairs for n, _, pairs in seen)


def test_drafts_are_chosen_by_what_their_tokens_cost_behind_their_context(make, monkeypatch):
    proposer = make()
    monkeypatch.setattr(type(proposer.forward_time), "ms_per_pair", 0.5)
    seen, shared = [], []

    def best_chain(_, times, **__):
        seen.append(times)
        return [], []

    def allot(chains, _, *, extra, **__):
        shared.append(extra)
        return [0] * len(chains)

    monkeypatch.setattr("suffixspec.integrations.vllm.proposer.best_chain", best_chain)
    monkeypatch.setattr("suffixspec.integrations.vllm.proposer.allot", allot)
    engine = Engine(proposer)
    engine.add("r", TASK, max_tokens=4, eos_token_id=None)
    engine.run()
    (times, *_) = seen
    length = len(TASK) + 1
    for k, ms in enumerate(times):
        assert ms == pytest.approx(proposer.forward_time.times(1, k)[k] + 0.5 * length * k)
    assert len(times) > 1
    assert shared[0] == [0.5 * length]


def test_a_runner_that_does_not_say_what_is_computed_teaches_nothing(make, monkeypatch):
    def nothing(_):
        raise AttributeError

    monkeypatch.setattr(Request, "num_computed_tokens", property(nothing, lambda *_: None), raising=False)
    proposer = make(settings={"cost": None})
    engine = Engine(proposer)
    engine.add("r", TASK, max_tokens=20, eos_token_id=None)
    engine.run()
    assert len(engine.outputs["r"]) == 20
    assert proposer.forward_time.steps == 0
    assert engine.longest > 0


@pytest.mark.parametrize(("by_batch_size", "longest"), [([[1, 16, 2]], 2), (None, 6)])
def test_drafts_are_as_long_as_vllm_allows_for_a_batch_of_this_size(by_batch_size, longest):
    config = vllm_config()
    config.speculative_config.num_speculative_tokens_per_batch_size = by_batch_size
    proposer = Proposer(config)
    runner = Runner(proposer)
    runner.requests["r"] = Engine(proposer).add("r", [5, 6] * 10, max_tokens=90)
    runner.place(["r"])
    proposer.introduce(runner, SimpleNamespace(num_scheduled_tokens={"r": 1}, num_spec_tokens_to_schedule=2))
    assert len(runner.propose_draft_token_ids(None, [[6]])[0]) == longest
    proposer.close()


def test_failures_of_the_whole_step_end_drafting_and_not_the_engine(make, caplog, monkeypatch):
    proposer = make()
    monkeypatch.setattr("suffixspec.integrations.vllm.proposer.allot", lambda *_, **__: 1 / 0)
    engine = Engine(proposer)
    engine.add("r", TASK, max_tokens=20, eos_token_id=None)
    with caplog.at_level(logging.WARNING, logger="vllm.suffixspec"):
        engine.run()
    assert len(engine.outputs["r"]) == 20
    assert engine.longest == 0
    assert len(caplog.records) == 3
    assert "all further ones" in caplog.text
    assert len(proposer.table) == 0


def test_without_memory_for_a_session_requests_run_without_drafts(make, caplog):
    engine = Engine(make(settings={"session_bytes": 1}))
    engine.add("r", TASK, max_tokens=20, eos_token_id=None)
    with caplog.at_level(logging.WARNING, logger="vllm.suffixspec"):
        engine.run()
    assert len(engine.outputs["r"]) == 20
    assert engine.longest == 0
    assert "raise session_bytes" in caplog.text


def test_a_missing_hook_is_named_and_decoding_goes_on(make, caplog):
    proposer = make()
    proposer.introduce(SimpleNamespace(input_batch=SimpleNamespace()))
    with caplog.at_level(logging.WARNING, logger="vllm.suffixspec"):
        for _ in range(3):
            assert proposer.propose([[1]], np.ones(1, np.int32), np.ones((1, 8), np.int32)) == [[]]
    (record,) = caplog.records
    assert "runner.requests" in record.message
    assert "runner.input_batch.req_ids" in record.message


def test_a_request_without_what_is_needed_runs_without_drafts_and_says_so(make, caplog):
    proposer = make()
    runner = Runner(proposer)
    runner.requests["r"] = SimpleNamespace(tokens=[1, 2, 3], sampling_params=None)
    runner.place(["r"])
    proposer.introduce(runner)
    with caplog.at_level(logging.WARNING, logger="vllm.suffixspec"):
        assert runner.propose_draft_token_ids(None, [[3]]) == [[]]
    assert "request.prompt_token_ids" in caplog.text


def test_the_runner_is_found_in_the_callers_frame_where_nobody_introduces_it(make):
    proposer = make()
    runner = Runner(proposer)
    engine = Engine(proposer)
    engine.add("r", [5, 6] * 8, max_tokens=30)
    runner.requests["r"] = engine.waiting.pop()
    runner.place(["r"])
    assert runner.propose_draft_token_ids(None, [[6]])[0]


def test_rows_of_a_warm_up_get_nothing(make):
    proposer = make()
    runner = Runner(proposer)
    assert runner.propose_draft_token_ids(None, [[]] * 4) == [[]] * 4
    assert proposer._failures == 0


def test_only_the_rank_whose_drafts_are_used_drafts(make):
    """Of TP = 2 times PP = 2, the first rank of the last stage is the third."""
    drafting = []
    for rank in range(4):
        proposer = make(tensor_parallel=2, pipeline_parallel=2, rank=rank)
        engine = Engine(proposer)
        engine.add("r", TASK, max_tokens=60, eos_token_id=None)
        engine.run()
        assert len(engine.outputs["r"]) == 60
        drafting.append(engine.longest > 0)
    assert drafting == [False, False, True, False]


def test_ranks_that_each_schedule_for_themselves_all_draft_the_same(make):
    proposers = [make(tensor_parallel=2, rank=rank, backend="external_launcher") for rank in range(2)]
    steps = []
    for proposer in proposers:
        engine = Engine(proposer)
        engine.add("r", TASK, max_tokens=60, eos_token_id=None)
        engine.run()
        steps.append((engine.steps, proposer.proposed, engine.outputs))
    assert steps[0] == steps[1]
    assert steps[0][1] > 0


def test_pipeline_stages_see_other_requests_each_step_and_forget_none(make):
    """With two microbatches a request is absent from every other batch, and has not finished."""
    proposer = make(pipeline_parallel=2, rank=1)
    engine = Engine(proposer)
    requests = [(f"r{i}", [i + 4] * 3 + TASK, {"max_tokens": 40, "eos_token_id": None}) for i in range(4)]
    for req_id, prompt, options in requests:
        engine.add(req_id, prompt, **options)
    halves = {"r0", "r1"}, {"r2", "r3"}
    step = 0
    while engine.waiting or engine.running:
        engine.step(skip=halves[step % 2])
        step += 1
    engine.step()
    assert engine.outputs == outputs_without_drafts(requests)
    assert engine.longest > 0
    assert len(proposer.table) == 4, "no request began anew"


def test_data_parallel_engines_share_a_history_folder(make, tmp_path, monkeypatch):
    """What one engine's loops wrote, another one drafts from once it is sealed."""
    from suffixspec.text.tokenizer import load_tokenizer

    monkeypatch.setattr("suffixspec.text.tokenizer.load_tokenizer", lambda *_, **__: load_tokenizer())
    settings = {"history": str(tmp_path / "history")}
    options = {"max_tokens": 60, "eos_token_id": None}
    first = make(settings=settings)
    engine = Engine(first)
    engine.add("r", TASK, **options)
    engine.run()
    first.close()
    second = make(settings=settings)
    second._sources.saved.session("default", "look").close()
    second._sources.saved.load("default")
    assert len(second.drafter.history) > 0
    engine = Engine(second)
    engine.add("r", TASK, **options)
    engine.run()
    fresh = Engine(make())
    fresh.add("r", TASK, **options)
    fresh.run()
    assert engine.outputs == fresh.outputs
    assert engine.steps < fresh.steps, "the first engine's output is drafted from"


def test_a_history_that_cannot_be_used_is_said_and_drafting_goes_on(make, tmp_path, caplog, monkeypatch):
    from suffixspec.text.tokenizer import load_tokenizer

    monkeypatch.setattr("suffixspec.text.tokenizer.load_tokenizer", lambda *_, **__: load_tokenizer())
    (tmp_path / "file").write_text("no folder")
    with caplog.at_level(logging.WARNING, logger="vllm.suffixspec"):
        engine = Engine(make(settings={"history": str(tmp_path / "file")}))
    assert "no history is kept" in caplog.text
    engine.add("r", TASK, max_tokens=60, eos_token_id=None)
    engine.run()
    assert engine.longest > 0


def test_wrong_settings_keep_the_proposer_from_being_made():
    with pytest.raises(InputError, match="max_node"):
        Proposer(vllm_config(settings={"max_node": 3}))


def test_after_its_end_a_proposer_gives_nothing(make):
    proposer = make()
    engine = Engine(proposer)
    engine.add("r", TASK, max_tokens=30, eos_token_id=None)
    engine.step()
    proposer.close()
    proposer.close()
    engine.run()
    assert len(engine.outputs["r"]) == 30


def test_many_sequences_get_shorter_drafts_and_where_nothing_pays_none(make):
    cost = {"points": [[1, 10.0], [8, 10.5], [64, 200.0]]}
    mean = []
    for count in (1, 4, 14):
        engine = Engine(make(settings={"cost": cost}), rows=16, chunk=64)
        for number in range(count):
            engine.add(f"r{number}", [number + 3, *TASK], max_tokens=40, eos_token_id=None)
        engine.run()
        mean.append(engine.proposer.proposed / max(engine.steps, 1) / count)
    assert mean == sorted(mean, reverse=True)
    assert mean[-1] < 0.5 * mean[0]


def test_sequences_whose_turn_does_not_come_are_first_in_the_next_step(make, monkeypatch):
    """With no time at all but for one draft, each sequence gets one in turn."""
    proposer = make()
    engine = Engine(proposer)
    for number in range(3):
        engine.add(f"r{number}", [5, 6] * 10, max_tokens=100, eos_token_id=None)
    engine.step(random.Random(0))
    drafted = []
    draft = type(proposer._live["r0"][1]).draft
    clock = {"now": 0.0}
    monkeypatch.setattr("suffixspec.integrations.vllm.proposer.time.perf_counter", lambda: clock["now"])

    def slow(live):
        clock["now"] += 1.0
        drafted.append(live.state.req_id)
        return draft(live)

    monkeypatch.setattr("suffixspec.integrations.hosted.live_request.LiveRequest.draft", slow)
    for _ in range(3):
        clock["now"] = 0.0
        engine.step()
    assert sorted(drafted) == ["r0", "r1", "r2"]
