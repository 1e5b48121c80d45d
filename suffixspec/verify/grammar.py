"""Constraints by grammars, matched with xgrammar."""

from __future__ import annotations

import json
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from suffixspec.draft.pool import DraftPool
from suffixspec.draft.tree import EMPTY, DraftTree
from suffixspec.errors import InputError, MissingExtraError, SuffixspecError
from suffixspec.verify.compile_process import CompileProcess

if TYPE_CHECKING:
    from suffixspec.text.tokenizer import Tokenizer
    from suffixspec.verify.generation import LogitsAt

FORCED = 4
"""In a draft's sources: the grammar leaves nothing else."""

_FORCED_RATE = 0.95
"""How probable it is that a forced text is cut into tokens as the tokenizer does."""
_LAST_RATE = 0.7
"""Its last token may go on with what follows."""
_MOST_NODES_PER_PLACE = 4
_DEEPEST = 200
_LONGEST_TOKEN = 32  # characters; more of a forced text than so many for each node is not looked at
_MOST_KNOWN = 128  # grammars; some kB to some MB each

_compilers: weakref.WeakKeyDictionary[Tokenizer, dict[tuple[int, tuple[int, ...]], _Compiler]] = (
    weakref.WeakKeyDictionary()
)
_lock = threading.Lock()
_process = CompileProcess()


def compile_grammar(
    tokenizer: Tokenizer,
    vocab_size: int,
    eos_ids: tuple[int, ...],
    *,
    schema: Mapping[str, Any] | bool | None = None,
    ebnf: str | None = None,
    any_whitespace: bool = False,
    strict: bool = True,
    seconds: float | None = None,
) -> GrammarConstraint:
    """The constraint of a JSON schema or of a grammar; what was compiled before is not compiled again.

    Args:
        tokenizer: the model's.
        vocab_size: V, the width of the logits.
        eos_ids: the tokens that end an output.
        schema: a JSON schema; or
        ebnf: a grammar.
        any_whitespace: allow any white space between the parts of JSON.
        strict: allow only those members that the schema names.
        seconds: refuse what takes longer, which a process of its own tries; None compiles however long it takes.

    Raises:
        InputError: a malformed schema or grammar, or one beyond the limits.
        CompileBusyError: with ``seconds``: others were compiled for as long.
        MissingExtraError: xgrammar is not installed.
    """
    with _lock:
        known = _compilers.setdefault(tokenizer, {})
        if (vocab_size, eos_ids) not in known:
            known[vocab_size, eos_ids] = _Compiler(tokenizer, vocab_size, eos_ids)
        compiler = known[vocab_size, eos_ids]
    if ebnf is not None:
        return compiler.grammar(ebnf, seconds)
    return compiler.schema(schema, seconds, any_whitespace=any_whitespace, strict=strict)


def _xgrammar() -> Any:
    try:
        import xgrammar
    except ImportError as error:
        raise MissingExtraError(
            "expected xgrammar for a constrained output (response_format, grammar), got none; install it "
            'with: pip install "suffixspec[grammar]"'
        ) from error
    return xgrammar


class _Compiler:
    """Compiles grammars for one vocabulary."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, eos_ids: tuple[int, ...]) -> None:
        xgrammar = _xgrammar()
        wrapped = tokenizer.for_transformers()
        ends = frozenset(eos_ids)
        info = xgrammar.TokenizerInfo.from_huggingface(
            wrapped, vocab_size=vocab_size, stop_token_ids=list(eos_ids)
        )
        # Once more without the texts of special tokens: as text of a string they would be allowed.
        texts = [""] * vocab_size
        for text, index in wrapped.get_vocab().items():
            if index < vocab_size and text not in tokenizer.special_tokens:
                texts[index] = text
        info = xgrammar.TokenizerInfo(
            texts,
            info.vocab_type,
            vocab_size=vocab_size,
            stop_token_ids=list(eos_ids),
            add_prefix_space=info.add_prefix_space,
        )
        self._info = info
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=2, cache_enabled=False)
        self._serialised: str | None = None
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Compiling] = OrderedDict()
        special = frozenset(info.special_token_ids) - ends
        # xgrammar lets control characters into some strings of JSON (those with a greatest length).
        control, spaced = (
            frozenset(
                index
                for index, text in enumerate(info.decoded_vocab)
                if index not in ends and any(byte < 0x20 and byte not in spaces for byte in text)
            )
            for spaces in (b"", b"\t\n\r")
        )
        self._free = _Vocabulary(tokenizer, vocab_size, ends, special)
        self._compact = _Vocabulary(tokenizer, vocab_size, ends, special | control)
        self._spaced = _Vocabulary(tokenizer, vocab_size, ends, special | spaced)

    def grammar(self, ebnf: str, seconds: float | None) -> GrammarConstraint:
        """Of a grammar in EBNF."""
        return self._constraint("a grammar in EBNF", {"ebnf": ebnf}, self._free, seconds)

    def schema(
        self, schema: Any, seconds: float | None, *, any_whitespace: bool, strict: bool
    ) -> GrammarConstraint:
        """Of a JSON schema."""
        try:
            text = json.dumps(schema)
        except RecursionError:
            raise InputError("expected a JSON schema that is not nested as deeply; flatten it") from None
        request = {"schema": text, "any_whitespace": any_whitespace, "strict_mode": strict}
        vocabulary = self._spaced if any_whitespace else self._compact
        return self._constraint("a JSON schema", request, vocabulary, seconds)

    def _constraint(
        self, what: str, request: dict[str, Any], vocabulary: _Vocabulary, seconds: float | None
    ) -> GrammarConstraint:
        """Compiled once, whoever asks for it meanwhile; what takes too long is not tried again and again."""
        key = json.dumps(request)
        with self._lock:
            compiling = self._known.pop(key, None)
            mine = compiling is None or (seconds is None and compiling.refused)
            if compiling is None or mine:
                compiling = _Compiling()
            self._known[key] = compiling
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        if mine:
            try:
                compiling.found = GrammarConstraint(self._compiled(request, seconds), vocabulary)
            except (RuntimeError, ValueError, TypeError) as error:
                # What xgrammar says begins with the time and the place in its own source.
                said = str(error).strip().partition("] ")[2] or str(error).strip()
                said = said.partition(": ")[2] if ".cc:" in said.partition(": ")[0] else said
                compiling.error = InputError(f"expected {what} that can be compiled, got: {said}")
            except BaseException as error:
                compiling.error = error
                if not isinstance(error, InputError):  # it says nothing of the grammar
                    with self._lock:
                        self._known.pop(key, None)
                raise
            finally:
                compiling.done.set()
        compiling.done.wait()
        if compiling.found is None:
            raise type(compiling.error)(*compiling.error.args) from None
        return compiling.found

    def _compiled(self, request: dict[str, Any], seconds: float | None) -> Any:
        if seconds is not None and CompileProcess.possible():
            with self._lock:
                if self._serialised is None:
                    self._serialised = self._info.serialize_json()
            _process.check(self._serialised, request, seconds=seconds)
        if "ebnf" in request:
            return self._compiler.compile_grammar(request["ebnf"])
        request = dict(request)
        return self._compiler.compile_json_schema(request.pop("schema"), **request)


class _Compiling:
    """A grammar that is compiled, or was."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.found: GrammarConstraint | None = None
        self.error: BaseException = InputError("")

    @property
    def refused(self) -> bool:
        """Whether it could not be compiled."""
        return self.done.is_set() and self.found is None


class _Vocabulary:
    """What a state needs to know about tokens.

    Args:
        tokenizer: text to tokens.
        size: V.
        ends: the tokens that end an output.
        forbidden: tokens that are not allowed anywhere, whatever the grammar says.
    """

    def __init__(
        self, tokenizer: Tokenizer, size: int, ends: frozenset[int], forbidden: frozenset[int]
    ) -> None:
        self.size = size
        self.ends = ends
        self.forbidden = forbidden
        self.bits = _pack(forbidden, size)
        """int32 [ceil(V / 32)]: the forbidden tokens."""
        self._tokenizer = weakref.ref(tokenizer)  # the compilers are kept as long as it lives, not longer
        self._memo: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """The tokens of a forced text, as they would follow others."""
        if text not in self._memo:
            if len(self._memo) >= 4096:
                self._memo.clear()
            tokenizer = self._tokenizer()
            ids = [] if tokenizer is None else tokenizer.encode(text, special=False, continues=True)
            self._memo[text] = [token for token in ids if token < self.size]
        return self._memo[text]


class GrammarConstraint:
    """A ``Constraint`` by a compiled grammar. Made by ``compile_grammar``."""

    def __init__(self, compiled: Any, vocabulary: _Vocabulary) -> None:
        self._compiled = compiled
        self._vocabulary = vocabulary

    def begin(
        self,
        *,
        max_nodes: int,
        costs: Callable[[], NDArray[np.float32] | None],
        drafts: bool = True,
    ) -> GrammarState:
        """See ``Constraint.begin``."""
        matcher = _xgrammar().GrammarMatcher(self._compiled)
        return GrammarState(matcher, self._vocabulary, max_nodes, costs, drafts=drafts)


class GrammarState:
    """A ``ConstraintState``: where an output stands in its grammar.

    Invariant: between calls the matcher has taken the emitted tokens and nothing else.
    """

    def __init__(
        self,
        matcher: Any,
        vocabulary: _Vocabulary,
        max_nodes: int,
        costs: Callable[[], NDArray[np.float32] | None],
        *,
        drafts: bool,
    ) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._max_nodes = max_nodes
        self._costs = costs
        self._drafts = drafts

    def extend(self, draft: DraftTree, max_nodes: int | None) -> DraftTree:
        """See ``ConstraintState.extend``. Cost: some 10 µs for each node."""
        most = self._max_nodes if max_nodes is None else min(max_nodes, self._max_nodes)
        if not self._drafts or most == 0 or self._matcher.is_terminated():
            return draft
        pool = DraftPool(draft, np.zeros(len(draft), np.int32))
        self._visit(pool, -1, _MOST_NODES_PER_PLACE * most)
        return pool.tree(most, self._costs())[0]

    def _visit(self, pool: DraftPool, node: int, room: int, depth: int = 0, rest: Sequence[int] = ()) -> None:
        """Drop what is not allowed below a node, and add what is forced; the matcher stands at the node.

        ``rest`` is what is forced here, where that is known.
        """
        if depth > _DEEPEST:
            return
        if not rest and len(pool) < room:
            rest, rates = self._forced()
            pool.add_chain(rest[: self._max_nodes], rates, FORCED, node)
        for token, child in list(pool.children.get(node, {}).items()):
            if token in self._vocabulary.forbidden or not self._matcher.accept_token(token):
                pool.drop(child)
                continue
            if token not in self._vocabulary.ends:
                self._visit(pool, child, room, depth + 1, rest[1:] if rest and rest[0] == token else ())
            self._matcher.rollback(1)

    def _forced(self) -> tuple[Sequence[int], list[float]]:
        """The tokens that must follow, and how probable each is as it is cut."""
        text = self._matcher.find_jump_forward_string()
        longest = _LONGEST_TOKEN * (self._max_nodes + 1)
        tokens = self._vocabulary.encode(text[:longest])
        if len(text) > longest:
            tokens = tokens[:-1]  # it was cut where the text was
        if tokens:
            return tokens, [_FORCED_RATE] * (len(tokens) - 1) + [_LAST_RATE]
        if self._matcher.is_completed() and len(self._vocabulary.ends) == 1:
            (end,) = self._vocabulary.ends
            if torch.equal(self._bits(EMPTY)[0], _pack({end}, self._vocabulary.size)):
                return [end], [1.0]
        return [], []

    def allowed(self, draft: DraftTree, logits: torch.Tensor) -> torch.Tensor | LogitsAt:
        """See ``ConstraintState.allowed``.

        Cost: one walk over the draft in xgrammar (some 10 µs a node, more where little is cached); unpacking
        V bits for each visited node on a CPU, for all of them at once elsewhere.
        """
        bits = self._bits(draft)  # int32 [k + 1, ceil(V / 32)]
        if logits.device.type != "cpu":
            return logits.masked_fill(~_unpack(bits.to(logits.device), logits.shape[-1]), -torch.inf)

        def row(node: int) -> torch.Tensor:
            allowed = _unpack(bits[node + 1], logits.shape[-1])  # [V]
            return logits[node + 1].masked_fill(~allowed, -torch.inf)

        return row

    def _bits(self, draft: DraftTree) -> torch.Tensor:
        """Int32 [k + 1, ceil(V / 32)]: bit t of row i + 1 says whether token t may follow node i."""
        first = [-1] * (len(draft) + 1)  # child of each node, then brothers; row 0 is the context
        following = [-1] * (len(draft) + 1)
        last: dict[int, int] = {}
        tokens = [0, *draft.token_ids.tolist()]
        for row, (parent, token) in enumerate(zip(draft.parents.tolist(), tokens[1:], strict=True), start=1):
            if token in self._vocabulary.ends or token in self._vocabulary.forbidden:
                continue  # nothing follows an end, and xgrammar would not go on behind it
            if parent + 1 in last:
                following[last[parent + 1]] = row
            else:
                first[parent + 1] = row
            last[parent + 1] = row
        bits = torch.zeros((len(tokens), -(-self._vocabulary.size // 32)), dtype=torch.int32)
        self._matcher.traverse_draft_tree(
            torch.tensor(first, dtype=torch.int64),
            torch.tensor(following, dtype=torch.int64),
            torch.tensor(tokens, dtype=torch.int64),
            bits,
        )
        return bits & ~self._vocabulary.bits

    def accept(self, token_ids: Sequence[int]) -> None:
        """See ``ConstraintState.accept``."""
        for token in token_ids:
            if token in self._vocabulary.forbidden or not self._matcher.accept_token(token):
                raise SuffixspecError(
                    f"expected a token that the grammar allows, got {token}; a logits processor must not "
                    "raise what is -inf"
                )


def _pack(tokens: Iterable[int], size: int) -> torch.Tensor:
    """int32 [ceil(size / 32)] with the bits of these tokens."""
    flags = np.zeros(-(-size // 32) * 32, np.uint8)
    flags[list(tokens)] = 1
    return torch.from_numpy(np.packbits(flags, bitorder="little").view("<i4").astype(np.int32))


def _unpack(bits: torch.Tensor, size: int) -> torch.Tensor:
    """Bool [..., size] from int32 [..., ceil(size / 32)], the lowest bit first."""
    shifts = torch.arange(32, dtype=torch.int32, device=bits.device)
    flags = (bits[..., None] >> shifts) & 1
    return flags.flatten(-2)[..., :size].to(torch.bool)
