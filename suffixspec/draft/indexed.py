"""The drafter over the indexes: suffix tree, history and n-grams, in any combination."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suffixspec.cost import CostCurve
from suffixspec.draft.calibration import Calibration, no_start
from suffixspec.draft.prior import Prior
from suffixspec.draft.tree import EMPTY, DraftTree
from suffixspec.index.history import CONTEXT, History
from suffixspec.index.ngram_index import NgramIndex
from suffixspec.index.sealed import SealedIndex
from suffixspec.index.session import SessionIndex
from suffixspec.index.suffix_tree import SuffixTree, as_tokens
from suffixspec.native import contexts as native_contexts
from suffixspec.native import draft as native
from suffixspec.native import evidence as native_evidence
from suffixspec.native import ngram as native_ngram
from suffixspec.native import resume as native_resume
from suffixspec.native import sealed as native_sealed
from suffixspec.native import tree as native_tree

HistoryMode = Literal["off", "session", "namespace"]
HISTORY_MODES: tuple[HistoryMode, ...] = ("off", "session", "namespace")

_TEMPERATURES = (0.5, 1.0, float("inf"))
"""Upper ends of the ranges of temperatures above 0 that share a calibration."""

_NO_ROWS = np.zeros((0, native_ngram.ROW_FIELDS), np.int32)


class IndexDrafter:
    """Drafts from what was read and written before.

    For each node of a draft, the longest contexts in the session's tree and in the history, and the short
    contexts of the n-gram index, name the tokens that followed them; the calibration says what such evidence
    has been worth; the tree grows best first under the node budget; and the cost curve says how much of it
    pays.

    Args:
        name: what reports call it.
        suffix: draft from suffix trees (the session's, and history's).
        ngram: draft from an n-gram index per namespace.
        history: ``"off"``: each turn stands alone, its prompt and output are all there is. ``"session"``: the
            index of a session is carried over its turns. ``"namespace"``: the outputs of all sessions of the
            namespace too.
        max_nodes: upper bound of a draft, 1 to 1,024.
        cost: what a forward of the target costs; the node budget follows it. None drafts all that was found.
        history_bytes: memory for the outputs of all sessions, all namespaces together.
        ngram_slots: contexts that an n-gram index holds; 44 bytes each.
        prior: text that any session may draft from where its own and history know less, and classes of the
            target's tokens; see ``prior.load_prior``. Only with ``suffix``.
    """

    def __init__(
        self,
        *,
        name: str = "suffix",
        suffix: bool = True,
        ngram: bool = False,
        history: HistoryMode = "namespace",
        max_nodes: int = 32,
        cost: CostCurve | None = None,
        history_bytes: int = 1 << 30,
        ngram_slots: int = 1 << 16,
        prior: Prior | None = None,
    ) -> None:
        if not suffix and not ngram:
            raise ValueError("expected at least one of suffix and ngram, got neither")
        if history not in HISTORY_MODES:
            raise ValueError(f"expected history to be one of {', '.join(HISTORY_MODES)}, got {history!r}")
        if not 1 <= max_nodes <= native.POOL:
            raise ValueError(f"expected max_nodes from 1 to {native.POOL}, got {max_nodes}")
        self.name = name
        self.suffix = suffix
        self.ngram = ngram
        self.history_mode = history
        self.max_nodes = max_nodes
        self.prior = prior if suffix else None
        self.calibration = self._new_calibration()
        """Of greedy decoding; see ``calibration_at``."""
        self._sampled: dict[float, Calibration] = {}
        self.history = History(budget_bytes=history_bytes)
        self._ngram_slots = ngram_slots
        self._ngrams: dict[str, NgramIndex] = {}
        self.set_cost(cost)

    def set_cost(self, cost: CostCurve | None) -> None:
        """Follow another cost curve from the next draft on; None drafts all that was found."""
        self.costs: NDArray[np.float32] = (
            np.ones(self.max_nodes + 1, np.float32) if cost is None else cost.table(self.max_nodes)
        )

    @property
    def keeps_history(self) -> bool:
        """Whether sessions draft from each other's outputs by a suffix tree."""
        return self.suffix and self.history_mode == "namespace"

    def session(self, namespace: str = "default") -> IndexDraftSession:
        """Begin an agent loop that shares the history of ``namespace``."""
        return IndexDraftSession(self, namespace)

    def calibration_at(self, temperature: float) -> Calibration:
        """What was learned at about this temperature: 0, up to 0.5, up to 1, or above; at first the prior."""
        if temperature == 0.0:
            return self.calibration
        bucket = next(end for end in _TEMPERATURES if temperature <= end)
        if bucket not in self._sampled:
            self._sampled[bucket] = self._new_calibration()
        return self._sampled[bucket]

    def _new_calibration(self) -> Calibration:
        # What other text taught is about suffix trees: n-grams alone are another kind of evidence.
        return Calibration(start=None if self.suffix else no_start())

    def ngrams(self, namespace: str) -> NgramIndex:
        """The n-gram index of a namespace, or a fresh one where nothing is carried over."""
        if self.history_mode != "namespace":
            return NgramIndex(slots=self._ngram_slots)
        if namespace not in self._ngrams:
            self._ngrams[namespace] = NgramIndex(slots=self._ngram_slots)
        return self._ngrams[namespace]

    def calibrations(self) -> dict[str, Calibration]:
        """What was learned, by the upper end of the range of temperatures: "0", "0.5", "1", "inf"."""
        return {"0": self.calibration, **{f"{end:g}": one for end, one in self._sampled.items()}}

    def set_calibrations(self, calibrations: dict[str, Calibration]) -> None:
        """Go on from what was learned earlier, as ``calibrations`` gave it; other names are passed over."""
        self.calibration = calibrations.get("0", self.calibration)
        self._sampled |= {
            end: calibrations[f"{end:g}"] for end in _TEMPERATURES if f"{end:g}" in calibrations
        }

    def clear_history(self) -> None:
        """Drop what outlives a session, in every namespace, but not what was learned of repeats."""
        self.history.clear()
        for index in self._ngrams.values():
            index.clear()

    @property
    def nbytes(self) -> int:
        """Allocated bytes of the indexes that outlive a session: history and n-grams.

        The prior and sealed history are mapped from files that all processes share, and not counted.
        """
        return self.history.nbytes + sum(index.nbytes for index in self._ngrams.values())

    @property
    def indexed_tokens(self) -> int:
        """Tokens of the history, without what is sealed."""
        return len(self.history)


class IndexDraftSession:
    """The drafter's side of one agent loop; see ``DraftSession`` for the order of the calls."""

    def __init__(self, drafter: IndexDrafter, namespace: str) -> None:
        self._drafter = drafter
        self._namespace = namespace
        self._turn_start = 0
        self._temperature = 0.0
        self._learns = True
        nodes = drafter.max_nodes
        self._rows = np.zeros((nodes + 1, native_contexts.ROW_FIELDS), np.int32)
        # Tokens and parents, and the probabilities, which are float32: what a draft hands out lies in one block.
        self._block = np.zeros((4, nodes + 1), np.int32)
        probs = self._block[2:].view(np.float32)
        self._given = probs[native.GIVEN]
        self._window = np.zeros(native_ngram.ORDERS, np.int32)
        self._branches = np.zeros((native_sealed.MOST_BRANCHES, 2), np.int32)
        self._strayed = np.zeros((native_evidence.LIVE, native_resume.STRAYED_FIELDS), np.int32)
        self._history_epoch = 0
        keys = np.zeros(native.POOL, np.float32)
        self._scratch = (
            self._rows,
            probs,
            self._block[:2],
            np.zeros((native.POOL, native_evidence.POOL_FIELDS), np.int32),
            keys,
            keys.view(np.int32),
            np.zeros(native.POOL, np.float32),
            np.zeros(native.POOL, np.int32),
            np.zeros(native.BUCKETS, np.int32),
        )
        self._stray()
        self._begin_index()

    def _begin_index(self) -> None:
        drafter = self._drafter
        self._index = SessionIndex(
            history=drafter.history.index(self._namespace) if drafter.keeps_history else None,
            prior=None if drafter.prior is None else drafter.prior.index,
        )
        self._ngrams = drafter.ngrams(self._namespace).cursor() if drafter.ngram else None
        self._ngram_arguments = (_NO_ROWS, _NO_TAIL)
        if self._ngrams is not None:
            self._ngram_arguments = (self._ngrams.index.table, self._ngrams.tail)

    @property
    def index(self) -> SessionIndex:
        """The session's own index, and its cursors into history."""
        return self._index

    @property
    def context(self) -> NDArray[np.int32]:
        """int32 [n]: read-only view of the current context."""
        return self._index.context

    def sync(self, prompt_ids: ArrayLike, *, temperature: float = 0.0, learn: bool = True) -> int:
        """Begin a turn: make ``prompt_ids`` (int [n]) the context; return how many tokens were known already.

        Arguments as in ``DraftSession``. Cost: O(new tokens).
        """
        prompt = as_tokens(prompt_ids)
        self._temperature, self._learns = temperature, learn
        if self._drafter.history_mode == "off":
            self._begin_index()
        if self._index.prior is None and self._drafter.prior is not None:
            self._index.take_prior(self._drafter.prior.index)  # it was opened after this session had begun
        before = len(self._index.context)
        common = self._index.sync(prompt, checked=True)
        if self._ngrams is not None:
            if common < before:
                self._ngrams.end_sequence()
            self._ngrams.extend(prompt[common:])
        self._turn_start = prompt.shape[0]
        self._stray()
        return common

    def _stray(self) -> None:
        """What was drafted, and what the context might come back to, says nothing about what comes now."""
        self._grown = 0
        self._drafted = False
        self._strayed[:] = _NOWHERE

    def draft(self, max_nodes: int | None = None) -> DraftTree:
        """Propose what comes next: as many nodes as pay, at most ``max_nodes`` (the drafter's by default)."""
        chosen = self._grow()
        if max_nodes is not None:
            chosen = min(chosen, max_nodes)
        if chosen == 0:
            return EMPTY
        return DraftTree.of_block(self._block[:3, 1 : chosen + 1].copy())

    def sources(self, nodes: int) -> NDArray[np.int32]:
        """int32 [nodes]: where the first nodes of the last draft came from: SESSION, HISTORY or NGRAM.

        The prior counts as history.
        """
        sources = self._rows[1 : nodes + 1, native_evidence.SOURCE]
        return _REPORTED[np.where(sources < 0, ~sources, sources)]

    def _grow(self) -> int:
        """One kernel call: grow the tree, return how many of its rows pay."""
        drafter, index = self._drafter, self._index
        calibration = drafter.calibration_at(self._temperature)
        tree = index.tree if drafter.suffix else _EMPTY_TREE
        newer = older = _NO_HISTORY
        sealed = prior = _NO_SEALED
        if index.history is not None:
            newer, *more = index.history.arguments()
            if more:
                older = more[0]
            if self._history_epoch != index.history.index.epoch:  # its positions may be others
                self._history_epoch = index.history.index.epoch
                self._strayed[1:] = _NOWHERE
            index.refresh()
            if index.sealed is not None:
                sealed = (*index.sealed.index.arrays, index.sealed.state)
        if index.prior is not None:
            prior = (*index.prior.index.arrays, index.prior.state)
        self._drafted = True
        self._grown, chosen = native.draft(
            *tree.arrays,
            tree.state,
            *newer,
            *older,
            *sealed,
            *prior,
            *self._ngram_arguments,
            self._strayed,
            self._window,
            self._branches,
            calibration.cells,
            calibration.weights,
            _NO_CLASSES if drafter.prior is None else drafter.prior.classes,
            drafter.costs,
            *self._scratch,
        )
        return chosen

    def accept(self, emitted: NDArray[np.int32]) -> None:
        """Append the target's tokens (int32 [accepted + 1]) to the context and learn from them."""
        tokens = as_tokens(emitted)
        if self._drafted:
            calibration = self._drafter.calibration_at(self._temperature)
            calibration.learn(
                self._rows, self._given, self._grown, tokens, teach=self._learns, strayed=self._strayed
            )
            self._grown = 0
            self._drafted = False
        else:
            self._stray()
        self._index.extend(tokens, checked=True)
        if self._ngrams is not None:
            self._ngrams.extend(tokens)

    def end_turn(self) -> None:
        """The model's output is complete: what was emitted since ``sync`` is history for the whole namespace.

        For this session too, which has it in its own tree already. Loops that run side by side draft from each other
        so: eight at a time take 0.2 to 6 % more tokens per step on recorded loops than where outputs are history when
        their session is closed. A loop alone, which sees what it wrote twice, takes as many or up to 0.7 % more: what
        such evidence is worth is learned (``python -m bench.side_by_side``).

        Cost: as ``History.add``.
        """
        output, context = self.take_output()
        if output.size and self._drafter.keeps_history:
            self._drafter.history.add(self._namespace, output, context=context)

    def take_output(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """End the turn as ``end_turn`` does, for a caller who makes history of the output, or does not.

        Returns:
            int32 [k], the output; int32 [at most CONTEXT], the end of its prompt.
        """
        context, start = self._index.context, self._turn_start
        self._turn_start = len(context)
        return context[start:].copy(), context[max(0, start - CONTEXT) : start].copy()

    def clear_history(self) -> None:
        """Drop what can be drafted here from other sessions; the session's own tree stays."""
        if self._index.history is not None:
            self._index.history.index.clear()
        if self._ngrams is not None:
            self._ngrams.index.clear()

    def close(self) -> None:
        """End the session; an output that is not complete is dropped."""
        self._turn_start = len(self._index.context)

    @property
    def nbytes(self) -> int:
        """Allocated bytes of the session's own indexes."""
        own_ngrams = 0
        if self._ngrams is not None and self._drafter.history_mode != "namespace":
            own_ngrams = self._ngrams.index.nbytes
        return self._index.nbytes + own_ngrams

    @property
    def indexed_tokens(self) -> int:
        """Tokens in the session's tree."""
        return len(self._index.tree)


_NOWHERE = (-1, 0)
_EMPTY_TREE = SuffixTree()
_NO_TAIL = np.zeros(native_ngram.TAIL_FIELDS, np.int32)
_NO_CURSOR = np.zeros(native_tree.CURSOR_FIELDS, np.int64)
_NO_HISTORY = (*_EMPTY_TREE.arrays, _NO_CURSOR)
_NO_CLASSES = np.zeros(0, np.uint8)
_EMPTY_SEALED = SealedIndex.build(np.zeros(0, np.int32))
_NO_SEALED = (*_EMPTY_SEALED.arrays, _EMPTY_SEALED.cursor().state)
_REPORTED = np.arange(native_evidence.SOURCES, dtype=np.int32)
_REPORTED[[native_evidence.PRIOR, native_evidence.RESUMED_HISTORY]] = native_evidence.HISTORY
_REPORTED[native_evidence.RESUMED] = native_evidence.SESSION
