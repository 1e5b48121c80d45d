"""How the runner, its requests and its rows are reached, and what of that is missing.

vLLM hands a proposer neither request ids nor the runner. Two ways lead to it: the method of the runner that calls
``propose`` is wrapped, so that it introduces itself first; and where there is no such method, the frame of the
caller is looked at. The method that runs a step is wrapped as well, since one without a token still says which
requests have ended; without it, that is seen at the next step with a draft. Nothing of vLLM is imported here: the
runner's class is wrapped if its module is loaded, which it is in every process in which a proposer is made.

All of this is the same in vLLM 0.22.0 to 0.33.0; older versions refuse ``custom_class``. Their second runner ("V2") has
no such method: all these versions give ``custom_class`` to the first one, or do not start where the second is forced.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

RUNNER_MODULE = "vllm.v1.worker.gpu_model_runner"
RUNNER_CLASS = "GPUModelRunner"
METHOD = "propose_draft_token_ids"
STEP = "execute_model"
_MARK = "__suffixspec__"


def install() -> str | None:
    """Wrap the runner's methods, once per process; None if that is done, else what is missing.

    The wrappers call ``drafter.introduce(runner, scheduler_output)`` and ``drafter.ended(req_ids)`` where the runner's
    drafter has such methods, and do nothing else: other drafters run as before.
    """
    module = sys.modules.get(RUNNER_MODULE)
    if module is None:
        return f"module {RUNNER_MODULE} (not loaded)"
    runner_class = getattr(module, RUNNER_CLASS, None)
    if runner_class is None:
        return f"class {RUNNER_MODULE}.{RUNNER_CLASS}"
    if not callable(getattr(runner_class, METHOD, None)):
        return f"method {RUNNER_CLASS}.{METHOD}"

    def introduce(runner: Any, scheduler_output: Any) -> None:
        call = getattr(getattr(runner, "drafter", None), "introduce", None)
        if call is not None:
            call(runner, scheduler_output)

    def end(runner: Any, scheduler_output: Any) -> None:
        call = getattr(getattr(runner, "drafter", None), "ended", None)
        req_ids = getattr(scheduler_output, "finished_req_ids", None)
        if call is not None and req_ids:
            call(req_ids)

    _call_first(runner_class, METHOD, introduce)
    _call_first(runner_class, STEP, end)
    return None


def _call_first(runner_class: Any, name: str, first: Callable[[Any, Any], None]) -> None:
    """Have ``first(runner, scheduler_output)`` called before a method that takes a scheduler's output; only once."""
    method = getattr(runner_class, name, None)
    if not callable(method) or getattr(method, _MARK, False):
        return

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        first(self, args[0] if args else kwargs.get("scheduler_output"))
        return method(self, *args, **kwargs)

    setattr(wrapped, _MARK, True)
    setattr(runner_class, name, wrapped)


def runner_of_caller(depth: int = 2) -> Any | None:
    """The object whose method called the one that calls this, if it looks like a runner."""
    try:
        candidate = sys._getframe(depth).f_locals.get("self")
    except ValueError:
        return None
    return None if missing_of(candidate) else candidate


def missing_of(runner: Any) -> list[str]:
    """What a runner has to have and has not, by name."""
    missing = []
    if not hasattr(getattr(runner, "requests", None), "get"):
        missing.append("runner.requests")
    if not hasattr(getattr(runner, "input_batch", None), "req_ids"):
        missing.append("runner.input_batch.req_ids")
    return missing


def missing_of_request(request: Any) -> list[str]:
    """What a request has to have and has not, by name."""
    return [
        f"request.{name}"
        for name in ("prompt_token_ids", "num_prompt_tokens", "sampling_params")
        if not hasattr(request, name)
    ]
