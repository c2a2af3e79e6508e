"""Rehearsals: a request answered on invented rows, free and about nobody.

A rehearsal is given a priced request, which holds the catalog and the public facts but no path to
the registered copy. It invents rows from these two, registers them in a temporary folder, and
measures and randomises there. So what it shows has the same law whatever the registered data is,
and is as noisy as the real answer would be.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

from dither.data.measure import Measurer
from dither.data.register.generated import write_generated
from dither.errors import RefusedError
from dither.privacy.kernel.kernel import DRY_RUN, now
from dither.privacy.kernel.randomise import Exact, randomise
from dither.privacy.kernel.release import Priced, Release, Version
from dither.privacy.kernel.statements import statements, take_apart
from dither.privacy.kernel.time_limit import TimeLimitError, limit_time
from dither.privacy.noise import SystemSource
from dither.privacy.noise.source import fresh_bytes
from dither.rules import PrivacyRule


class Rehearsals:
    """The rehearsals of one connection; the invented copy is kept for the next one."""

    def __init__(self) -> None:
        self._catalog_and_facts = ""
        self._folder: TemporaryDirectory[str] | None = None

    def rehearse(self, priced: Priced, longest_s: float | None = None) -> Release:
        """Answer a request that was priced in the context of a dry run.

        Charges and stores nothing. Raises RefusedError for any other request, and where the engine
        takes longer than so many seconds over one statement.
        """
        if priced.version.context != DRY_RUN:
            raise RefusedError(
                "only a dry run is rehearsed: price the request with context='dry_run'",
                rule=PrivacyRule.REHEARSAL,
            )
        values = randomise(priced.steps, self._measure_invented(priced, longest_s), SystemSource())
        return Release(DRY_RUN, priced, values, Fraction(0), Fraction(0), Fraction(0), now())

    def _measure_invented(self, priced: Priced, longest_s: float | None) -> list[Exact]:
        """Measure a request on invented rows that obey the catalog."""
        measurer = Measurer(
            self._write_copy(priced.version), priced.version.catalog, priced.version.facts
        )
        sample_key = fresh_bytes(32)
        try:
            measured = []
            for query in statements(priced):
                with limit_time(longest_s, measurer.interrupt):
                    measured.append(measurer.measure(query, sample_key))
        except TimeLimitError:
            raise RefusedError(
                f"this rehearsal takes longer than {longest_s:g} s: ask about less at once",
                rule=PrivacyRule.BOUNDED_WORK,
            ) from None
        finally:
            measurer.close()
        return take_apart(priced, measured)

    def _write_copy(self, version: Version) -> Path:
        """Write the invented copy, unless the last rehearsal had the same catalog and facts."""
        catalog_and_facts = f"{version.catalog_hash}{version.facts.hash}"
        if self._folder is None or self._catalog_and_facts != catalog_and_facts:
            folder = TemporaryDirectory(prefix="dither-dry-run-")
            write_generated(version.catalog, version.facts, Path(folder.name) / "data.duckdb")
            self._folder = folder
            self._catalog_and_facts = catalog_and_facts
        return Path(self._folder.name) / "data.duckdb"
