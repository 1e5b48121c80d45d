"""What ``--additional-config '{"suffixspec": {…}}'`` may say."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

from suffixspec.cost import NAMES, CostCurve
from suffixspec.errors import InputError
from suffixspec.store.budget import Budget, Eviction

KEY = "suffixspec"
"""Ours among the additional settings."""
ON_CPU = CostCurve("vllm-cpu", ((1, 73.1), (2, 75.6), (4, 75.6), (8, 88.8), (16, 110.3), (32, 157.6)))
"""vLLM's forwards on a CPU, to begin with: SmolLM2-135M in float32 on one core of one machine, one sequence behind 512
tokens, wrong drafts of 0 to 31 tokens, CPU time of a step (``bench/vllm/run --only cost``). Without the jump from one
token to two of the curve ``"cpu"``; from 8 tokens on, one more costs some 3 % of the first."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the proposer, checked.

    Raises:
        InputError: a value that cannot be meant; says what is expected.
    """

    cost: str | dict[str, Any] | None = None
    """What a forward costs: ``"gpu"``, ``"mid"``, ``"cpu"``, a JSON file, or its content (``CostCurve.load``).
    None: inside vLLM, learned from its steps (``forward_time``), from ``ON_CPU`` or ``"gpu"`` on."""
    max_nodes: int | None = None
    """Nodes of the tree that a chain is chosen from. None: twice the speculative tokens, at least 32."""
    namespace: str = "default"
    """Whose history is shared; a request may name another one, as ``suffixspec_namespace``."""
    prior: bool = True
    """Whether the sources of Python and of common packages are drafted from, from the start: they are tokenized and
    indexed in the background, once per tokenizer and machine."""
    draft_seeded: bool = False
    """Whether sampled requests with a seed are drafted for. vLLM draws other numbers for verified tokens: the
    distribution is the same then, but the seed does not give the text that it gives without drafts."""
    share_adapters: bool = False
    """Whether LoRA adapters draft from one another's outputs. Else each has a namespace of its own."""
    history: str | None = None
    """Folder in which outputs are kept from one run to the next; ``"saved"``: this user's. None: in memory only."""
    history_eviction: Eviction | None = None
    """What leaves the folder first when it outgrows its budget (100 million tokens or 1 GiB a namespace): ``"oldest"``
    segments, or ``"least-useful"`` ones: those that drafts were accepted from least, for their size. Use is counted
    only by servers that are told so: tell it to all that share the folder. None: the oldest."""
    history_bytes: int = 1 << 30
    """Memory for the outputs of all loops, all namespaces together."""
    session_bytes: int = 1 << 30
    """Memory for the indexes of loops. Idle ones leave first; beyond that, new requests run without drafts."""
    max_sessions: int = 256
    """Idle loops that are kept."""
    idle_seconds: float = 600.0
    """A loop that was idle for so long ends; its outputs stay history."""
    index_tokens: int = 16_384
    """Prompt tokens that are indexed in one step, all requests together; the rest waits for the next steps."""
    draft_tokens: int | None = None
    """Most draft tokens in one step, all sequences together. None: as many as pay."""
    draft_ms: float = 10.0
    """Time for drafting in one step; sequences whose turn does not come are first in the next one."""

    def __post_init__(self) -> None:
        at_least_one = ("max_nodes", "history_bytes", "session_bytes", "max_sessions", "index_tokens")
        for name in (*at_least_one, "draft_tokens"):
            value = getattr(self, name)
            optional = name in {"max_nodes", "draft_tokens"}
            if value is None and optional:
                continue
            least = 0 if name == "draft_tokens" else 1
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InputError(
                    f"expected the setting {name} to be a whole number from {least}, got {value!r}"
                )
        if self.max_nodes is not None and self.max_nodes > 1024:
            raise InputError(f"expected the setting max_nodes to be at most 1024, got {self.max_nodes}")
        for name in ("idle_seconds", "draft_ms"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
                raise InputError(f"expected the setting {name} to be a number > 0, got {value!r}")
        if not isinstance(self.namespace, str) or not self.namespace:
            raise InputError(f"expected the setting namespace to be a name, got {self.namespace!r}")
        for name in ("prior", "draft_seeded", "share_adapters"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise InputError(f"expected the setting {name} to be true or false, got {value!r}")
        if self.history is not None and (not isinstance(self.history, str) or not self.history):
            raise InputError(f"expected the setting history to be a folder, got {self.history!r}")
        choices = get_args(Eviction)
        if self.history_eviction is not None and self.history_eviction not in choices:
            raise InputError(
                f"expected the setting history_eviction to be {' or '.join(choices)}, got {self.history_eviction!r}"
            )
        if self.history_eviction is not None and self.history is None:
            raise InputError(
                "expected a folder in the setting history with history_eviction, got none; nothing is kept that could "
                "leave, so name a folder or leave the setting out"
            )
        if self.cost is not None and not isinstance(self.cost, str | dict):
            raise InputError(
                f"expected the setting cost to be one of {', '.join(NAMES)}, a file, or an object "
                f'{{"points": [[n, ms], …]}}, got {self.cost!r}'
            )

    @classmethod
    def of(cls, additional_config: object) -> Settings:
        """Those among vLLM's additional settings; all others are left to whom they belong.

        Raises:
            InputError: a setting that there is none of, or a value that cannot be meant.
        """
        given = additional_config.get(KEY) if isinstance(additional_config, Mapping) else None
        if given is None:
            return cls()
        if not isinstance(given, Mapping):
            raise InputError(f'expected "{KEY}" to be an object of settings, got {given!r:.80}')
        known = [field.name for field in fields(cls)]
        unknown = [str(name) for name in given if name not in known]
        if unknown:
            raise InputError(
                f"expected settings of {KEY} among {', '.join(known)}, got {', '.join(sorted(unknown))}"
            )
        return cls(**given)

    def curve(self, *, device: str, widths: tuple[int, ...] = ()) -> CostCurve:
        """What a forward costs.

        Args:
            device: vLLM's, ``"cpu"`` or another; decides where no curve was named.
            widths: to which forwards are padded, ascending; used where the curve does not say.

        Raises:
            InputError: no such curve, or a malformed file.
        """
        cost = self.cost
        if cost is None and device == "cpu":
            curve = ON_CPU
        elif isinstance(cost, dict):
            try:
                curve = CostCurve._from_json(cost, default_name="given")
            except ValueError as error:
                raise InputError(f"expected a cost curve in the setting cost: {error}") from error
        else:
            curve = CostCurve.load(cost or "gpu")
        if widths and not curve.buckets:
            curve = dataclasses.replace(curve, buckets=tuple(sorted(set(widths))))
        return curve

    @property
    def history_folder(self) -> Path | None:
        """Where outputs are kept."""
        from suffixspec.store.options import history_folder

        return None if self.history is None else history_folder(self.history)

    @property
    def budget(self) -> Budget:
        """What that folder may hold, and what leaves first."""
        return Budget() if self.history_eviction is None else Budget(eviction=self.history_eviction)
