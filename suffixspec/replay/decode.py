"""What one process of a replay does: its part of the sessions, with every drafter."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from suffixspec.replay.peers import make_peer, parse_peers
from suffixspec.store.options import budget_of, history_folder

if TYPE_CHECKING:
    from suffixspec.cost import CostCurve
    from suffixspec.draft import Drafter
    from suffixspec.draft.prior import Prior
    from suffixspec.replay.result import TurnResult
    from suffixspec.replay.share import Share
    from suffixspec.replay.simulate import RenderedSession, Simulation
    from suffixspec.store.budget import Budget
    from suffixspec.store.saved_history import SavedHistory
    from suffixspec.text.tokenizer import Tokenizer

DRAFTERS = ("suffix", "ngram", "combined", "none")


class Progress(Protocol):
    """Whom a replay tells how it is getting on; see ``ReplayProgress``."""

    skipped: int
    """Sessions passed over in this pass."""

    def note(self, what: str) -> None:
        """Something goes on that is not counted."""

    def say(self, sentence: str) -> None:
        """Something that stays on the screen."""

    def begin(self, what: str, drafters: int) -> None:
        """A pass over the input begins."""

    def bytes_read(self, done: int, total: int) -> None:
        """So much of the input has been read."""

    def turn(self, drafter: str, turn: TurnResult) -> None:
        """A turn was decoded."""

    def session(self) -> None:
        """A session was decoded by every drafter."""

    def skip(self, message: str) -> None:
        """A malformed session was passed over."""


@dataclass(frozen=True, slots=True)
class Part:
    """Which sessions are a process's: those whose number, counted from 0, leaves ``index`` divided by ``of``."""

    index: int = 0
    of: int = 1

    def has(self, number: int) -> bool:
        """Whether it is one of them."""
        return number % self.of == self.index


WHOLE = Part()


def decode(
    args: argparse.Namespace, tokenizer: Tokenizer, cost: CostCurve, progress: Progress, part: Part = WHOLE
) -> Share:
    """Decode a part of the sessions with the drafters that the command line names.

    Raises:
        SuffixspecError: bad input.
    """
    from suffixspec.native.warm_up import warm_up
    from suffixspec.replay.share import Share
    from suffixspec.replay.simulate import Simulation, replay

    progress.note("compiling the kernels (once on this machine)")
    warm_up()
    names = drafter_names(args.drafter)
    prior = load_prior(args.prior, names, tokenizer, progress)
    drafters = [
        make_drafter(name, max_nodes=args.max_nodes, cost=cost, history=args.history, prior=prior)
        for name in names
    ] + peers(args.compare, args.max_nodes, args.history)
    share = Share()
    if args.warm:  # every process decodes all of it: so it knows what a single one would know
        warming = [Simulation(drafter, cost) for drafter in drafters]
        sessions = rendered(args.warm, args, tokenizer, progress, limit=None)
        progress.begin("warming up", len(drafters))
        _, share.interrupted = replay(
            (session for _, session in sessions),
            warming,
            on_turn=lambda s, t: progress.turn(s.drafter.name, t),
        )
    simulations = [Simulation(drafter, cost, tokenizer.decode) for drafter in drafters]
    share.starts = [[] for _ in simulations]

    def numbered() -> Iterator[RenderedSession]:
        for number, session in rendered(args.paths, args, tokenizer, progress, limit=args.limit, part=part):
            share.numbers.append(number)
            for starts, simulation in zip(share.starts, simulations, strict=True):
                starts.append(len(simulation.result.turns))
            yield session

    budget = budget_of(args, kept=args.history_store is not None)
    with saved_in(args.history_store, budget, tokenizer, simulations) as saved:

        def hand_over(_: RenderedSession) -> None:
            if part.of > 1:
                for one in saved:
                    one.share()

        if not share.interrupted:
            progress.begin("replaying", len(drafters))
            share.done, share.interrupted = replay(
                numbered(),
                simulations,
                on_turn=lambda s, t: progress.turn(s.drafter.name, t),
                on_session=hand_over,
            )
        for one in saved:
            progress.say(one.summary())
    share.results = [simulation.finish() for simulation in simulations]
    share.skipped = progress.skipped
    return share


def load_prior(kind: str, names: tuple[str, ...], tokenizer: Tokenizer, progress: Progress) -> Prior | None:
    """The text that drafters know from the start, where one of them uses it."""
    from suffixspec.draft.prior import find_prior

    if kind == "none" or not {"suffix", "combined"} & set(names):
        return None
    progress.note("indexing the sources of Python and of required packages (once for this tokenizer)")
    return find_prior(tokenizer)


def make_drafter(
    name: str, *, max_nodes: int, cost: Any, history: Any, prior: Prior | None = None
) -> Drafter:
    """A drafter by its name on the command line.

    Raises:
        ValueError: there is no drafter of that name.
    """
    from suffixspec.draft import IndexDrafter, NoDrafter

    if name == "none":
        return NoDrafter()
    if name not in DRAFTERS:
        raise ValueError(f"expected a drafter of {', '.join(DRAFTERS)}, got {name!r}")
    return IndexDrafter(
        name=name,
        suffix=name != "ngram",
        ngram=name != "suffix",
        history=history,
        max_nodes=max_nodes,
        cost=cost,
        prior=prior,
    )


@contextlib.contextmanager
def saved_in(
    folder: str | None, budget: Budget, tokenizer: Tokenizer, simulations: list[Simulation]
) -> Iterator[list[SavedHistory]]:
    """Keep what the simulations write in a folder, if one is given.

    All decode the same outputs, so one of them writes: the last, so that none finds a session on disk that it
    has not decoded yet. They share one store, which knows what was written here: none reads that twice.
    """
    from suffixspec.draft import IndexDrafter
    from suffixspec.store.history_store import HistoryStore
    from suffixspec.store.saved_history import open_saved

    kept = [one for one in simulations if isinstance(one.drafter, IndexDrafter)]
    if folder is None or not kept:
        yield []
        return
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(HistoryStore(history_folder(folder), tokenizer=tokenizer, budget=budget))
        for simulation in kept:
            simulation.saved = open_saved(
                store,
                simulation.drafter,
                tokenizer,
                target="recorded",
                background=False,
                writes=simulation is kept[-1],
            )
            stack.callback(simulation.saved.close)
        yield [simulation.saved for simulation in kept if simulation.saved is not None]


def drafter_names(given: list[str] | None) -> tuple[str, ...]:
    """The drafters that ``--drafter`` names, each once."""
    names = given or ["suffix"]
    return DRAFTERS if "all" in names else tuple(dict.fromkeys(names))


def peers(given: list[str], max_nodes: int, history: str) -> list[Drafter]:
    """The drafters to compare with, each name once.

    Raises:
        InputError: no such peer, option or value.
        MissingExtraError: a peer's package is not installed.
    """
    specs = {spec.text: spec for text in given for spec in parse_peers(text)}
    return [make_peer(spec, max_nodes=max_nodes, history=history) for spec in specs.values()]


def rendered(
    paths: list[str],
    args: argparse.Namespace,
    tokenizer: Tokenizer,
    progress: Progress,
    *,
    limit: int | None,
    part: Part = WHOLE,
) -> Iterator[tuple[int, RenderedSession]]:
    """Read and render the sessions of a part one after the other, each with its number in the input.

    All are read; what cannot be read is reported by the first part alone.
    """
    from suffixspec.errors import InputError
    from suffixspec.replay.simulate import RenderedSession
    from suffixspec.text.render import render_session
    from suffixspec.trace.reader import read_sessions

    def skip(error: InputError) -> None:
        if part.index == 0:
            progress.skip(str(error))

    read = read_sessions(
        paths, skip_bad=args.skip_bad, limit=limit, on_bad=skip, on_progress=progress.bytes_read
    )
    for number, session in zip(count(), read):
        if not part.has(number):
            continue
        try:
            turns = list(render_session(session, tokenizer))
        except InputError as error:
            if not args.skip_bad:
                raise
            progress.skip(str(error))
            continue
        yield (
            number,
            RenderedSession(session.session_id, session.task_key, session.namespace or "default", turns),
        )
        progress.session()
