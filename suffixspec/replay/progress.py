"""Progress of a replay on stderr."""

from __future__ import annotations

from collections import Counter
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from suffixspec.replay.result import TurnResult


class ReplayProgress:
    """A bar on a terminal, a few plain lines elsewhere; always on stderr."""

    def __init__(self) -> None:
        self.skipped = 0
        self._console = Console(stderr=True)
        self._live = self._console.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}"),
            console=self._console,
            disable=not self._live,
            transient=True,
        )
        self._task: TaskID | None = None
        self._what = ""
        self._tokens: Counter[str] = Counter()
        self._steps: Counter[str] = Counter()
        self._sessions = 0
        self._turns = 0
        self._drafters = 1

    def __enter__(self) -> ReplayProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def note(self, what: str) -> None:
        """Say what is going on before there is something to count."""
        if self._task is None:
            self._task = self._bar.add_task(what, total=None, figures="")
        self._bar.update(self._task, description=what)

    def say(self, sentence: str) -> None:
        """Tell the user something that stays on the screen."""
        self._console.print(sentence, style="dim", highlight=False, markup=False, soft_wrap=True)

    def begin(self, what: str, drafters: int) -> None:
        """Start the bar of one pass over the input; what was skipped is counted per pass."""
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._what = what
        self._drafters = drafters
        self._sessions = self._turns = self.skipped = 0
        self._tokens.clear()
        self._steps.clear()
        self._task = self._bar.add_task(what, total=None, figures="")
        if not self._live:
            self._console.print(what, style="dim", highlight=False)

    def bytes_read(self, done: int, total: int) -> None:
        """Move the bar: input is read as it is decoded."""
        if self._task is not None and self._live:
            self._bar.update(self._task, completed=done, total=total)

    def turn(self, drafter: str, turn: TurnResult) -> None:
        """One turn was decoded."""
        self._tokens[drafter] += turn.tokens
        self._steps[drafter] += turn.steps
        self._turns += 1
        if self._live and self._task is not None:
            taus = "  ".join(f"{d} {self._tokens[d] / max(1, self._steps[d]):.2f}" for d in self._tokens)
            self._bar.update(
                self._task,
                figures=f"{self._sessions} sessions, {self._turns // self._drafters} turns, τ {taus}",
            )

    def session(self) -> None:
        """One session was decoded by every drafter."""
        self._sessions += 1
        if not self._live and self._sessions % 25 == 0:
            self._console.print(f"{self._what}: {self._sessions} sessions", style="dim", highlight=False)

    def skip(self, message: str) -> None:
        """A malformed session was passed over."""
        self.skipped += 1
        self._console.print(
            f"skipped: {message}", style="yellow", highlight=False, markup=False, soft_wrap=True
        )
