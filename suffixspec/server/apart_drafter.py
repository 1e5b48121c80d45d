"""A drafter whose namespaces learn apart."""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any

from suffixspec.draft.calibration import Calibration
from suffixspec.draft.indexed import IndexDrafter, IndexDraftSession

_MOST_NAMESPACES = 64  # a megabyte or two each


class ApartDrafter(IndexDrafter):
    """An ``IndexDrafter`` that keeps what it learns of repeats per namespace.

    What repeats were worth is numbers, but they hang on which tokens were drafted: shared, they would let one
    namespace's drafts be seen in how many another's are. So each namespace begins with what was known when the
    process began, and learns from its own calls alone. What ``shared`` learns is what ``calibrations`` gives, for
    later processes to begin with.

    Args:
        shared: the namespace of a server without keys, where there is nobody to keep anything from.
        options: see ``IndexDrafter``.
    """

    def __init__(self, *, shared: str = "default", **options: Any) -> None:
        self._shared = shared
        self._views: OrderedDict[str, _View] = OrderedDict()
        super().__init__(**options)
        self.first = copy.deepcopy(self.calibrations())
        """What was known at first."""

    def set_calibrations(self, calibrations: dict[str, Calibration]) -> None:
        """See ``IndexDrafter``; namespaces that come later begin with them."""
        super().set_calibrations(calibrations)
        self.first = copy.deepcopy(self.calibrations())

    def session(self, namespace: str = "default") -> IndexDraftSession:
        """See ``IndexDrafter``. Of many namespaces, those that were not used for long begin anew."""
        if namespace == self._shared:
            return super().session(namespace)
        view = self._views.pop(namespace, None) or _View(self)
        self._views[namespace] = view
        while len(self._views) > _MOST_NAMESPACES:
            self._views.popitem(last=False)
        return IndexDraftSession(view, namespace)  # type: ignore[arg-type]


class _View:
    """The drafter as the sessions of one namespace see it: all is shared but what is learned."""

    def __init__(self, drafter: ApartDrafter) -> None:
        self._drafter = drafter
        self._own = IndexDrafter(max_nodes=1)  # for its calibrations; it has no sessions
        self._own.set_calibrations(copy.deepcopy(drafter.first))

    def calibration_at(self, temperature: float) -> Calibration:
        """See ``IndexDrafter``."""
        return self._own.calibration_at(temperature)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drafter, name)
