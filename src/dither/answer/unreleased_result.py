"""Results without a release: an explanation, or keys that the catalog lists."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import pyarrow as pa

from dither.answer.result import Result
from dither.errors import ParameterError


@dataclass(frozen=True, repr=False)
class UnreleasedResult(Result):
    """A result that no answer stands behind. What needs one is refused, with the remedy."""

    _remedy: ClassVar[str]

    @cached_property
    def raw(self) -> pa.Table:
        """Refused: nothing was released."""
        self._refuse()

    def certificate(self, file: str | Path | None = None) -> dict[str, Any]:
        """Refused: nothing was released."""
        self._refuse()

    def opening(self, file: str | Path | None = None) -> dict[str, Any]:
        """Refused: nothing was released."""
        self._refuse()

    def nonnegative(self, *columns: str) -> Result:
        """Refused: nothing was released."""
        self._refuse()

    def consistent(self) -> Result:
        """Refused: nothing was released."""
        self._refuse()

    def plot(self, column: str | None = None, ax: Any = None) -> Any:
        """Refused: nothing was released."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ParameterError(self._remedy)
