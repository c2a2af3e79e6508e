"""The problems of one catalog: a mistake in one place does not hide those in others.

Reading goes on after a mistake, and what was read is then thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar, cast

from dither.errors import CatalogError

T = TypeVar("T")
P = ParamSpec("P")


class Problems:
    """The errors of a catalog in the order in which they were met."""

    def __init__(self) -> None:
        self.errors: list[CatalogError] = []

    def read(self, read: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Return what `read` returns; note its CatalogError and return None.

        None is of no use, whatever the type: `raise_first` is called before a catalog leaves the
        reader.
        """
        try:
            return read(*arguments, **options)
        except CatalogError as error:
            self.errors.append(error)
            return cast(T, None)

    def add(self, errors: Iterable[CatalogError]) -> bool:
        """Note errors; whether there were none."""
        before = len(self.errors)
        self.errors += errors
        return len(self.errors) == before

    def raise_first(self) -> None:
        """Raise the error that was met first, if there is one."""
        if self.errors:
            raise self.errors[0]
