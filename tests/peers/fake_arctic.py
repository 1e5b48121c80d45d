"""A stand-in for the optional package: notes how it is called, and drafts from what it was told."""

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np


class Tree:
    """Keeps a text; drafts the tokens after the last occurrence of the context's last token."""

    def __init__(self, score: float) -> None:
        self.text: list[int] = []
        self.score = score

    def speculate_ndarray(
        self, context, most: int, factor: float, offset: float, min_prob: float, _branches: bool
    ):
        """A chain of at most ``most`` tokens, and ``factor`` more per token matched."""
        last = int(context[-1])
        ends = [i + 1 for i, token in enumerate(self.text[:-1]) if token == last]
        if not ends or min_prob > 0.5:
            return SimpleNamespace(token_ids=[], parents=[], probs=[], score=0.0)
        found = self.text[ends[-1] :][: min(most, int(factor + offset))]
        return SimpleNamespace(
            token_ids=found,
            parents=list(range(-1, len(found) - 1)),
            probs=[0.5] * len(found),
            score=self.score * len(found),
        )

    def estimate_memory(self) -> int:
        """A hundred bytes per token."""
        return 100 * len(self.text)


class SuffixDecodingCache:
    """See the package; ``calls`` is what it was told."""

    def __init__(self, max_tree_depth: int = 64, max_cached_requests: int = -1) -> None:
        self.max_tree_depth = max_tree_depth
        self.max_cached_requests = max_cached_requests
        self.calls: list[tuple[Any, ...]] = []
        self._global_tree = Tree(1.0)
        self._local_trees: dict[int, Tree] = {}

    def start_request(self, request: int, prompt) -> None:
        """Begin a request."""
        assert request not in self._local_trees
        self.calls.append(("start", request, checked(prompt)))
        self._local_trees[request] = Tree(2.0)
        self._local_trees[request].text += prompt.tolist()

    def add_active_response(self, request: int, tokens) -> None:
        """More of the response."""
        self.calls.append(("add", request, checked(tokens)))
        self._local_trees[request].text += tokens.tolist()
        if self.max_cached_requests:
            self._global_tree.text += tokens.tolist()

    def speculate(self, request: int, context, **options: object):
        """The draft that scores more."""
        self.calls.append(("speculate", request, checked(context), options))
        drafts = [
            tree.speculate_ndarray(context, *options.values())
            for tree in (self._local_trees[request], self._global_tree)
        ]
        return drafts[0] if drafts[0].score >= drafts[1].score else drafts[1]

    def stop_request(self, request: int) -> None:
        """The request is complete."""
        self.calls.append(("stop", request))
        del self._local_trees[request]


def checked(tokens) -> list[int]:
    """The package takes contiguous arrays of int32 that can be written to, and no others."""
    assert tokens.dtype == np.int32
    assert tokens.ndim == 1
    assert tokens.flags.c_contiguous
    assert tokens.flags.writeable
    return tokens.tolist()


def modules() -> dict[str, ModuleType]:
    """What ``sys.modules`` has to hold for the package to be found."""
    package, part = ModuleType("arctic_inference"), ModuleType("arctic_inference.suffix_decoding")
    part.SuffixDecodingCache = SuffixDecodingCache  # type: ignore[attr-defined]
    return {"arctic_inference": package, "arctic_inference.suffix_decoding": part}
