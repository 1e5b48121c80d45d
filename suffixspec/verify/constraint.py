"""Constrained decoding: only tokens that keep an output within a language."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from suffixspec.draft.tree import DraftTree
from suffixspec.errors import InputError

if TYPE_CHECKING:
    from suffixspec.text.tokenizer import Tokenizer
    from suffixspec.verify.generation import LogitsAt


class ConstraintState(Protocol):
    """A constraint in the course of one output.

    A step is ``extend`` with what the drafter proposes, ``allowed`` with the logits of the result, and ``accept``
    with what was emitted. The first two change nothing: what a rejected node would have led to leaves no trace.
    """

    def extend(self, draft: DraftTree, max_nodes: int | None) -> DraftTree:
        """The draft without nodes that are not allowed, and with tokens that nothing else is allowed beside.

        Args:
            draft: the drafter's.
            max_nodes: upper bound of the result; None leaves it to the bound that the state began with.
        """
        ...

    def allowed(self, draft: DraftTree, logits: torch.Tensor) -> torch.Tensor | LogitsAt:
        """Logits [k + 1, V], or rows on demand, with -inf where a token is not allowed after that node.

        Args:
            draft: k nodes, as ``extend`` gave them.
            logits: float [k + 1, V], the model's; not changed.
        """
        ...

    def accept(self, token_ids: Sequence[int]) -> None:
        """These tokens were emitted.

        Raises:
            SuffixspecError: one that is not allowed.
        """
        ...


class Constraint(Protocol):
    """What outputs are allowed; may be shared by any number of calls."""

    def begin(
        self,
        *,
        max_nodes: int,
        costs: Callable[[], NDArray[np.float32] | None],
        drafts: bool = True,
    ) -> ConstraintState:
        """The state before the first token of an output.

        Args:
            max_nodes: upper bound of a draft.
            costs: gives float32 [max_nodes + 1], t(k + 1) / t(1) for a draft of k nodes; or None, to draft all.
            drafts: False leaves drafts as they are: plain decoding.
        """
        ...


def constraint_for(
    tokenizer: Tokenizer,
    vocab_size: int,
    response_format: Mapping[str, Any],
    *,
    eos_ids: Collection[int] | None = None,
    any_whitespace: bool = False,
    after: str | None = None,
    opening: str | None = None,
    header: str | None = None,
    seconds: float | None = None,
) -> Constraint | None:
    """The constraint that a request's ``response_format`` asks for.

    Args:
        tokenizer: the model's.
        vocab_size: V, the width of the logits.
        response_format: one of

            - ``{"type": "text"}``: no constraint, None;
            - ``{"type": "json_object"}``: a JSON object;
            - ``{"type": "json_schema", "json_schema": {"schema": {…}, "strict": bool}}``: JSON of that schema;
              with "strict" false, objects may have other members than the schema names;
            - ``{"type": "grammar", "grammar": "root ::= …"}``: a text of that grammar, in EBNF (GBNF) with the
              rule ``root``.
        eos_ids: the tokens that end an output, allowed where it is complete; None takes the tokenizer's.
        any_whitespace: allow any white space between the parts of JSON of a schema. Else there is one space
            behind a comma and a colon and none elsewhere: so more tokens are forced, and a model cannot lose
            itself in blank lines.
        after: begin behind this token, "</think>" for a prompt that has opened the reasoning; what comes before
            is free.
        opening: begin behind ``after`` only where the output begins with this token ("<think>", for a model
            that opens its reasoning itself), else at once.
        header: begin behind the first ``after`` that this text has come before, since the text's own first
            token: "<|channel|>final" with the ``after`` "<|message|>", for a model that writes to channels.
        seconds: refuse what takes longer to compile, which a process of its own tries; None waits, however long.

    Raises:
        InputError: a malformed format, schema or grammar, no end token, or one of the two is no single token.
        MissingExtraError: the extra ``grammar`` is not installed.
        CompileBusyError: with ``seconds``: others were compiled for as long.

    Cost: the first call for a tokenizer prepares its vocabulary (a second for 50,000 tokens, xgrammar's import
    included), and each new schema or grammar is compiled (ms to s); both are kept. With ``seconds`` the first call
    also starts a process (seconds).
    """
    if not isinstance(response_format, Mapping):
        raise InputError(f"expected response_format to be an object, got {type(response_format).__name__}")
    kind = response_format.get("type")
    if kind == "text":
        return None
    read = {"json_object": _json_object, "json_schema": _json_schema, "grammar": _grammar}.get(kind or "")
    if read is None:
        raise InputError(
            "expected the type of response_format to be one of text, json_object, json_schema, grammar, got "
            f"{kind!r}"
        )
    language = read(response_format)
    ends = tokenizer.eos_ids if eos_ids is None else eos_ids
    if not ends:
        raise InputError(f"expected an end token for a constrained output, got none in {tokenizer.name}")

    from suffixspec.verify.delayed import Border, DelayedConstraint
    from suffixspec.verify.grammar import compile_grammar

    before = () if header is None else tuple(tokenizer.encode(header, continues=True))
    border = None if after is None else Border(_single_token(tokenizer, after), before)
    opens = None if opening is None else _single_token(tokenizer, opening)
    constraint = compile_grammar(
        tokenizer,
        vocab_size,
        tuple(sorted(ends)),
        seconds=seconds,
        **{"any_whitespace": any_whitespace, **language},
    )
    return constraint if border is None else DelayedConstraint(constraint, border, opening=opens)


def _single_token(tokenizer: Tokenizer, text: str) -> int:
    ids = tokenizer.encode(text, continues=True)
    if len(ids) != 1:
        raise InputError(
            f"expected {text!r}, behind which the format begins, to be one token of {tokenizer.name}, got "
            f"{len(ids)}"
        )
    return ids[0]


def _json_object(_: Mapping[str, Any]) -> dict[str, Any]:
    return {"schema": {"type": "object"}, "any_whitespace": True, "strict": False}


def _json_schema(response_format: Mapping[str, Any]) -> dict[str, Any]:
    given = response_format.get("json_schema")
    schema = given.get("schema") if isinstance(given, Mapping) else None
    if not isinstance(schema, (Mapping, bool)):
        expected = '{"name": …, "schema": {…}}'
        raise InputError(f"expected json_schema to be {expected}, got {given!r:.200}")
    assert isinstance(given, Mapping)
    return {"schema": schema, "strict": given.get("strict") is not False}


def _grammar(response_format: Mapping[str, Any]) -> dict[str, Any]:
    text = response_format.get("grammar")
    if not isinstance(text, str):
        raise InputError(f"expected grammar to be a text in EBNF, got {text!r:.200}")
    return {"ebnf": text}
