"""What SGLang's entry point ``sglang.srt.plugins`` calls, in each of its processes."""

from __future__ import annotations

import logging
from typing import Any

from suffixspec.integrations.sglang.algorithm import NAME, algorithm_class

logger = logging.getLogger("suffixspec.sglang")


def register() -> None:
    """Make the algorithm known by its name; it is used only where that is asked for. May be called again.

    Where SGLang has no such way in, the log says what is missing, and SGLang starts as it would.
    """
    try:
        from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
        from sglang.srt.speculative.spec_registry import CustomSpecAlgo, get_spec
    except ImportError as error:
        logger.warning("suffixspec: this SGLang takes no algorithm %s: %s", NAME, error)
        return
    if get_spec(NAME) is not None:
        return
    ours = algorithm_class(CustomSpecAlgo, SpeculativeAlgorithm.NGRAM)
    SpeculativeAlgorithm.register(NAME, supports_overlap=True, spec_class=ours)(_worker)


def _worker(server_args: Any) -> type[Any]:  # noqa: ARG001  # SGLang gives them
    from sglang.srt.speculative.ngram_worker import NGRAMWorker

    from suffixspec.integrations.sglang.worker import worker_class

    return worker_class(NGRAMWorker)
