"""Other model-free drafters, to be replayed beside ours: same tokens, same acceptance rule, same node budget.

A peer has no cost model: it drafts what its rule says, capped by the budget. It is named by ``NAME`` or, with
options, ``NAME:OPTION=VALUE:…``; ``arctic:factor=4:offset=8:min_prob=0:tree=yes`` is one.

Importing this package loads nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from suffixspec.errors import InputError

if TYPE_CHECKING:
    from suffixspec.draft import Drafter

PEERS = {
    "arctic": "ArcticInference's suffix decoding (optional package): factor, offset, min_prob, tree, nodes, depth",
    "prompt-lookup": "transformers' prompt lookup, n from 2 to 1: longest, shortest, tokens",
    "vllm-ngram": "vLLM's ngram method, n from 5 to 2: longest, shortest, tokens",
    "automaton": "a copy of the longest match, by suffix automata: occurrence, shortest, tokens",
}
"""Names of the peers, what they are, and the options that each has."""

_YES, _NO = ("yes", "true", "1"), ("no", "false", "0")


@dataclass(frozen=True, slots=True)
class PeerSpec:
    """A peer as the user named it."""

    text: str
    name: str
    options: tuple[tuple[str, str], ...]


def parse_peers(text: str) -> list[PeerSpec]:
    """Peers by name, separated by commas: ``"arctic,prompt-lookup:longest=3"``.

    Raises:
        InputError: an unknown name, or an option that is not ``OPTION=VALUE``.
    """
    return [_parse(part.strip()) for part in text.split(",")]


def _parse(text: str) -> PeerSpec:
    name, *options = text.split(":")
    if name not in PEERS:
        raise InputError(f"expected a peer of {', '.join(PEERS)}, got {name!r}")
    pairs = []
    for option in options:
        key, separator, value = option.partition("=")
        if not separator:
            raise InputError(f"expected OPTION=VALUE after {name}:, got {option!r}")
        pairs.append((key, value))
    return PeerSpec(text, name, tuple(pairs))


def make_peer(spec: PeerSpec | str, *, max_nodes: int, history: str = "namespace") -> Drafter:
    """A drafter that does what the peer does.

    Args:
        spec: the peer, parsed or not.
        max_nodes: upper bound of a draft.
        history: what it may draw on besides the turn's own context, where it keeps anything at all: ``"off"``,
            ``"session"`` or ``"namespace"``.

    Raises:
        InputError: no such peer, option or value.
        MissingExtraError: its package is not installed; the message says how to.
    """
    if isinstance(spec, str):
        spec = _parse(spec)
    options = dict(spec.options)
    if spec.name == "arctic":
        from suffixspec.replay.peers.arctic import ArcticDrafter, ArcticSettings

        depth = _converted(spec, "depth", options.pop("depth", "64"), 64)
        if depth < 1:
            raise InputError(f"{spec.text}: expected depth >= 1, got depth={depth}")
        settings = _settings(spec, ArcticSettings(), options, others=("depth",))
        return ArcticDrafter(
            name=spec.text, settings=settings, max_nodes=max_nodes, history=history, depth=depth
        )
    if spec.name == "automaton":
        from suffixspec.replay.peers.automaton import AutomatonDrafter, AutomatonSettings

        return AutomatonDrafter(
            name=spec.text,
            settings=_settings(spec, AutomatonSettings(), options),
            max_nodes=max_nodes,
            history=history == "namespace",
        )
    from suffixspec.replay.peers.ngram import NgramDrafter, NgramSettings

    default = NgramSettings(longest=2, shortest=1, tokens=10)
    if spec.name == "vllm-ngram":
        default = NgramSettings(longest=5, shortest=2, tokens=max_nodes)
    return NgramDrafter(name=spec.text, settings=_settings(spec, default, options), max_nodes=max_nodes)


def _settings(spec: PeerSpec, default: Any, options: dict[str, str], others: tuple[str, ...] = ()) -> Any:
    """The settings with the given options changed."""
    known = [field.name for field in fields(default)]
    changed = {}
    for name, text in options.items():
        if name not in known:
            raise InputError(
                f"{spec.text}: expected an option of {', '.join([*known, *others])}, got {name!r}"
            )
        changed[name] = _converted(spec, name, text, getattr(default, name))
    try:
        return replace(default, **changed)
    except ValueError as error:
        raise InputError(f"{spec.text}: {error}") from error


def _converted(spec: PeerSpec, name: str, text: str, default: Any) -> Any:
    """The option's value in the type of its default."""
    if isinstance(default, bool):
        if text.lower() not in _YES + _NO:
            raise InputError(f"{spec.text}: expected {name}=yes or {name}=no, got {text!r}")
        return text.lower() in _YES
    try:
        return type(default)(text)
    except ValueError:
        kind = {int: "a whole number", float: "a number"}[type(default)]
        raise InputError(f"{spec.text}: expected {kind} for {name}, got {text!r}") from None
