"""What of vLLM's runner is relied on, where vLLM is installed: its calls, by name, and the class that they belong to."""

import ast
import inspect
import textwrap

import pytest

from suffixspec.integrations.vllm import hooks

from .rig import needs_vllm

pytestmark = needs_vllm


@pytest.fixture(scope="module")
def runner_class():
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    return GPUModelRunner


@pytest.mark.parametrize("name", [hooks.METHOD, hooks.STEP])
def test_a_wrapped_method_takes_the_schedulers_output_first(runner_class, name):
    assert list(inspect.signature(getattr(runner_class, name)).parameters)[1] == "scheduler_output"


def test_a_schedulers_output_has_what_is_read_of_it():
    from vllm.v1.core.sched.output import SchedulerOutput

    assert {"finished_req_ids", "num_scheduled_tokens"} <= set(inspect.get_annotations(SchedulerOutput))


def test_the_runner_for_cpus_takes_the_wrapped_methods_from_the_one_that_is_wrapped(runner_class):
    from vllm.v1.worker.cpu_model_runner import CPUModelRunner

    assert issubclass(CPUModelRunner, runner_class)
    for name in (hooks.METHOD, hooks.STEP):
        assert name not in vars(CPUModelRunner)


def test_the_runner_calls_propose_with_what_it_takes_in_that_order(runner_class):
    """VLLM gives its own drafters a number of tokens first since 0.24; those of users are called as ever."""
    from suffixspec.integrations.vllm import Proposer

    assert (
        call_of("custom_class", source_of(runner_class))
        == list(inspect.signature(Proposer.propose).parameters)[1:]
    )


def source_of(runner_class):
    # Below what a proposer that was made in this process has wrapped it with.
    return inspect.getsource(inspect.unwrap(getattr(runner_class, hooks.METHOD)))


def call_of(method, source):
    """The names of what ``propose`` is called with in the branch of a method, positional ones first."""
    for branch in ast.walk(ast.parse(textwrap.dedent(source))):
        if not isinstance(branch, ast.If) or f"== {method!r}" not in ast.unparse(branch.test):
            continue
        for call in (node for statement in branch.body for node in ast.walk(statement)):
            if isinstance(call, ast.Call) and getattr(call.func, "attr", None) == "propose":
                given = [ast.unparse(value).rpartition(".")[2] for value in call.args]
                return given + [str(keyword.arg) for keyword in call.keywords]
    return None
