"""A target model with its branches, its drafter and its sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from suffixspec.context_cost import ContextCost
from suffixspec.cost import CostCurve
from suffixspec.draft import Drafter, HistoryMode, IndexDrafter
from suffixspec.draft.predicted import PredictionTrust
from suffixspec.draft.prior import find_prior
from suffixspec.engine.branch import Branch
from suffixspec.engine.branches import Branches
from suffixspec.engine.control import CostControl
from suffixspec.engine.encodings import Encodings
from suffixspec.engine.memory import with_retry
from suffixspec.engine.reply import Reply
from suffixspec.engine.session import Session
from suffixspec.fair_lock import FairLock
from suffixspec.target.memory import free_bytes
from suffixspec.verify.constraint import Constraint, constraint_for

if TYPE_CHECKING:
    from suffixspec.store.budget import Budget
    from suffixspec.store.history_store import HistoryStore
    from suffixspec.target.model import Target
    from suffixspec.text.tokenizer import Tokenizer


class Engine:
    """Decodes with a target model, faster where its text repeats, and with exactly the output it would have.

    Example:
        >>> engine = Engine.from_pretrained()                    # doctest: +SKIP
        >>> session = engine.session("fix-issue-123")            # doctest: +SKIP
        >>> reply = session.chat([{"role": "user", "content": "Hello"}], max_tokens=64)  # doctest: +SKIP

    Args:
        target: the model.
        tokenizer: its tokenizer and chat template.
        drafter: proposes the drafts; None takes the suffix tree's.
        max_nodes: the widest draft.
        history: what a draft may be copied from besides the call's own context, see ``IndexDrafter``. Without
            effect on a ``drafter`` that is given.
        cost: t(n) of the target, by context length or one for all; None checks all that was found, whatever it
            costs.
        kv_bytes: memory for the KV of all branches; None takes a third of what is free now.
        branches_per_session: prefixes that one session may keep beside each other.
        prefill_chunk: most tokens of one prefill forward.
        json_splice: put earlier outputs back into the prompt also where the template wrote their JSON
            differently; that changes the prompt, and replies say so.
        history_store: a folder, or what it was opened as: outputs are kept there, and drafted from in later runs.
            It is read in the background when a namespace's first session begins. Close the engine to write all.
        history_budget: of a folder: how much it may hold, and what leaves first.
    """

    def __init__(
        self,
        target: Target,
        tokenizer: Tokenizer,
        *,
        drafter: Drafter | None = None,
        max_nodes: int = 32,
        history: HistoryMode = "namespace",
        cost: ContextCost | CostCurve | None = None,
        kv_bytes: int | None = None,
        branches_per_session: int = 4,
        prefill_chunk: int = 512,
        json_splice: bool = False,
        history_store: HistoryStore | str | PathLike[str] | None = None,
        history_budget: Budget | None = None,
    ) -> None:
        for name, value in (
            ("max_nodes", max_nodes),
            ("branches_per_session", branches_per_session),
            ("prefill_chunk", prefill_chunk),
        ):
            if value < 1:
                raise ValueError(f"expected {name} of at least 1, got {value}")
        self.target = target
        self.tokenizer = tokenizer
        self.drafter: Drafter = drafter or IndexDrafter(max_nodes=max_nodes, history=history)
        self.encodings = Encodings(tokenizer)
        """What texts of prompts were encoded as."""
        self.max_nodes = max_nodes
        self.prefill_chunk = prefill_chunk
        self.json_splice = json_splice
        self.prediction_trust = PredictionTrust()
        """What predictions of outputs were worth so far."""
        self.control = CostControl(self.drafter, cost, max_nodes=max_nodes)
        self.branches = Branches(
            budget_bytes=free_bytes(target.device) // 3 if kv_bytes is None else kv_bytes,
            per_owner=branches_per_session,
        )
        self.eos_ids = frozenset({*target.eos_ids, *tokenizer.eos_ids})
        self.lock = FairLock()
        """Held during a forward, and while indexes and branches change; steps of sessions take turns."""
        self.saved = None
        """Keeps the drafter's history on disk; None where nothing is kept."""
        if history_store is not None:
            from suffixspec.store.saved_history import open_saved

            self.saved = open_saved(
                history_store,
                self.drafter,
                tokenizer,
                budget=history_budget,
                lock=self.lock,
                target=target.name,
            )
        self._sessions: dict[tuple[str, str], Session] = {}
        self._plain_sessions = 0

    @classmethod
    def from_pretrained(
        cls,
        spec: str | None = None,
        *,
        device: str | None = None,
        dtype: Any = None,
        attn: str | None = None,
        measure: bool = True,
        prior: bool = True,
        **options: Any,
    ) -> Engine:
        """Load a model and its tokenizer.

        Args:
            spec: a folder or hub id; None: SmolLM2-135M-Instruct from the ``local`` extra.
            device: where it runs; None: an accelerator where there is one.
            dtype: its weights' type; None: float32 on a CPU, else the model's own.
            attn: the attention implementation; None: the model's own.
            measure: measure t(n) (some forwards, cached per model and device), so that drafts are as wide as
                pays; else everything found is drafted.
            prior: draft from the sources of Python and its packages too, where the session and its history know
                nothing (see ``draft.prior``; indexed once per tokenizer, half a minute).
            options: see ``Engine``.

        Raises:
            InputError: no such model, or not one.
            MissingExtraError: the default model without the extra ``local``.
            UnsupportedModelError: a family whose state cannot be rolled back.
        """
        from suffixspec.native.warm_up import warm_up
        from suffixspec.target.load import load_target

        warm_up()
        target, tokenizer = load_target(spec, device=device, dtype=dtype, attn=attn)
        if measure and "cost" not in options:
            options["cost"] = target.measure_cost()
        engine = cls(target, tokenizer, **options)
        if prior and isinstance(engine.drafter, IndexDrafter):
            engine.drafter.prior = find_prior(tokenizer)
        return engine

    def session(self, name: str, namespace: str = "default", *, drafting: bool = True) -> Session:
        """The agent loop of this name, begun if there is none: close it to make its outputs history.

        Args:
            name: of the loop, unique within its namespace.
            namespace: who shares a history.
            drafting: False decodes plainly; applies to a session that is begun.
        """
        with self.lock:
            key = (namespace, name)
            if key not in self._sessions:
                self._sessions[key] = Session(self, name, namespace, drafting=drafting)
            return self._sessions[key]

    def plain(self, prompt_ids: ArrayLike, **options: Any) -> Reply:
        """Plain decoding of a prompt (int [n]): the same code with drafting off, on a branch of its own.

        The reference of losslessness: ``engine.plain(session.prompt_ids, …)`` is what the session's last call
        would have been without drafts. Arguments as for ``Session.generate``.
        """
        with self.plain_session() as session:
            reply: Reply = session.generate(prompt_ids, **options)
            return reply

    def plain_session(self) -> Session:
        """A new session that decodes plainly; close it to free its branches."""
        with self.lock:
            self._plain_sessions += 1
            return Session(self, f"plain {self._plain_sessions}", "\0plain", drafting=False)

    def constraint(
        self, response_format: Mapping[str, Any], *, any_whitespace: bool = False, **more: Any
    ) -> Constraint | None:
        """The constraint that a request's ``response_format`` asks for, for ``Session.chat``.

        Arguments (``more``: ``after``, ``opening``, ``header`` and ``seconds``), result and errors as for
        ``verify.constraint.constraint_for``.
        """
        return constraint_for(
            self.tokenizer,
            self.target.vocab_size,
            response_format,
            eos_ids=self.eos_ids,
            any_whitespace=any_whitespace,
            **more,
        )

    def close(self) -> None:
        """Close every session, and write what is to be kept of them."""
        for session in list(self._sessions.values()):
            session.close()
        if self.saved is not None:
            self.saved.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- for sessions and turns -------------------------------------------------------------------------------

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens that go on after others."""
        return self.tokenizer.decode(token_ids, continues=True)

    def forget(self, session: Session) -> None:
        """A session was closed."""
        if self._sessions.get((session.namespace, session.name)) is session:
            del self._sessions[session.namespace, session.name]

    def new_branch(self, owner: tuple[str, str], slots: int) -> Branch:
        """An empty branch with room for ``slots`` tokens; other branches may leave for it.

        Raises:
            OutOfMemoryError: the budget or the memory does not hold it.
        """
        branch = Branch(self.target.new_cache(1), owner)
        with_retry(lambda: self.reserve(branch, slots), self.branches, branch)
        return branch

    def capacity(self, tokens: int) -> int:
        """Slots for so many tokens and the widest draft behind them."""
        return tokens + self.target.padded(self.max_nodes + 1)

    def reserve(self, branch: Branch, slots: int) -> None:
        """Make room for ``slots`` tokens in a branch; other branches may leave for it.

        Raises:
            OutOfMemoryError: the budget does not hold this branch.
        """
        cache = branch.cache
        if slots <= cache.capacity:
            return
        slots = max(slots, cache.capacity + (cache.capacity + 4) // 5)  # what the cache grows to
        self.branches.make_room((slots - cache.capacity) * self.target.slot_bytes, branch)
        cache.reserve(slots)
