"""How a wrong verification on a CPU is found and mended."""

import logging
import sys
from types import SimpleNamespace

import pytest

from suffixspec.integrations.vllm import Proposer, verification

from .rig import vllm_config

torch = pytest.importorskip("torch")


def right(x, ends, num_tokens, replace_from=0, replace_to=0):
    """Token by token."""
    found, begin = x.new_empty(num_tokens), 0
    for value, end in zip(x.tolist(), ends.tolist(), strict=True):
        found[begin:end] = replace_to if value == replace_from else value
        begin = end
    return found


def never_written(x, ends, num_tokens, replace_from=0, replace_to=0):
    """As vLLM 0.32 has it, with memory that holds what it was last used for."""
    return x.new_full((num_tokens,), 0.75)


def unreplaced(x, ends, num_tokens, replace_from=0, replace_to=0):
    return right(x, ends, num_tokens)


def of_another_version(x, ends):
    return x.repeat_interleave(ends)


def of_whole_numbers(x, ends, num_tokens, replace_from=0, replace_to=0):
    """As vLLM's operator, which takes no others."""
    assert isinstance(replace_from, int)
    assert isinstance(replace_to, int)
    return right(x, ends, num_tokens, replace_from, replace_to)


@pytest.fixture
def sampler(monkeypatch):
    """The module that vLLM has the function in."""
    module = SimpleNamespace(expand_batch_to_tokens=right)
    monkeypatch.setitem(sys.modules, verification.MODULE, module)
    return module


@pytest.mark.parametrize("function", [right, of_whole_numbers])
def test_a_right_function_stays(sampler, function):
    sampler.expand_batch_to_tokens = function
    assert verification.mend() is None
    assert sampler.expand_batch_to_tokens is function


def test_one_that_is_called_otherwise_stays_too_and_vllm_starts(sampler):
    sampler.expand_batch_to_tokens = of_another_version
    assert "could not be tried" in verification.mend()
    assert sampler.expand_batch_to_tokens is of_another_version


@pytest.mark.parametrize("wrong", [never_written, unreplaced])
def test_a_wrong_function_is_replaced_once(sampler, wrong):
    sampler.expand_batch_to_tokens = wrong
    assert "wrong on a CPU" in verification.mend()
    assert sampler.expand_batch_to_tokens is verification.expand_batch_to_tokens
    assert verification.mend() is None


def test_without_vllm_s_function_nothing_is_done(monkeypatch):
    monkeypatch.delitem(sys.modules, verification.MODULE, raising=False)
    assert verification.mend() is None
    monkeypatch.setitem(sys.modules, verification.MODULE, SimpleNamespace())
    assert verification.mend() is None


def test_each_token_has_the_value_of_its_request():
    generator = torch.Generator().manual_seed(3)
    for seed in range(40):
        batch = int(torch.randint(1, 7, (), generator=generator))
        counts = torch.randint(0, 5, (batch,), generator=generator)
        ends = counts.cumsum(0).to(torch.int32 if seed % 2 else torch.int64)
        for x in (
            torch.randint(0, 3, (batch,), generator=generator).float() / 2,
            torch.randint(0, 3, (batch,), generator=generator),
        ):
            for replaced in ((0, 0), (0, 1)):
                got = verification.expand_batch_to_tokens(x, ends, int(counts.sum()), *replaced)
                assert got.dtype == x.dtype
                assert got.tolist() == right(x, ends, int(counts.sum()), *replaced).tolist(), f"seed {seed}"
                assert not len(got) or got.data_ptr() != x.data_ptr()


@pytest.mark.parametrize(("device", "mended"), [("cpu", True), ("cuda", False)])
def test_a_proposer_mends_on_a_cpu_and_says_so(sampler, caplog, device, mended):
    for rank in (0, 1):  # those that draft nothing verify, too
        sampler.expand_batch_to_tokens = never_written
        config = vllm_config(tensor_parallel=2, rank=rank)
        config.device_config.device_type = device
        with caplog.at_level(logging.WARNING, logger="vllm.suffixspec"):
            Proposer(config).close()
        assert (sampler.expand_batch_to_tokens is verification.expand_batch_to_tokens) == mended
        assert ("never written" in caplog.text) == mended
        caplog.clear()
