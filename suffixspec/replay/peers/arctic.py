"""ArcticInference's ``SuffixDecodingCache``, called as its serving integrations call it.

Every turn of a loop is a new request: the whole prompt is registered, each step's tokens are added to the
response, and the draft is asked for with the end of the context. The cache keeps the responses of all requests
of a namespace, the one that is being written included. ``max_spec_tokens`` is the node budget.

The package is optional and imported when the first drafter is made. It is compiled at installation; see
``INSTALL``.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suffixspec.draft import EMPTY, DraftTree
from suffixspec.errors import MissingExtraError
from suffixspec.replay.peers.context import Context

VERSION = "0.1.2"
INSTALL = f"""\
pip install 'setuptools<80' wheel ninja cmake nanobind==2.9.2 protobuf==5.29.5 grpcio-tools
ARCTIC_MINIMAL_BUILD=1 pip install --no-deps --no-build-isolation arctic-inference=={VERSION}"""
"""What installs the package, in an environment that has torch and a C++ compiler."""

_SESSION, _HISTORY = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ArcticSettings:
    """Options of ``SuffixDecodingCache.speculate``, with its defaults.

    Raises:
        ValueError: "expected …, got …".
    """

    factor: float = 1.0
    """At most factor · match length + offset tokens are drafted."""
    offset: float = 0.0
    min_prob: float = 0.1
    """The least probability of a drafted token, by the counts."""
    tree: bool = False
    """Whether a draft may branch; the serving integrations take chains."""
    nodes: int = 1 << 10
    """Cap of ``max_spec_tokens`` below the node budget."""

    def __post_init__(self) -> None:
        for name in ("factor", "offset", "min_prob"):
            value = getattr(self, name)
            if not value >= 0:
                raise ValueError(f"expected {name} >= 0, got {name}={value}")
        if self.nodes < 1:
            raise ValueError(f"expected nodes >= 1, got nodes={self.nodes}")


def load() -> Any:
    """The class ``SuffixDecodingCache``.

    Raises:
        MissingExtraError: the package is not installed, or cannot be loaded.
    """
    try:
        from arctic_inference.suffix_decoding import SuffixDecodingCache
    except ImportError as error:
        commands = "\n".join(f"  {line}" for line in INSTALL.splitlines())
        raise MissingExtraError(
            f"expected arctic-inference {VERSION} for the peer arctic, got none ({error}); where torch and a "
            f"C++ compiler are installed, these commands build it:\n{commands}"
        ) from error
    return SuffixDecodingCache


class ArcticDrafter:
    """One cache per namespace.

    Args:
        name: what reports call it.
        settings: options of the calls.
        max_nodes: upper bound of a draft.
        history: ``"namespace"``: one cache for all sessions of a namespace, as in serving. ``"session"``: one
            per session. ``"off"``: responses are not kept.
        depth: ``max_tree_depth`` of the cache.

    Raises:
        MissingExtraError: the package is not installed.
    """

    def __init__(
        self,
        *,
        name: str = "arctic",
        settings: ArcticSettings | None = None,
        max_nodes: int = 32,
        history: str = "namespace",
        depth: int = 64,
    ) -> None:
        self._cache_type = load()
        self.name = name
        self.settings = settings or ArcticSettings()
        self.max_nodes = max_nodes
        self._history = history
        self._depth = depth
        self._caches: dict[str, Any] = {}
        self._requests = itertools.count()
        self.indexed_tokens = 0
        """Tokens of the responses that are kept."""

    def session(self, namespace: str = "default") -> ArcticSession:
        """Begin an agent loop that shares the cache of ``namespace``."""
        if self._history != "namespace":
            self.indexed_tokens = 0
            self._caches.clear()
        if namespace not in self._caches:
            kept = 0 if self._history == "off" else -1
            self._caches[namespace] = self._cache_type(max_tree_depth=self._depth, max_cached_requests=kept)
        return ArcticSession(self, self._caches[namespace], self._requests)

    @property
    def nbytes(self) -> int:
        """What the trees of responses take, by their own estimate. Cost: O(nodes)."""
        return sum(int(cache._global_tree.estimate_memory()) for cache in self._caches.values())


class ArcticSession:
    """See ``DraftSession``. ``settings`` may change between two drafts: the trees do not depend on them."""

    def __init__(self, drafter: ArcticDrafter, cache: Any, requests: itertools.count[int]) -> None:
        self.settings = drafter.settings
        self.max_nodes = drafter.max_nodes
        self._drafter = drafter
        self._cache = cache
        self._requests = requests
        self._depth = cache.max_tree_depth
        self._context = Context()
        self._request = -1
        self._finished = -1
        self._turn_start = 0
        self._score = 0.0

    def sync(self, prompt_ids: ArrayLike, *, temperature: float = 0.0, learn: bool = True) -> int:  # noqa: ARG002
        """Begin a turn: start a request; nothing of its prompt is known. Cost: O(prompt)."""
        self._context.replace(prompt_ids)
        self._request = next(self._requests)
        self._cache.start_request(self._request, self._context.tokens)
        self._turn_start = len(self._context)
        return 0

    def draft(self, max_nodes: int | None = None) -> DraftTree:
        """What the cache speculates."""
        settings = self.settings
        most = self.max_nodes if max_nodes is None else max_nodes
        draft = self._cache.speculate(
            self._request,
            self._context.tokens[-self._depth :],
            max_spec_tokens=min(settings.nodes, most),
            max_spec_factor=settings.factor,
            max_spec_offset=settings.offset,
            min_token_prob=settings.min_prob,
            use_tree_spec=settings.tree,
        )
        self._score = draft.score
        if not draft.token_ids:
            return EMPTY
        return DraftTree(
            np.array(draft.token_ids, np.int32),
            np.array(draft.parents, np.int32),
            np.array(draft.probs, np.float32),
            validate=False,
        )

    def accept(self, emitted: NDArray[np.int32]) -> None:
        """Append the target's tokens to the response."""
        self._context.extend(emitted)
        self._cache.add_active_response(self._request, np.array(emitted, np.int32))

    def sources(self, nodes: int) -> NDArray[np.int32]:
        """int32 [nodes]: all from the prompt's tree, or all from the responses'.

        The cache does not say which; the prompt's tree is asked once more, outside the measured time: the
        draft is its own if it scores as much there.
        """
        source = _SESSION
        if nodes:
            settings = self.settings
            own = self._cache._local_trees[self._request].speculate_ndarray(
                np.ascontiguousarray(self._context.tokens[-self._depth :]),
                min(settings.nodes, self.max_nodes),
                settings.factor,
                settings.offset,
                settings.min_prob,
                settings.tree,
            )
            source = _SESSION if own.score >= self._score else _HISTORY
        return np.full(nodes, source, np.int32)

    def end_turn(self) -> None:
        """The request is complete. Its prompt's tree stays until the next one is, so that it can be measured."""
        self._drafter.indexed_tokens += len(self._context) - self._turn_start
        self._stop()
        self._finished = self._request

    def _stop(self) -> None:
        if self._finished >= 0:
            self._cache.stop_request(self._finished)
            self._finished = -1

    def close(self) -> None:
        """End the session."""
        self._stop()

    @property
    def nbytes(self) -> int:
        """What the last prompt's tree takes, by its own estimate. Cost: O(nodes)."""
        if self._finished < 0:
            return 0
        return int(self._cache._local_trees[self._finished].estimate_memory())

    @property
    def indexed_tokens(self) -> int:
        """Tokens of the last prompt and its response."""
        return len(self._context) if self._finished >= 0 else 0
