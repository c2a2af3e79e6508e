"""What a person sees while a strategy is chosen or answers are fitted: a bar on the terminal.

Nothing is written where no terminal reads it. How many steps there are follows from public sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

T = TypeVar("T")
_SHOWN: ContextVar[tuple[Progress, TaskID] | None] = ContextVar("shown", default=None)


@contextmanager
def show_step(words: str, is_shown: bool, console: Console | None = None) -> Iterator[None]:
    """A bar beside these words until the step ends, on standard error; `track` moves it."""
    if not is_shown:
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console or Console(stderr=True), transient=True) as bar:
        token = _SHOWN.set((bar, bar.add_task(words, total=None)))
        try:
            yield
        finally:
            _SHOWN.reset(token)


def track(elements: Iterable[T], count: int) -> Iterator[T]:
    """The elements as they are; the bar that is shown, if any, moves by one for each of `count`."""
    bar_and_task = _SHOWN.get()
    if bar_and_task is None:
        yield from elements
        return
    bar, task = bar_and_task
    bar.update(task, total=(bar.tasks[0].total or 0) + count)
    for element in elements:
        yield element
        bar.advance(task)
