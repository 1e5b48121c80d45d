"""What a drafter inside another project's engine draws on besides its sessions: a saved history, and the prior."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from suffixspec.draft.indexed import IndexDrafter
from suffixspec.errors import SuffixspecError
from suffixspec.integrations.hosted.session_table import AnySession
from suffixspec.integrations.hosted.settings import Settings
from suffixspec.shared_prior import SharedPrior, TokenizerSource

if TYPE_CHECKING:
    from suffixspec.draft.prior import Prior
    from suffixspec.store.saved_history import SavedHistory


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What has to be known of the model that is served.

    Args:
        name: whose calibration is read and saved.
        tokenizer: its tokenizer's.
        vocabulary: tokens that it knows; None: not known.
    """

    name: str
    tokenizer: TokenizerSource
    vocabulary: int | None = None


class DraftSources:
    """The folder of outputs and the prior that the settings ask for; one that cannot be used is said, and left out.

    When they have been read depends on the time: not for drafts that several processes have to agree on.

    Args:
        settings: of them, ``history``, ``history_eviction`` and ``prior``.
        drafter: gets them.
        model: the served one.
        lock: held while the drafter is used.
        logger: of the engine.
    """

    def __init__(
        self,
        settings: Settings,
        drafter: IndexDrafter,
        model: ServedModel,
        *,
        lock: Any,
        logger: logging.Logger,
    ) -> None:
        self.saved: SavedHistory | None = None
        self._drafter = drafter
        self._lock = lock
        self._prior: SharedPrior | None = None
        if settings.history is not None:
            self.saved = self._open_history(settings, model, logger)
        if settings.prior:
            self._prior = SharedPrior(
                model.tokenizer, vocabulary=model.vocabulary, opened=self._use_prior, logger=logger
            )

    def _open_history(
        self, settings: Settings, model: ServedModel, logger: logging.Logger
    ) -> SavedHistory | None:
        from suffixspec.store.saved_history import open_saved

        folder = settings.history_folder
        assert folder is not None
        try:
            return open_saved(
                folder,
                self._drafter,
                model.tokenizer.load(),
                budget=settings.budget,
                lock=self._lock,
                target=model.name,
            )
        except (SuffixspecError, OSError) as error:
            logger.warning("suffixspec: no history is kept: %s", error)
            return None

    def _use_prior(self, prior: Prior) -> None:
        with self._lock:  # not in the middle of a step
            self._drafter.prior = prior

    def session(self, namespace: str, name: str) -> AnySession:
        """A session whose outputs are kept where a history is."""
        if self.saved is not None:
            return self.saved.session(namespace, name)
        return self._drafter.session(namespace)

    def wait_for_prior(self, timeout: float | None = None) -> Prior | None:
        """The prior, once it is opened; None where there is none, or not within ``timeout`` seconds."""
        if self._prior is not None:
            self._prior.wait(timeout)
        return self._drafter.prior

    def give_up_prior(self) -> None:
        """End what still builds or opens it. May be called again."""
        if self._prior is not None:
            self._prior.close()

    def close(self) -> None:
        """Write what the sessions have left, all of which are closed. May be called again."""
        self.give_up_prior()
        if self.saved is not None:
            self.saved.close()
