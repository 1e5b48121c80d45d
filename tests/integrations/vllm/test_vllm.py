"""The contract with vLLM itself, through its own factory. Skipped where vLLM is not installed."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

from .rig import Engine, needs_vllm, vllm_config

pytestmark = needs_vllm


@pytest.fixture(scope="module")
def factory():
    from vllm.v1.spec_decode.custom_class_proposer import create_custom_proposer

    return create_custom_proposer


def config(**given):
    made = vllm_config(**given)
    made.speculative_config.model = "suffixspec.integrations.vllm.Proposer"
    return made


def test_vllm_makes_the_proposer_and_finds_what_it_calls(factory):
    proposer = factory(config())
    proposer.load_model(None)
    engine = Engine(proposer)
    engine.add("r", [5, 6, 7] * 6, max_tokens=60, eos_token_id=None)
    engine.run()
    assert engine.longest > 0
    proposer.close()


def test_vllm_refuses_to_start_with_a_wrong_setting_and_names_those_there_are(factory):
    with pytest.raises(RuntimeError, match="expected settings of suffixspec among cost"):
        factory(config(settings={"unknown": 1}))


def test_the_real_runner_has_every_hook(factory):
    from vllm.v1.worker.gpu_input_batch import CachedRequestState, InputBatch
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    from suffixspec.integrations.vllm import hooks

    assert hooks.install() is None
    assert hooks.install() is None
    assert list(inspect.signature(GPUModelRunner.propose_draft_token_ids).parameters)[1] == "scheduler_output"
    assert "self.requests" in inspect.getsource(GPUModelRunner.__init__)
    assert isinstance(InputBatch.req_ids, property)
    state = CachedRequestState(
        req_id="r",
        prompt_token_ids=[1, 2],
        mm_features=[],
        sampling_params=None,
        generator=None,
        block_ids=(),
        num_computed_tokens=0,
        output_token_ids=[],
    )
    assert hooks.missing_of_request(state) == []


def test_vllms_own_sampling_parameters_are_understood(factory):
    from vllm import SamplingParams

    from suffixspec.integrations.hosted.live_request import end_ids, stop_ids

    params = SamplingParams(stop_token_ids=[9], extra_args={"suffixspec_session": "x"})
    params.update_from_generation_config({}, 2)
    assert stop_ids(params) == {2, 9}
    ignoring = SamplingParams(ignore_eos=True)
    ignoring.update_from_generation_config({}, 2)
    assert stop_ids(ignoring) == set()
    assert end_ids(ignoring) == {2}


def test_a_warm_up_with_empty_rows_is_answered(factory):
    proposer = factory(config())
    assert proposer.propose([[]] * 4, np.zeros(4, np.int32), np.zeros((4, 64), np.int32)) == [[]] * 4
    proposer.close()


def test_on_a_cpu_each_draft_token_is_verified_as_its_request_wants_it():
    """By vllm's own function, or by the one that the proposer puts in its place.

    In a process of its own, as a worker begins: where Numba is loaded, vLLM 0.32 cannot set up its kernels for a CPU.
    """
    script = """
import torch
from vllm.platforms import current_platform
from vllm.v1.sample import rejection_sampler
from suffixspec.integrations.vllm import verification

assert current_platform.is_cpu()
getattr(current_platform, "register_triton_kernel_overrides", lambda: None)()
print(verification.mend())
for value in (0.25, 0.75):
    x, ends = torch.tensor([value, 0.0]), torch.tensor([3, 5], dtype=torch.int32)
    expanded = rejection_sampler.expand_batch_to_tokens(x, ends, 5, replace_from=0, replace_to=1)
    assert expanded.tolist() == [value, value, value, 1.0, 1.0], expanded
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "could not be tried" not in done.stdout
